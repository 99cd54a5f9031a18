//! A leader that dies and comes back.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use octopus_kafka::{
    Cluster, broker,
    producer::{Config, Producer},
};
use tokio::task::JoinSet;

use crate::{
    link::Link,
    record,
    support::{PATIENCE, World},
    values,
};

/// Each sender writes its records one behind the other, and those again that were surely not written. Gives the offsets
/// by their values, and the values whose fate it does not know.
async fn send(
    producer: Producer,
    topic: String,
    sender: usize,
    count: usize,
    written: Arc<AtomicUsize>,
) -> (BTreeMap<String, i64>, BTreeSet<String>) {
    let (mut offsets, mut unknown) = (BTreeMap::new(), BTreeSet::new());
    for number in 0..count {
        let value = format!("{sender}.{number}");
        loop {
            let sent = producer
                .send(&topic, record(&value), Duration::from_secs(20))
                .await;
            match sent {
                Ok(at) => _ = offsets.insert(value, at.offset.expect("the broker tells it")),
                Err(not) if not.may_be_written() => _ = unknown.insert(value),
                Err(_) => continue,
            }
            break;
        }
        written.fetch_add(1, Ordering::Relaxed);
    }
    (offsets, unknown)
}

/// Nothing that was acknowledged is lost, or there twice, though the leader dies three times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_records_outlive_their_leader() {
    const SENDERS: usize = 50;
    const EACH: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let mut config = broker::Config::default();
    config.data = Some(folder.path().to_owned());
    let link = Link::open().await;
    let mut leader = link.broker(config.clone()).await;
    let address = link.address.to_string();
    let world = World {
        cluster: Cluster::new(octopus_kafka::Config::new(vec![address])),
        ..World::embedded().await
    };
    world.topic("t", &[]).await;
    let producer = world.cluster.producer(Config::default());
    let written = Arc::new(AtomicUsize::new(0));
    let mut senders = JoinSet::new();
    for sender in 0..SENDERS {
        let (producer, topic) = (producer.clone(), world.name("t"));
        senders.spawn(send(producer, topic, sender, EACH, Arc::clone(&written)));
    }
    for death in 1..=3 {
        let some = SENDERS * EACH * death / 4;
        crate::support::eventually("some are written", || written.load(Ordering::Relaxed) >= some).await;
        // In the middle of what it does, with requests that were read and not answered.
        link.cut();
        leader.shutdown().await;
        leader = link.broker(config.clone()).await;
    }
    let (mut offsets, mut unknown) = (BTreeMap::new(), BTreeSet::new());
    while let Some(done) = senders.join_next().await {
        let (theirs, lost) = done.unwrap();
        offsets.extend(theirs);
        unknown.extend(lost);
    }
    assert_eq!(offsets.len() + unknown.len(), SENDERS * EACH);
    assert_eq!(unknown.len(), 0, "each was sent again until its fate was known");
    let end = usize::try_from(leader.end_offset(&world.name("t")).unwrap()).unwrap();
    assert_eq!(end, SENDERS * EACH);
    let read = tokio::time::timeout(4 * PATIENCE, values(&world, "t", end))
        .await
        .unwrap();
    for (offset, value) in (0i64..).zip(&read) {
        assert_eq!(offsets.remove(value), Some(offset), "{value}");
    }
    assert!(offsets.is_empty());
    for sender in 0..SENDERS {
        let prefix = format!("{sender}.");
        let numbers = read.iter().filter_map(|value| value.strip_prefix(&prefix));
        let numbers: Vec<usize> = numbers.map(|number| number.parse().unwrap()).collect();
        assert!(numbers.is_sorted(), "{sender} wrote one behind the other");
    }
}
