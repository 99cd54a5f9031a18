//! Clients that write one request behind the other and never send one again, and what they were told.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::support::client::{Client, JSON, Response};

/// How many clients write records one by one, and how many of them each has acknowledged at least.
const SINGLE: usize = 40;
const REQUESTS: usize = 150;
/// How many write batches, how large ones, and how many of their records as above: 10,000 records in all.
const BATCH: usize = 10;
const ENTRIES: usize = 10;
const BATCHES: usize = 40;
/// The least number of records that are acknowledged.
pub(crate) const LEAST: usize = SINGLE * REQUESTS + BATCH * BATCHES * ENTRIES;
/// Longer than anything that is waited for; only a hang meets it.
const PATIENCE: Duration = Duration::from_secs(150);

/// The running clients.
pub(crate) struct Senders {
    tasks: JoinSet<Told>,
    sent: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
}

/// What the service said of each record, by its value.
#[derive(Debug, Default)]
pub(crate) struct Told {
    offsets: BTreeMap<String, i64>,
    /// Refused with 429 or 503: not written.
    not_written: BTreeSet<String>,
    /// Refused with 500.
    unknown: BTreeSet<String>,
}

impl Senders {
    /// Starts them on a user's topic; each waits so long between two requests.
    pub(crate) fn start(user: &Client, topic: &str, pause: Duration) -> Self {
        let (sent, over) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let mut tasks = JoinSet::new();
        for sender in 0..SINGLE + BATCH {
            let (user, path) = (user.clone(), records(user, topic));
            let (sent, over) = (Arc::clone(&sent), Arc::clone(&over));
            tasks.spawn(async move {
                let mut told = Told::default();
                let (least, entries) = if sender < SINGLE {
                    (REQUESTS, 1)
                } else {
                    (BATCHES, ENTRIES)
                };
                for number in 0.. {
                    if told.offsets.len() >= least * entries && over.load(Ordering::Relaxed) {
                        break;
                    }
                    if sender < SINGLE {
                        told.record(&user, &path, &format!("{sender}.{number}")).await;
                    } else {
                        told.batch(&user, &path, sender, number * entries).await;
                    }
                    sent.fetch_add(entries, Ordering::Relaxed);
                    sleep(pause).await;
                }
                told
            });
        }
        Self { tasks, sent, over }
    }

    /// Waits until so many more records were answered.
    pub(crate) async fn go_on(&self, records: usize) {
        let until = self.sent.load(Ordering::Relaxed) + records;
        let answered = async {
            while self.sent.load(Ordering::Relaxed) < until {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, answered).await.expect("records are answered");
    }

    /// Lets them end.
    pub(crate) async fn end(mut self) -> Told {
        self.over.store(true, Ordering::Relaxed);
        let mut all = Told::default();
        while let Some(told) = self.tasks.join_next().await {
            let told = told.unwrap();
            all.offsets.extend(told.offsets);
            all.not_written.extend(told.not_written);
            all.unknown.extend(told.unknown);
        }
        all
    }
}

impl Told {
    async fn record(&mut self, user: &Client, path: &str, value: &str) {
        let body = json!({"value": {"type": "JSON", "data": value}}).to_string();
        let reply = send(user, path, &body).await;
        if reply.status == 200 {
            self.written(value, &reply.json());
        } else {
            self.refused(value, reply.status);
        }
    }

    async fn batch(&mut self, user: &Client, path: &str, sender: usize, first: usize) {
        let value = |id: &str| format!("{sender}.{id}");
        let ids: Vec<_> = (first..first + ENTRIES).map(|id| id.to_string()).collect();
        let entry = |id: &String| json!({"id": id, "value": {"type": "JSON", "data": value(id)}});
        let entries: Vec<_> = ids.iter().map(entry).collect();
        let body = json!({ "entries": entries }).to_string();
        let reply = send(user, &format!("{path}:batch"), &body).await;
        if reply.status != 207 {
            for id in &ids {
                self.refused(&value(id), reply.status);
            }
            return;
        }
        let reply = reply.json();
        for success in reply["successes"].as_array().unwrap() {
            self.written(&value(success["id"].as_str().unwrap()), success);
        }
        for failure in reply["failures"].as_array().unwrap() {
            let code = failure["error_code"].as_u64().unwrap();
            let status = if code < 1000 { code } else { code / 100 };
            let status = u16::try_from(status).unwrap();
            self.refused(&value(failure["id"].as_str().unwrap()), status);
        }
    }

