//! What lies in the log, and what became of it on its way.

use std::time::Duration;

use bytes::Bytes;
use octopus_core::{AutoOffsetReset, Error, Position, Records as _};
use octopus_kafka::{
    Cluster, Config,
    broker::{ApiKey, Request, Response, When, always, nth},
    records::{BatchWriter, Compression},
};

use super::{
    read::read_on,
    support::{Session, TURN, World, at, batch},
};

/// Flips a bit of the records of these answers.
fn flip(world: &World, when: When, of: usize) {
    world
        .broker()
        .faults()
        .on(ApiKey::Fetch, when)
        .edit(move |response| {
            let Response::Fetch(response) = response else {
                return;
            };
            for topic in &mut response.responses {
                let records = topic.partitions[0].records.take().unwrap_or_default();
                let mut records = records.to_vec();
                if let Some(byte) = records.get_mut(of) {
                    *byte ^= 1;
                }
                topic.partitions[0].records = Some(records.into());
            }
        });
}

/// Polls until records come, and reads the first one: its value, or nothing if it can't be read; and the position of what
/// was read.
async fn first_of(one: &Session) -> (Option<String>, Position) {
    loop {
        let polled = one.consumer.poll(&one.plan(), TURN).await.unwrap();
        if let Some((_, mut reader)) = polled.parts.into_iter().next() {
            let position = reader.position();
            let value = match reader.next() {
                Some(Ok(record)) => Some(String::from_utf8(record.value.unwrap().to_vec()).unwrap()),
                Some(Err(_)) | None => None,
            };
            return (value, position);
        }
    }
}

/// [KF-13] [K09] bytes that were damaged on their way are fetched again once, on another connection; if they are damaged
/// still, that is how they lie in the log.
#[tokio::test(flavor = "multi_thread")]
async fn damaged_records_are_fetched_again_once_on_another_connection() {
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    one.seek("a", 0);
    // In the checksum, in what it is of, and in the value.
    for byte in [17, 50, 66] {
        flip(&world, nth(1), byte);
        let (value, position) = first_of(&one).await;
        assert_eq!(value, None, "{byte}");
        assert!(!one.consumer.is_damaged(&at("a"), position), "it may pass");
        assert_eq!(first_of(&one).await.0.as_deref(), Some("a0"), "{byte}");
        let fetches = world.received(ApiKey::Fetch);
        let [.., before, after] = &*fetches else { panic!() };
        assert_ne!(before.connection, after.connection);
        world.broker().faults().clear();
        // Elsewhere, so that the next damage is the first of its place.
        assert!(!one.consumer.is_damaged(&at("a"), Position::at(99)));
    }
    flip(&world, always(), 66);
    for expected in [false, true, true] {
        let (value, position) = first_of(&one).await;
        assert_eq!(value, None);
        assert_eq!(one.consumer.is_damaged(&at("a"), position), expected);
    }
}

/// [KF-14] [K03] a last batch that the broker cut off is no fault: what is before it is read, and it comes with the next
/// fetch.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_was_cut_off_comes_with_the_next_fetch() {
    let world = World::embedded().await;
    world.topic("a", &["a0", "a1"]).await;
    let (one_long, mut one) = (
        batch(&["a0"]).len(),
        world.session("one", AutoOffsetReset::Earliest),
    );
    one.assign(&["a"]);
    one.start(&["a"]).await.unwrap();
    for tail in [1, 10, 16, 17, 60] {
        one.seek("a", 0);
        let cut = world.broker().faults().on(ApiKey::Fetch, nth(1));
        cut.edit(move |response| {
            if let Response::Fetch(response) = response {
                let records = &mut response.responses[0].partitions[0].records;
                *records = records.take().map(|records| records.slice(..one_long + tail));
            }
        });
        let mut turns = Vec::new();
        while turns.len() < 2 {
            let values = one.turn(Duration::from_secs(20)).await.unwrap().values;
            turns.extend(values);
        }
        assert_eq!(turns, ["a0", "a1"], "{tail}");
        world.broker().faults().clear();
    }
}

/// [KF-15] [KF-16] [K05] [K11] stretches without a record are passed, each by one fetch, also at the end of the log: a
/// batch of which compaction left nothing, one whose last records are gone, and the marker of a transaction.
#[tokio::test(flavor = "multi_thread")]
async fn stretches_without_a_record_are_passed() {
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    let name = world.name("a");
    let push = |batch: &mut BatchWriter, value: &str| {
        batch.push(1, None, Some(value.as_bytes()), &[]);
    };
    let mut empty = BatchWriter::new(Compression::None);
    empty.last_offset_delta(49);
    world.broker().append(&name, empty.finish());
    let mut thinned = BatchWriter::new(Compression::Zstd);
    thinned.skip(3);
    push(&mut thinned, "thinned");
    thinned.last_offset_delta(9);
    world.broker().append(&name, thinned.finish());
    let mut open = BatchWriter::new(Compression::None);
    open.transactional(7);
    push(&mut open, "open");
    world.broker().append(&name, open.finish());
    let mut marker = BatchWriter::new(Compression::None);
    marker.transactional(7).control();
    marker.push(1, Some(&[0, 0, 0, 0]), Some(&[0; 6]), &[]);
    world.broker().append(&name, marker.finish());
    let end = world.broker().end_offset(&name).unwrap();

    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    assert_eq!(one.read(3).await, ["a0", "thinned", "open"], "[D-21]");
    while one.position("a") != Some(end) {
        let turn = one.turn(TURN).await.unwrap();
        assert_eq!((turn.values, turn.failed), (Vec::new(), Vec::new()));
    }
    let asked: Vec<_> = world
        .received(ApiKey::Fetch)
        .into_iter()
        .map(|received| match received.request {
            Request::Fetch(fetch) => fetch.topics[0].partitions[0].fetch_offset,
            request => panic!("{request:?}"),
        })
        .collect();
    assert!(asked.is_sorted() && asked.len() < 12, "{asked:?}");
    // One that starts in such a stretch.
    for start in [1, 30, 52, 60, end - 1] {
        one.seek("a", start);
        let turn = one.turn(TURN).await.unwrap();
        assert!(turn.failed.is_empty());
        assert!(one.position("a").unwrap() > start, "{start}");
    }
}

