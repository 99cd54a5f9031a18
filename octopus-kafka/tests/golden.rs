//! Batches that librdkafka and Kafka wrote, as a fetch returned them. `golden/make.py` makes them again.

use bytes::Bytes;
use octopus_core::{Fault, Position, Record, Records};
use octopus_kafka::records::{Batches, Compression, Next, Reader, TimestampType};

const TIME: i64 = 1_700_000_000_000;
/// Between two records: more milliseconds than 32 bits hold.
const STEP: i64 = 60 * 86_400_000;

type Part = Option<Vec<u8>>;
type Headers = Vec<(Vec<u8>, Part)>;
type Read = (i64, i64, Part, Part, Headers);

fn golden(file: &str) -> Bytes {
    let path = format!("{}/tests/golden/{file}.bin", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).expect("a golden file").into()
}

/// The records that were produced: their keys, values and headers.
fn produced() -> Vec<(Part, Part, Headers)> {
    let part = |bytes: &[u8]| Some(bytes.to_vec());
    let header = |name: &str, value: &[u8]| (name.as_bytes().to_vec(), part(value));
    let null = |name: &str| (name.as_bytes().to_vec(), None);
    vec![
        (None, None, vec![]),
        (part(b""), part(b""), vec![]),
        (
            part(br#"{"id": 1}"#),
            part(r#"{"text": "café", "list": [1, 2.5e3, null, true]}"#.as_bytes()),
            vec![header("trace", b"1")],
        ),
        (
            part(b"text"),
            part("Grüße, мир, 世界 🐙".as_bytes()),
            vec![
                header("a", b"1"),
                null("b"),
                header("a", b"2"),
                null("a"),
                header("", b""),
            ],
        ),
        (
            part(b"\xff\xfe"),
            part(b"\x00\x80\xc3"),
            vec![header("bytes", b"\xff\x00")],
        ),
        (part(b"large"), part(&b"0123456789abcdef".repeat(2500)), vec![]),
        (
            part(&[0; 300]),
            None,
            (0..130)
                .map(|i| header(&format!("h{i}"), &b"v".repeat(i)))
                .collect(),
        ),
    ]
}

fn own(record: Record<'_>) -> Read {
    let part = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
    (
        record.offset.0,
        record.timestamp,
        part(record.key),
        part(record.value),
        record.headers.map(|h| (h.name.to_vec(), part(h.value))).collect(),
    )
}

fn read(bytes: Bytes, from: i64) -> (Vec<Read>, Position) {
    let mut reader = Reader::new(bytes, Position::at(from));
    let mut records = Vec::new();
    while let Some(record) = reader.next() {
        records.push(own(record.expect("a record")));
    }
    (records, reader.position())
}

fn expected() -> Vec<Read> {
    (0..)
        .zip(produced())
        .map(|(i, (key, value, headers))| (i, TIME + i * STEP, key, value, headers))
        .collect()
}

/// [K10] [FE-01] [FE-11] Keys, values and headers, in order, with repeated names and null values.
#[test]
fn batches_of_other_producers_are_read() {
    let files = [
        ("rdkafka-none", Compression::None),
        ("rdkafka-gzip", Compression::Gzip),
        ("rdkafka-snappy", Compression::Snappy),
        ("rdkafka-lz4", Compression::Lz4),
        ("rdkafka-zstd", Compression::Zstd),
        ("broker-gzip", Compression::Gzip),
        ("broker-snappy", Compression::Snappy),
        ("broker-lz4", Compression::Lz4),
        ("broker-zstd", Compression::Zstd),
    ];
    for (file, compression) in files {
        let bytes = golden(file);
        let Next::Batch(batch) = Batches::new(&bytes).next() else {
            panic!("{file} starts with a batch");
        };
        assert_eq!(batch.compression, compression, "{file}");
        let (records, position) = read(bytes.clone(), 0);
        assert_eq!(records, expected(), "{file}");
        assert_eq!((position.offset, position.leader_epoch), (7, Some(0)), "{file}");
        assert_eq!(read(bytes, 4).0, expected()[4..], "{file}");
    }
}

/// [K10] Both framings of snappy are there: Java's and the bare block.
#[test]
fn snappy_comes_framed_and_bare() {
    let framed = |file| golden(file)[61..].starts_with(b"\x82SNAPPY\0");
    assert!(framed("broker-snappy"));
    assert!(!framed("rdkafka-snappy"));
}

#[test]
fn a_broker_sets_the_time_of_append() {
    let bytes = golden("append-time");
    let Next::Batch(batch) = Batches::new(&bytes).next() else {
        panic!("it starts with a batch");
    };
    assert_eq!(batch.timestamp_type, TimestampType::LogAppend);
    let time = batch.max_timestamp;
    let (records, _) = read(bytes, 0);
    assert!(time > TIME + 10 * STEP);
    assert!(records.iter().all(|record| record.1 == time));
    assert_eq!(records.len(), 7);
}

/// [D-21] A committed and an aborted transaction are read, their markers are not.
#[test]
fn transactions_are_read_without_their_markers() {
    let bytes = golden("transactions");
    let mut batches = Batches::new(&bytes);
    let mut control = Vec::new();
    while let Next::Batch(batch) = batches.next() {
        control.push((batch.control, batch.transactional));
    }
    let (data, marker, plain) = ((false, true), (true, true), (false, false));
    assert_eq!(control, [data, marker, data, marker, plain]);
    let (records, position) = read(bytes.clone(), 0);
    let offsets: Vec<_> = records.iter().map(|record| record.0).collect();
    assert_eq!(offsets, [0, 1, 3, 4, 6]);
    assert_eq!(position.offset, 7);
    let values: Vec<_> = records.into_iter().map(|record| record.3).collect();
    let produced: Vec<_> = produced().into_iter().map(|(_, value, _)| value).collect();
    assert_eq!(values, produced[..5]);
    // What a fetch at the aborted transaction's marker brings holds no record, and is passed.
    let ends = batch_ends(&bytes);
    let (none, position) = read(bytes.slice(ends[2]..ends[3]), 5);
    assert!(none.is_empty());
    assert_eq!(position.offset, 6);
}

/// The last byte of a batch is changed: its records are not given [D-26].
#[test]
fn a_damaged_batch_is_a_fault() {
    for file in ["rdkafka-none", "broker-zstd"] {
        let mut bytes = golden(file).to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        let mut reader = Reader::new(bytes.into(), Position::at(0));
        assert!(matches!(reader.next(), Some(Err(Fault::Corrupt))), "{file}");
    }
}

/// Where each batch ends.
fn batch_ends(bytes: &[u8]) -> Vec<usize> {
    let mut batches = Batches::new(bytes);
    let mut ends = Vec::new();
    while let Next::Batch(_) = batches.next() {
        ends.push(batches.at());
    }
    ends
}
