use kafka_protocol::messages::{ApiVersionsRequest, HeartbeatRequest};

use super::{super::Topic, *};
use crate::{
    Config,
    broker::{
        ApiKey as Asked, Broker, Config as BrokerConfig, ConnectionId, Fault, Request as Received, first,
    },
    records::{BatchWriter, Compression},
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

/// [KF-44] [K22]
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

/// A Fetch of the topic's first records, which are there.
async fn fetch_from(broker: &Broker, cluster: &Cluster) -> Result<FetchResponse, Error> {
    if broker.end_offset("topic").is_none() {
        broker.create_topic("topic");
        let mut batch = BatchWriter::new(Compression::None);
        batch.push(0, None, Some(b"value"), &[]);
        broker.append("topic", batch.finish());
    }
    let Topic::Known(info) = cluster.topic("topic", soon()).await? else {
        panic!("it was made")
    };
    let partition = fetch::FetchPartition {
        topic: "topic".to_owned(),
        topic_id: info.id,
        partition: 0,
        fetch_offset: 0,
        current_leader_epoch: -1,
        partition_max_bytes: 1 << 20,
    };
    let request = FetchRequest {
        max_wait_ms: 0,
        min_bytes: 1,
        max_bytes: 1 << 20,
        partitions: vec![partition],
    };
    let leader = info.leader.unwrap();
    let fetched = cluster.fetch(leader, "me", &request, soon()).await;
    fetched.map(|(response, _)| response)
}

/// The connections that Fetch requests came on, in their order.
fn fetched_on(broker: &Broker) -> Vec<ConnectionId> {
    let requests = broker.requests().into_iter();
    requests
        .filter(|received| received.api == Asked::Fetch)
        .map(|received| received.connection)
        .collect()
}

/// A broker does not read from a connection that it throttles; others are not.
#[tokio::test]
async fn a_fetch_does_not_wait_on_a_throttled_connection() {
    let (broker, cluster) = world().await;
    let throttle = broker.faults().on(Asked::Fetch, first(1));
    throttle.throttle(Duration::from_secs(3600));
    for _ in 0..3 {
        let response = fetch_from(&broker, &cluster).await.unwrap();
        assert!(!response.partitions[0].records.is_empty());
    }
    let on = fetched_on(&broker);
    assert_ne!(on[0], on[1]);
    assert_eq!(on[1], on[2], "the second one is not throttled");
}

/// [ER-01] by the topic's id where the broker has ids, else by its name.
#[tokio::test]
async fn old_brokers_are_asked_for_a_topic_by_its_name() {
    for (fetch, metadata, asked) in [
        (4..=10, 5..=7, 10),
        (4..=17, 5..=9, 12),
        (4..=12, 5..=12, 12),
        (4..=17, 5..=12, 17),
    ] {
        let (broker, cluster) = world().await;
        broker.set_versions(Asked::Fetch, fetch);
        broker.set_versions(Asked::Metadata, metadata);
        let response = fetch_from(&broker, &cluster).await.unwrap();
        assert_eq!(response.partitions[0].error_code, 0);
        assert!(!response.partitions[0].records.is_empty());
        let versions: Vec<_> = broker
            .requests()
            .iter()
            .filter(|received| received.api == Asked::Fetch)
            .map(|received| received.version)
            .collect();
        assert_eq!(versions, [asked]);
    }
}

/// [ER-05] [ER-06] a fetch whose answer is none is told at once, and the next one goes over another connection.
#[tokio::test]
async fn a_connection_whose_answer_to_a_fetch_was_none_is_left() {
    let (broker, cluster) = world().await;
    fetch_from(&broker, &cluster).await.unwrap();
    let rules: [(fn(Fault), _); 3] = [
        (Fault::close, octopus_core::Error::KafkaRetriable),
        (|rule| rule.cut_after(9), octopus_core::Error::KafkaRetriable),
        (
            |rule| rule.garbage(vec![0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 3]),
            octopus_core::Error::KafkaRetriable,
        ),
    ];
    for (fault, row) in rules {
        fault(broker.faults().on(Asked::Fetch, first(1)));
        let error = fetch_from(&broker, &cluster).await.unwrap_err();
        assert_eq!(octopus_core::Error::from(error), row);
        fetch_from(&broker, &cluster).await.unwrap();
        broker.faults().clear();
    }
    let on = fetched_on(&broker);
    assert!(
        on.windows(2).filter(|two| two[0] != two[1]).count() >= 3,
        "{on:?}"
    );
}
