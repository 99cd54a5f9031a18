//! A broker, a namespace of its own for each test, and consumers with the positions that the engine would keep.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime},
};

use octopus_core::{
    AutoOffsetReset, Bound, Commit, Effect, Error, FetchPlan, Format, InstanceKey, Join, Name, Namespace,
    Open, Outcome, Position, Records as _, Settings, Subject, TopicPartition,
};
use octopus_kafka::{
    Cluster, Config, Consumer, GroupProtocol, Polled, Signal,
    broker::{self, ApiKey, Broker, Received},
    records::{BatchWriter, Compression},
    testing::Kafka,
};
use tokio::{sync::mpsc, time::timeout};

/// Generous: a shared machine may be slow.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// A turn of a fetch.
pub(crate) const TURN: Duration = Duration::from_millis(500);

pub(crate) struct World {
    /// None where the broker is a real Kafka.
    pub(crate) broker: Option<Broker>,
    pub(crate) cluster: Cluster,
    pub(crate) config: Config,
    pub(crate) namespace: Namespace,
    pub(crate) subject: Subject,
}

impl World {
    /// On the real Kafka if there is one.
    pub(crate) async fn new() -> Self {
        match Kafka::start().await {
            Kafka::Embedded(broker) => Self::of(broker),
            Kafka::Real(address) => Self::on(None, address),
        }
    }

    pub(crate) fn of(broker: Broker) -> Self {
        let address = broker.addr().to_string();
        Self::on(Some(broker), address)
    }

    /// On the embedded broker, for what a real one can't be asked to do.
    pub(crate) async fn embedded() -> Self {
        Self::with_delay(Duration::ZERO).await
    }

    /// With members of this protocol.
    pub(crate) fn speaking(mut self, protocol: GroupProtocol) -> Self {
        self.config.group_protocol = protocol;
        self.cluster = Cluster::new(self.config.clone());
        self
    }

    /// Where a member that is heard no more is gone soon.
    pub(crate) async fn forgetful() -> Self {
        let world = Self::embedded().await;
        let mut config = Config::new(vec![world.broker().addr().to_string()]);
        config.session_timeout = Duration::from_secs(2);
        config.heartbeat_interval = Duration::from_millis(300);
        Self {
            cluster: Cluster::new(config.clone()),
            config,
            ..world
        }
    }

    pub(crate) async fn with_delay(initial_rebalance_delay: Duration) -> Self {
        let mut config = broker::Config::default();
        config.initial_rebalance_delay = initial_rebalance_delay;
        config.min_session_timeout = Duration::from_secs(1);
        config.consumer_heartbeat_interval = Duration::from_millis(300);
        Self::of(Broker::start(config).await.unwrap())
    }

    fn on(broker: Option<Broker>, address: String) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let number = since.as_micros() * 1000 + u128::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let subject = Subject::from_uuid(number);
        let mut config = Config::new(vec![address]);
        config.session_timeout = Duration::from_secs(6);
        config.heartbeat_interval = Duration::from_millis(300);
        Self {
            broker,
            cluster: Cluster::new(config.clone()),
            config,
            namespace: Namespace::of(subject),
            subject,
        }
    }

    pub(crate) fn broker(&self) -> &Broker {
        self.broker.as_ref().expect("an embedded broker")
    }

    /// A topic's or a group's name on Kafka.
    pub(crate) fn name(&self, name: &str) -> String {
        self.namespace.qualify(name)
    }

    pub(crate) async fn topic(&self, topic: &str, values: &[&str]) {
        self.cluster
            .create_topic(&self.name(topic), PATIENCE)
            .await
            .unwrap();
        self.produce(topic, values).await;
    }

    pub(crate) async fn produce(&self, topic: &str, values: &[&str]) {
        for value in values {
            self.cluster
                .produce(&self.name(topic), batch(&[value]), PATIENCE)
                .await
                .unwrap();
        }
    }

    pub(crate) fn session(&self, name: &str, reset: AutoOffsetReset) -> Session {
        self.session_of("group", name, reset)
    }

    pub(crate) fn session_of(&self, group: &str, name: &str, reset: AutoOffsetReset) -> Session {
        let mut settings = Settings::default();
        settings.auto_offset_reset = reset;
        let key = InstanceKey {
            subject: self.subject,
            group: Name::parse(group).unwrap(),
            name: Name::parse(name).unwrap(),
        };
        let open = Open {
            namespace: self.namespace.clone(),
            key,
            settings,
        };
        let (signal, signals) = mpsc::unbounded_channel();
        let consumer = self.cluster.consumer(&open, move |what| _ = signal.send(what));
        Session {
            consumer,
            signals,
            positions: Vec::new(),
            min_bytes: 1,
        }
    }

    /// How many members the group `group` has, of either protocol.
    pub(crate) fn members(&self) -> usize {
        let (broker, group) = (self.broker(), self.name("group"));
        broker.group_members(&group).len() + broker.consumer_members(&group).len()
    }

    /// The requests of this API that the broker received.
    pub(crate) fn received(&self, api: ApiKey) -> Vec<Received> {
        let requests = self.broker().requests().into_iter();
        requests.filter(|received| received.api == api).collect()
    }
}

