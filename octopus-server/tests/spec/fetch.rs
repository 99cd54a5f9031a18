//! *Instances, fetches and commits* and *Limits*: a fetch's wait, and what its reply holds.

use std::time::Duration;

use octopus_kafka::{
    broker::{ApiKey, Request, always},
    records::{BatchWriter, Compression},
};
use serde_json::{Value, json};

use crate::{
    client::Client,
    reader::{partitions, place},
    service::{Service, on_kafka},
};

const MIB: usize = 1024 * 1024;
const MILLI: Duration = Duration::from_millis(1);

impl Service {
    /// Topics with so many records each.
    fn filled(&self, user: &Client, topics: &[&str], count: usize) {
        for topic in topics {
            self.topic(user, topic);
            self.fill(user, topic, count);
        }
    }

    /// What the last Fetch asked of the broker: its wait and its least and most bytes.
    fn last_fetch(&self) -> (i32, i32, i32) {
        let requests = self.asked(ApiKey::Fetch);
        match requests.last().map(|received| &received.request) {
            Some(Request::Fetch(fetch)) => (fetch.max_wait_ms, fetch.min_bytes, fetch.max_bytes),
            other => panic!("{other:?}"),
        }
    }
}

/// [FE-08] [FE-14] [CR-08] [D-18] to the millisecond: that an instance is still held is seen by the refusal of another
/// fetch.
#[tokio::test]
async fn a_fetch_waits_for_its_timeout_or_the_instances() {
    let service = Service::start().await;
    for (i, (setting, query, wait)) in [
        (None, "?timeout=3000", 3_000),
        (None, "", 5_000),
        (None, "?timeout=0", 5_000),
        (None, "?timeout=-1", 5_000),
        (None, "?timeout=", 5_000),
        (None, "?timeout=9000", 9_000),
        (None, "?timeout=30001", 30_000),
        (None, "?timeout=9999999999999", 30_000),
        (Some(7_000), "", 7_000),
        (Some(7_000), "?timeout=0", 7_000),
        (Some(7_000), "?timeout=9000", 9_000),
        (Some(7_000), "?timeout=1", 1),
        (Some(30_000), "", 30_000),
        (Some(60_000), "?timeout=-5", 30_000),
    ]
    .into_iter()
    .enumerate()
    {
        let user = service.user(1);
        let settings = setting.map_or_else(|| json!({}), |ms| json!({"consumer.request.timeout.ms": ms}));
        let reader = service.reader(&user, "g", &format!("i{i}"), settings).await;
        let came = service.arrivals();
        let fetch = reader.fetch(query);
        service.arrived(came + 1).await;
        service.clock.advance(Duration::from_millis(wait) - MILLI);
        let other = reader.user.fetch(&reader.path, "?timeout=1", reader.accept).await;
        assert_eq!(other.error(), (409, 40904), "{setting:?} {query}");
        service.clock.advance(MILLI);
        assert_eq!(fetch.await.unwrap().expect(200).text(), "[]");
        reader.delete().await.expect(204);
    }
}

/// [FE-09] [LI-02] its turns take no longer than half a second each, and no longer than its timeout together; the last
/// one asks Kafka for what is left.
#[tokio::test]
async fn a_quiet_fetch_ends_with_its_wait() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    let reader = service.reader(&user, "g", "i", json!({})).await;
    reader.assign(&["t"]).await;
    reader.post("positions/end", partitions(&["t"])).await.expect(204);
    let fetch = reader.fetch("?timeout=1200");
    for (turn, most) in [(1, 500), (2, 500), (3, 200)] {
        service.was_asked(ApiKey::Fetch, turn).await;
        let (max_wait, ..) = service.last_fetch();
        assert!((most / 2..=most).contains(&max_wait), "{turn}: {max_wait}");
        assert!(!fetch.is_finished());
        service
            .clock
            .advance(Duration::from_millis(most.try_into().unwrap()));
    }
    let reply = fetch.await.unwrap().expect(200);
    assert_eq!(
        (reply.text(), reply.header("content-type")),
        ("[]", Some(reader.accept))
    );
    assert_eq!(service.asked(ApiKey::Fetch).len(), 3);
}

