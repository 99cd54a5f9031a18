mod log;
mod shares;

use std::collections::{BTreeMap, VecDeque};

use ::base64::{Engine as _, engine::general_purpose::STANDARD};
use log::{Log, Sent};
use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::{Value, value::RawValue};

use super::*;
use crate::is_json;

/// [FE-01]
#[test]
fn a_record_is_its_object_with_its_members_in_order() {
    let record = Sent::new(
        Some(b"k"),
        Some(b"{\"step\": 7}"),
        &[("trace", Some(b"\0\x01")), ("b", None), ("trace", Some(b""))],
    );
    assert_eq!(
        text(pack(one(vec![record]), Format::Json, None)),
        r#"[{"topic":"t0","key":"k","value":{"step": 7},"partition":0,"offset":0,"headers":[{"name":"trace","value":"AAE="},{"name":"b","value":null},{"name":"trace","value":""}]}]"#
    );
}

/// [FE-02] null stays null; [D-27] zero bytes are an empty string in both formats.
#[test]
fn null_and_empty_are_told_apart() {
    let records = || {
        one(vec![
            Sent::new(None, Some(b""), &[]),
            Sent::new(Some(b""), None, &[]),
        ])
    };
    let expected = r#"[{"topic":"t0","key":null,"value":"","partition":0,"offset":0,"headers":[]},{"topic":"t0","key":"","value":null,"partition":0,"offset":1,"headers":[]}]"#;
    assert_eq!(text(pack(records(), Format::Binary, None)), expected);
    assert_eq!(text(pack(records(), Format::Json, None)), expected);
}