/// One batch of records without keys.
pub(crate) fn batch(values: &[&str]) -> bytes::Bytes {
    let mut batch = BatchWriter::new(Compression::None);
    for value in values {
        batch.push(1_700_000_000_000, None, Some(value.as_bytes()), &[]);
    }
    batch.finish()
}

pub(crate) fn at(topic: &str) -> TopicPartition {
    TopicPartition::only(topic.into())
}

/// A consumer, and what the engine would keep of it.
pub(crate) struct Session {
    pub(crate) consumer: Consumer,
    pub(crate) signals: mpsc::UnboundedReceiver<Signal>,
    pub(crate) positions: Vec<(TopicPartition, Option<Position>)>,
    pub(crate) min_bytes: i32,
}

impl Session {
    pub(crate) fn assign(&mut self, topics: &[&str]) {
        self.positions = topics.iter().map(|topic| (at(topic), None)).collect();
    }

    pub(crate) fn seek(&mut self, topic: &str, offset: i64) {
        let position = self
            .positions
            .iter_mut()
            .find(|(partition, _)| *partition == at(topic));
        position.unwrap().1 = Some(Position::at(offset));
    }

    pub(crate) fn position(&self, topic: &str) -> Option<i64> {
        let position = self
            .positions
            .iter()
            .find(|(partition, _)| *partition == at(topic));
        Some(position?.1?.offset)
    }

    pub(crate) fn plan(&self) -> FetchPlan {
        FetchPlan {
            positions: self.positions.clone(),
            min_bytes: self.min_bytes,
            max_bytes: None,
            format: Format::Binary,
        }
    }

    pub(crate) async fn run(&self, effect: Effect) -> Result<Outcome, Error> {
        self.consumer.run(effect, Duration::from_secs(10)).await
    }

    /// Joins with these topics; returns those that it got.
    pub(crate) async fn join(&mut self, topics: &[&str]) -> Vec<String> {
        let joined = timeout(PATIENCE, async {
            loop {
                match self.try_join(topics, TURN).await {
                    Outcome::Joined(partitions) => return partitions,
                    Outcome::Joining => {}
                    outcome => panic!("{outcome:?}"),
                }
            }
        });
        let partitions = joined.await.expect("the join ends");
        self.positions = partitions
            .iter()
            .map(|at| {
                let kept = self.positions.iter().find(|(partition, _)| partition == at);
                (at.clone(), kept.and_then(|(_, position)| *position))
            })
            .collect();
        partitions.iter().map(|at| at.topic.to_string()).collect()
    }

    /// Joins with these topics, and again as often as the group has more for it, until it has some of them.
    pub(crate) async fn come_to(&mut self, topics: &[&str], some: &[&str]) {
        let mut has = self.join(topics).await;
        while has != some {
            assert_eq!(self.signal().await, Signal::Rebalance, "it has {has:?} only");
            has = self.join(topics).await;
        }
    }

    pub(crate) async fn try_join(&self, topics: &[&str], within: Duration) -> Outcome {
        self.consumer
            .run(Effect::Join(join(topics)), within)
            .await
            .unwrap()
    }

    /// One turn: what it read, with the positions moved as if it was delivered.
    pub(crate) async fn turn(&mut self, within: Duration) -> Result<Turn, Error> {
        let polled = self.consumer.poll(&self.plan(), within).await?;
        Ok(self.take(polled))
    }

