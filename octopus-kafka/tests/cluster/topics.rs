//! Topics that are made, listed, written to and deleted.

use std::time::{Duration, Instant};

use octopus_core::{Namespace, TopicName};
use octopus_kafka::{
    Cluster, Config, Kind, NewTopic,
    broker::{ApiKey, always, first},
    testing::{ClosedPort, Kafka, Node, Nodes, Release},
};

use crate::{SOON, batch, came, cluster, embedded, namespace};

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

/// [NS-04] [NS-05] a topic is there as soon as it was made, however often it was asked for before, and the cluster has an id.
#[tokio::test]
async fn the_cluster_says_whether_it_has_a_topic() {
    let kafka = Kafka::start().await;
    let (reader, maker) = (cluster(kafka.address()), cluster(kafka.address()));
    let there = namespace().qualify("there");
    assert_eq!(reader.id(), None);
    for _ in 0..2 {
        assert!(!reader.has_topic(&there, SOON).await.unwrap());
    }
    assert!(reader.id().is_some_and(|id| !id.is_empty()));
    maker.create_topic(&there, SOON).await.unwrap();
    let listed = async { while !reader.has_topic(&there, SOON).await.unwrap() {} };
    tokio::time::timeout(SOON, listed)
        .await
        .expect("it is listed soon");
    for impossible in ["", "a b", "..", &"x".repeat(250)] {
        assert!(!reader.has_topic(impossible, SOON).await.unwrap());
    }
    let refused = cluster(ClosedPort::new().unwrap().address());
    let error = refused
        .has_topic(&there, Duration::from_millis(500))
        .await
        .unwrap_err();
    assert!(matches!(error.kind(), Kind::Unreachable(_)), "{error}");
}

/// [NS-04] names that no topic can have are those of no topic, also beside one that is there.
#[tokio::test]
async fn a_name_that_no_topic_can_have_is_not_listed() {
    let kafka = Kafka::start().await;
    let cluster = cluster(kafka.address());
    let namespace = namespace();
    let longest = "x".repeat(249 - namespace.qualify("").len());
    for name in ["there", &longest] {
        cluster
            .create_topic(&namespace.qualify(name), SOON)
            .await
            .unwrap();
        for impossible in [
            "",
            "a b",
            "a/b",
            "ä",
            "a\0",
            &format!("{longest}x"),
            &"x".repeat(60_000),
        ] {
            let names = [impossible, name].map(TopicName::from);
            let held = cluster.topics(&namespace, &names, SOON).await.unwrap();
            assert_eq!(
                held.into_iter().collect::<Vec<_>>(),
                [TopicName::from(name)],
                "{impossible:.10}"
            );
            let none = cluster.topics(&namespace, &names[..1], SOON).await.unwrap();
            assert!(none.is_empty(), "{impossible:.10}");
        }
    }
}

/// A topic comes and goes, and each time whoever asks next, on whichever connection, finds it so.
#[tokio::test]
async fn what_was_made_or_deleted_is_seen_at_once() {
    let kafka = Kafka::start().await;
    let (cluster, another) = (cluster(kafka.address()), cluster(kafka.address()));
    let namespace = namespace();
    let name = namespace.qualify("comes");
    let new = NewTopic::named(&name);
    let listed = async |cluster: &Cluster| cluster.topics_of(&namespace, SOON).await.unwrap();
    assert_eq!(listed(&cluster).await, []);
    assert!(!cluster.delete_topic(&name, SOON).await.unwrap());
    for round in 0..3 {
        assert!(cluster.ensure_topic(&new, SOON).await.unwrap(), "{round}");
        for cluster in [&cluster, &another] {
            assert_eq!(listed(cluster).await, [TopicName::from("comes")], "{round}");
            assert!(!cluster.ensure_topic(&new, SOON).await.unwrap(), "{round}");
            let again = cluster.create_topic(&name, SOON).await.unwrap_err();
            assert_eq!(
                octopus_core::Error::from(again),
                octopus_core::Error::KafkaInvalid
            );
        }
        // It has no record of the one before.
        assert_eq!(another.produce(&name, batch(b"first"), SOON).await.unwrap(), 0);
        assert!(another.delete_topic(&name, SOON).await.unwrap(), "{round}");
        for cluster in [&cluster, &another] {
            assert_eq!(listed(cluster).await, [], "{round}");
            assert!(!cluster.delete_topic(&name, SOON).await.unwrap(), "{round}");
        }
    }
}

