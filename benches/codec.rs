//! Packing replies, and what is done to their bytes beside what others do: escapes beside serde_json, base64 beside the
//! scalar engine of the crate base64, UTF-8 beside the standard library.

use std::hint::black_box;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use octopus_benches::{Log, event, ratio};
use octopus_codec::{is_json, is_utf8, pack, parts};
use octopus_core::{Format, TopicPartition};

const SIZES: [(&str, usize); 3] = [("100 B", 100), ("1 KiB", 1024), ("64 KiB", 64 * 1024)];

/// The bytes of a reply's records: none is left out.
const REPLY: usize = 640 * 1024;

/// Records of one size to one reply.
fn packing(criterion: &mut Criterion) {
    for (format, name) in [(Format::Binary, "binary"), (Format::Json, "json")] {
        let mut group = criterion.benchmark_group(format!("pack/{name}"));
        for (label, size) in SIZES {
            let values: Vec<_> = (0..).map(|seed| event(seed, size)).take(REPLY / size).collect();
            group.throughput(Throughput::Bytes(
                values.iter().map(|value| value.len() as u64).sum(),
            ));
            let log = Log::new(values);
            group.bench_function(label, |bencher| {
                bencher.iter_batched(
                    || vec![(TopicPartition::only("my-topic".into()), log.clone())],
                    |parts| {
                        let packed = pack(parts, format, None);
                        assert!(packed.cut.is_none());
                        packed
                    },
                    BatchSize::LargeInput,
                );
            });
        }
    }
}

/// Lines as services log them.
fn log_lines() -> String {
    let line = |i: u64| {
        let (second, id, took) = (i % 60, i * 7919, i * 37 % 1000);
        format!("2030-01-31T12:00:{second:02}Z INFO handled path=\"/items/{id}\" status=200 took={took}ms\n")
    };
    (0..10_000).map(line).collect()
}

/// What a value of a json reply is that turns out to be text and no JSON: found to be UTF-8, found to be no JSON, and
/// measured as a string.
fn classifying(criterion: &mut Criterion) {
    let prose = "Nobody had expected \"that\": the café at the corner, closed since March, was open again,\n\
                 and its owner stood behind the counter as if he had never left it. ";
    let texts = [
        ("log 1 KiB", log_lines(), 1024),
        ("prose 8 MiB", prose.to_owned(), 8 * 1024 * 1024),
    ];
    let mut group = criterion.benchmark_group("classify");
    for (label, text, size) in &texts {
        let mut text: String = text.chars().cycle().take(*size).collect();
        text.truncate(text.floor_char_boundary(*size));
        let text = text.as_bytes();
        assert!(is_utf8(text) && !is_json(text));
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(BenchmarkId::new("octopus", label), |bencher| {
            bencher.iter(|| {
                let text = black_box(text);
                (is_utf8(text) && !is_json(text)).then(|| parts::escaped_len(text))
            });
        });
        group.bench_function(BenchmarkId::new("from_utf8", label), |bencher| {
            bencher.iter(|| std::str::from_utf8(black_box(text)).is_ok());
        });
    }
    group.finish();
    for (label, ..) in texts {
        ratio::print(
            "classify",
            &format!("octopus/{label}"),
            &format!("from_utf8/{label}"),
        );
    }
}

/// Texts as the inside of a JSON string, each measured and then written.
fn escaping(criterion: &mut Criterion) {
    let texts = [
        ("ascii", "some words of plain text, ".to_owned()),
        ("log", log_lines()),
        ("control", "\x01\x1f\x02\x0b\x10\0\x1b".to_owned()),
        ("dense", "\n\" \\\"\t".to_owned()),
    ];
    for (name, text) in texts {
        let group_name = format!("escape/{name}");
        let mut group = criterion.benchmark_group(&group_name);
        for (label, size) in SIZES {
            let text: String = text.chars().cycle().take(size).collect();
            let mut out = vec![0; 6 * size + parts::ROOM];
            group.throughput(Throughput::Bytes(size as u64));
            group.bench_function(BenchmarkId::new("octopus", label), |bencher| {
                bencher.iter(|| {
                    let text = black_box(text.as_bytes());
                    let length = parts::escaped_len(text);
                    parts::escape(text, &mut out[..length + parts::ROOM])
                });
            });
            let mut out = Vec::with_capacity(7 * size);
            group.bench_function(BenchmarkId::new("serde_json", label), |bencher| {
                bencher.iter(|| {
                    out.clear();
                    serde_json::to_writer(&mut out, black_box(&text)).expect("a Vec takes every write");
                    out.len()
                });
            });
        }
        group.finish();
        for (label, _) in SIZES {
            ratio::print(
                &group_name,
                &format!("octopus/{label}"),
                &format!("serde_json/{label}"),
            );
        }
    }
}

/// Bytes as base64, from a short key's to a record's of 1 MiB.
fn encoding(criterion: &mut Criterion) {
    let sizes = [("16 B", 16), SIZES[0], SIZES[1], ("1 MiB", 1024 * 1024)];
    let mut group = criterion.benchmark_group("base64");
    for (label, size) in sizes {
        let bytes = event(1, size);
        let mut out = vec![0; 2 * bytes.len()];
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(BenchmarkId::new("octopus", label), |bencher| {
            bencher.iter(|| parts::encode_base64(black_box(&bytes), &mut out));
        });
        group.bench_function(BenchmarkId::new("STANDARD", label), |bencher| {
            bencher.iter(|| STANDARD.encode_slice(black_box(&bytes), &mut out));
        });
    }
    group.finish();
    for (label, _) in sizes {
        ratio::print(
            "base64",
            &format!("octopus/{label}"),
            &format!("STANDARD/{label}"),
        );
    }
}

/// Whether bytes are UTF-8.
fn decoding(criterion: &mut Criterion) {
    for (name, character) in [("ascii", "a"), ("other", "\u{20ac}")] {
        let group_name = format!("utf8/{name}");
        let mut group = criterion.benchmark_group(&group_name);
        for (label, size) in SIZES {
            let text = character.repeat(size / character.len());
            group.throughput(Throughput::Bytes(text.len() as u64));
            group.bench_function(BenchmarkId::new("octopus", label), |bencher| {
                bencher.iter(|| is_utf8(black_box(text.as_bytes())));
            });
            group.bench_function(BenchmarkId::new("std", label), |bencher| {
                bencher.iter(|| std::str::from_utf8(black_box(text.as_bytes())).is_ok());
            });
        }
        group.finish();
        for (label, _) in SIZES {
            ratio::print(&group_name, &format!("octopus/{label}"), &format!("std/{label}"));
        }
    }
}

criterion_group!(benches, packing, classifying, escaping, encoding, decoding);
criterion_main!(benches);
