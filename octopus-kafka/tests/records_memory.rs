//! What reading records allocates, whatever the bytes say. One test, since the allocator counts for all.

use std::alloc::System;

use bytes::Bytes;
use octopus_core::{Fault, Position, Records};
use octopus_kafka::records::{BatchWriter, Compression, Reader};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// How many records were read, how it ended, and the bytes that were allocated for it in all.
fn read(bytes: &Bytes) -> (usize, Result<(), Fault>, usize) {
    let region = Region::new(ALLOCATOR);
    let mut reader = Reader::new(bytes.clone(), Position::at(0));
    let mut count = 0;
    let end = loop {
        match reader.next() {
            Some(Ok(record)) => {
                count += 1;
                record.headers.for_each(drop);
            }
            Some(Err(fault)) => break Err(fault),
            None => break Ok(()),
        }
    };
    (count, end, region.change().bytes_allocated)
}

/// The batch with another field or other records, and with a checksum that is right.
fn changed(batch: &Bytes, at: usize, field: &[u8]) -> Bytes {
    let mut bytes = batch.to_vec();
    bytes.splice(at..(at + field.len()).min(batch.len()), field.iter().copied());
    let length = i32::try_from(bytes.len() - 12).expect("a short batch");
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    let crc = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    bytes.into()
}

/// The batch as it lies at this offset.
fn at(batch: &Bytes, offset: u8) -> Bytes {
    let mut bytes = batch.to_vec();
    bytes[7] = offset;
    bytes.into()
}

fn batch(compression: Compression, records: usize, value: &[u8]) -> Bytes {
    let mut writer = BatchWriter::new(compression);
    for _ in 0..records {
        writer.push(0, None, Some(value), &[(b"a", Some(b"1")), (b"a", None)]);
    }
    writer.finish()
}

/// [KF-11] [KF-12] [K02] [D-26] Memory is bounded: by the window for what unpacks, and by nothing that a length or a
/// count says.
#[test]
fn memory_is_bounded_whatever_the_bytes_say() {
    const MIB: usize = 1024 * 1024;
    let value = [0; 1024];

    let plain = Bytes::copy_from_slice(&batch(Compression::None, 1000, &value));
    drop(plain.clone()); // The first clone makes the count of the clones.
    assert_eq!(read(&plain), (1000, Ok(()), 0));

    // 4 MiB come out of each of these.
    for compression in &Compression::ALL[1..] {
        let bomb = batch(*compression, 4 * 1024, &value);
        assert!(bomb.len() < MIB, "{compression:?}");
        let (count, end, allocated) = read(&bomb);
        assert_eq!((count, end), (4 * 1024, Ok(())), "{compression:?}");
        assert!(allocated < MIB, "{compression:?}: {allocated} bytes");
    }

    // The next turn finds what the last one left, also for batches that are small and many.
    for compression in Compression::ALL {
        let small = batch(compression, 16, &value);
        let many: Vec<_> = (0..16u8).map(|i| at(&small, i * 16)).collect();
        for bytes in [batch(compression, 4 * 1024, &value), many.concat().into()] {
            drop(bytes.clone());
            let (first, end, _) = read(&bytes);
            assert_eq!(end, Ok(()), "{compression:?}");
            let (again, _, allocated) = read(&bytes);
            assert_eq!((again, allocated), (first, 0), "{compression:?}");
        }
    }

    // What a short input may claim.
    let most = i32::MAX.to_be_bytes();
    let varint = [0xfe, 0xff, 0xff, 0xff, 0x0f];
    let one = batch(Compression::None, 1, b"");
    let records = one.len() - 61;
    let snappy = [&[0xff, 0xff, 0xff, 0xff, 0x0f, 0][..], &vec![0; records]].concat();
    let claims = [
        (
            "a count of records",
            changed(&changed(&one, 57, &most), 23, &most),
        ),
        ("a record's length", changed(&one, 61, &varint)),
        ("a key's length", changed(&one, 65, &varint)),
        ("a value's length", changed(&one, 66, &varint)),
        ("a count of headers", changed(&one, 67, &varint)),
        ("a name's length", changed(&one, 68, &varint)),
        (
            "a block of snappy",
            changed(&changed(&one, 22, &[2]), 61, &snappy),
        ),
    ];
    for (claim, bytes) in claims {
        let (_, end, allocated) = read(&bytes);
        assert!(end.is_err(), "{claim}");
        assert!(allocated <= 65 * 1024, "{claim}: {allocated} bytes");
    }

    // A record that says it is as large as a record may be, in a stream that ends.
    let large = [0x80, 0x80, 0x80, 0x10];
    for compression in &Compression::ALL[1..] {
        let short = batch(*compression, 1, &value);
        let plain = batch(Compression::None, 1, &value);
        let unpacked = [&large[..], &plain[61..]].concat();
        let packed = pack(*compression, &unpacked);
        let bytes = changed(&short.slice(..61), 61, &packed);
        let (count, end, allocated) = read(&bytes);
        assert_eq!((count, end), (0, Err(Fault::Corrupt)), "{compression:?}");
        assert!(allocated < MIB, "{compression:?}: {allocated} bytes");
    }
}

fn pack(compression: Compression, bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    match compression {
        Compression::None => bytes.to_vec(),
        Compression::Gzip => {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(bytes).expect("a Vec takes all");
            gzip.finish().expect("a Vec takes all")
        }
        Compression::Snappy => snap::raw::Encoder::new()
            .compress_vec(bytes)
            .expect("a Vec takes all"),
        Compression::Lz4 => {
            let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
            lz4.write_all(bytes).expect("a Vec takes all");
            lz4.finish().expect("a Vec takes all")
        }
        Compression::Zstd => zstd::bulk::compress(bytes, 0).expect("a Vec takes all"),
    }
}