/// [NS-02] the topics of a namespace are those behind its dot, and those of none are all.
#[tokio::test]
async fn the_topics_of_a_namespace_are_listed_by_their_names_in_it() {
    let kafka = Kafka::start().await;
    let cluster = cluster(kafka.address());
    let namespace = namespace();
    let prefix = namespace.as_str();
    for name in ["b", "a.c", "a"] {
        let new = NewTopic::named(namespace.qualify(name)).partitions(2);
        assert!(cluster.ensure_topic(&new, SOON).await.unwrap());
    }
    for other in [format!("{prefix}x.a"), format!("x{prefix}.a"), prefix.to_owned()] {
        cluster.create_topic(&other, SOON).await.unwrap();
    }
    let own = cluster.topics_of(&namespace, SOON).await.unwrap();
    assert_eq!(own, ["a", "a.c", "b"].map(TopicName::from));
    let all = cluster.topics_of(&Namespace::none(), SOON).await.unwrap();
    for name in [format!("{prefix}.a.c"), format!("{prefix}x.a"), prefix.to_owned()] {
        assert!(all.contains(&name.as_str().into()), "{name}");
    }
    for name in [String::new(), "a b".to_owned(), "x".repeat(250)] {
        let error = cluster
            .ensure_topic(&NewTopic::named(&name), SOON)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), &Kind::InvalidTopic);
        assert!(!cluster.delete_topic(&name, SOON).await.unwrap());
    }
}

/// Many are deleted in one request; one that is not there, or can't be, stops none.
#[tokio::test]
async fn several_topics_are_deleted_at_once() {
    let kafka = Kafka::start().await;
    let cluster = cluster(kafka.address());
    let namespace = namespace();
    let names: Vec<String> = (0..30).map(|n| namespace.qualify(&format!("t{n}"))).collect();
    for name in &names[..20] {
        cluster.create_topic(name, SOON).await.unwrap();
    }
    let mut all = names.clone();
    all.push("a b".to_owned());
    let before = kafka.embedded().map(|broker| came(broker, ApiKey::DeleteTopics));
    assert_eq!(cluster.delete_topics(&all, SOON).await.unwrap(), 20);
    if let Some(broker) = kafka.embedded() {
        assert_eq!(Some(came(broker, ApiKey::DeleteTopics) - 1), before);
    }
    assert_eq!(cluster.topics_of(&namespace, SOON).await.unwrap(), []);
    assert_eq!(cluster.delete_topics(&all, SOON).await.unwrap(), 0);
    assert_eq!(cluster.delete_topics(&[], SOON).await.unwrap(), 0);
}

/// [ER-02] a topic that is there and may not be seen.
#[tokio::test]
async fn a_topic_that_may_not_be_seen_is_not_waited_for() {
    let (broker, cluster) = embedded().await;
    broker.create_topic("t");
    cluster.reach(SOON).await.unwrap();
    cluster.topics_of(&Namespace::none(), SOON).await.unwrap();
    broker.faults().on(ApiKey::Metadata, always()).error(29);
    let refused = cluster
        .ensure_topic(&NewTopic::named("t"), SOON)
        .await
        .unwrap_err();
    assert_eq!(
        octopus_core::Error::from(refused),
        octopus_core::Error::KafkaUnauthorized
    );
}

/// Three brokers, of which one may be down: whoever is asked next, of whichever broker, finds what was made or deleted.
#[tokio::test(flavor = "multi_thread")]
async fn each_broker_of_a_cluster_knows_what_was_made_or_deleted() {
    if std::env::var_os("OCTOPUS_TEST_KAFKA").is_none() {
        return;
    }
    let nodes = tokio::task::spawn_blocking(|| Nodes::start(Release::default())).await;
    let nodes = nodes.unwrap().unwrap();
    let all = Cluster::new(Config::new(nodes.iter().map(Node::address).collect()));
    let namespace = namespace();
    for (round, down) in [None, Some(1), Some(2), Some(3)].into_iter().enumerate() {
        if let Some(down) = down {
            nodes.node(down).kill().unwrap();
        }
        for topic in 0..5 {
            let name = namespace.qualify(&format!("topic-{round}-{topic}"));
            let began = Instant::now();
            // Where the controller has just died, another one has to be found first.
            let mut made = all.create_topic(&name, SOON).await;
            while let Err(error) = made {
                let error = octopus_core::Error::from(error);
                assert_eq!(error, octopus_core::Error::KafkaRetriable, "{name}");
                made = all.ensure_topic(&NewTopic::named(&name), SOON).await.map(drop);
            }
            println!("{name}: made in {:?}", began.elapsed());
            each_says(&nodes, down, &name, 1).await;
            let began = Instant::now();
            let mut gone = all.delete_topic(&name, SOON).await;
            while let Err(error) = gone {
                let error = octopus_core::Error::from(error);
                assert_eq!(error, octopus_core::Error::KafkaRetriable, "{name}");
                gone = all.delete_topic(&name, SOON).await;
            }
            println!("{name}: deleted in {:?}", began.elapsed());
            each_says(&nodes, down, &name, 0).await;
        }
        if let Some(down) = down {
            tokio::task::block_in_place(|| nodes.node(down).restart()).unwrap();
        }
    }
}

