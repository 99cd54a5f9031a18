//! What is written, and what is told of it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use octopus_core::{AutoOffsetReset, Records as _};
use octopus_kafka::{
    Kind,
    broker::{ApiKey, Request, Response, always},
    producer::{Config, NewRecord},
};

use crate::{
    record,
    support::{PATIENCE, TURN, World},
    values,
};

/// Those that were given one behind the other stand one behind the other, though many are in one batch.
#[tokio::test]
async fn records_stand_in_the_order_in_which_they_were_given() {
    let world = World::new().await;
    let producer = world.cluster.producer(Config::default());
    let topics = ["a", "b", "c"];
    for topic in topics {
        world.topic(topic, &[]).await;
    }
    let mut sent = Vec::new();
    for number in 0..1000 {
        for topic in topics {
            let record = record(format!("{topic}{number}"));
            sent.push((number, producer.send(&world.name(topic), record, PATIENCE)));
        }
    }
    for (number, sending) in sent {
        let written = sending.await.unwrap();
        assert_eq!((written.partition, written.offset), (0, Some(number)));
    }
    for topic in topics {
        let expected: Vec<_> = (0..1000).map(|number| format!("{topic}{number}")).collect();
        assert_eq!(values(&world, topic, 1000).await, expected);
    }
}

#[tokio::test]
async fn a_record_is_read_as_it_was_written() {
    let world = World::new().await;
    let producer = world.cluster.producer(Config::default());
    world.topic("t", &[]).await;
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
    let header = |name: &str, value: Option<&'static [u8]>| (name.to_owned(), value.map(Into::into));
    let records = [
        NewRecord {
            key: Some("key".into()),
            value: Some("x".repeat(3000).into()),
            headers: vec![
                header("a", Some(b"1")),
                header("a", None),
                header("", Some(b"\xff")),
            ],
            timestamp: Some(now - 5000),
        },
        NewRecord {
            key: Some("".into()),
            ..NewRecord::default()
        },
        NewRecord {
            value: Some("".into()),
            timestamp: Some(now - 9000),
            ..NewRecord::default()
        },
    ];
    let sent: Vec<_> = records
        .iter()
        .map(|record| producer.send(&world.name("t"), record.clone(), PATIENCE))
        .collect();
    let mut times = Vec::new();
    for sending in sent {
        times.push(sending.await.unwrap().timestamp);
    }
    assert_eq!((times[0], times[2]), (now - 5000, now - 9000));
    assert!((now..now + 60_000).contains(&times[1]), "the time of the sending");

    let mut session = world.session("reader", AutoOffsetReset::Earliest);
    session.assign(&["t"]);
    let mut found = Vec::new();
    while found.len() < records.len() {
        let polled = session.consumer.poll(&session.plan(), TURN).await.unwrap();
        for (_, mut reader) in polled.parts {
            while let Some(record) = reader.next() {
                let record = record.unwrap();
                let owned = |bytes: Option<&[u8]>| bytes.map(|bytes| bytes.to_vec().into());
                let headers = record.headers.map(|header| {
                    let name = String::from_utf8(header.name.to_vec()).unwrap();
                    (name, owned(header.value))
                });
                found.push(NewRecord {
                    key: owned(record.key),
                    value: owned(record.value),
                    headers: headers.collect(),
                    timestamp: Some(record.timestamp),
                });
            }
        }
    }
    for (i, (found, mut written)) in found.into_iter().zip(records).enumerate() {
        written.timestamp = Some(times[i]);
        assert_eq!(found, written);
    }
}

#[tokio::test]
async fn one_producer_id_is_asked_for_by_topic_and_each_answer_is_waited_for() {
    let world = World::embedded().await;
    let producer = world.cluster.producer(Config::default());
    for topic in ["a", "b"] {
        world.topic(topic, &[]).await;
        for number in 0..3 {
            let sent = producer.send(&world.name(topic), record("x"), PATIENCE).await;
            assert_eq!(sent.unwrap().offset, Some(number));
        }
    }
    assert_eq!(world.received(ApiKey::InitProducerId).len(), 2);
    let writes = world.received(ApiKey::Produce);
    assert_eq!(writes.len(), 6);
    for write in writes {
        let Request::Produce(request) = write.request else {
            panic!()
        };
        assert_eq!(request.acks, -1, "by all replicas in sync");
    }
}