    /// One turn whose time also ends with `hurried`.
    pub(crate) async fn turn_until(
        &mut self,
        within: Duration,
        hurried: impl Future<Output = ()>,
    ) -> Result<Turn, Error> {
        let polled = self.consumer.poll_until(&self.plan(), within, hurried).await?;
        Ok(self.take(polled))
    }

    pub(crate) fn take(&mut self, polled: Polled) -> Turn {
        let mut turn = Turn {
            failed: polled.failed,
            ..Turn::default()
        };
        let moved = |positions: &mut Vec<_>, at: &TopicPartition, to| {
            let position = positions.iter_mut().find(|(partition, _)| partition == at);
            position.unwrap().1 = Some(to);
        };
        for (at, position) in polled.started {
            moved(&mut self.positions, &at, position);
            turn.started.push((at.topic.to_string(), position.offset));
        }
        for (at, mut reader) in polled.parts {
            while let Some(record) = reader.next() {
                let value = record.unwrap().value.unwrap().to_vec();
                turn.values.push(String::from_utf8(value).unwrap());
            }
            moved(&mut self.positions, &at, reader.position());
        }
        turn
    }

    /// Reads until there are this many records.
    pub(crate) async fn read(&mut self, count: usize) -> Vec<String> {
        let mut values = Vec::new();
        let read = timeout(PATIENCE, async {
            while values.len() < count {
                let turn = self.turn(TURN).await.unwrap();
                assert_eq!(turn.failed, []);
                values.extend(turn.values);
            }
        });
        read.await.expect("there are records");
        values
    }

    pub(crate) async fn commit(&self, topic: &str, offset: i64, metadata: &str) -> Result<(), Error> {
        let commit = Commit {
            partition: at(topic),
            position: Position::at(offset),
            metadata: metadata.into(),
        };
        self.run(Effect::Commit(vec![commit]))
            .await
            .map(|outcome| assert_eq!(outcome, Outcome::Done))
    }

    /// What is committed: topic, offset and metadata.
    pub(crate) async fn committed(&self, topics: &[&str]) -> Vec<(String, i64, String)> {
        let partitions = topics.iter().map(|topic| at(topic)).collect();
        match self.run(Effect::Committed(partitions)).await.unwrap() {
            Outcome::Committed(commits) => commits
                .into_iter()
                .map(|commit| {
                    (
                        commit.partition.topic.to_string(),
                        commit.position.offset,
                        commit.metadata.into(),
                    )
                })
                .collect(),
            outcome => panic!("{outcome:?}"),
        }
    }

    pub(crate) async fn bounds(&self, topics: &[&str], bound: Bound) -> Result<Vec<(String, i64)>, Error> {
        let partitions = topics.iter().map(|topic| at(topic)).collect();
        positions(self.run(Effect::Bounds(partitions, bound)).await?)
    }

    pub(crate) async fn start(&self, topics: &[&str]) -> Result<Vec<(String, i64)>, Error> {
        let partitions = topics.iter().map(|topic| at(topic)).collect();
        positions(self.run(Effect::Start(partitions)).await?)
    }

    /// The next signal.
    pub(crate) async fn signal(&mut self) -> Signal {
        timeout(PATIENCE, self.signals.recv())
            .await
            .expect("a signal comes")
            .unwrap()
    }

    pub(crate) fn has_signal(&mut self) -> bool {
        self.signals.try_recv().is_ok()
    }

    pub(crate) async fn leave(&self) {
        assert_eq!(self.run(Effect::Leave).await, Ok(Outcome::Done));
    }
}

fn positions(outcome: Outcome) -> Result<Vec<(String, i64)>, Error> {
    match outcome {
        Outcome::Positions(positions) => Ok(positions
            .into_iter()
            .map(|(at, position)| (at.topic.to_string(), position.offset))
            .collect()),
        outcome => panic!("{outcome:?}"),
    }
}

pub(crate) fn join(topics: &[&str]) -> Join {
    Join {
        topics: topics.iter().map(|topic| (*topic).into()).collect(),
        commit: Vec::new(),
    }
}

pub(crate) fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// What a turn brought.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Turn {
    pub(crate) values: Vec<String>,
    pub(crate) started: Vec<(String, i64)>,
    pub(crate) failed: Vec<(TopicPartition, Error)>,
}

/// Waits until something holds that no event tells of.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = timeout(PATIENCE, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    waited
        .await
        .unwrap_or_else(|_| panic!("it never came to be: {what}"));
}
