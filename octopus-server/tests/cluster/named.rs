//! Single cases on the Apache Kafka that `OCTOPUS_TEST_KAFKA` names, changed by librdkafka's admin client.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use octopus_core::{AutoOffsetReset, FetchPlan, Name, Open, Records, Settings, TopicPartition};
use octopus_kafka::{
    Cluster, Config,
    records::{BatchWriter, Compression},
};
use serde_json::{Value, json};
use tokio::{task::spawn_blocking, time::sleep};

use super::{
    admin::{Admin, python, script},
    support::{
        client::{BINARY, Client, Response},
        kafka::{Broker, on_kafka},
        server::Server,
    },
};

/// How often something is tried that needs others to be done first.
const TRIES: usize = 240;
const REST: Duration = Duration::from_millis(250);
const POLICIES: [&str; 3] = ["earliest", "latest", "none"];

/// One Kafka, the binary on it, and its first user.
struct Single {
    broker: Broker,
    admin: Arc<Admin>,
    _server: Server,
    user: Client,
}

impl Single {
    /// `None` where there is no real Kafka or no Python, which is printed.
    async fn start() -> Option<Self> {
        let python = python()?;
        let broker = Broker::start().await;
        if broker.kafka.embedded().is_some() {
            println!("skipped: OCTOPUS_TEST_KAFKA names no Kafka");
            return None;
        }
        let server = Server::start(&broker.address(), &[]).await;
        Some(Self {
            admin: Arc::new(Admin::start(&python, &broker.address())),
            user: server.user(0),
            _server: server,
            broker,
        })
    }

    fn name(&self, topic: &str) -> String {
        on_kafka(&self.user, topic)
    }

    /// Has the admin client do something.
    async fn ask(&self, command: Value) -> Value {
        let admin = Arc::clone(&self.admin);
        spawn_blocking(move || admin.ask(&command)).await.unwrap()
    }

    /// Makes a topic of the user's with a configuration and these values in it, a batch each.
    async fn topic(&self, topic: &str, config: Value, values: &[&str]) {
        self.ask(json!(["create", self.name(topic), config])).await;
        for value in values {
            self.write(topic, value).await;
        }
    }

    async fn write(&self, topic: &str, value: &str) -> i64 {
        self.broker.write(&self.name(topic), &[value.as_bytes()]).await
    }

    /// An instance with a policy that a topic is assigned to, as soon as Kafka shows it.
    async fn reader(&self, topic: &str, policy: &str) -> Reader<'_> {
        let create = json!({"name": topic, "auto.offset.reset": policy}).to_string();
        self.user.post("/api/v2/consumers/g", &create).await.expect(200);
        let reader = Reader {
            world: self,
            topic: topic.to_owned(),
            instance: format!("/api/v2/consumers/g/instances/{topic}"),
        };
        let partitions = reader.partitions().to_string();
        for _ in 0..TRIES {
            let path = format!("{}/assignments", reader.instance);
            if self.user.post(&path, &partitions).await.status == 204 {
                return reader;
            }
            sleep(REST).await;
        }
        panic!("{topic} can not be assigned");
    }
}

struct Reader<'a> {
    world: &'a Single,
    topic: String,
    instance: String,
}

impl Reader<'_> {
    fn partitions(&self) -> Value {
        json!({"partitions": [{"topic": self.topic, "partition": 0}]})
    }

    async fn fetch(&self) -> Response {
        let user = &self.world.user;
        user.fetch(&self.instance, "?timeout=1000", BINARY).await
    }

    /// Reads that many records, as offset and value.
    async fn read(&self, many: usize) -> Vec<(i64, String)> {
        let mut read = Vec::new();
        for _ in 0..TRIES {
            for record in self.fetch().await.expect(200).json().as_array().unwrap() {
                read.push((record["offset"].as_i64().unwrap(), value(record)));
            }
            if read.len() >= many {
                return read;
            }
        }
        panic!("{}: only {read:?}", self.topic);
    }

    async fn seek(&self, offset: i64) {
        let to = json!({"offsets": [{"topic": self.topic, "partition": 0, "offset": offset}]});
        let path = format!("{}/positions", self.instance);
        self.world.user.post(&path, &to.to_string()).await.expect(204);
    }

    /// Commits where it is; gives what Kafka has then, if it has something.
    async fn position(&self) -> Option<i64> {
        let path = format!("{}/offsets", self.instance);
        self.world.user.post(&path, "").await.expect(200);
        let body = self.partitions().to_string();
        let offsets = self.world.user.send("GET", &path, &[], &body).await.expect(200);
        offsets.json()["offsets"][0]["offset"].as_i64()
    }

    /// Fetches until the fetch is refused.
    async fn refused(&self) -> (u16, u64) {
        for _ in 0..TRIES {
            let reply = self.fetch().await;
            if reply.status != 200 {
                return reply.error();
            }
        }
        panic!("{}: never refused", self.topic);
    }
}