#[tokio::test]
async fn the_time_of_the_append_is_told_where_the_topic_goes_by_it() {
    let world = World::embedded().await;
    world.topic("t", &[]).await;
    let faults = world.broker().faults();
    faults.on(ApiKey::Produce, always()).edit(|response| {
        if let Response::Produce(response) = response {
            response.responses[0].partition_responses[0].log_append_time_ms = 7777;
        }
    });
    let producer = world.cluster.producer(Config::default());
    let sent = producer.send(&world.name("t"), record("x"), PATIENCE).await;
    assert_eq!(sent.unwrap().timestamp, 7777);
}

#[tokio::test]
async fn a_topic_that_is_not_there_is_told_of_and_not_made() {
    let world = World::new().await;
    let producer = world.cluster.producer(Config::default());
    let not = producer.send(&world.name("none"), record("x"), PATIENCE).await;
    let not = not.unwrap_err();
    assert!(!not.may_be_written());
    assert_eq!(
        octopus_core::Error::from(not.error().clone()),
        octopus_core::Error::KafkaTopicUnknown
    );
    let names = ["none".into()];
    let held = world.cluster.topics(&world.namespace, &names, PATIENCE).await;
    assert!(held.unwrap().is_empty());
    for name in ["", "a b", &"x".repeat(250)] {
        let not = producer.send(name, record("x"), PATIENCE).await.unwrap_err();
        assert_eq!(
            (not.may_be_written(), not.error().kind()),
            (false, &Kind::InvalidTopic)
        );
    }
}

/// Callers whose time ends while Kafka answers: each time the producer goes to its next epoch, and what follows is
/// written.
#[tokio::test]
async fn a_producer_that_gave_up_a_batch_goes_on() {
    let world = World::new().await;
    world.topic("t", &[]).await;
    let producer = world.cluster.producer(Config::default());
    let topic = world.name("t");
    producer.send(&topic, record("0"), PATIENCE).await.unwrap();
    let (mut sure, mut unknown) = (vec!["0".to_owned()], Vec::new());
    for number in 1..20_000 {
        let within = Duration::from_micros(number % 100 * 100);
        let value = number.to_string();
        match producer.send(&topic, record(&value), within).await {
            Ok(_) => sure.push(value),
            Err(not) if not.may_be_written() => {
                unknown.push(value);
                let next = format!("behind {number}");
                producer.send(&topic, record(&next), PATIENCE).await.unwrap();
                sure.push(next);
            }
            Err(_) => {}
        }
        if unknown.len() == 5 {
            break;
        }
    }
    assert_eq!(unknown.len(), 5, "an answer takes more than no time");
    let mut read = values(&world, "t", sure.len()).await;
    let mut seen = std::collections::BTreeSet::new();
    assert!(read.iter().all(|value| seen.insert(value.clone())), "each once");
    read.retain(|value| !unknown.contains(value));
    assert_eq!(
        read, sure,
        "in their order, and nothing that was surely not written"
    );
}

/// A producer that is dropped sends what somebody waits for.
#[tokio::test]
async fn what_is_waited_for_outlives_the_producer() {
    let world = World::new().await;
    world.topic("t", &[]).await;
    let producer = world.cluster.producer(Config::default());
    let sendings: Vec<_> = (0..10)
        .map(|number| producer.send(&world.name("t"), record(number.to_string()), PATIENCE))
        .collect();
    drop(producer);
    for (offset, sending) in (0..).zip(sendings) {
        let written = tokio::time::timeout(Duration::from_secs(60), sending)
            .await
            .unwrap();
        assert_eq!(written.unwrap().offset, Some(offset));
    }
}
