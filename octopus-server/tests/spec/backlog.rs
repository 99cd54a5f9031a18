//! *Limits*: a backlog is read in replies of at most 2 MiB, and fairly.

use std::collections::BTreeMap;

use octopus_core::limits::FETCH_BYTES;
use octopus_kafka::{
    broker::{ApiKey, Request},
    records::{BatchWriter, Compression},
};
use serde_json::{Value, json};

use crate::{
    client::Client,
    reader::place,
    service::{Service, on_kafka},
};

const KIB: usize = 1024;

impl Service {
    /// A topic with so many MiB of records of 1 KiB, in batches of 16 as a producer sends them.
    fn backlog(&self, user: &Client, topic: &str, mebibytes: usize) -> usize {
        self.backlog_of(user, topic, mebibytes, KIB)
    }

    /// A topic with so many MiB of records of these bytes, in batches of 16 KiB.
    fn backlog_of(&self, user: &Client, topic: &str, mebibytes: usize, bytes: usize) -> usize {
        self.topic(user, topic);
        let value = format!("\"{}\"", "v".repeat(bytes - 2));
        let (batches, each) = (mebibytes * KIB / 16, 16 * KIB / bytes);
        for _ in 0..batches {
            let mut batch = BatchWriter::new(Compression::None);
            for _ in 0..each {
                batch.push(0, None, Some(value.as_bytes()), &[]);
            }
            self.broker
                .append(&on_kafka(user, topic), batch.finish())
                .unwrap();
        }
        batches * each
    }

    /// The position of each Fetch that the broker has had, in one topic.
    fn positions(&self) -> Vec<i64> {
        let asked = self.asked(ApiKey::Fetch).into_iter();
        let positions = asked.flat_map(|received| {
            let Request::Fetch(fetch) = received.request else {
                panic!("{received:?}");
            };
            fetch.topics
        });
        positions.map(|topic| topic.partitions[0].fetch_offset).collect()
    }
}

fn places(reply: &Value) -> Vec<(String, i64)> {
    reply.as_array().unwrap().iter().map(place).collect()
}

/// [FE-12] [D-45] a broker fills its answer of 1 MiB from the first partition that it is asked for.
#[tokio::test]
async fn one_partitions_backlog_does_not_keep_anothers_out() {
    let service = Service::start().await;
    let user = service.user(1);
    for topic in ["a", "b", "c"] {
        service.backlog(&user, topic, 3);
    }
    for format in ["json", "binary"] {
        let reader = service
            .reader(&user, format, "i", json!({"format": format}))
            .await;
        reader.assign(&["a", "b", "c"]).await;
        let mut next = BTreeMap::new();
        for reply in 0..9 {
            let records = reader.reply(&service, "").await.expect(200).json();
            for (topic, offset) in places(&records) {
                let next = next.entry(topic).or_insert(0);
                assert_eq!(offset, *next, "each partition keeps its order");
                *next += 1;
            }
            if reply == 2 {
                assert_eq!(
                    next.len(),
                    3,
                    "{format}: of three partitions only {:?} came",
                    next.keys()
                );
            }
        }
        reader.delete().await.expect(204);
    }
}

/// [FE-11] [FE-13] what a reply leaves out is not fetched again: at most a tenth more than what is delivered is read.
#[tokio::test]
async fn each_byte_of_a_backlog_is_read_from_kafka_about_once() {
    for (query, format, bytes) in [
        ("", "binary", KIB),
        ("", "json", KIB),
        ("max_bytes=65536", "binary", KIB),
        // Most of an answer fills a reply.
        ("", "binary", 64),
    ] {
        // On a machine that stands still for a second, what was read ahead is too old, and read again.
        let mut wastes = Vec::new();
        while wastes.len() < 3 {
            let (read, delivered, positions) = read_and_delivered(query, format, bytes).await;
            if read * 10 <= delivered * 11 {
                break;
            }
            wastes.push(format!(
                "{read} bytes were read for {delivered}, from {positions:?}"
            ));
        }
        assert!(wastes.len() < 3, "{query} {format} {bytes}: {wastes:#?}");
    }
}

