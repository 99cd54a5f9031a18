//! What unpacks past a bound.

use super::*;
use crate::records::{MAX_INFLATED_BYTES, MAX_RECORD_BYTES, WINDOW_BYTES};

/// Records around the window's size are read whole.
#[test]
fn a_record_larger_than_the_window_is_read() {
    for compression in Compression::ALL {
        let mut writer = BatchWriter::new(compression);
        let sizes = [
            1,
            WINDOW_BYTES - 20,
            WINDOW_BYTES,
            3,
            WINDOW_BYTES + 1,
            5 * WINDOW_BYTES,
            0,
        ];
        for (i, size) in (0u8..).zip(sizes) {
            writer.push(0, Some(&[i]), Some(&vec![i; size]), &[]);
        }
        let (records, end) = read(&mut Reader::new(writer.finish(), Position::at(0)));
        assert_eq!(end, Ok(()));
        let read: Vec<_> = records.iter().map(|r| r.value.as_ref().unwrap().len()).collect();
        assert_eq!(read, sizes, "{compression:?}");
        let own = |(i, r): (usize, &Owned)| r.value.iter().flatten().all(|byte| usize::from(*byte) == i);
        assert!(records.iter().enumerate().all(own));
    }
}

/// A batch of records of this length, whose values are zeros: each record's start and its value are frames
/// of their own, so that the values are compressed once.
fn zeros(count: u8, length: i32) -> Vec<u8> {
    let compress = |bytes: &[u8]| zstd::bulk::compress(bytes, 1).unwrap();
    let varint = |number: i32| {
        let number = u32::try_from(number * 2).unwrap();
        [0, 7, 14, 21, 28].map(|shift| (number >> shift & 0x7f) as u8 | u8::from(shift < 28) << 7)
    };
    // Before the value: attributes, timestamp, offset, key and the value's length; behind it: the headers' count.
    let value = length - 10;
    let zeros = compress(&vec![0; usize::try_from(value).unwrap()]);
    let mut packed = Vec::new();
    for delta in 0..count {
        let (low, high) = (delta << 1 & 0x7f | 0x80, delta >> 6);
        let start = [&varint(length)[..], &[0, 0, low, high, 1], &varint(value - 1)].concat();
        packed.extend_from_slice(&compress(&start));
        packed.extend_from_slice(&zeros);
    }
    raw(Compression::Zstd, count.into(), &packed)
}

/// [KF-12] [KF-18] [D-26] What the length of a record says is enough; nothing is unpacked for it.
#[test]
fn a_record_over_the_bound_is_a_fault_behind_those_before_it() {
    let length = u32::try_from(2 * (MAX_RECORD_BYTES + 1)).unwrap();
    let varint = [0, 7, 14, 21].map(|shift| (length >> shift & 0x7f) as u8 | u8::from(shift < 21) << 7);
    let records = [&bare(0)[..], &varint, &[0; 100]].concat();
    for compression in &Compression::ALL[1..] {
        let packed = crate::records::write::pack(*compression, records.clone());
        let (read, end, _) = offsets(&raw(*compression, 2, &packed), 0);
        assert_eq!((read, end), (vec![0], Err(Fault::TooLarge)), "{compression:?}");
    }
}

#[test]
fn a_record_of_the_bound_is_read() {
    let bytes = zeros(1, i32::try_from(MAX_RECORD_BYTES).unwrap());
    let mut reader = Reader::new(bytes.into(), Position::at(0));
    let record = reader.next().unwrap().unwrap();
    assert_eq!(record.value.unwrap().len(), MAX_RECORD_BYTES - 11);
}

/// [KF-12] [D-26] Reading ends early with what it has, and the next fetch reads on; what lies behind the bound from
/// the batch's start is out of reach.
#[test]
fn reading_ends_early_where_a_batch_unpacks_to_too_much() {
    let length = 1 << 20;
    let bytes = zeros(100, length);
    let fitting = i64::try_from(MAX_INFLATED_BYTES).unwrap() / i64::from(length + 5);
    let epoch = |offset| at(offset, 4);
    let (read, end, position) = offsets(&bytes, 0);
    assert_eq!(
        (read, end, position),
        ((0..fitting).collect(), Ok(()), epoch(fitting))
    );
    let last = fitting - 1;
    assert_eq!(offsets(&bytes, last), (vec![last], Ok(()), epoch(fitting)));
    let out_of_reach = (vec![], Err(Fault::TooLarge), Position::at(fitting));
    assert_eq!(offsets(&bytes, fitting), out_of_reach);
}

/// [KF-12] [K02] A block of snappy says first what it unpacks to.
#[test]
fn a_claim_of_snappy_is_checked_before_it_is_believed() {
    let framed = |block: &[u8]| {
        let length = u32::try_from(block.len()).unwrap().to_be_bytes();
        [b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01", &length[..], block].concat()
    };
    let four_gib = [0xff, 0xff, 0xff, 0xff, 0x0f, 0];
    let sixteen_mib = [0x80, 0x80, 0x80, 0x08, 0];
    for (block, fault) in [
        (&four_gib[..], Fault::TooLarge),
        (&sixteen_mib, Fault::Corrupt),
        (&[], Fault::Corrupt),
    ] {
        if !block.is_empty() {
            assert_eq!(
                offsets(&raw(Compression::Snappy, 1, block), 0).1,
                Err(fault),
                "{block:?}"
            );
        }
        assert_eq!(
            offsets(&raw(Compression::Snappy, 1, &framed(block)), 0).1,
            Err(fault),
            "{block:?}"
        );
    }
    let mut lengthy = framed(&[]);
    lengthy[16..20].copy_from_slice(&[0xff; 4]);
    assert_eq!(
        offsets(&raw(Compression::Snappy, 1, &lengthy), 0).1,
        Err(Fault::Corrupt)
    );
    assert_eq!(raw(Compression::Snappy, 1, &four_gib).len(), 67);
}

/// Producers other than Java's write one bare block.
#[test]
fn a_bare_block_of_snappy_is_read() {
    let records = [bare(0), bare(1), bare(2)].concat();
    let block = snap::raw::Encoder::new().compress_vec(&records).unwrap();
    assert_eq!(offsets(&raw(Compression::Snappy, 3, &block), 0).0, [0, 1, 2]);
}

/// The best that snappy can do stays within the ratio that is believed.
#[test]
fn a_block_of_snappy_that_repeats_one_byte_is_read() {
    let value = vec![0; 1 << 20];
    let mut writer = BatchWriter::new(Compression::None);
    writer.push(0, None, Some(&value), &[]);
    let plain = writer.finish();
    let block = snap::raw::Encoder::new().compress_vec(&plain[61..]).unwrap();
    assert_eq!(offsets(&raw(Compression::Snappy, 1, &block), 0).0, [0]);
}
