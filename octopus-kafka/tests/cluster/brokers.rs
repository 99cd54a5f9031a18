//! Brokers that are down, silent, old or new, and what they refuse.

use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

use octopus_kafka::{
    Cluster, Config, GroupProtocol, Kind,
    broker::{self, ApiKey, Broker, Request, always, first, nth},
    testing::{ClosedPort, Kafka},
};

use crate::{SOON, batch, came, cluster, embedded, lists, make};

/// [KF-01] [ER-07] [D-41] the first of several bootstrap servers may be down.
#[tokio::test]
async fn one_live_broker_is_enough() {
    let closed = ClosedPort::new().unwrap();
    let kafka = Kafka::start().await;
    let both = Cluster::new(Config::new(vec![closed.address(), kafka.address()]));
    both.reach(SOON).await.unwrap();
    both.reach(Duration::ZERO).await.unwrap();
    let none = Cluster::new(Config::new(vec![closed.address()]));
    let error = none.reach(Duration::from_millis(300)).await.unwrap_err();
    assert!(matches!(error.kind(), Kind::Unreachable(_)), "{error}");
    assert_eq!(
        octopus_core::Error::from(error),
        octopus_core::Error::KafkaUnreachable
    );
}

/// [KF-24] [NS-05] each request says that no topic shall be made; each has a client id, which some brokers insist on.
#[tokio::test]
async fn no_request_lets_the_cluster_make_a_topic_and_each_has_a_client_id() {
    let (broker, cluster) = embedded().await;
    let topic = make(&broker);
    lists(&cluster, SOON).await.unwrap();
    cluster.produce(&topic, batch(b"value"), SOON).await.unwrap();
    cluster.create_topic("another", SOON).await.unwrap();
    let requests = broker.requests();
    let mut asked = 0;
    for received in &requests {
        assert_eq!(received.client_id, "octopus", "{:?}", received.api);
        if let Request::Metadata(request) = &received.request {
            assert!(!request.allow_auto_topic_creation);
            assert!(request.topics.is_some(), "never all topics");
            asked += 1;
        }
    }
    assert!(asked >= 2, "one for each of the two topics");
}

/// [KF-05] [KF-08] [KF-09] [ER-06] an answer that ends early is asked for again on another connection, wherever it
/// ends.
#[tokio::test]
async fn a_broker_that_closes_in_the_middle_of_an_answer_is_asked_again() {
    let (broker, reference) = embedded().await;
    make(&broker);
    for bytes in (0..150).step_by(7) {
        broker.faults().clear();
        broker.faults().on(ApiKey::Metadata, nth(1)).cut_after(bytes);
        let cluster = cluster(broker.addr().to_string());
        assert_eq!(lists(&cluster, SOON).await.unwrap(), 1, "{bytes}");
    }
    assert_eq!(lists(&reference, SOON).await.unwrap(), 1);
    // The same on a connection that stood.
    for fault in 0..3 {
        let rule = broker.faults().on(ApiKey::Metadata, nth(1));
        match fault {
            0 => rule.close(),
            1 => rule.garbage(b"HTTP/1.1 400 Bad Request\r\n\r\n".as_slice()),
            _ => rule.garbage([0, 0, 0, 4, 9, 9, 9, 9].as_slice()),
        }
        assert_eq!(lists(&reference, SOON).await.unwrap(), 1);
    }
}

