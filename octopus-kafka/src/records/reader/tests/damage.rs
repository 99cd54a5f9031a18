//! Bytes that are cut, changed or false.

use super::*;

/// [KF-14] [K03] The broker may cut the last batch at any byte; the whole batches before it are read.
#[test]
fn a_batch_that_was_cut_waits_for_the_next_fetch() {
    for compression in Compression::ALL {
        let first = batch(compression, 0, 3).finish();
        let bytes = [first.clone(), batch(compression, 3, 2).finish()].concat();
        for end in first.len()..bytes.len() {
            let expected = (vec![0, 1, 2], Ok(()), at(3, 4));
            assert_eq!(
                offsets(&bytes[..end], 0),
                expected,
                "{compression:?}, {end} bytes"
            );
        }
        for end in 1..first.len() {
            let expected = (vec![], Err(Fault::TooLarge), Position::at(0));
            assert_eq!(
                offsets(&bytes[..end], 0),
                expected,
                "{compression:?}, {end} bytes"
            );
        }
    }
}

/// [KF-13] [K09] [D-26] The records before a damaged batch come first, then the fault; a position behind it reads on.
#[test]
fn a_changed_bit_never_makes_a_record() {
    for compression in Compression::ALL {
        let (first, last) = (
            batch(compression, 0, 2).finish(),
            batch(compression, 4, 1).finish(),
        );
        let damaged = batch(compression, 2, 2).finish();
        let length = damaged.len();
        for bit in 0..length * 8 {
            let mut changed = damaged.to_vec();
            changed[bit / 8] ^= 1 << (bit % 8);
            let bytes = [&first[..], &changed, &last].concat();
            let (read, end, position) = offsets(&bytes, 0);
            match bit / 8 {
                // Its offset and its leader's epoch, which the broker sets, are in no checksum.
                0..8 | 12..16 => continue,
                // A length that is too large looks like a batch that was cut.
                8..12 if end.is_ok() => assert_eq!(read, [0, 1], "bit {bit}"),
                16 if changed[16] == 0 => assert_eq!((read, end), (vec![0, 1], Err(Fault::OldFormat))),
                _ => assert_eq!((read, end), (vec![0, 1], Err(Fault::Corrupt)), "bit {bit}"),
            }
            assert_eq!(position, at(2, 4), "bit {bit}");
        }
        assert_eq!(offsets(&last, 4), (vec![4], Ok(()), at(5, 4)));
    }
}

/// [K08] [D-26]
#[test]
fn message_sets_of_old_are_named_as_such() {
    for magic in [0, 1] {
        let mut old = [0; 12 + 14];
        old[11] = 14;
        old[16] = magic;
        let bytes = [&plain(0, 1)[..], &old].concat();
        assert_eq!(offsets(&bytes, 0), (vec![0], Err(Fault::OldFormat), at(1, 4)));
        assert_eq!(offsets(&old, 0).1, Err(Fault::OldFormat));
        assert_eq!(offsets(&bytes[..bytes.len() - 1], 0), (vec![0], Ok(()), at(1, 4)));
    }
}

/// The header's fields, each with a checksum that is right.
#[test]
fn a_header_that_cannot_be_is_corrupt() {
    let good = plain(0, 1);
    let changed = |at: usize, field: &[u8]| {
        let mut bytes = good.to_vec();
        bytes[at..at + field.len()].copy_from_slice(field);
        offsets(&sealed(bytes), 0).1
    };
    assert_eq!(changed(0, &[]), Ok(()));
    for (at, field) in [
        (0, &(-1i64).to_be_bytes()[..]), // A base offset below 0,
        (0, &i64::MAX.to_be_bytes()),    // one without a next,
        (8, &(-1i32).to_be_bytes()),     // a length below 0,
        (8, &48i32.to_be_bytes()),       // and below a header's,
        (16, &[3]),                      // a magic to come,
        (21, &[0, 5]),                   // compressions that are none,
        (21, &[0, 7]),                   //
        (23, &(-1i32).to_be_bytes()),    // a last offset below the first,
        (57, &(-1i32).to_be_bytes()),    // counts below 0
        (57, &2i32.to_be_bytes()),       // and of more records than offsets,
        (57, &i32::MAX.to_be_bytes()),   //
    ] {
        assert_eq!(changed(at, field), Err(Fault::Corrupt), "{field:?} at {at}");
    }
    let mut last = good.to_vec();
    last[..8].copy_from_slice(&(i64::MAX - 1).to_be_bytes());
    assert_eq!(
        offsets(&last, i64::MAX - 1),
        (vec![i64::MAX - 1], Ok(()), at(i64::MAX, 4))
    );
}