    fn written(&mut self, value: &str, reply: &Value) {
        let offset = reply["offset"].as_i64().unwrap();
        assert!(offset >= 0, "{reply}");
        assert_eq!(self.offsets.insert(value.to_owned(), offset), None, "{value}");
    }

    fn refused(&mut self, value: &str, status: u16) {
        match status {
            429 | 503 => self.not_written.insert(value.to_owned()),
            500 => self.unknown.insert(value.to_owned()),
            _ => panic!("{value}: {status}"),
        };
    }

    /// Whether each record has its answer, and none is of an unknown fate.
    pub(crate) fn all_known(&self) -> bool {
        self.unknown.is_empty()
    }

    /// Reads the whole topic back by HTTP, and compares.
    pub(crate) async fn check(&self, user: &Client, topic: &str) {
        println!(
            "{} acknowledged, {} not written, {} of an unknown fate",
            self.offsets.len(),
            self.not_written.len(),
            self.unknown.len()
        );
        assert!(self.offsets.len() >= LEAST);
        let mut left = self.offsets.clone();
        let mut seen = BTreeSet::new();
        let read = read(user, topic).await;
        for (offset, value) in &read {
            assert!(seen.insert(value), "{value} is there twice");
            match left.remove(value) {
                Some(told) => assert_eq!(told, *offset, "{value}"),
                None => assert!(self.unknown.contains(value), "{value} was surely not written"),
            }
        }
        assert!(left.is_empty(), "lost: {left:?}");
        for sender in 0..SINGLE + BATCH {
            let prefix = format!("{sender}.");
            let numbers = read.iter().filter_map(|(_, value)| value.strip_prefix(&prefix));
            let numbers: Vec<usize> = numbers.map(|number| number.parse().unwrap()).collect();
            assert!(numbers.is_sorted(), "{sender} wrote one behind the other");
        }
    }
}

/// The path of the records of a user's topic.
pub(crate) fn records(user: &Client, topic: &str) -> String {
    format!("/api/v3/ns-{}/topics/{topic}/records", &user.subject[24..])
}

pub(crate) async fn send(user: &Client, path: &str, body: &str) -> Response {
    let head = [("Content-Type", "application/json")];
    let reply = timeout(PATIENCE, user.send("POST", path, &head, body));
    reply.await.expect("an answer in time")
}

/// Every record of a topic by its offset, up to the last one there is.
async fn read(user: &Client, topic: &str) -> Vec<(i64, String)> {
    const LAST: &str = "the last one";
    let body = json!({"value": {"type": "JSON", "data": LAST}}).to_string();
    send(user, &records(user, topic), &body).await.expect(200);
    let create = r#"{"name": "all", "format": "json", "auto.offset.reset": "earliest"}"#;
    user.post("/api/v2/consumers/readers", create).await.expect(200);
    let instance = "/api/v2/consumers/readers/instances/all";
    let partitions = json!({"partitions": [{"topic": topic, "partition": 0}]}).to_string();
    user.post(&format!("{instance}/assignments"), &partitions)
        .await
        .expect(204);
    let mut read = Vec::new();
    loop {
        for record in user.fetch_some(instance, "?timeout=5000", JSON).await {
            let value = record["value"].as_str().unwrap().to_owned();
            if value == LAST {
                return read;
            }
            read.push((record["offset"].as_i64().unwrap(), value));
        }
    }
}
