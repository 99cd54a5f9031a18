use kafka_protocol::messages::{ApiVersionsRequest, HeartbeatRequest};

use super::{super::Topic, *};
use crate::{
    Config,
    broker::{ApiKey as Asked, Broker, Config as BrokerConfig, Request as Received, first},
};

/// Generous: a shared machine may be slow.
fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

async fn world() -> (Broker, Cluster) {
    let broker = Broker::start(BrokerConfig::default()).await.unwrap();
    let cluster = Cluster::new(Config::new(vec![broker.addr().to_string()]));
    (broker, cluster)
}

/// A port that nobody listens on.
fn closed_port() -> i32 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port().into()
}

async fn beat(cluster: &Cluster, broker: BrokerId) -> Error {
    let make = |_| HeartbeatRequest::default();
    let sent = cluster.request(broker, Class::Beat, "me", 2..=4, make, soon());
    sent.await.unwrap_err()
}

/// [ER-06] [ER-07]
#[tokio::test]
async fn the_cluster_is_out_of_reach_only_where_no_broker_is_connected() {
    let (broker, cluster) = world().await;
    let away = BrokerId(99);
    cluster.0.metadata.learn(away, "127.0.0.1", closed_port());
    let alone = octopus_core::Error::from(beat(&cluster, away).await);
    assert_eq!(alone, octopus_core::Error::KafkaUnreachable);

    cluster.reach(Duration::from_secs(30)).await.unwrap();
    for gone in [away, BrokerId(98)] {
        let one_of_two = octopus_core::Error::from(beat(&cluster, gone).await);
        assert_eq!(one_of_two, octopus_core::Error::KafkaRetriable, "{gone:?}");
    }
    broker.shutdown().await;
}

/// Names that are asked for together belong to different callers.
#[tokio::test]
async fn a_name_that_kafka_refuses_fails_only_who_asked_for_it() {
    let (broker, cluster) = world().await;
    broker.create_topic("good");
    // The first asks at once, and the others wait for it: the second then asks for both.
    let (_, good, bad) = tokio::join!(
        cluster.topic("first", soon()),
        cluster.topic("good", soon()),
        cluster.topic("a b", soon()),
    );
    assert!(matches!(good, Ok(Topic::Known(_))), "{good:?}");
    assert_eq!(
        octopus_core::Error::from(bad.unwrap_err()),
        octopus_core::Error::KafkaInvalid
    );
    let together = broker.requests().into_iter().any(|received| {
        let Received::Metadata(request) = received.request else {
            return false;
        };
        request.topics.is_some_and(|topics| topics.len() == 2)
    });
    assert!(together, "they were asked for in one request");
    broker.shutdown().await;
}

/// [ER-01] without a question to Kafka.
#[tokio::test]
async fn a_name_of_no_length_or_too_long_is_not_asked_for() {
    let (broker, cluster) = world().await;
    for name in ["", &"x".repeat(250)] {
        let error = cluster.topic(name, soon()).await.unwrap_err();
        assert_eq!(*error.kind(), Kind::InvalidTopic);
    }
    assert!(matches!(
        cluster.topic(&"x".repeat(249), soon()).await,
        Ok(Topic::Missing)
    ));
    let asked = broker
        .requests()
        .iter()
        .filter(|received| received.api == Asked::Metadata)
        .count();
    assert_eq!(asked, 1);
    broker.shutdown().await;
}

#[tokio::test]
async fn brokers_that_are_the_cluster_no_more_are_forgotten() {
    let (broker, cluster) = world().await;
    broker.create_topic("topic");
    cluster.topic("topic", soon()).await.unwrap();
    cluster.0.metadata.learn(BrokerId(99), "127.0.0.1", closed_port());
    broker.faults().on(Asked::Metadata, first(1)).edit(|response| {
        if let crate::broker::Response::Metadata(metadata) = response {
            metadata.error_code = 129;
        }
    });
    cluster.stale("topic");
    assert!(matches!(
        cluster.topic("topic", soon()).await,
        Ok(Topic::Known(_))
    ));
    assert_eq!(cluster.0.metadata.address(BrokerId(99)), None);
    broker.shutdown().await;
}

/// An API whose answers have no layout is refused, not decoded unseen.
#[tokio::test]
async fn an_answer_without_a_layout_is_not_decoded() {
    let (broker, cluster) = world().await;
    let (_, lease) = cluster.any_broker(Api::ApiVersions, &[], soon()).await.unwrap();
    let asked = exchange(&lease, "me", &(0..=3), |_| ApiVersionsRequest::default(), soon()).await;
    assert_eq!(asked.unwrap_err(), Kind::Malformed);
    broker.shutdown().await;
}