/// [KF-04] [ER-05] [ER-06] what a caller is told when a broker never answers, or never rightly.
#[tokio::test]
async fn a_broker_that_never_answers_ends_in_a_retriable_error_in_time() {
    let (broker, cluster) = embedded().await;
    make(&broker);
    broker.faults().on(ApiKey::Metadata, always()).never();
    let began = Instant::now();
    let error = lists(&cluster, Duration::from_millis(300)).await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(
        octopus_core::Error::from(error),
        octopus_core::Error::KafkaRetriable
    );
    broker.faults().clear();
    // A whole frame with the right number that is no answer to a Metadata request.
    let other = embedded().await;
    other.0.faults().on(ApiKey::Metadata, first(1)).garbage(
        [
            &[0, 0, 0, 13][..],
            &2i32.to_be_bytes(),
            &[0, 0, 0, 0, 0],
            &[0x0f, 0xff, 0xff, 0xff],
        ]
        .concat(),
    );
    let error = lists(&other.1, SOON).await.unwrap_err();
    assert_eq!(octopus_core::Error::from(error), octopus_core::Error::KafkaFailed);
    assert_eq!(lists(&other.1, SOON).await.unwrap(), 0, "and it is asked anew");
}

/// [KF-04] [ER-06] a broker that is silent keeps nobody from another one.
#[tokio::test]
async fn a_silent_broker_leaves_the_others_to_be_asked() {
    let (silent, _) = embedded().await;
    silent.faults().on(ApiKey::Metadata, always()).never();
    let (broker, _) = embedded().await;
    make(&broker);
    let both = Cluster::new(Config::new(vec![
        silent.addr().to_string(),
        broker.addr().to_string(),
    ]));
    assert_eq!(lists(&both, Duration::from_secs(4)).await.unwrap(), 1);
    assert_eq!(came(&silent, ApiKey::Metadata), 1);
}

/// [KF-04] [D-41] a listener that takes connections and says nothing.
#[tokio::test]
async fn a_bootstrap_server_that_says_nothing_leaves_time_for_the_next() {
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let (broker, _) = embedded().await;
    let both = Cluster::new(Config::new(vec![
        mute.local_addr().unwrap().to_string(),
        broker.addr().to_string(),
    ]));
    both.reach(Duration::from_secs(4)).await.unwrap();
}

/// [ER-01] which protocols of groups a cluster has is what its brokers tell of.
#[tokio::test]
async fn a_cluster_says_which_protocols_of_groups_it_speaks() {
    for (versions, consumer) in [(0..=0, false), (0..=1, true), (1..=9, true), (2..=9, false)] {
        let (broker, cluster) = embedded().await;
        broker.set_versions(ApiKey::ConsumerGroupHeartbeat, versions);
        assert_eq!(cluster.speaks(GroupProtocol::Consumer, SOON).await, Ok(consumer));
        assert_eq!(cluster.speaks(GroupProtocol::Classic, SOON).await, Ok(true));
    }
    let closed = ClosedPort::new().unwrap();
    let nowhere = cluster(closed.address());
    let asked = nowhere.speaks(GroupProtocol::Consumer, Duration::from_millis(200));
    assert!(matches!(asked.await.unwrap_err().kind(), Kind::Unreachable(_)));
}

/// A late answer is an answer, and the connection is used again.
#[tokio::test]
async fn a_slow_answer_is_waited_for() {
    let (broker, cluster) = embedded().await;
    make(&broker);
    let slow = broker.faults().on(ApiKey::Metadata, first(1));
    slow.delay(Duration::from_millis(300));
    assert_eq!(lists(&cluster, SOON).await.unwrap(), 1);
    assert_eq!(lists(&cluster, SOON).await.unwrap(), 1);
    assert_eq!(came(&broker, ApiKey::ApiVersions), 1);
}

