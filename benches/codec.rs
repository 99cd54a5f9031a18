//! Packing replies, and the JSON check beside serde_json and simd-json.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use octopus_benches::{Log, event};
use octopus_codec::{is_json, is_utf8, pack};
use octopus_core::{Format, TopicPartition};
use serde::{Deserialize as _, de::IgnoredAny};

const SIZES: [(&str, usize); 3] = [("100 B", 100), ("1 KiB", 1024), ("64 KiB", 64 * 1024)];

/// Records of one size, 1 MiB together, to one reply.
fn packing(criterion: &mut Criterion) {
    for (format, name) in [(Format::Binary, "binary"), (Format::Json, "json")] {
        let mut group = criterion.benchmark_group(format!("pack/{name}"));
        for (label, size) in SIZES {
            let values: Vec<_> = (0..)
                .map(|seed| event(seed, size))
                .take(1024 * 1024 / size)
                .collect();
            group.throughput(Throughput::Bytes(
                values.iter().map(|value| value.len() as u64).sum(),
            ));
            let log = Log::new(values);
            group.bench_function(label, |bencher| {
                bencher.iter_batched(
                    || vec![(TopicPartition::only("my-topic".into()), log.clone())],
                    |parts| pack(parts, format, None),
                    BatchSize::LargeInput,
                );
            });
        }
    }
}

/// Whether texts of one size are JSON; each candidate checks UTF-8 as well.
fn checking(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("is_json");
    for (label, size) in SIZES {
        let texts: Vec<_> = (0..)
            .map(|seed| event(seed, size))
            .take(1024 * 1024 / size)
            .collect();
        group.throughput(Throughput::Bytes(
            texts.iter().map(|text| text.len() as u64).sum(),
        ));
        group.bench_with_input(BenchmarkId::new("octopus", label), &texts, |bencher, texts| {
            bencher.iter(|| assert!(texts.iter().all(|text| is_utf8(black_box(text)) && is_json(text))));
        });
        group.bench_with_input(BenchmarkId::new("serde_json", label), &texts, |bencher, texts| {
            bencher.iter(|| assert!(texts.iter().all(|text| serde_accepts(black_box(text)))));
        });
        group.bench_with_input(BenchmarkId::new("simd-json", label), &texts, |bencher, texts| {
            let mut buffers = simd_json::Buffers::default();
            bencher.iter(|| {
                assert!(texts.iter().all(|text| {
                    // It parses in place, so each text is copied first.
                    let mut copy = black_box(text).clone();
                    simd_json::to_tape_with_buffers(&mut copy, &mut buffers).is_ok()
                }));
            });
        });
    }
}

fn serde_accepts(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else {
        return false;
    };
    let mut reader = serde_json::Deserializer::from_str(text);
    IgnoredAny::deserialize(&mut reader).is_ok() && reader.end().is_ok()
}

criterion_group!(benches, packing, checking);
criterion_main!(benches);