/// [FE-09] the clock stands still: nothing but the record ends the wait.
#[tokio::test]
async fn a_fetch_returns_as_soon_as_records_come() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    let reader = service.reader(&user, "g", "i", json!({})).await;
    reader.assign(&["t"]).await;
    let fetch = reader.fetch("?timeout=30000");
    service.was_asked(ApiKey::Fetch, 1).await;
    service.fill(&user, "t", 1);
    let reply = fetch.await.unwrap().expect(200);
    assert_eq!(place(&reply.json()[0]), ("t".to_owned(), 0));
}

/// [D-19] one turn, which asks Kafka not to wait.
#[tokio::test]
async fn a_wait_of_0_is_one_turn_that_does_not_wait() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    let zero = json!({"consumer.request.timeout.ms": 0});
    let reader = service.reader(&user, "g", "i", zero).await;
    assert_eq!(reader.fetch("").await.unwrap().text(), "[]");
    reader.assign(&["t"]).await;
    reader.post("positions/end", partitions(&["t"])).await.expect(204);
    assert_eq!(reader.fetch("").await.unwrap().expect(200).text(), "[]");
    assert_eq!(service.last_fetch().0, 0);
    assert_eq!(service.asked(ApiKey::Fetch).len(), 1);
    service.fill(&user, "t", 3);
    // On a busy machine the broker's answer may miss the turn; a later one gives it out.
    let mut read = json!([]);
    for _ in 0..100 {
        read = reader.fetch("").await.unwrap().expect(200).json();
        if read != json!([]) {
            break;
        }
    }
    assert_eq!(read.as_array().map(Vec::len), Some(3));
}

/// [FE-10] fewer bytes of keys and values than `max_bytes`, but always the first record; null counts none.
#[tokio::test]
async fn max_bytes_counts_keys_and_values() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    let mut batch = BatchWriter::new(Compression::None);
    for (key, value) in [
        (Some(&b"key"[..]), Some(&b"7 bytes"[..])),
        (None, Some(b"ten bytes\n")),
        (Some(b"10 bytes.."), None),
        (None, None),
        (Some(b""), Some(b"")),
    ] {
        batch.push(0, key, value, &[(b"a header counts nothing", Some(b"at all"))]);
    }
    service.broker.append(&on_kafka(&user, "t"), batch.finish());
    for format in ["binary", "json"] {
        let reader = service
            .reader(&user, "g", format, json!({"format": format}))
            .await;
        reader.assign(&["t"]).await;
        for (max_bytes, count) in [
            ("1", 1),
            ("9", 1),
            ("10", 1),
            ("11", 1),
            ("20", 1),
            ("21", 2),
            ("30", 2),
            ("31", 5),
            ("9223372036854775807", 5),
            ("0", 5),
            ("-1", 5),
            ("", 5),
        ] {
            reader.seek("t", 0).await.expect(204);
            let read = reader.records(&service, &format!("max_bytes={max_bytes}")).await;
            assert_eq!(read.len(), count, "{format} {max_bytes}");
        }
    }
}

/// [A20]
/// [FE-11] [FE-12] [D-45] with three partitions that hold more than a reply may: each comes first in turn, each record
/// comes once and in order.
#[tokio::test]
async fn partitions_take_turns_to_come_first_when_replies_are_cut() {
    let service = Service::start().await;
    let user = service.user(1);
    service.filled(&user, &["a", "b", "c"], 5);
    let reader = service.reader(&user, "g", "i", json!({})).await;
    reader.assign(&["a", "b", "c"]).await;
    let mut replies = Vec::new();
    while replies.iter().map(Vec::len).sum::<usize>() < 15 {
        replies.push(reader.offsets(&service, "max_bytes=3").await);
    }
    let shown: Vec<_> = replies
        .iter()
        .map(|reply| {
            let places = reply.iter().map(|(topic, offset)| format!("{topic}{offset}"));
            places.collect::<Vec<_>>().join(" ")
        })
        .collect();
    assert_eq!(
        shown,
        [
            "a0 a1", "b0 b1", "c0 c1", "a2 a3", "b2 b3", "c2 c3", "a4 b4", "c4"
        ]
    );
}