/// [FE-03] [D-27] written as produced, blanks around it included; [FE-04] what isn't one JSON value is text.
#[test]
fn a_json_instance_returns_values_as_produced_and_other_text_as_strings() {
    for (value, written) in [
        ("{\"a\" : 1e999999}", "{\"a\" : 1e999999}"),
        ("\r\n[1 ,2]\t ", "\r\n[1 ,2]\t "),
        ("null", "null"),
        ("\"\\ud800\"", "\"\\ud800\""),
        ("{\"a\":1} {\"b\":2}", r#""{\"a\":1} {\"b\":2}""#),
        ("a\nb\u{1}ä", "\"a\\nb\\u0001ä\""),
        (" ", "\" \""),
        ("\u{feff}1", "\"\u{feff}1\""),
    ] {
        let record = Sent::new(None, Some(value.as_bytes()), &[]);
        assert_eq!(
            text(pack(one(vec![record]), Format::Json, None)),
            format!(
                r#"[{{"topic":"t0","key":null,"value":{written},"partition":0,"offset":0,"headers":[]}}]"#
            )
        );
    }
}

/// [D-40] [FE-07] 4 MiB of small objects are JSON, not text.
#[test]
fn a_large_array_of_small_objects_is_the_json_that_it_is() {
    let value = format!("[{}{{\"a\":1}}]", "{\"a\":1},".repeat(512 * 1024));
    let record = Sent::new(None, Some(value.as_bytes()), &[]);
    let reply = text(pack(one(vec![record]), Format::Json, None));
    let objects: Vec<BTreeMap<String, Value>> = serde_json::from_str(&reply).unwrap();
    assert_eq!(objects[0]["value"].as_array().unwrap().len(), 512 * 1024 + 1);
}

/// [D-25]
#[test]
fn a_header_name_that_is_not_utf8_blocks_nothing() {
    for format in [Format::Binary, Format::Json] {
        let mut record = Sent::new(None, Some(b"1"), &[]);
        record.headers = vec![(b"a\xff\"b".to_vec(), Some(vec![0xff]))];
        let objects: Vec<Value> = serde_json::from_str(&text(pack(one(vec![record]), format, None))).unwrap();
        assert_eq!(objects[0]["headers"][0]["name"], "a\u{fffd}\"b");
        assert_eq!(objects[0]["headers"][0]["value"], "/w==");
    }
}

/// [FE-05]
#[test]
fn a_record_that_is_not_utf8_ends_its_partitions_part() {
    let bad_value = || Sent::new(None, Some(b"\xff"), &[]);
    let bad_key = || Sent::new(Some(b"\xff"), Some(b"1"), &[]);
    let good = || Sent::new(None, Some(b"1"), &[]);
    let parts = || {
        vec![
            part(0, Log::of(vec![good(), good(), bad_value(), good()])),
            part(1, Log::of(vec![bad_key(), good()])),
            part(2, Log::of(vec![good()])),
        ]
    };
    let packed = pack(parts(), Format::Json, None);
    assert_eq!(packed.next, [at(0, 2), at(2, 1)]);
    assert_eq!((packed.cut, packed.not_utf8), (None, None));
    assert_eq!(packed.skipped, []);

    let packed = pack(parts(), Format::Binary, None);
    assert_eq!(packed.next, [at(0, 4), at(1, 2), at(2, 1)]);
}

/// [FE-06] [D-37] whatever the partitions behind it hold; those before it without a record do not count.
#[test]
fn a_first_record_that_is_not_utf8_is_the_whole_answer() {
    let parts = || {
        vec![
            part(0, Log::of(vec![])),
            part(1, Log::of(vec![Sent::new(None, Some(b"\xff"), &[])])),
            part(2, Log::of(vec![Sent::new(None, Some(b"1"), &[])])),
        ]
    };
    let packed = pack(parts(), Format::Json, None);
    assert!(packed.body.is_none());
    assert_eq!(packed.not_utf8, Some(partition(1)));
    assert_eq!((packed.next, packed.cut), (vec![], None));
    assert_eq!(pack(parts(), Format::Binary, None).next, [at(1, 1), at(2, 1)]);
}

/// [FE-10] fewer than `max_bytes`, null counting none; but always the first record.
#[test]
fn max_bytes_counts_keys_and_values() {
    let records = || {
        one(vec![
            Sent::new(
                Some(b"ab"),
                Some(b"cde"),
                &[("long", Some(&[0; 50]))]
            );
            3
        ])
    };
    for (most, count) in [(1, 1), (5, 1), (10, 1), (11, 2), (15, 2), (16, 3), (1000, 3)] {
        let packed = pack(records(), Format::Binary, NonZeroU64::new(most));
        assert_eq!(packed.next, [at(0, count)], "{most}");
        assert_eq!(packed.cut.is_some(), count < 3, "{most}");
    }
    let nulls = one(vec![Sent::new(None, None, &[]); 3]);
    assert_eq!(pack(nulls, Format::Binary, NonZeroU64::new(1)).next, [at(0, 3)]);
}

/// [FE-10] [RP-01] no smaller record of a later partition is looked for; [FE-12] the one that came first is told.
#[test]
fn a_cut_ends_the_reply() {
    let long = || Sent::new(None, Some(&[b'x'; 100]), &[]);
    let short = || Sent::new(None, Some(b"x"), &[]);
    let parts = vec![
        part(2, Log::of(vec![])),
        part(0, Log::of(vec![short()])),
        part(1, Log::of(vec![long()])),
        part(3, Log::of(vec![short()])),
    ];
    let packed = pack(parts, Format::Binary, NonZeroU64::new(50));
    assert_eq!(packed.next, [at(0, 1)]);
    assert_eq!(packed.cut, Some(partition(0)));
}

/// [RP-01] 2 MiB with the brackets, to the byte.
#[test]
fn a_reply_of_more_than_one_record_is_at_most_two_mebibytes() {
    let first = Sent::new(None, Some(b"1"), &[]);
    let empty = Sent::new(None, Some(b""), &[]);
    let used = text(pack(one(vec![first.clone(), empty]), Format::Json, None)).len();
    for (spare, fits) in [(0, true), (1, false)] {
        let value = vec![b'x'; REPLY_BYTES - used + spare];
        let packed = pack(
            one(vec![first.clone(), Sent::new(None, Some(&value), &[])]),
            Format::Json,
            None,
        );
        assert_eq!(packed.next, [at(0, if fits { 2 } else { 1 })]);
        assert_eq!(packed.cut.is_some(), !fits);
        assert_eq!(packed.body.unwrap().len().unwrap() == REPLY_BYTES, fits);
    }
}

/// [RP-02] [FE-13] alone, in windows, with no length said before.
#[test]
fn a_first_record_over_two_mebibytes_goes_alone_and_in_windows() {
    let value = vec![1u8; 8 * 1024 * 1024];
    let records = || {
        vec![
            part(
                0,
                Log::of(vec![
                    Sent::new(None, Some(&value), &[]),
                    Sent::new(None, Some(b"1"), &[]),
                ]),
            ),
            part(1, Log::of(vec![Sent::new(None, Some(b"1"), &[])])),
        ]
    };
    for (format, written) in [
        (Format::Json, 6 * value.len()),
        (Format::Binary, value.len().div_ceil(3) * 4),
    ] {
        let packed = pack(records(), format, NonZeroU64::new(1));
        assert_eq!(packed.next, [at(0, 1)]);
        assert_eq!(packed.cut, Some(partition(0)));
        let Some(Body::Streamed(mut stream)) = packed.body else {
            panic!("a reply over 2 MiB is streamed")
        };
        let (mut total, mut windows) = (0, 0);
        while !stream.is_done() {
            let window = stream.next().unwrap();
            assert!(window.len() <= WINDOW_BYTES);
            total += window.len();
            windows += 1;
        }
        assert!(stream.next().is_none());
        let around = r#"[{"topic":"t0","key":null,"value":"","partition":0,"offset":0,"headers":[]}]"#.len();
        assert_eq!(total, around + written);
        assert!(windows < total / WINDOW_BYTES + 8, "windows are filled");
    }
}

/// [RP-02] nothing is left out, so nothing is cut.
#[test]
fn a_large_record_with_nothing_behind_it_is_not_a_cut() {
    let value = vec![b'x'; REPLY_BYTES];
    let mut log = Log::of(vec![Sent::new(None, Some(&value), &[])]);
    log.end = 5;
    let packed = pack(one_log(log), Format::Json, None);
    assert!(matches!(packed.body, Some(Body::Streamed(_))));
    assert_eq!(packed.cut, None);
    assert_eq!(packed.next, [at(0, 5)]);
}

/// [FE-11] a reply reaches past what holds no record for a client, so that this is not read again.
#[test]
fn stretches_without_records_are_passed() {
    let mut full = Log::of(vec![Sent::new(None, Some(b"1"), &[])]);
    full.end = 9;
    let mut empty = Log::of(vec![]);
    empty.end = 4;
    let still = Log::of(vec![]);
    let packed = pack(
        vec![part(0, full), part(1, empty), part(2, still)],
        Format::Json,
        None,
    );
    assert_eq!(packed.next, [at(0, 9)]);
    assert_eq!(packed.skipped, [at(1, 4)]);
}

/// [D-26]
#[test]
fn a_fault_ends_its_partitions_part() {
    let good = || Sent::new(None, Some(b"1"), &[]);
    let mut behind_a_record = Log::of(vec![good()]);
    behind_a_record.fault = Some(Fault::Corrupt);
    let mut at_once = Log::of(vec![]);
    at_once.fault = Some(Fault::TooLarge);
    let parts = vec![
        part(0, at_once),
        part(1, behind_a_record),
        part(2, Log::of(vec![good()])),
    ];
    let packed = pack(parts, Format::Json, None);
    assert_eq!(packed.next, [at(1, 1), at(2, 1)]);
    assert_eq!(packed.faults, [(partition(0), Fault::TooLarge)]);
    assert_eq!((packed.skipped, packed.cut), (vec![], None));
}

#[test]
fn what_is_in_a_reply_is_not_in_its_debug_form() {
    let record = Sent::new(None, Some(b"secret"), &[]);
    let shown = format!("{:?}", pack(one(vec![record]), Format::Json, None));
    assert!(!shown.contains("secret"), "{shown}");
    assert!(!shown.contains(&format!("{:?}", b"secret")[1..20]), "{shown}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// [FE-01] [FE-02] [FE-03] [FE-04] [D-25] [D-27] what was sent can be read from the reply, and the length that
    /// was measured is the one that was written.
    #[test]
    fn a_reply_holds_the_records(records in vec(sent(), 1..6), format in format()) {
        let good = match format {
            Format::Binary => records.len(),
            Format::Json => records.iter().take_while(|record| record.is_text()).count(),
        };
        for record in &records[..good] {
            let mut log = Log::of(vec![record.clone()]);
            let mut skeleton = Skeleton::new(&partition(0));
            let record = log.next().unwrap().unwrap();
            let object = Object::new(&record, format).unwrap();
            let mut pieces = Pieces::default();
            pieces.write(|out| object.write(&mut skeleton, out));
            let length = object.measure(&skeleton);
            prop_assert_eq!(pieces.finish().concat().len(), length);
            prop_assert!(length <= object.most(&skeleton));
        }
        let packed = pack(one(records.clone()), format, None);
        if good == 0 {
            prop_assert!(packed.body.is_none());
        } else {
            check(&text(packed), &records[..good], format, &[(0, 0..good)])?;
        }
    }

    /// [RP-02] whatever the window, its pieces make the reply that would have been written whole.
    #[test]
    fn windows_make_the_whole(record in sent(), format in format(), window in 6usize..200, small in small(), buffer in any::<bool>()) {
        prop_assume!(format == Format::Binary || record.is_text());
        let whole = text(pack(one(vec![record.clone()]), format, None));
        let mut log = Log::of(vec![record]);
        log.shares = buffer;
        let reply = Reply::new(format, None, Bounds { reply: 0, window, small });
        let Some(Body::Streamed(mut stream)) = reply.pack(one_log(log)).body else {
            panic!("nothing fits 0 bytes")
        };
        let mut made = Vec::new();
        while !stream.is_done() {
            let piece = stream.next().unwrap();
            prop_assert!(!piece.is_empty() && piece.len() <= window);
            made.extend_from_slice(&piece);
        }
        prop_assert!(stream.next().is_none());
        prop_assert_eq!(String::from_utf8(made).unwrap(), whole);
    }

    /// [FE-10] [FE-11] [FE-12] [RP-01] [RP-02] [D-37] [D-45] fetch after fetch gives every record once and in
    /// order, within the limits, while partitions take turns when a reply is cut.
    #[test]
    fn fetch_after_fetch_gives_every_record_once(
        logs in vec(vec(sent(), 0..12), 1..5),
        format in format(),
        max_bytes in option::of(1u64..150),
        reply in 100usize..2000,
        small in small(),
    ) {
        let mut order: VecDeque<usize> = (0..logs.len()).collect();
        let mut positions = vec![0usize; logs.len()];
        let total: usize = logs.iter().map(Vec::len).sum();
        for _ in 0..=2 * total + 1 {
            let parts: Vec<_> = order
                .iter()
                .map(|&i| part(i, Log::from(logs[i].clone(), positions[i])))
                .collect();
            let bounds = Bounds { reply, window: 64, small };
            let packed = Reply::new(format, NonZeroU64::new(max_bytes.unwrap_or(0)), bounds).pack(parts);
            let index = |partition: &TopicPartition| -> usize { partition.topic.as_str()[1..].parse().unwrap() };

            let first = order.iter().copied().find(|&i| positions[i] < logs[i].len());
            let Some(first) = first else {
                prop_assert!(packed.body.is_none() && packed.next.is_empty() && packed.cut.is_none());
                return Ok(());
            };
            if format == Format::Json && !logs[first][positions[first]].is_text() {
                prop_assert!(packed.body.is_none() && packed.next.is_empty() && packed.cut.is_none());
                prop_assert_eq!(packed.not_utf8.as_ref().map(index), Some(first));
                // The client seeks past it.
                positions[first] += 1;
                continue;
            }
            prop_assert_eq!(packed.next.first().map(|(partition, _)| index(partition)), Some(first));
            let mut ranges = Vec::new();
            let (mut count, mut payload) = (0, 0);
            for (partition, position) in &packed.next {
                let i = index(partition);
                let range = positions[i]..usize::try_from(position.offset).unwrap();
                prop_assert!(!range.is_empty());
                count += range.len();
                payload += logs[i][range.clone()].iter().map(Sent::payload).sum::<usize>();
                positions[i] = range.end;
                ranges.push((i, range));
            }
            let cut = packed.cut.as_ref().map(index);
            let streamed = matches!(packed.body, Some(Body::Streamed(_)));
            let json = text(packed);
            prop_assert!(count == 1 || json.len() <= reply);
            prop_assert!(count == 1 || max_bytes.is_none_or(|most| (payload as u64) < most));
            prop_assert_eq!(streamed, json.len() > reply);
            let records: Vec<Sent> =
                ranges.iter().flat_map(|(i, range)| logs[*i][range.clone()].to_vec()).collect();
            check(&json, &records, format, &ranges)?;

            // What the order had next and could have come, if anything, did not fit.
            let stopped = |i: usize| positions[i] == logs[i].len()
                || format == Format::Json && !logs[i][positions[i]].is_text();
            prop_assert_eq!(cut.is_some(), !order.iter().all(|&i| stopped(i)));
            if let Some(cut) = cut {
                prop_assert_eq!(cut, first);
                order.retain(|&i| i != cut);
                order.push_back(cut);
            }
        }
        prop_assert!(false, "every fetch moves on");
    }
}

/// Compares a reply with the records that it should hold, of these partitions and offsets.
fn check(
    reply: &str,
    records: &[Sent],
    format: Format,
    ranges: &[(usize, std::ops::Range<usize>)],
) -> Result<(), TestCaseError> {
    let objects: Vec<BTreeMap<String, Box<RawValue>>> = serde_json::from_str(reply).unwrap();
    prop_assert_eq!(objects.len(), records.len());
    let places = ranges
        .iter()
        .flat_map(|(i, range)| range.clone().map(move |offset| (*i, offset)));
    for ((object, record), (topic, offset)) in objects.iter().zip(records).zip(places) {
        prop_assert_eq!(object.len(), 6);
        prop_assert_eq!(object["topic"].get(), format!("\"t{topic}\""));
        prop_assert_eq!(object["partition"].get(), "0");
        prop_assert_eq!(object["offset"].get(), offset.to_string());
        for (name, part) in [("key", &record.key), ("value", &record.value)] {
            let written = object[name].get();
            match part {
                None => prop_assert_eq!(written, "null"),
                Some(bytes) => match format {
                    Format::Binary => {
                        let text: String = serde_json::from_str(written).unwrap();
                        prop_assert_eq!(&STANDARD.decode(text).unwrap(), bytes);
                    }
                    Format::Json if is_json(bytes) => {
                        // `RawValue` drops the blanks around it, which the reply has.
                        let produced = std::str::from_utf8(bytes).unwrap();
                        prop_assert_eq!(written, produced.trim());
                        prop_assert!(reply.contains(produced));
                    }
                    Format::Json => {
                        let text: String = serde_json::from_str(written).unwrap();
                        prop_assert_eq!(text.as_bytes(), &bytes[..]);
                    }
                },
            }
        }
        let headers: Vec<Value> = serde_json::from_str(object["headers"].get()).unwrap();
        prop_assert_eq!(headers.len(), record.headers.len());
        for (written, (name, value)) in headers.iter().zip(&record.headers) {
            prop_assert_eq!(written.as_object().unwrap().len(), 2);
            prop_assert_eq!(written["name"].as_str().unwrap(), String::from_utf8_lossy(name));
            match value {
                None => prop_assert!(written["value"].is_null()),
                Some(value) => {
                    prop_assert_eq!(
                        &STANDARD.decode(written["value"].as_str().unwrap()).unwrap(),
                        value
                    );
                }
            }
        }
    }
    Ok(())
}

fn text(packed: Packed) -> String {
    let bytes = match packed.body.expect("a body") {
        Body::Whole(slices) => slices.concat(),
        Body::Streamed(stream) => stream.collect::<Vec<_>>().concat(),
    };
    String::from_utf8(bytes).unwrap()
}

fn partition(topic: usize) -> TopicPartition {
    TopicPartition::only(format!("t{topic}").as_str().into())
}

fn at(topic: usize, offset: i64) -> (TopicPartition, Position) {
    (partition(topic), Position::at(offset))
}

fn part(topic: usize, log: Log) -> (TopicPartition, Log) {
    (partition(topic), log)
}

fn one(records: Vec<Sent>) -> Vec<(TopicPartition, Log)> {
    one_log(Log::of(records))
}

fn one_log(log: Log) -> Vec<(TopicPartition, Log)> {
    vec![part(0, log)]
}

/// Whether objects are written first, measured first, or now so, now so.
fn small() -> impl Strategy<Value = usize> {
    select(vec![0, 400, SMALL])
}

fn format() -> impl Strategy<Value = Format> {
    select(vec![Format::Binary, Format::Json])
}

fn sent() -> impl Strategy<Value = Sent> {
    let bytes = || {
        prop_oneof![
            4 => select(vec![
                "null", " {\"a\": [1, \"x\"]}\n", "\"\\ud800\"", "-1e99", "plain", "a\"b\\\n\u{1}", "", " ", "{\"a\":1} 2",
            ]).prop_map(|text| text.as_bytes().to_vec()),
            2 => "[\\x00-\\x7f€𝄞]{0,60}".prop_map(String::into_bytes),
            1 => vec(any::<u8>(), 0..60),
        ]
    };
    let name = prop_oneof![
        "[a-c\"\\n]{0,9}".prop_map(String::into_bytes),
        vec(any::<u8>(), 0..20)
    ];
    let header = (name, option::of(vec(any::<u8>(), 0..20)));
    (option::of(bytes()), option::of(bytes()), vec(header, 0..4)).prop_map(|(key, value, headers)| Sent {
        key,
        value,
        headers,
    })
}
