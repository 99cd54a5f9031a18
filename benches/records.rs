//! Reading a partition's batches, beside the decoder of the crate kafka-protocol: the same bytes, and for
//! compressed ones the same crates to unpack them.

use std::{hint::black_box, io::Read};

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use kafka_protocol::records::{Compression as TheirCompression, RecordBatchDecoder};
use octopus_benches::event;
use octopus_core::{Position, Records};
use octopus_kafka::records::{BatchWriter, Compression, Reader};

/// The bytes of the records together.
const TOTAL: usize = 1024 * 1024;

/// One batch of 1 MiB of records with a header each.
fn reading(criterion: &mut Criterion) {
    let compressions = [
        ("none", Compression::None),
        ("lz4", Compression::Lz4),
        ("zstd", Compression::Zstd),
    ];
    for (size_name, size) in [("100 B", 100), ("1 KiB", 1024)] {
        for (name, compression) in compressions {
            let count = TOTAL / size;
            let mut writer = BatchWriter::new(compression);
            for (seed, time) in (0u64..).zip(0..).take(count) {
                let value = event(seed, size);
                writer.push(
                    time,
                    Some(&seed.to_be_bytes()),
                    Some(&value),
                    &[(b"trace", Some(b"\0\x01"))],
                );
            }
            let batch = writer.finish();
            let mut group = criterion.benchmark_group(format!("records/{size_name}/{name}"));
            group.throughput(Throughput::Elements(count as u64));
            group.bench_function(BenchmarkId::from_parameter("octopus"), |bencher| {
                bencher.iter(|| assert_eq!(ours(&batch), count));
            });
            group.bench_function(BenchmarkId::from_parameter("kafka-protocol"), |bencher| {
                bencher.iter(|| assert_eq!(theirs(&batch), count));
            });
            group.finish();
        }
    }
}

fn ours(batch: &Bytes) -> usize {
    let mut reader = Reader::new(batch.clone(), Position::at(0));
    let mut count = 0;
    while let Some(record) = reader.next() {
        black_box(record.expect("a record"));
        count += 1;
    }
    count
}

fn theirs(batch: &Bytes) -> usize {
    let set = RecordBatchDecoder::decode_with_custom_compression(&mut batch.clone(), Some(unpack))
        .expect("records");
    black_box(set).records.len()
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
        TheirCompression::Gzip | TheirCompression::Snappy => unreachable!("not measured"),
    }
    Ok(unpacked.into())
}

criterion_group!(benches, reading);
criterion_main!(benches);