/// [FE-12] [D-45] a partition whose turn it is to come first comes first, also where it must be read from a Kafka that
/// is not quick, and the one behind it has records at hand.
#[tokio::test]
async fn a_partition_is_not_passed_over_because_it_must_be_read_first() {
    let service = Service::start().await;
    let user = service.user(1);
    let large = "v".repeat(MIB);
    for topic in ["a", "b"] {
        service.topic(&user, topic);
        // One batch fills a whole Fetch.
        service.write(&user, topic, &[b"v", b"v", b"v", large.as_bytes()]);
    }
    let reader = service.reader(&user, "g", "i", json!({})).await;
    reader.assign(&["a", "b"]).await;
    let slow = Duration::from_millis(60);
    service.broker.faults().on(ApiKey::Fetch, always()).delay(slow);
    let mut read = Vec::new();
    for _ in 0..6 {
        read.extend(reader.offsets(&service, "max_bytes=2").await);
    }
    let shown: Vec<_> = read
        .iter()
        .map(|(topic, offset)| format!("{topic}{offset}"))
        .collect();
    assert_eq!(shown, ["a0", "b0", "a1", "b1", "a2", "b2"]);
}

/// [FE-11] [FE-12] [RP-01] so it is at 2 MiB.
#[tokio::test]
async fn partitions_take_turns_when_replies_are_cut_at_2_mib() {
    let service = Service::start().await;
    let user = service.user(1);
    let value = "v".repeat(700_000);
    for topic in ["a", "b"] {
        service.topic(&user, topic);
        service.write(&user, topic, &[value.as_bytes(); 5]);
    }
    let reader = service.reader(&user, "g", "i", json!({"format": "json"})).await;
    reader.assign(&["a", "b"]).await;
    let mut read = Vec::new();
    let mut firsts = String::new();
    while read.len() < 10 {
        let reply = reader.reply(&service, "").await.expect(200);
        assert!(reply.body.len() <= 2 * MIB);
        let records: Vec<Value> = serde_json::from_slice(&reply.body).unwrap();
        firsts += &place(&records[0]).0;
        read.extend(records.iter().map(place));
    }
    assert!(firsts.starts_with("abab"), "{firsts}");
    for topic in ["a", "b"] {
        let offsets: Vec<_> = read.iter().filter(|(t, _)| t == topic).map(|(_, o)| *o).collect();
        assert_eq!(offsets, [0, 1, 2, 3, 4]);
    }
}

/// [D-37] the order changes only when a reply was cut.
#[tokio::test]
async fn partitions_keep_their_order_when_nothing_is_cut() {
    let service = Service::start().await;
    let user = service.user(1);
    service.filled(&user, &["a", "b"], 1);
    let reader = service.reader(&user, "g", "i", json!({})).await;
    reader.assign(&["a", "b"]).await;
    reader
        .post("positions/beginning", partitions(&[]))
        .await
        .expect(204);
    for round in 0..3 {
        let read = reader.offsets(&service, "").await;
        assert_eq!(read, [("a".to_owned(), round), ("b".to_owned(), round)]);
        service.fill(&user, "b", 1);
        service.fill(&user, "a", 1);
    }
}

