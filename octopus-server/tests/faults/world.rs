//! An embedded broker, the binary on it, and its first user.

use std::time::Duration;

use octopus_core::{
    AutoOffsetReset, Effect, InstanceKey, Join, Name, Namespace, Open, Outcome, Settings, Subject,
};
use octopus_kafka::{
    Cluster, Config, Consumer, GroupProtocol,
    broker::{self, Broker},
    records::{BatchWriter, Compression},
};
use serde_json::{Value, json};

use crate::support::{
    client::{BINARY, Client},
    kafka::on_kafka,
    server::Server,
};

/// The only group of these tests.
pub(crate) const GROUP: &str = "/api/v2/consumers/g";

pub(crate) struct World {
    pub(crate) broker: Broker,
    pub(crate) server: Server,
    pub(crate) user: Client,
    protocol: GroupProtocol,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::with_delay(Duration::ZERO).await
    }

    /// With this delay of a group's first assignment.
    pub(crate) async fn with_delay(initial_rebalance_delay: Duration) -> Self {
        let mut config = broker::Config::default();
        config.initial_rebalance_delay = initial_rebalance_delay;
        Self::of(config, GroupProtocol::Classic).await
    }

    /// With members of this protocol, and the session of 10 s in either.
    pub(crate) async fn speaking(protocol: GroupProtocol) -> Self {
        let mut config = broker::Config::default();
        config.initial_rebalance_delay = Duration::ZERO;
        config.consumer_session_timeout = Duration::from_secs(10);
        config.consumer_heartbeat_interval = Duration::from_secs(1);
        Self::of(config, protocol).await
    }

    async fn of(config: broker::Config, protocol: GroupProtocol) -> Self {
        let broker = Broker::start(config).await.unwrap();
        let name = match protocol {
            GroupProtocol::Classic => "classic",
            GroupProtocol::Consumer => "consumer",
        };
        let flags = ["--kafka-group-protocol", name];
        let server = Server::start(&broker.addr().to_string(), &flags).await;
        let user = server.user(0);
        Self {
            broker,
            server,
            user,
            protocol,
        }
    }

    /// What a topic or a group of the user's is called on Kafka.
    pub(crate) fn name(&self, name: &str) -> String {
        on_kafka(&self.user, name)
    }

    /// Makes a topic with these values, a batch each.
    pub(crate) fn topic(&self, topic: &str, values: &[&str]) {
        assert!(self.broker.create_topic(&self.name(topic)));
        for value in values {
            self.write(topic, value.as_bytes(), Compression::None);
        }
    }

    /// Writes a batch of one record; gives its offset.
    pub(crate) fn write(&self, topic: &str, value: &[u8], compression: Compression) -> i64 {
        let mut batch = BatchWriter::new(compression);
        batch.push(1_700_000_000_000, None, Some(value), &[]);
        self.broker.append(&self.name(topic), batch.finish()).unwrap()
    }

    /// Makes an instance that starts at the first record; gives its URL.
    pub(crate) async fn create(&self, name: &str, auto_commit: bool) -> String {
        let create = json!({
            "name": name,
            "auto.offset.reset": "earliest",
            "auto.commit.enable": auto_commit,
        });
        self.user.post(GROUP, &create.to_string()).await.expect(200);
        format!("{GROUP}/instances/{name}")
    }

    pub(crate) async fn assign(&self, instance: &str, topics: &[&str]) {
        let partitions = topics.iter().map(|topic| json!({"topic": topic, "partition": 0}));
        let body = json!({"partitions": partitions.collect::<Vec<_>>()}).to_string();
        self.user
            .post(&format!("{instance}/assignments"), &body)
            .await
            .expect(204);
    }

    pub(crate) async fn subscribe(&self, instance: &str, topics: &[&str]) {
        let body = json!({"topics": topics}).to_string();
        self.user
            .post(&format!("{instance}/subscription"), &body)
            .await
            .expect(204);
    }

    pub(crate) async fn seek(&self, instance: &str, topic: &str, offset: i64) {
        let body = json!({"offsets": [{"topic": topic, "partition": 0, "offset": offset}]}).to_string();
        self.user
            .post(&format!("{instance}/positions"), &body)
            .await
            .expect(204);
    }

    /// Fetches until there are so many records; gives their values.
    pub(crate) async fn read(&self, instance: &str, count: usize) -> Vec<String> {
        let mut values = Vec::new();
        while values.len() < count {
            let records = self.user.fetch_some(instance, "?timeout=1000", BINARY).await;
            values.extend(records.iter().map(value));
        }
        values
    }

    /// A member of the user's group that is another program's.
    pub(crate) fn foreign(&self, name: &str) -> Consumer {
        let subject = u128::from_str_radix(&self.user.subject.replace('-', ""), 16).unwrap();
        let mut settings = Settings::default();
        settings.auto_offset_reset = AutoOffsetReset::Earliest;
        let open = Open {
            namespace: Namespace::of(Subject::from_uuid(subject)),
            key: InstanceKey {
                subject: Subject::from_uuid(subject),
                group: Name::parse("g").unwrap(),
                name: Name::parse(name).unwrap(),
            },
            settings,
        };
        let mut config = Config::new(vec![self.broker.addr().to_string()]);
        config.group_protocol = self.protocol;
        Cluster::new(config).consumer(&open, |_| {})
    }
}

/// Has a consumer join with these topics until it has one of them, however long that takes.
pub(crate) async fn join(consumer: &Consumer, topics: &[&str]) {
    let joined = async {
        loop {
            let join = Join {
                topics: topics.iter().map(|topic| (*topic).into()).collect(),
                commit: Vec::new(),
            };
            let within = Duration::from_secs(60);
            match consumer.run(Effect::Join(join), within).await {
                Ok(Outcome::Joined(has)) if has.is_empty() => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Ok(Outcome::Joined(_)) => return,
                outcome => panic!("{outcome:?}"),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), joined)
        .await
        .expect("its share");
}

/// A binary record's value, as text.
pub(crate) fn value(record: &Value) -> String {
    use base64::Engine as _;
    let value = base64::prelude::BASE64_STANDARD.decode(record["value"].as_str().unwrap());
    String::from_utf8(value.unwrap()).unwrap()
}