/// [KF-43] [K24] [ER-01] the newest version that both speak, from brokers of about 2.1 on.
#[tokio::test]
async fn old_and_new_brokers_are_spoken_to_in_their_versions() {
    for (metadata, produce, create) in [
        (5..=7, 3..=7, 2..=3),
        (0..=12, 0..=9, 0..=7),
        (9..=12, 3..=99, 5..=99),
    ] {
        let (broker, cluster) = embedded().await;
        let topic = make(&broker);
        broker.set_versions(ApiKey::Metadata, metadata.clone());
        broker.set_versions(ApiKey::Produce, produce.clone());
        broker.set_versions(ApiKey::CreateTopics, create.clone());
        assert_eq!(lists(&cluster, SOON).await.unwrap(), 1);
        assert_eq!(cluster.produce(&topic, batch(b"value"), SOON).await.unwrap(), 0);
        cluster.create_topic("another", SOON).await.unwrap();
        let newest = [
            (ApiKey::Metadata, *metadata.end()),
            (ApiKey::Produce, 9.min(*produce.end())),
            (ApiKey::CreateTopics, 7.min(*create.end())),
        ];
        for (api, version) in newest {
            let requests = broker.requests().into_iter();
            let of_api: Vec<_> = requests.filter(|received| received.api == api).collect();
            assert!(!of_api.is_empty(), "{api:?}");
            assert!(
                of_api.iter().all(|received| received.version == version),
                "{of_api:?}"
            );
        }
    }
    // One that speaks no version that we do.
    let (broker, cluster) = embedded().await;
    broker.set_versions(ApiKey::Metadata, 0..=3);
    let error = lists(&cluster, SOON).await.unwrap_err();
    assert_eq!(
        octopus_core::Error::from(error),
        octopus_core::Error::KafkaInvalid
    );
    assert_eq!(came(&broker, ApiKey::Metadata), 0);
}

/// [KF-38] [ER-01] [ER-02] [ER-04] what Kafka refuses is told as its row says.
#[tokio::test]
async fn what_kafka_refuses_is_told_by_its_row() {
    use octopus_core::Error as Row;
    let (broker, cluster) = embedded().await;
    for (code, row) in [
        (44, Row::KafkaInvalid),
        (31, Row::KafkaUnauthorized),
        (89, Row::Throttled),
        (-1, Row::KafkaFailed),
    ] {
        broker.faults().clear();
        broker.faults().on(ApiKey::CreateTopics, first(1)).error(code);
        let error = cluster.create_topic("t", SOON).await.unwrap_err();
        assert_eq!(Row::from(error), row, "{code}");
    }
    broker.faults().clear();
    broker.faults().on(ApiKey::CreateTopics, first(2)).error(41);
    cluster.create_topic("moved", SOON).await.unwrap();
    broker.faults().on(ApiKey::Metadata, first(1)).error(29);
    let error = lists(&cluster, SOON).await.unwrap_err();
    assert_eq!(Row::from(error), Row::KafkaUnauthorized);
}

/// [ER-06] a write is tried again while the error may pass.
#[tokio::test]
async fn a_write_is_tried_again_while_the_error_may_pass() {
    let (broker, cluster) = embedded().await;
    let topic = make(&broker);
    broker.faults().on(ApiKey::Produce, first(2)).error(6);
    assert_eq!(cluster.produce(&topic, batch(b"value"), SOON).await.unwrap(), 0);
    broker.faults().on(ApiKey::Produce, first(1)).close();
    assert_eq!(cluster.produce(&topic, batch(b"value"), SOON).await.unwrap(), 1);
    broker.faults().on(ApiKey::Produce, first(1)).error(29);
    let error = cluster.produce(&topic, batch(b"value"), SOON).await.unwrap_err();
    assert_eq!(
        octopus_core::Error::from(error),
        octopus_core::Error::KafkaUnauthorized
    );
}

/// [KF-02] [ER-07] brokers that are all gone, and others in their place.
#[tokio::test]
async fn brokers_that_come_back_are_found_again() {
    let (broker, cluster) = embedded().await;
    make(&broker);
    assert_eq!(lists(&cluster, SOON).await.unwrap(), 1);
    let address = broker.addr();
    broker.shutdown().await;
    let error = lists(&cluster, Duration::from_millis(300)).await.unwrap_err();
    assert_eq!(
        octopus_core::Error::from(error),
        octopus_core::Error::KafkaUnreachable
    );
    let mut again = broker::Config::default();
    again.listen = address;
    let Ok(broker) = Broker::start(again).await else {
        // Somebody else took the port meanwhile.
        return;
    };
    make(&broker);
    assert_eq!(lists(&cluster, SOON).await.unwrap(), 1);
}