/// The length of a record's object without its value.
fn frame(offset: usize) -> usize {
    format!(r#"{{"topic":"t","key":null,"value":"","partition":0,"offset":{offset},"headers":[]}}"#).len()
}

/// [RP-01] [RP-02] [FE-11] 2 MiB of JSON to the byte, brackets and commas counted.
#[tokio::test]
async fn a_reply_holds_2_mib_and_not_a_byte_more() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    // Offsets of one digit; the control character is six bytes of JSON.
    let rest = 2 * MIB - 2 - frame(0) - 1 - frame(1) - 6;
    let first = "a".repeat(rest / 2) + "\u{1}";
    for (more, count) in [(0, 2), (1, 1)] {
        let second = "é".repeat((rest - rest / 2) / 2) + &"b".repeat((rest - rest / 2) % 2 + more);
        let base = service.write(&user, "t", &[first.as_bytes(), second.as_bytes()]);
        let name = format!("i{more}");
        let reader = service.reader(&user, "g", &name, json!({"format": "json"})).await;
        reader.assign(&["t"]).await;
        reader.seek("t", base).await.expect(204);
        let reply = reader.reply(&service, "").await.expect(200);
        assert_eq!(reply.json().as_array().map(Vec::len), Some(count));
        assert_eq!(
            reply.header("content-length"),
            Some(&*reply.body.len().to_string())
        );
        if count == 2 {
            assert_eq!(reply.body.len(), 2 * MIB);
        } else {
            let read = reader.records(&service, "").await;
            assert_eq!(
                (place(&read[0]).1, read[0]["value"].as_str()),
                (base + 1, Some(&*second))
            );
        }
    }
}

/// [RP-02] a first record over 2 MiB is alone, and chunked; one of 2 MiB is not.
#[tokio::test]
async fn a_larger_first_record_comes_alone_in_chunks() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    let room = 2 * MIB - 2 - frame(0);
    for (i, length) in [room, room + 1].into_iter().enumerate() {
        let value = "v".repeat(length);
        let base = service.write(&user, "t", &[value.as_bytes(), b"1"]);
        let reader = service
            .reader(&user, "g", &format!("i{i}"), json!({"format": "json"}))
            .await;
        reader.assign(&["t"]).await;
        reader.seek("t", base).await.expect(204);
        let reply = reader.reply(&service, "").await.expect(200);
        let head = (reply.header("content-length"), reply.header("transfer-encoding"));
        if length == room {
            assert_eq!(head, (Some("2097152"), None));
        } else {
            assert_eq!(head, (None, Some("chunked")));
        }
        let records: Vec<Value> = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!((records.len(), records[0]["value"].as_str()), (1, Some(&*value)));
        assert_eq!(reader.offsets(&service, "").await, [("t".to_owned(), base + 1)]);
    }
}

/// [RP-02] [FE-13] [FE-10] the largest reply of the specification: 8 MiB of control characters, 48 MiB of JSON.
#[tokio::test]
async fn a_record_of_8_mib_is_returned_however_it_grows() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    let value = vec![1; 8 * MIB - 1024];
    service.write(&user, "t", &[&value]);
    service.fill(&user, "t", 1);
    let reader = service.reader(&user, "g", "i", json!({"format": "json"})).await;
    reader.assign(&["t"]).await;
    let reply = reader.reply(&service, "max_bytes=10").await.expect(200);
    assert_eq!(reply.header("transfer-encoding"), Some("chunked"));
    assert_eq!(reply.body.len(), 2 + frame(0) + 6 * value.len());
    let text = &reply.body[r#"[{"topic":"t","key":null,"value":""#.len()..][..6 * value.len()];
    assert!(text.chunks(6).all(|escape| escape == b"\\u0001"));
    assert_eq!(reader.offsets(&service, "").await, [("t".to_owned(), 1)]);
}

