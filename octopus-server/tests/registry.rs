//! The registry on a real Kafka that compacts it. Runs where `OCTOPUS_TEST_KAFKA` is set, on a node of its own.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{env, time::Duration};

use octopus_core::{
    AutoOffsetReset, Bound, Effect, FetchPlan, Name, Namespace, Open, Outcome, Records as _, Settings,
    Subject, TopicName, TopicPartition,
};
use octopus_kafka::{
    Cluster, Config, NewTopic,
    testing::{Node, Release},
};
use octopus_server::{
    Topics,
    topics::{REGISTRY, RegistryTopics},
};
use tokio::time::{sleep, timeout};

const SOON: Duration = Duration::from_secs(30);
const MOST: usize = 50;

fn name(text: &str) -> TopicName {
    TopicName::of_new(text).unwrap()
}

/// The records that are left of the registry, and the offset behind its last one.
async fn left(cluster: &Cluster) -> (i64, i64) {
    let mut settings = Settings::default();
    settings.auto_offset_reset = AutoOffsetReset::Earliest;
    let open = Open::outside(Name::parse("looker").unwrap(), settings);
    let consumer = cluster.consumer(&open, |_| {});
    let at = TopicPartition::only(REGISTRY.into());
    let effect = Effect::Bounds(vec![at.clone()], Bound::End);
    let Ok(Outcome::Positions(ends)) = consumer.run(effect, SOON).await else {
        panic!("no end")
    };
    let end = ends[0].1.offset;
    let mut plan = FetchPlan::of([at]);
    let (mut count, mut next) = (0, 0);
    while next < end {
        let polled = consumer.poll(&plan, Duration::from_secs(1)).await.unwrap();
        for (partition, start) in polled.started {
            plan.advance(&partition, start);
        }
        for (partition, mut records) in polled.parts {
            while let Some(record) = records.next() {
                record.unwrap();
                count += 1;
            }
            next = records.position().offset;
            plan.advance(&partition, records.position());
        }
    }
    (count, end)
}

/// [NS-05] [NS-06] what servers agreed on is what a new one reads once Kafka has compacted the registry.
#[tokio::test]
async fn a_compacted_registry_forgets_nothing() {
    if env::var_os("OCTOPUS_TEST_KAFKA").is_none() {
        return;
    }
    let node = tokio::task::spawn_blocking(|| Node::start(Release::default()))
        .await
        .unwrap()
        .unwrap();
    let cluster = || Cluster::new(Config::new(vec![node.address()]));
    // Segments as small as they get, since the last one is never compacted.
    let registry = NewTopic::named(REGISTRY)
        .config("cleanup.policy", "compact")
        .config("segment.ms", "100")
        .config("min.cleanable.dirty.ratio", "0.001")
        .config("delete.retention.ms", "100");
    assert!(cluster().ensure_topic(&registry, SOON).await.unwrap());
    let servers = [RegistryTopics::new(cluster()), RegistryTopics::new(cluster())];
    let [kept, gone, shared] = [1, 2, 3].map(|n| Namespace::of(Subject::from_uuid(n)));
    servers[0].create(&kept, &name("once"), MOST, SOON).await.unwrap();
    servers[1].create(&gone, &name("once"), MOST, SOON).await.unwrap();
    servers[0].close(&gone, SOON).await.unwrap();

    let mut expected: Vec<TopicName> = Vec::new();
    let compacted = async {
        for round in 0.. {
            // Both at once, so that some changes do not count and are made again.
            let new = [
                name(&format!("one-{}", round % 20)),
                name(&format!("two-{}", round % 20)),
            ];
            if round < 20 {
                let (one, two) = tokio::join!(
                    servers[0].create(&shared, &new[0], MOST, SOON),
                    servers[1].create(&shared, &new[1], MOST, SOON),
                );
                assert!(one.unwrap().is_done && two.unwrap().is_done);
                expected.extend(new);
            } else {
                let (one, two) = tokio::join!(
                    servers[1].delete(&shared, &new[0], SOON),
                    servers[0].create(&shared, &new[1], MOST, SOON),
                );
                assert!(one.unwrap().is_done && !two.unwrap().is_done);
                expected.retain(|topic| *topic != new[0]);
                servers[0].create(&shared, &new[0], MOST, SOON).await.unwrap();
                expected.push(new[0].clone());
            }
            expected.sort_unstable();
            let (count, end) = left(&cluster()).await;
            if round >= 20 && count * 2 < end {
                println!("{count} records are left of {end}");
                return;
            }
            // A segment ends with the first record that comes so long after it began.
            sleep(Duration::from_millis(150)).await;
        }
    };
    timeout(Duration::from_secs(120), compacted).await.unwrap();

    let new = RegistryTopics::new(cluster());
    for server in servers.iter().chain([&new]) {
        let listed = server.list(&shared, SOON).await.unwrap();
        assert_eq!(listed.as_ref(), Some(&expected));
        assert_eq!(server.list(&kept, SOON).await.unwrap(), Some(vec![name("once")]));
        assert_eq!(server.list(&gone, SOON).await.unwrap(), None);
    }
    new.close(&shared, SOON).await.unwrap();
    for server in servers.iter().chain([&new]) {
        assert_eq!(server.list(&shared, SOON).await.unwrap(), None);
    }
}
