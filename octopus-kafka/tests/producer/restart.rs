//! A leader that dies and comes back: nothing that was acknowledged is lost, or there twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use octopus_core::{AutoOffsetReset, Bound};
use octopus_kafka::{
    Cluster, broker,
    producer::{Config, Producer},
    testing::{Nodes, Release},
};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    link::Link,
    record,
    support::{PATIENCE, World},
};

/// How many write at a time, and how many records each of them writes at least.
const SENDERS: usize = 50;
const EACH: usize = 200;

/// The test's topic.
const TOPIC: &str = "t";

/// Callers that write one record behind the other, and one again that was surely not written.
struct Senders {
    tasks: JoinSet<Told>,
    written: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
}

/// The offsets by their values, and the values whose fate nobody knows.
#[derive(Default)]
struct Told {
    offsets: BTreeMap<String, i64>,
    unknown: BTreeSet<String>,
}

impl Senders {
    /// Each waits so long between two records.
    fn start(producer: &Producer, topic: &str, pause: Duration) -> Self {
        let (written, over) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let mut tasks = JoinSet::new();
        for sender in 0..SENDERS {
            let (producer, topic) = (producer.clone(), topic.to_owned());
            let (written, over) = (Arc::clone(&written), Arc::clone(&over));
            tasks.spawn(async move {
                let mut told = Told::default();
                for number in 0.. {
                    if number >= EACH && over.load(Ordering::Relaxed) {
                        break;
                    }
                    told.send(&producer, &topic, format!("{sender}.{number}")).await;
                    written.fetch_add(1, Ordering::Relaxed);
                    sleep(pause).await;
                }
                told
            });
        }
        Self { tasks, written, over }
    }

    /// Waits until so many more records are written.
    async fn go_on(&self, records: usize) {
        let until = self.written.load(Ordering::Relaxed) + records;
        let written = async {
            while self.written.load(Ordering::Relaxed) < until {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(4 * PATIENCE, written).await.expect("some are written");
    }

    async fn end(mut self) -> Told {
        self.over.store(true, Ordering::Relaxed);
        let mut all = Told::default();
        while let Some(told) = self.tasks.join_next().await {
            let told = told.unwrap();
            all.offsets.extend(told.offsets);
            all.unknown.extend(told.unknown);
        }
        all
    }
}

impl Told {
    async fn send(&mut self, producer: &Producer, topic: &str, value: String) {
        loop {
            let sent = producer
                .send(topic, record(&value), Duration::from_secs(60))
                .await;
            match sent {
                Ok(written) => {
                    let offset = written.offset.expect("the broker tells it");
                    self.offsets.insert(value, offset);
                }
                Err(not) if not.may_be_written() => _ = self.unknown.insert(value),
                Err(_) => continue,
            }
            break;
        }
    }

    /// Reads all, and compares.
    async fn check(mut self, world: &World) {
        assert!(self.offsets.len() + self.unknown.len() >= SENDERS * EACH);
        let mut session = world.session("reader", AutoOffsetReset::Earliest);
        session.assign(&[TOPIC]);
        let end = session.bounds(&[TOPIC], Bound::End).await.unwrap()[0].1;
        let (mut values, end) = (Vec::new(), usize::try_from(end).unwrap());
        while values.len() < end {
            values.extend(session.read(1).await);
        }
        assert_eq!(values.len(), end);
        let mut seen = BTreeSet::new();
        for (offset, value) in (0i64..).zip(&values) {
            assert!(seen.insert(value), "{value} is there twice");
            match self.offsets.remove(value) {
                Some(told) => assert_eq!(told, offset, "{value}"),
                None => assert!(self.unknown.contains(value), "{value} was surely not written"),
            }
        }
        assert!(self.offsets.is_empty(), "lost: {:?}", self.offsets);
        for sender in 0..SENDERS {
            let prefix = format!("{sender}.");
            let numbers = values.iter().filter_map(|value| value.strip_prefix(&prefix));
            let numbers: Vec<usize> = numbers.map(|number| number.parse().unwrap()).collect();
            assert!(numbers.is_sorted(), "{sender} wrote one behind the other");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_records_outlive_their_leader() {
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
    world.topic(TOPIC, &[]).await;
    let producer = world.cluster.producer(Config::default());
    let senders = Senders::start(&producer, &world.name(TOPIC), Duration::ZERO);
    for _ in 0..3 {
        senders.go_on(SENDERS * EACH / 4).await;
        // In the middle of what it does, with requests that were read and not answered.
        link.cut();
        leader.shutdown().await;
        leader = link.broker(config.clone()).await;
    }
    let told = senders.end().await;
    assert_eq!(told.unknown.len(), 0, "each was sent until its fate was known");
    told.check(&world).await;
}

/// The same on three nodes of Apache Kafka, one after the other of which is killed, and then one halted for as long as it
/// takes the others to do without it. Where `OCTOPUS_TEST_KAFKA` asks for a real Kafka.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_records_outlive_each_node_of_a_cluster() {
    if env::var_os("OCTOPUS_TEST_KAFKA").is_none() {
        return;
    }
    let nodes = tokio::task::spawn_blocking(|| Nodes::start(Release::default())).await;
    let nodes = Arc::new(nodes.unwrap().unwrap());
    let addresses = nodes.iter().map(|node| node.address()).collect();
    let world = World {
        cluster: Cluster::new(octopus_kafka::Config::new(addresses)),
        ..World::embedded().await
    };
    world.topic(TOPIC, &[]).await;
    let producer = world.cluster.producer(Config::default());
    let senders = Senders::start(&producer, &world.name(TOPIC), Duration::from_millis(50));
    let some = SENDERS * 10;
    for id in 1..=3 {
        senders.go_on(some).await;
        let nodes = Arc::clone(&nodes);
        nodes.node(id).kill().unwrap();
        senders.go_on(some).await;
        let restarted = tokio::task::spawn_blocking(move || nodes.node(id).restart()).await;
        restarted.unwrap().unwrap();
    }
    for id in 1..=3 {
        senders.go_on(some).await;
        nodes.node(id).stop().unwrap();
        senders.go_on(some).await;
        nodes.node(id).cont().unwrap();
    }
    senders.go_on(some).await;
    let told = senders.end().await;
    println!(
        "{} written, {} of an unknown fate",
        told.offsets.len(),
        told.unknown.len()
    );
    told.check(&world).await;
}
