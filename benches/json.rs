//! The JSON check: each of its tiers, serde_json and simd-json on the same texts. All check UTF-8 as well.

use std::{fmt::Write as _, hint::black_box, time::Duration};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use octopus_benches::{Random, event, ratio};
use octopus_codec::{is_json, is_utf8, json::Tier};
use serde::{Deserialize as _, de::IgnoredAny};
use simd_json::Tape;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const GROUP: &str = "json";

/// Whether a text is JSON.
type Check = dyn FnMut(&[u8]) -> bool;

fn checking(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group(GROUP);
    group
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    let mut ratios = Vec::new();
    for (corpus, texts) in corpora() {
        let size: usize = texts.iter().map(Vec::len).sum();
        group.throughput(Throughput::Bytes(size as u64));
        let mut simd_json = SimdJson::default();
        let octopus = |text: &[u8]| is_utf8(text) && is_json(text);
        let mut candidates: Vec<(&str, Box<Check>)> = vec![
            ("octopus", Box::new(octopus)),
            ("serde_json", Box::new(serde_json_accepts)),
            ("simd-json", Box::new(move |text| simd_json.accepts(text))),
        ];
        for tier in Tier::available() {
            let name = match tier {
                Tier::Avx2 => "octopus avx2",
                Tier::Scalar => "octopus scalar",
            };
            candidates.push((name, Box::new(move |text| is_utf8(text) && tier.is_json(text))));
        }
        for (name, mut accepts) in candidates {
            if !texts.iter().all(|text| accepts(text)) {
                // It refuses texts that are nested deeply.
                assert_eq!(name, "simd-json", "{corpus}");
                continue;
            }
            group.bench_with_input(BenchmarkId::new(name, corpus), &texts, |bencher, texts| {
                bencher.iter(|| texts.iter().filter(|text| accepts(black_box(text))).count());
            });
            if !name.starts_with("octopus") {
                ratios.push(("octopus", name, corpus));
            }
            if name == "octopus avx2" || name == "octopus scalar" {
                ratios.push((name, "serde_json", corpus));
            }
        }
    }
    group.finish();
    for (ours, theirs, corpus) in ratios {
        ratio::print(GROUP, &format!("{ours}/{corpus}"), &format!("{theirs}/{corpus}"));
    }
}

/// The texts to check, by name.
fn corpora() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let events = |size: usize, count| -> Vec<_> { (0..).map(|seed| event(seed, size)).take(count).collect() };
    let string = |of: &str| vec![format!("\"{}\"", of.repeat(MIB / of.len())).into_bytes()];
    let nested = [b"[".repeat(MIB), b"]".repeat(MIB)].concat();
    vec![
        (
            "twitter",
            document(include_bytes!("data/twitter_status.json.zst")),
        ),
        ("citm", document(include_bytes!("data/citm_catalog.json.zst"))),
        (
            "canada",
            document(include_bytes!("data/canada_geometry.json.zst")),
        ),
        ("events of 26 B", small_events(4096)),
        ("events of 100 B", events(100, 4096)),
        ("events of 1 KiB", events(KIB, 1024)),
        ("events of 10 KiB", events(10 * KIB, 128)),
        ("events of 1 MiB", events(MIB, 1)),
        ("events of 8 MiB", events(8 * MIB, 1)),
        (
            "small objects 8 MiB",
            list(8 * MIB, |random, text| {
                write!(text, "{{\"a\":{}}}", random.next() % 1000)
            }),
        ),
        (
            "integers",
            list(MIB, |random, text| {
                write!(text, "{}", random.next() >> (random.next() % 64))
            }),
        ),
        (
            "floats",
            list(MIB, |random, text| {
                let (whole, fraction) = (random.next() % 1000, random.next() % 10_000_000);
                write!(text, "{whole}.{fraction}")
            }),
        ),
        (
            "literals",
            list(MIB, |random, text| {
                text.write_str(
                    ["true", "false", "null"][usize::try_from(random.next() % 3).expect("below 3")],
                )
            }),
        ),
        ("escapes", string(r#"\n\"\\\t"#)),
        ("ASCII string", string("eleven byte")),
        ("string of other scripts", string("äöü日本語 é")),
        ("a million levels", vec![nested]),
    ]
}

/// A document that is packed with zstd.
fn document(packed: &[u8]) -> Vec<Vec<u8>> {
    vec![zstd::decode_all(packed).expect("the file is whole")]
}

/// Objects of 26 bytes.
fn small_events(count: u64) -> Vec<Vec<u8>> {
    let event = |seed| {
        let number = Random(seed).next();
        format!(
            "{{\"id\":{},\"kind\":\"{:04x}\"}}",
            10_000 + number % 90_000,
            number >> 48
        )
    };
    (0..count).map(|seed| event(seed).into_bytes()).collect()
}

/// An array of items, of at least `size` bytes.
fn list(size: usize, item: impl Fn(&mut Random, &mut String) -> std::fmt::Result) -> Vec<Vec<u8>> {
    let (mut random, mut text) = (Random(1), "[".to_owned());
    while text.len() < size {
        item(&mut random, &mut text).expect("a String takes every write");
        text.push(',');
    }
    text.pop();
    text.push(']');
    vec![text.into_bytes()]
}

fn serde_json_accepts(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else {
        return false;
    };
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.disable_recursion_limit();
    IgnoredAny::deserialize(&mut reader).is_ok() && reader.end().is_ok()
}

/// What simd-json uses again from text to text.
#[derive(Default)]
struct SimdJson {
    /// It parses in place, so each text is copied first.
    copy: Vec<u8>,
    buffers: simd_json::Buffers,
    tape: Option<Tape<'static>>,
}

impl SimdJson {
    fn accepts(&mut self, text: &[u8]) -> bool {
        self.copy.clear();
        self.copy.extend_from_slice(text);
        let mut tape = self.tape.take().unwrap_or_else(Tape::null).reset();
        let verdict = simd_json::fill_tape(&mut self.copy, &mut self.buffers, &mut tape);
        self.tape = Some(tape.reset());
        verdict.is_ok()
    }
}

criterion_group!(benches, checking);
criterion_main!(benches);
