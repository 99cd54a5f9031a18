//! The Kafka below a test, and what is written to it.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use octopus_core::{Effect, InstanceKey, Name, Namespace, Open, Outcome, Settings, Subject, TopicPartition};
use octopus_kafka::{
    Cluster, Config,
    records::{BatchWriter, Compression},
    testing::Kafka,
};

use super::client::Client;

const SOON: Duration = Duration::from_secs(30);

/// A Kafka with a way to make topics and write to them.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) kafka: Kafka,
    cluster: Cluster,
}

impl Broker {
    pub(crate) async fn start() -> Self {
        let kafka = Kafka::start().await;
        let cluster = Cluster::new(Config::new(vec![kafka.address()]));
        Self { kafka, cluster }
    }

    pub(crate) fn address(&self) -> String {
        self.kafka.address()
    }

    /// Makes a topic of a user's and gives its name on Kafka.
    pub(crate) async fn topic(&self, user: &Client, topic: &str) -> String {
        let name = on_kafka(user, topic);
        self.cluster.create_topic(&name, SOON).await.expect("a topic");
        name
    }

    /// Writes values without keys, as of now, since a Kafka deletes what is old; gives the first one's offset.
    pub(crate) async fn write(&self, topic: &str, values: &[&[u8]]) -> i64 {
        let mut batch = BatchWriter::new(Compression::None);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = i64::try_from(now.expect("a time").as_millis()).expect("a time");
        for value in values {
            batch.push(now, None, Some(value), &[]);
        }
        self.append(topic, batch.finish()).await
    }

    /// What a user's group has committed for a topic.
    pub(crate) async fn committed(&self, user: &Client, group: &str, topic: &str) -> Option<i64> {
        let subject = u128::from_str_radix(&user.subject.replace('-', ""), 16).expect("a subject");
        let open = Open {
            namespace: Namespace::of(Subject::from_uuid(subject)),
            key: InstanceKey {
                subject: Subject::from_uuid(subject),
                group: Name::parse(group).expect("a group"),
                name: Name::parse("looker").expect("a name"),
            },
            settings: Settings::default(),
        };
        let consumer = self.cluster.consumer(&open, |_| {});
        let partition = TopicPartition::only(topic.into());
        match consumer.run(Effect::Committed(vec![partition]), SOON).await {
            Ok(Outcome::Committed(commits)) => commits.first().map(|commit| commit.position.offset),
            other => panic!("{other:?}"),
        }
    }

    /// Writes one batch; gives its first offset.
    pub(crate) async fn append(&self, topic: &str, batch: Bytes) -> i64 {
        self.cluster
            .produce(topic, batch, SOON)
            .await
            .expect("a batch written")
    }
}

/// What a user's topic or group is called on Kafka.
pub(crate) fn on_kafka(user: &Client, name: &str) -> String {
    format!("ns-{}.{name}", &user.subject[24..])
}