/// [FE-13] [CR-07] 1 MiB is asked of the broker, in all and of a partition; a larger first record arrives.
#[tokio::test]
async fn a_fetch_asks_the_broker_for_1_mib() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    let value = vec![b'v'; MIB + MIB / 2];
    service.write(&user, "t", &[&value]);
    service.write(&user, "t", &[&value]);
    let reader = service
        .reader(&user, "g", "i", json!({"fetch.min.bytes": 12345}))
        .await;
    reader.assign(&["t"]).await;
    // The second batch does not fit behind the first.
    assert_eq!(reader.offsets(&service, "").await, [("t".to_owned(), 0)]);
    assert_eq!(reader.offsets(&service, "").await, [("t".to_owned(), 1)]);
    let requests = service.asked(ApiKey::Fetch);
    assert!(requests.len() >= 2);
    for received in requests {
        let Request::Fetch(fetch) = received.request else {
            panic!("{received:?}")
        };
        assert_eq!((fetch.max_bytes, fetch.min_bytes), (1024 * 1024, 12345));
        assert_eq!(fetch.isolation_level, 0);
        for partition in fetch.topics.iter().flat_map(|topic| &topic.partitions) {
            assert!(partition.partition_max_bytes <= 1024 * 1024);
        }
    }
}

/// [A25] [FE-15] [LC-04] reading starts at the group's commit, or where `auto.offset.reset` says.
#[tokio::test]
async fn reading_starts_at_the_commit_or_at_the_reset() {
    let service = Service::start().await;
    let user = service.user(1);
    service.filled(&user, &["t"], 5);
    for (group, reset, committed, first) in [
        ("a", "earliest", None, 0),
        ("b", "latest", None, 5),
        ("c", "earliest", Some(3), 3),
        ("d", "latest", Some(3), 3),
        ("e", "none", Some(3), 3),
        ("f", "EARLIEST", None, 0),
    ] {
        if let Some(offset) = committed {
            let group = on_kafka(&user, group);
            service.broker.commit(&group, &on_kafka(&user, "t"), offset);
        }
        for subscribes in [false, true] {
            let settings = json!({"auto.offset.reset": reset});
            let reader = service.reader(&user, group, "i", settings).await;
            if subscribes {
                reader.subscribe(&["t"]).await;
            } else {
                reader.assign(&["t"]).await;
            }
            if first == 5 {
                let end = service.broker.end_offset(&on_kafka(&user, "t")).unwrap();
                let fetch = reader.fetch("?timeout=30000");
                service.until_polled(&user, "t", end).await;
                service.fill(&user, "t", 1);
                let reply = service.soon(fetch).await.unwrap().expect(200);
                assert_eq!(place(&reply.json()[0]).1, end, "{group}");
            } else {
                assert_eq!(reader.offsets(&service, "").await[0].1, first, "{group}");
            }
            reader.delete().await.expect(204);
        }
    }
}

impl Service {
    /// Waits until the broker was asked for what is at this offset.
    async fn until_polled(&self, user: &Client, topic: &str, offset: i64) {
        let topic = on_kafka(user, topic);
        let is_asked = || {
            self.asked(ApiKey::Fetch).iter().any(|received| {
                let Request::Fetch(fetch) = &received.request else {
                    return false;
                };
                let partitions = fetch.topics.iter().flat_map(|topic| &topic.partitions);
                partitions.into_iter().any(|at| at.fetch_offset == offset)
            })
        };
        assert!(self.broker.end_offset(&topic).is_some());
        self.until(is_asked).await;
    }
}

/// [A22] [D-20] without a commit, and out of range: refused until a seek, behind the records of other partitions.
#[tokio::test]
async fn without_a_reset_a_fetch_fails_until_a_seek() {
    let service = Service::start().await;
    let user = service.user(1);
    service.filled(&user, &["t", "u"], 3);
    service
        .broker
        .commit(&on_kafka(&user, "g"), &on_kafka(&user, "u"), 0);
    let reader = service
        .reader(&user, "g", "i", json!({"auto.offset.reset": "none"}))
        .await;
    reader.assign(&["t", "u"]).await;
    let read = reader.offsets(&service, "").await;
    assert_eq!(read.len(), 3);
    assert!(read.iter().all(|(topic, _)| topic == "u"), "{read:?}");
    for _ in 0..2 {
        let fetch = reader.fetch("?timeout=400");
        let refused = service.soon(fetch).await.unwrap();
        assert_eq!(refused.error(), (500, 50002));
        assert!(refused.text().contains(" t "), "{}", refused.text());
    }
    reader.seek("t", 1).await.expect(204);
    assert_eq!(reader.offsets(&service, "").await[0], ("t".to_owned(), 1));
    reader.seek("t", 1_000).await.expect(204);
    let fetch = reader.fetch("?timeout=400");
    assert_eq!(service.soon(fetch).await.unwrap().error(), (500, 50002));
    reader.seek("t", 2).await.expect(204);
    assert_eq!(reader.offsets(&service, "").await[0], ("t".to_owned(), 2));
}