/// The bytes that are read from Kafka while a backlog of 8 MiB is drained, and those that it has; and from which positions.
async fn read_and_delivered(query: &str, format: &str, bytes: usize) -> (usize, usize, Vec<i64>) {
    let service = Service::start().await;
    let user = service.user(1);
    let count = service.backlog_of(&user, "t", 8, bytes);
    let each = 16 * KIB / bytes;
    let reader = service.reader(&user, "g", "i", json!({"format": format})).await;
    reader.assign(&["t"]).await;
    let mut next = 0;
    while next < count {
        let records = reader.reply(&service, query).await.expect(200).json();
        for (_, offset) in places(&records) {
            assert_eq!(usize::try_from(offset), Ok(next));
            next += 1;
        }
    }
    let batch = service.broker.read(&on_kafka(&user, "t"), 0).unwrap().len();
    let stored = |offset: i64| (count - usize::try_from(offset).unwrap()).div_ceil(each) * batch;
    let positions = service.positions();
    let answers = positions
        .iter()
        .map(|offset| stored(*offset).min(FETCH_BYTES.unsigned_abs() as usize));
    (answers.sum(), stored(0), positions)
}

/// [FE-11] a client that reads on has the next records on their way while it takes a reply; one that takes a reply again
/// has the same.
#[tokio::test]
async fn the_next_records_are_asked_for_while_a_reply_is_taken() {
    let service = Service::start().await;
    let user = service.user(1);
    let count = service.backlog(&user, "t", 8);
    let reader = service.reader(&user, "g", "i", json!({})).await;
    let mut ahead = 0;
    // A machine that stands still for a second is no client that reads on.
    for _ in 0..5 {
        reader.assign(&["t"]).await;
        reader.seek("t", 0).await.expect(204);
        let (mut next, before) = (0, service.positions().len());
        while next < count {
            let records = reader.reply(&service, "").await.expect(200).json();
            let places = places(&records);
            assert_eq!(places[0].1, i64::try_from(next).unwrap());
            next += places.len();
            let asked = service.positions();
            // The reply is here, and nothing more was asked of the service.
            ahead += usize::from(asked[before..].contains(&i64::try_from(next).unwrap()));
        }
        if ahead > 2 {
            return;
        }
    }
    panic!("nothing is read ahead");
}

/// [FE-10] [FE-11] what is made ready while a reply is taken is for the fetch that goes on behind it, and for no other.
#[tokio::test]
async fn what_was_made_ahead_is_given_to_nobody_who_asks_for_something_else() {
    let service = Service::start().await;
    let user = service.user(1);
    service.backlog(&user, "t", 8);
    let reader = service.reader(&user, "g", "i", json!({})).await;
    reader.assign(&["t"]).await;
    let places_of = async |query| {
        let records = reader.reply(&service, query).await.expect(200).json();
        places(&records)
    };
    for round in 0..3 {
        reader.seek("t", 0).await.expect(204);
        let (first, second) = (places_of("").await, places_of("").await);
        assert_eq!(second[0].1, i64::try_from(first.len()).unwrap());
        let next = second.last().unwrap().1 + 1;
        match round {
            0 => {
                let few = places_of("max_bytes=10000").await;
                assert_eq!((few[0].1, few.len()), (next, 9), "as many as the fetch asks for");
                assert_eq!(places_of("").await[0].1, next + 9);
            }
            1 => {
                reader.seek("t", 7).await.expect(204);
                assert_eq!(places_of("").await[0].1, 7);
            }
            _ => {
                service.backlog(&user, "u", 1);
                reader.assign(&["u"]).await;
                assert_eq!(places_of("").await[0], ("u".to_owned(), 0));
            }
        }
    }
}