fn value(record: &Value) -> String {
    use base64::{Engine, prelude::BASE64_STANDARD};
    let text = record["value"].as_str().unwrap();
    String::from_utf8(BASE64_STANDARD.decode(text).unwrap()).unwrap()
}

fn pairs(of: &[(i64, &str)]) -> Vec<(i64, String)> {
    of.iter()
        .map(|&(offset, value)| (offset, value.to_owned()))
        .collect()
}

/// [D-22] [NS-05] while a topic is gone there is nothing of it, and made again it is read as one that was never read: from
/// its first record, from where it ended at the first look, or not before a seek.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_deleted_and_made_again_under_a_reader_is_read_by_policy() {
    let Some(world) = Single::start().await else {
        return;
    };
    for policy in POLICIES {
        let topic = format!("again-{policy}");
        world.topic(&topic, json!({}), &["0", "1", "2"]).await;
        let reader = world.reader(&topic, policy).await;
        reader.seek(1).await;
        assert_eq!(reader.read(2).await, pairs(&[(1, "1"), (2, "2")]));
        // A record is left to read, which is gone with its topic.
        reader.seek(2).await;
        world.ask(json!(["delete", world.name(&topic)])).await;
        let mut tries = 0;
        while reader.fetch().await.expect(200).json() != json!([]) {
            reader.seek(2).await;
            tries += 1;
            assert!(tries < TRIES, "{topic} is still read");
        }
        world
            .topic(&topic, json!({}), &["new-0", "new-1", "new-2", "new-3"])
            .await;
        match policy {
            "earliest" => {
                let new = pairs(&[(0, "new-0"), (1, "new-1"), (2, "new-2"), (3, "new-3")]);
                assert_eq!(reader.read(4).await, new);
            }
            "latest" => {
                // Where it was in the old topic is no place in the new one.
                let mut tries = 0;
                while reader.position().await != Some(4) {
                    assert_eq!(reader.fetch().await.expect(200).json(), json!([]));
                    tries += 1;
                    assert!(tries < TRIES, "never at the end of the new topic");
                }
                world.write(&topic, "new-4").await;
                assert_eq!(reader.read(1).await, pairs(&[(4, "new-4")]));
            }
            _ => {
                assert_eq!(reader.refused().await, (500, 50002));
                assert_eq!(reader.refused().await, (500, 50002));
                reader.seek(3).await;
                assert_eq!(reader.read(1).await, pairs(&[(3, "new-3")]));
            }
        }
    }
}

/// [D-20] a position whose records were deleted is reset by policy: to the first record left, to the end, or not
/// before a seek.
#[tokio::test(flavor = "multi_thread")]
async fn a_position_whose_records_were_deleted_is_reset_by_policy() {
    let Some(world) = Single::start().await else {
        return;
    };
    for policy in POLICIES {
        let topic = format!("deleted-{policy}");
        world
            .topic(&topic, json!({}), &["0", "1", "2", "3", "4", "5"])
            .await;
        let reader = world.reader(&topic, policy).await;
        reader.seek(1).await;
        let low = world.ask(json!(["delete_records", world.name(&topic), 4])).await;
        assert_eq!(low, json!(4));
        match policy {
            "earliest" => assert_eq!(reader.read(2).await, pairs(&[(4, "4"), (5, "5")])),
            "latest" => {
                assert_eq!(reader.fetch().await.expect(200).json(), json!([]));
                assert_eq!(world.write(&topic, "6").await, 6);
                assert_eq!(reader.read(1).await, pairs(&[(6, "6")]));
            }
            _ => {
                assert_eq!(reader.refused().await, (500, 50002));
                reader.seek(5).await;
                assert_eq!(reader.read(1).await, pairs(&[(5, "5")]));
            }
        }
    }
}