/// Checks what each node that is not down says of a topic: so often it is there.
async fn each_says(nodes: &Nodes, down: Option<usize>, topic: &str, times: usize) {
    for id in (1..=3).filter(|id| Some(*id) != down) {
        // A cluster asks its bootstrap server first, which is the only broker that it knows of.
        let one = cluster(nodes.node(id).address());
        let found = one
            .topics(&Namespace::none(), &[topic.into()], SOON)
            .await
            .expect("an answer");
        assert_eq!(found.len(), times, "{topic} at node {id}");
    }
}

/// [ER-01] a setting that Kafka does not know is refused, and one that it knows is kept.
#[tokio::test]
async fn a_topic_is_made_with_settings() {
    let kafka = Kafka::start().await;
    let cluster = cluster(kafka.address());
    let name = namespace().qualify("compacted");
    let wrong = NewTopic::named(&name).config("cleanup.policy", "never");
    if kafka.embedded().is_none() {
        let error = cluster.ensure_topic(&wrong, SOON).await.unwrap_err();
        assert_eq!(
            octopus_core::Error::from(error),
            octopus_core::Error::KafkaInvalid
        );
    }
    let right = NewTopic::named(&name).config("cleanup.policy", "compact");
    assert!(cluster.ensure_topic(&right, SOON).await.unwrap());
}

/// [ER-01] a broker that keeps no users gives out no keys.
#[tokio::test]
async fn a_cluster_without_users_of_its_own_refuses_keys_as_unsupported() {
    let (_broker, cluster) = embedded().await;
    let namespace = namespace();
    let granted = cluster
        .grant_key("user", &"secret".into(), &namespace, SOON)
        .await;
    let revoked = cluster.revoke_key("user", &namespace, SOON).await;
    for error in [granted.unwrap_err(), revoked.unwrap_err()] {
        assert_eq!(
            octopus_core::Error::from(error),
            octopus_core::Error::KafkaInvalid
        );
    }
}

/// Codes of Kafka for a change of topics, and a controller that is another one by now.
#[tokio::test]
async fn a_change_that_kafka_refuses_is_told_and_one_that_moved_is_done() {
    let (broker, cluster) = embedded().await;
    let new = NewTopic::named("t");
    for (code, row) in [
        (29, octopus_core::Error::KafkaUnauthorized),
        (44, octopus_core::Error::KafkaInvalid),
        (7, octopus_core::Error::KafkaRetriable),
    ] {
        broker.faults().on(ApiKey::CreateTopics, first(1)).error(code);
        let error = cluster.ensure_topic(&new, SOON).await.unwrap_err();
        assert_eq!(octopus_core::Error::from(error), row, "{code}");
        broker.faults().on(ApiKey::DeleteTopics, first(1)).error(code);
        let error = cluster.delete_topic("t", SOON).await.unwrap_err();
        assert_eq!(octopus_core::Error::from(error), row, "{code}");
    }
    broker.faults().on(ApiKey::CreateTopics, first(2)).error(41);
    assert!(cluster.ensure_topic(&new, SOON).await.unwrap());
    broker.faults().on(ApiKey::DeleteTopics, first(2)).error(41);
    assert!(cluster.delete_topic("t", SOON).await.unwrap());
}

/// A topic that Kafka still deletes is not listed, and can be made as soon as it is gone.
#[tokio::test]
async fn a_topic_that_is_still_being_deleted_is_made_once_it_is_gone() {
    let (broker, cluster) = embedded().await;
    broker.faults().on(ApiKey::CreateTopics, first(2)).error(36);
    assert!(cluster.ensure_topic(&NewTopic::named("t"), SOON).await.unwrap());
    broker.faults().on(ApiKey::CreateTopics, always()).error(36);
    let soon = Duration::from_millis(300);
    let error = cluster
        .ensure_topic(&NewTopic::named("u"), soon)
        .await
        .unwrap_err();
    assert_eq!(
        octopus_core::Error::from(error),
        octopus_core::Error::KafkaInvalid
    );
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
