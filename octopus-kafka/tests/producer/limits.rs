//! The bounds: of a record, of a batch, of memory and of time.

use std::time::{Duration, Instant};

use kafka_protocol::error::ResponseError;
use octopus_kafka::{
    Cluster, Kind,
    broker::{self, ApiKey, Broker, always, first},
    producer::{Config, NewRecord},
    testing::ClosedPort,
};

use crate::{
    record,
    support::{PATIENCE, World, eventually},
    values,
};

/// Bytes that do not compress, others for each seed.
fn noise(seed: u64, length: usize) -> String {
    let mut state = seed;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + u8::try_from(state >> 57).unwrap() % 94)
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// The cluster's limit is 9 MB, or 16 MiB; the producer's own is lifted here.
#[tokio::test]
async fn a_record_over_the_clusters_limit_is_refused_alone() {
    let world = World::new().await;
    world.topic("t", &[]).await;
    let mut config = Config::default();
    (config.memory, config.record, config.batch) = (64 << 20, 32 << 20, 32 << 20);
    let producer = world.cluster.producer(config);
    let (large, topic) = (noise(1, 20 << 20), world.name("t"));
    let sendings: Vec<_> = ["a", "b", &large, "c"]
        .into_iter()
        .map(|value| producer.send(&topic, record(value), PATIENCE))
        .collect();
    let mut told = Vec::new();
    for sending in sendings {
        told.push(sending.await);
    }
    let not = told.remove(2).unwrap_err();
    assert!(!not.may_be_written());
    assert_eq!(
        not.error().kind(),
        &Kind::Response(ResponseError::MessageTooLarge)
    );
    let offsets: Vec<_> = told.into_iter().map(|told| told.unwrap().offset).collect();
    assert_eq!(offsets, [Some(0), Some(1), Some(2)]);
    assert_eq!(values(&world, "t", 3).await, ["a", "b", "c"]);
}

#[tokio::test]
async fn batches_shrink_to_what_the_topic_takes() {
    let mut config = broker::Config::default();
    config.max_message_bytes = 5000;
    let world = World::of(Broker::start(config).await.unwrap());
    world.topic("t", &[]).await;
    let producer = world.cluster.producer(Config::default());
    let topic = world.name("t");
    let sendings: Vec<_> = (0..200)
        .map(|number| {
            producer.send(
                &topic,
                record(format!("{number} {}", noise(number, 500))),
                PATIENCE,
            )
        })
        .collect();
    for (offset, sending) in (0..).zip(sendings) {
        assert_eq!(sending.await.unwrap().offset, Some(offset));
    }
    let writes = world.received(ApiKey::Produce).len();
    assert!((20..60).contains(&writes), "{writes} for 20 times the limit");
}

#[tokio::test]
async fn a_record_is_refused_at_once_when_the_memory_is_full() {
    let world = World::embedded().await;
    world.topic("t", &[]).await;
    let slow = Duration::from_secs(2);
    world.broker().faults().on(ApiKey::Produce, first(1)).delay(slow);
    let mut config = Config::default();
    config.memory = 3000;
    let producer = world.cluster.producer(config);
    let topic = world.name("t");
    let [one, other] = ["a", "b"].map(|value| producer.send(&topic, record(value.repeat(1000)), PATIENCE));
    let full = producer.send(&topic, record("c".repeat(1000)), PATIENCE).await;
    let full = full.unwrap_err();
    assert_eq!((full.may_be_written(), full.error().kind()), (false, &Kind::Full));
    assert_eq!(
        octopus_core::Error::from(full.error().clone()).retry_after(),
        Some(Duration::from_secs(1))
    );
    let large = producer.send(&topic, record("d".repeat(3000)), PATIENCE).await;
    assert_eq!(
        large.unwrap_err().error().kind(),
        &Kind::Response(ResponseError::MessageTooLarge),
        "one that never fits"
    );
    one.await.unwrap();
    other.await.unwrap();
    producer
        .send(&topic, record("c".repeat(1000)), PATIENCE)
        .await
        .unwrap();
    assert_eq!(world.broker().end_offset(&topic), Some(3));
}

#[tokio::test]
async fn what_is_not_sent_in_time_is_surely_not_written_and_what_was_may_be() {
    let world = World::embedded().await;
    world.topic("t", &[]).await;
    world.broker().faults().on(ApiKey::Produce, always()).never();
    let producer = world.cluster.producer(Config::default());
    let topic = world.name("t");
    let sent = producer.send(&topic, record("a"), Duration::from_secs(2));
    eventually("it is sent", || !world.received(ApiKey::Produce).is_empty()).await;
    let queued = producer.send(&topic, record("b"), Duration::from_millis(100));
    assert!(!queued.await.unwrap_err().may_be_written());
    let not = sent.await.unwrap_err();
    assert!(not.may_be_written());
    assert_eq!(
        octopus_core::Error::from(not.error().clone()),
        octopus_core::Error::KafkaRetriable
    );
}

/// [ER-07] what can't be reached is not written, and the caller hears why before its time is long over.
#[tokio::test]
async fn without_a_broker_nothing_is_written() {
    let closed = ClosedPort::new().unwrap();
    let cluster = Cluster::new(octopus_kafka::Config::new(vec![closed.address()]));
    let producer = cluster.producer(Config::default());
    let started = Instant::now();
    let sending = producer.send("t", record("x"), Duration::from_secs(3));
    let not = sending.await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(20));
    assert!(!not.may_be_written());
    assert_eq!(
        octopus_core::Error::from(not.error().clone()),
        octopus_core::Error::KafkaUnreachable
    );
}

#[tokio::test]
async fn who_leaves_withdraws_a_record_that_waits_and_not_one_on_its_way() {
    let world = World::embedded().await;
    world.topic("t", &[]).await;
    let slow = Duration::from_secs(1);
    world.broker().faults().on(ApiKey::Produce, first(1)).delay(slow);
    let mut config = Config::default();
    config.memory = 3000;
    let producer = world.cluster.producer(config);
    let topic = world.name("t");
    let sent = producer.send(&topic, record("sent"), PATIENCE);
    eventually("it is sent", || !world.received(ApiKey::Produce).is_empty()).await;
    let withdrawn = producer.send(&topic, record("x".repeat(2000)), PATIENCE);
    drop((sent, withdrawn));
    let behind = producer.send(&topic, record("y".repeat(2000)), PATIENCE);
    behind.await.expect("the one that was withdrawn takes no memory");
    assert_eq!(
        values(&world, "t", 2).await,
        ["sent".to_owned(), "y".repeat(2000)]
    );
}

/// A caller's header or key of any size counts.
#[tokio::test]
async fn keys_and_headers_count_as_well() {
    let world = World::embedded().await;
    let producer = world.cluster.producer(Config::default());
    let much = || Some(vec![0; 9 << 20].into());
    let key = NewRecord {
        key: much(),
        ..NewRecord::default()
    };
    let header = NewRecord {
        headers: vec![("name".to_owned(), much())],
        ..NewRecord::default()
    };
    let name = NewRecord {
        headers: vec![("n".repeat(9 << 20), None)],
        ..NewRecord::default()
    };
    for record in [key, header, name] {
        let not = producer.send("t", record, PATIENCE).await.unwrap_err();
        assert_eq!(
            not.error().kind(),
            &Kind::Response(ResponseError::MessageTooLarge)
        );
    }
    assert_eq!(world.broker().requests().len(), 0);
}
