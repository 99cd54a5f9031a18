//! Reading a partition's batches, beside the decoder of the crate kafka-protocol: the same bytes, and for
//! compressed ones the same crates to unpack them.

use std::{hint::black_box, io::Read, time::Duration};

use anyhow::Context;
use bytes::{Buf, Bytes, BytesMut};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use kafka_protocol::records::{Compression as TheirCompression, RecordBatchDecoder};
use octopus_benches::{event, ratio};
use octopus_core::{Position, Records};
use octopus_kafka::records::{BatchWriter, Compression, Reader};

/// The bytes of the records together.
const TOTAL: usize = 1024 * 1024;
/// The header of snappy's framing.
const FRAME_HEADER: usize = 16;

/// 1 MiB of records with a header each, in one batch or in many.
fn reading(criterion: &mut Criterion) {
    let compressions = [
        ("none", Compression::None),
        ("lz4", Compression::Lz4),
        ("zstd", Compression::Zstd),
        ("snappy", Compression::Snappy),
        ("gzip", Compression::Gzip),
    ];
    for (size_name, size) in [("100 B", 100), ("1 KiB", 1024)] {
        for (batch_name, batch) in [("1 MiB", TOTAL), ("16 KiB", 16 * 1024)] {
            for (name, compression) in compressions {
                let count = TOTAL / size;
                let records = batches(compression, size, batch / size, count);
                let group_name = format!("records/{size_name} in {batch_name}/{name}");
                let mut group = criterion.benchmark_group(&group_name);
                group
                    .throughput(Throughput::Elements(count as u64))
                    .warm_up_time(Duration::from_millis(500))
                    .measurement_time(Duration::from_secs(2));
                group.bench_function(BenchmarkId::from_parameter("octopus"), |bencher| {
                    bencher.iter(|| assert_eq!(ours(&records), count));
                });
                group.bench_function(BenchmarkId::from_parameter("kafka-protocol"), |bencher| {
                    bencher.iter(|| assert_eq!(theirs(&records), count));
                });
                group.finish();
                ratio::print(&group_name, "octopus", "kafka-protocol");
            }
        }
    }
}

/// So many records of this size, in batches of so many, one behind the other.
fn batches(compression: Compression, size: usize, most: usize, count: usize) -> Bytes {
    let mut batches = BytesMut::new();
    let mut records = (0u64..).zip(0i64..).take(count).peekable();
    while let Some((_, base_offset)) = records.peek().copied() {
        let mut writer = BatchWriter::new(compression);
        for (seed, time) in records.by_ref().take(most) {
            let value = event(seed, size);
            writer.push(
                time,
                Some(&seed.to_be_bytes()),
                Some(&value),
                &[(b"trace", Some(b"\0\x01"))],
            );
        }
        batches.extend_from_slice(&base_offset.to_be_bytes());
        batches.extend_from_slice(&writer.finish()[size_of::<i64>()..]);
    }
    batches.freeze()
}

fn ours(batches: &Bytes) -> usize {
    let mut reader = Reader::new(batches.clone(), Position::at(0));
    let mut count = 0;
    while let Some(record) = reader.next() {
        black_box(record.expect("a record"));
        count += 1;
    }
    count
}

fn theirs(batches: &Bytes) -> usize {
    let mut batches = batches.clone();
    let mut sets = Vec::new();
    while !batches.is_empty() {
        let set = RecordBatchDecoder::decode_with_custom_compression(&mut batches, Some(unpack));
        sets.push(set.expect("records"));
    }
    black_box(sets).iter().map(|set| set.records.len()).sum()
}

/// Unpacks a batch whole, as that decoder takes it.
fn unpack(packed: &mut Bytes, compression: TheirCompression) -> Result<Bytes, anyhow::Error> {
    let mut unpacked = Vec::new();
    match compression {
        TheirCompression::None => return Ok(packed.clone()),
        TheirCompression::Lz4 => {
            lz4_flex::frame::FrameDecoder::new(&packed[..]).read_to_end(&mut unpacked)?;
        }
        TheirCompression::Zstd => {
            zstd::Decoder::with_buffer(&packed[..])?.read_to_end(&mut unpacked)?;
        }
        TheirCompression::Gzip => {
            flate2::bufread::MultiGzDecoder::new(&packed[..]).read_to_end(&mut unpacked)?;
        }
        TheirCompression::Snappy => {
            let mut blocks = packed.get(FRAME_HEADER..).context("a frame's header")?;
            while !blocks.is_empty() {
                let length = usize::try_from(blocks.try_get_u32()?)?;
                let (block, rest) = blocks.split_at_checked(length).context("a whole block")?;
                let at = unpacked.len();
                unpacked.resize(at + snap::raw::decompress_len(block)?, 0);
                snap::raw::Decoder::new().decompress(block, &mut unpacked[at..])?;
                blocks = rest;
            }
        }
    }
    Ok(unpacked.into())
}

criterion_group!(benches, reading);
criterion_main!(benches);