/// Packs the bytes of records as each compression does.
fn packed(compression: Compression, count: i32, records: &[u8]) -> Vec<u8> {
    raw(
        compression,
        count,
        &crate::records::write::pack(compression, records.to_vec()),
    )
}

#[test]
fn records_that_contradict_their_batch_are_corrupt() {
    for compression in Compression::ALL {
        let result = |count, records: &[u8]| {
            let (read, end, _) = offsets(&packed(compression, count, records), 0);
            (read, end.err())
        };
        let two = [bare(0), bare(1)].concat();
        assert_eq!(result(2, &two), (vec![0, 1], None), "{compression:?}");
        let corrupt = Some(Fault::Corrupt);
        assert_eq!(result(3, &two), (vec![0, 1], corrupt), "a record is missing");
        assert_eq!(result(1, &two), (vec![], corrupt), "bytes are left over");
        assert_eq!(
            result(2, &[&two[..], &[0]].concat()),
            (vec![0], corrupt),
            "one byte is"
        );
        assert_eq!(
            result(2, &two[..13]),
            (vec![0], corrupt),
            "the last byte is missing"
        );
        assert_eq!(
            result(2, &[bare(0), bare(0)].concat()),
            (vec![0], corrupt),
            "an offset repeats"
        );
        assert_eq!(
            result(3, &[bare(1), bare(0), bare(2)].concat()),
            (vec![1], corrupt)
        );
        assert_eq!(
            result(2, &[bare(0), bare(2)].concat()),
            (vec![0], corrupt),
            "past the last"
        );
        assert_eq!(result(1, &[]), (vec![], corrupt), "there is none");
        assert_eq!(result(1, &[1]), (vec![], corrupt), "a length below 0");
        assert_eq!(result(1, &[0]), (vec![], corrupt), "a record without bytes");
        assert_eq!(
            result(1, &[0xff; 5]),
            (vec![], corrupt),
            "a length without an end"
        );
        assert_eq!(
            result(1, &[12, 0, 0, 1, 1, 1, 0]),
            (vec![], corrupt),
            "an offset below the first"
        );
    }
}

/// [KF-11] [K02] Counts and lengths of 2^31 - 1, each in a batch whose checksum is right.
#[test]
fn counts_and_lengths_without_the_bytes_are_corrupt() {
    const MOST: [u8; 5] = [0xfe, 0xff, 0xff, 0xff, 0x0f];
    let record = |fields: &[&[u8]]| {
        let body = [&[0, 0, 0][..], &fields.concat()].concat();
        [&[u8::try_from(body.len() * 2).unwrap()][..], &body].concat()
    };
    for compression in Compression::ALL {
        for records in [
            record(&[&MOST]),                      // The key's length,
            record(&[&[1], &MOST]),                // the value's,
            record(&[&[1], &[1], &MOST]),          // the headers' count,
            record(&[&[1], &[1], &[2], &MOST]),    // a header's name's length
            record(&[&[1], &[1], &[2, 0], &MOST]), // and its value's.
        ] {
            let (read, end, _) = offsets(&packed(compression, 1, &records), 0);
            assert_eq!(
                (read, end),
                (vec![], Err(Fault::Corrupt)),
                "{compression:?} {records:?}"
            );
        }
        let expected = (vec![], Err(Fault::Corrupt), Position::at(0));
        assert_eq!(
            offsets(&raw(compression, i32::MAX, b""), 0),
            expected,
            "{compression:?}"
        );
    }
    assert_eq!(
        offsets(&raw(Compression::None, 1, &MOST), 0).1,
        Err(Fault::Corrupt)
    );
    assert_eq!(
        offsets(&packed(Compression::Lz4, 1, &MOST), 0).1,
        Err(Fault::TooLarge)
    );
}

/// [D-26] Bytes that do not unpack, in a batch whose checksum is right.
#[test]
fn what_does_not_unpack_is_corrupt() {
    for compression in &Compression::ALL[1..] {
        let good = batch(*compression, 0, 60).finish();
        for end in 61..good.len() {
            let (_, result, _) = offsets(&raw(*compression, 60, &good[61..end]), 0);
            // What is behind the last record may be missing where the compression has no end of its own.
            let complete = *compression == Compression::Lz4 && end + 4 >= good.len();
            assert!(
                complete || result == Err(Fault::Corrupt),
                "{compression:?}, {end} bytes"
            );
        }
        let noise: Vec<_> = (0..200u8).map(|i| i.wrapping_mul(67)).collect();
        assert_eq!(offsets(&raw(*compression, 1, &noise), 0).1, Err(Fault::Corrupt));
    }
}
