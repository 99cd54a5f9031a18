//! The cluster as a whole, against the embedded broker or the Kafka that `OCTOPUS_TEST_KAFKA` names.

use std::{
    net::TcpListener,
    time::{Duration, SystemTime},
};

use octopus_core::{Namespace, Subject, TopicName};
use octopus_kafka::{
    Cluster, Config, Kind,
    records::{BatchWriter, Compression},
    testing::Kafka,
};

const SOON: Duration = Duration::from_secs(30);

fn cluster(address: String) -> Cluster {
    Cluster::new(Config::new(vec![address]))
}

/// A namespace that no other test has.
fn namespace() -> Namespace {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("the clock is past 1970");
    Namespace::of(Subject::from_uuid(now.as_nanos()))
}

fn batch(value: &[u8]) -> bytes::Bytes {
    let mut batch = BatchWriter::new(Compression::None);
    batch.push(1, None, Some(value), &[]);
    batch.finish()
}

/// [NS-04] [NS-05] a topic is held once it was made, and asking for it makes none.
#[tokio::test]
async fn the_cluster_says_which_topics_there_are_and_makes_none_by_it() {
    let kafka = Kafka::start().await;
    let cluster = cluster(kafka.address());
    let namespace = namespace();
    let names = ["there", "not-there"].map(TopicName::from);
    for _ in 0..2 {
        assert!(cluster.topics(&namespace, &names, SOON).await.unwrap().is_empty());
    }
    cluster
        .create_topic(&namespace.qualify("there"), SOON)
        .await
        .unwrap();
    let held = cluster.topics(&namespace, &names, SOON).await.unwrap();
    assert_eq!(held.into_iter().collect::<Vec<_>>(), [TopicName::from("there")]);
}

/// [ER-01] names that no topic can have.
#[tokio::test]
async fn a_name_that_no_topic_can_have_is_refused() {
    let kafka = Kafka::start().await;
    let cluster = cluster(kafka.address());
    for name in ["", "a b", "ä", &"x".repeat(300), &"x".repeat(60_000)] {
        let error = cluster
            .topics(&namespace(), &[name.into()], SOON)
            .await
            .unwrap_err();
        assert_eq!(
            octopus_core::Error::from(error),
            octopus_core::Error::KafkaInvalid,
            "{name:.10}"
        );
    }
}

#[tokio::test]
async fn batches_are_written_one_behind_the_other() {
    let kafka = Kafka::start().await;
    let cluster = cluster(kafka.address());
    let topic = namespace().qualify("written");
    cluster.create_topic(&topic, SOON).await.unwrap();
    for offset in 0..3 {
        assert_eq!(
            cluster.produce(&topic, batch(b"value"), SOON).await.unwrap(),
            offset
        );
    }
}

/// [ER-07] [D-41] the first of several bootstrap servers may be down.
#[tokio::test]
async fn one_live_broker_is_enough() {
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let kafka = Kafka::start().await;
    let both = Cluster::new(Config::new(vec![closed.clone(), kafka.address()]));
    both.reach(SOON).await.unwrap();
    both.reach(Duration::ZERO).await.unwrap();
    let none = Cluster::new(Config::new(vec![closed]));
    let error = none.reach(Duration::from_millis(300)).await.unwrap_err();
    assert!(matches!(error.kind(), Kind::Unreachable(_)), "{error}");
    assert_eq!(
        octopus_core::Error::from(error),
        octopus_core::Error::KafkaUnreachable
    );
}