/// [D-21] markers are never shown, and stop nothing; what a transaction that was aborted wrote is.
#[tokio::test]
async fn the_markers_of_transactions_are_never_shown() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    let topic = on_kafka(&user, "t");
    for value in ["1", "2"] {
        let mut batch = BatchWriter::new(Compression::None);
        batch.transactional(7).push(0, None, Some(value.as_bytes()), &[]);
        service.broker.append(&topic, batch.finish());
        let mut marker = BatchWriter::new(Compression::None);
        marker
            .transactional(7)
            .control()
            .push(0, Some(&[0, 0, 0, 0]), Some(&[0; 6]), &[]);
        service.broker.append(&topic, marker.finish());
    }
    let reader = service.reader(&user, "g", "i", json!({})).await;
    reader.assign(&["t"]).await;
    let mut read = Vec::new();
    while read.len() < 2 {
        read.extend(reader.offsets(&service, "max_bytes=1").await);
    }
    assert_eq!(read, [("t".to_owned(), 0), ("t".to_owned(), 2)]);
    assert_eq!(reader.turn(&service).await.text(), "[]");
    reader.commit().await.expect(200);
    let committed = service.committed(&user, "g", "t");
    assert!(matches!(committed, Some(3 | 4)), "{committed:?}");
}

/// [D-26] the records before it, then 50002 for that partition until a seek; other partitions go on.
#[tokio::test]
async fn a_batch_that_can_not_be_read_waits_for_a_seek() {
    let mut corrupt = BatchWriter::new(Compression::None);
    corrupt.push(0, None, Some(b"a value"), &[]);
    let mut corrupt = corrupt.finish().to_vec();
    *corrupt.last_mut().unwrap() ^= 1;
    let mut old = BatchWriter::new(Compression::None);
    old.push(0, None, Some(b"a value"), &[]);
    let mut old = old.finish().to_vec();
    old[16] = 1;
    for bad in [corrupt, old] {
        let service = Service::start().await;
        let user = service.user(1);
        service.filled(&user, &["t", "u"], 2);
        service.broker.append(&on_kafka(&user, "t"), &bad);
        service.fill(&user, "t", 1);
        let reader = service.reader(&user, "g", "i", json!({})).await;
        reader.assign(&["t", "u"]).await;
        reader.post("positions/end", partitions(&["u"])).await.expect(204);
        assert_eq!(reader.offsets(&service, "").await.len(), 2);
        // It may have been damaged on its way: a fetch whose wait ends before it came once more finds nothing yet.
        let mut first = service.soon(reader.fetch("?timeout=400")).await.unwrap();
        for _ in 0..10 {
            if first.text() != "[]" {
                break;
            }
            first = service.soon(reader.fetch("?timeout=400")).await.unwrap();
        }
        assert_eq!(first.error(), (500, 50002));
        for _ in 0..2 {
            let refused = service.soon(reader.fetch("?timeout=400")).await.unwrap();
            assert_eq!(refused.error(), (500, 50002));
            assert!(refused.text().contains(" t "), "{}", refused.text());
        }
        service.fill(&user, "u", 1);
        assert_eq!(reader.offsets(&service, "").await, [("u".to_owned(), 2)]);
        reader.seek("t", 3).await.expect(204);
        assert_eq!(reader.offsets(&service, "").await, [("t".to_owned(), 3)]);
    }
}