/// [FE-11] [CO-02] what is left of a compacted topic is read in order, once, and the position passes its holes.
#[tokio::test(flavor = "multi_thread")]
async fn a_compacted_topic_is_read_over_its_holes() {
    let Some(world) = Single::start().await else {
        return;
    };
    let config = json!({
        "cleanup.policy": "compact", "segment.ms": "200", "min.cleanable.dirty.ratio": "0.001",
        "min.compaction.lag.ms": "0", "delete.retention.ms": "0",
    });
    world.topic("compacted", config, &[]).await;
    let write = async |keys: &[&str], value: String| {
        let mut batch = BatchWriter::new(Compression::Lz4);
        for key in keys {
            batch.push(now(), Some(key.as_bytes()), Some(value.as_bytes()), &[]);
        }
        let first = world
            .broker
            .append(&world.name("compacted"), batch.finish())
            .await;
        first + i64::try_from(keys.len()).unwrap()
    };
    // A batch that keeps some of its records, batches that keep none, and one that keeps its last.
    write(&["kept-0", "often", "kept-1"], "0".to_owned()).await;
    for round in 0..3 {
        write(&["often", "often"], round.to_string()).await;
    }
    write(&["often", "kept-2"], "3".to_owned()).await;
    let reader = world.reader("compacted", "earliest").await;
    let mut end = 11;
    let mut read = Vec::new();
    for round in 4..TRIES {
        // A write after a while begins a new segment; only what is behind it is compacted.
        end = write(&["often"], round.to_string()).await;
        reader.seek(0).await;
        read.clear();
        while read.last().is_none_or(|(offset, _)| offset + 1 < end) {
            read.extend(reader.read(1).await);
        }
        let kept: Vec<_> = read
            .iter()
            .map(|(offset, _)| *offset)
            .take_while(|&o| o < 11)
            .collect();
        if kept == [0, 2, 10] {
            break;
        }
        sleep(REST).await;
    }
    assert_eq!(read[..3], pairs(&[(0, "0"), (2, "0"), (10, "3")]));
    assert!(read.is_sorted_by(|a, b| a.0 < b.0), "{read:?}");
    assert_eq!(reader.position().await, Some(end));
    // From within a hole it goes on behind it.
    reader.seek(4).await;
    assert_eq!(reader.read(1).await[0], (10, "3".to_owned()));
}

/// Where the topic says so, a record's timestamp is the broker's, not the producer's.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_has_the_timestamp_of_the_log_where_the_topic_says_so() {
    let Some(world) = Single::start().await else {
        return;
    };
    for (kind, is_of_log) in [("LogAppendTime", true), ("CreateTime", false)] {
        let topic = format!("time-{kind}");
        world
            .topic(&topic, json!({"message.timestamp.type": kind}), &[])
            .await;
        let before = now();
        let mut batch = BatchWriter::new(Compression::Zstd);
        for hours in [3, 2, 1] {
            batch.push(before - hours * 3_600_000, None, Some(b"an old one"), &[]);
        }
        world.broker.append(&world.name(&topic), batch.finish()).await;
        let after = now();

        let cluster = Cluster::new(Config::new(vec![world.broker.address()]));
        let mut settings = Settings::default();
        settings.auto_offset_reset = AutoOffsetReset::Earliest;
        let group = Name::parse(&world.name(&topic)).unwrap();
        let consumer = cluster.consumer(&Open::outside(group, settings), |_| {});
        let plan = FetchPlan::of([TopicPartition::only(world.name(&topic).as_str().into())]);
        let mut times = Vec::new();
        for _ in 0..TRIES {
            let polled = consumer.poll(&plan, REST).await.unwrap();
            for (_, mut records) in polled.parts {
                while let Some(record) = records.next() {
                    times.push(record.unwrap().timestamp);
                }
            }
            if !times.is_empty() {
                break;
            }
        }
        if is_of_log {
            assert_eq!(times.len(), 3);
            assert!(
                times.iter().all(|time| (before..=after).contains(time)),
                "{times:?}"
            );
        } else {
            assert_eq!(times, [3, 2, 1].map(|hours| before - hours * 3_600_000));
        }
    }
}

/// [D-21] records of transactions that were committed, aborted or are open are read as they come, and markers never.
#[tokio::test(flavor = "multi_thread")]
async fn records_of_transactions_are_read_whatever_becomes_of_them() {
    let Some(world) = Single::start().await else {
        return;
    };
    let Some(python) = python() else { return };
    world.topic("transactions", json!({}), &[]).await;
    let mut command = script(&python, "transact.py");
    command.args([world.broker.address(), world.name("transactions")]);
    let output = spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success());
    let written: Vec<(String, i64)> = serde_json::from_slice(&output.stdout).unwrap();
    let values: Vec<_> = written.iter().map(|(value, _)| value.as_str()).collect();
    let wanted = [
        "committed-0",
        "committed-1",
        "aborted-0",
        "aborted-1",
        "outside",
        "open-0",
        "open-1",
    ];
    assert_eq!(values, wanted);
    let offsets: Vec<_> = written.iter().map(|&(_, offset)| offset).collect();
    assert_eq!(offsets, [0, 1, 3, 4, 6, 7, 8], "a marker ends each transaction");

    let reader = world.reader("transactions", "earliest").await;
    let written: Vec<_> = written
        .into_iter()
        .map(|(value, offset)| (offset, value))
        .collect();
    assert_eq!(reader.read(7).await, written);
    assert_eq!(reader.position().await, Some(9));
    // From a marker on it goes on behind it.
    reader.seek(5).await;
    assert_eq!(reader.read(3).await, written[4..]);
}

/// Milliseconds since 1970 UTC.
fn now() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}