/// [KF-18] [D-26] [FE-13] an answer over the bound fails the one partition that it is of, however many are read; the
/// others go on, and a seek or the end of the record passes it.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_over_the_bound_fails_one_partition_alone() {
    let world = World::embedded().await;
    let mut config = Config::new(vec![world.broker().addr().to_string()]);
    config.fetch_frame = (1 << 20) + (256 << 10);
    let world = World {
        cluster: Cluster::new(config),
        ..world
    };
    let large = "x".repeat(3 << 19);
    world.topic("a", &["a0", &large, "a2"]).await;
    for topic in ["b", "c", "d"] {
        world.topic(topic, &[topic]).await;
    }
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    let topics = ["a", "b", "c", "d"];
    one.assign(&topics);
    let mut values = read_on(&mut one, 4).await;
    values.sort();
    assert_eq!(values, ["a0", "b", "c", "d"]);
    let mut failed = Vec::new();
    for _ in 0..40 {
        failed = one.turn(TURN).await.unwrap().failed;
        if !failed.is_empty() {
            break;
        }
    }
    assert_eq!(failed, [(at("a"), Error::RecordUnreadable(at("a")))]);
    // The others are read on, again and again.
    for round in 0..3 {
        for topic in ["b", "c", "d"] {
            world.produce(topic, &["more"]).await;
        }
        assert_eq!(read_on(&mut one, 3).await, ["more"; 3], "{round}");
    }
    let failed = one.turn(TURN).await.unwrap().failed;
    assert_eq!(failed, [(at("a"), Error::RecordUnreadable(at("a")))]);
    assert_eq!(one.position("a"), Some(1));
    one.seek("a", 2);
    assert_eq!(one.read(1).await, ["a2"]);
    assert!(one.turn(TURN).await.unwrap().failed.is_empty());
}

/// [KF-18] alone, it fails too, and the consumer does not spin.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_over_the_bound_is_not_asked_for_again_and_again() {
    let world = World::embedded().await;
    let mut config = Config::new(vec![world.broker().addr().to_string()]);
    config.fetch_frame = 64 << 10;
    let world = World {
        cluster: Cluster::new(config),
        ..world
    };
    world.topic("a", &[&"x".repeat(80 << 10)]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    one.seek("a", 0);
    for _ in 0..6 {
        let turn = one.turn(TURN).await.unwrap();
        assert_eq!(turn.values, [""; 0]);
    }
    let fetches = world.received(ApiKey::Fetch).len();
    assert!((2..8).contains(&fetches), "{fetches}");
    let failed = one.turn(TURN).await.unwrap().failed;
    assert_eq!(failed, [(at("a"), Error::RecordUnreadable(at("a")))]);
}

/// [KF-17] [K12] [FE-01] ten thousand headers, names that repeat, null values and names of any bytes come as they are.
#[tokio::test(flavor = "multi_thread")]
async fn headers_of_any_kind_and_number_come_as_they_are() {
    let world = World::embedded().await;
    world.topic("a", &[]).await;
    let names: Vec<Vec<u8>> = (0..10_000u32)
        .map(|i| match i % 4 {
            0 => b"again".to_vec(),
            1 => vec![0xff, 0xfe],
            2 => Vec::new(),
            _ => i.to_be_bytes().to_vec(),
        })
        .collect();
    let headers: Vec<(&[u8], Option<&[u8]>)> = names
        .iter()
        .enumerate()
        .map(|(i, name)| (&**name, (i % 3 > 0).then_some(&name[..name.len() / 2])))
        .collect();
    for compression in [Compression::None, Compression::Lz4] {
        let mut batch = BatchWriter::new(compression);
        batch.push(1, None, Some(b"value"), &headers);
        let base = world.broker().append(&world.name("a"), batch.finish()).unwrap();
        let mut one = world.session("one", AutoOffsetReset::Earliest);
        one.assign(&["a"]);
        one.seek("a", base);
        let polled = loop {
            let polled = one.consumer.poll(&one.plan(), TURN).await.unwrap();
            if !polled.parts.is_empty() {
                break polled;
            }
        };
        let (_, mut reader) = polled.parts.into_iter().next().unwrap();
        let record = reader.next().unwrap().unwrap();
        let read: Vec<(Vec<u8>, Option<Bytes>)> = record
            .headers
            .map(|header| (header.name.to_vec(), header.value.map(Bytes::copy_from_slice)))
            .collect();
        assert_eq!(read.len(), headers.len());
        for ((name, value), (read_name, read_value)) in headers.iter().zip(&read) {
            assert_eq!(*name, read_name);
            assert_eq!(*value, read_value.as_deref());
        }
    }
}
