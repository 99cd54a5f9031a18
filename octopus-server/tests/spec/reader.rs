//! A consumer instance of a test, and how its events are waited for.

use std::{future::Future, time::Duration};

use octopus_kafka::broker::{ApiKey, Received};
use serde_json::{Value, json};
use tokio::{
    net::TcpSocket,
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::{
    client::{BINARY, Client, Connection, JSON, Response},
    service::Service,
};

/// Longer than anything that a test waits for; only a hang meets it.
const PATIENCE: Duration = Duration::from_secs(60);
/// A turn of a fetch.
pub(crate) const TURN: Duration = Duration::from_millis(500);

/// An instance that a test reads with.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    pub(crate) user: Client,
    /// Its URL's path.
    pub(crate) path: String,
    /// The type that reads its format.
    pub(crate) accept: &'static str,
}

impl Service {
    /// Creates an instance that reads from the first record, with these settings over that.
    pub(crate) async fn reader(&self, user: &Client, group: &str, name: &str, settings: Value) -> Reader {
        let mut create = json!({"name": name, "auto.offset.reset": "earliest"});
        for (setting, value) in settings.as_object().expect("settings") {
            create[setting] = value.clone();
        }
        let is_json = create["format"] == "json";
        let group = format!("/api/v2/consumers/{group}");
        user.post(&group, &create.to_string()).await.expect(200);
        Reader {
            user: user.clone(),
            path: format!("{group}/instances/{name}"),
            accept: if is_json { JSON } else { BINARY },
        }
    }

    /// Writes so many values of one byte.
    pub(crate) fn fill(&self, user: &Client, topic: &str, count: usize) {
        self.write(user, topic, &vec![&b"v"[..]; count]);
    }

    /// Waits for something that needs no time of the service's. Where a slow machine let a turn end without the
    /// records that are there, the clock is moved on to the next turn.
    pub(crate) async fn soon<T>(&self, future: impl Future<Output = T>) -> T {
        tokio::pin!(future);
        for _ in 0..60 {
            if let Ok(done) = timeout(Duration::from_secs(1), &mut future).await {
                return done;
            }
            self.clock.advance(TURN);
        }
        panic!("it does not come");
    }

    /// The requests of one kind that the broker has had.
    pub(crate) fn asked(&self, api: ApiKey) -> Vec<Received> {
        let mut requests = self.broker.requests();
        requests.retain(|request| request.api == api);
        requests
    }

    /// Waits until the broker has had so many requests of one kind in all.
    pub(crate) async fn was_asked(&self, api: ApiKey, count: usize) {
        self.until(|| self.asked(api).len() >= count).await;
    }

    /// Waits until something is so.
    pub(crate) async fn until(&self, is_so: impl Fn() -> bool) {
        timeout(PATIENCE, async {
            while !is_so() {
                sleep(Duration::from_millis(1)).await;
            }
        })
        .await
        .expect("it comes in time");
    }
}

impl Reader {
    pub(crate) async fn assign(&self, topics: &[&str]) {
        self.post("assignments", partitions(topics)).await.expect(204);
    }

    pub(crate) async fn subscribe(&self, topics: &[&str]) {
        self.post("subscription", json!({"topics": topics}))
            .await
            .expect(204);
    }

    /// A request below the instance's URL.
    pub(crate) async fn post(&self, route: &str, body: Value) -> Response {
        self.user
            .post(&format!("{}/{route}", self.path), &body.to_string())
            .await
    }

    /// A commit without a body.
    pub(crate) async fn commit(&self) -> Response {
        self.user.post(&format!("{}/offsets", self.path), "").await
    }

    /// A commit of the last record processed of a topic.
    pub(crate) async fn commit_of(&self, topic: &str, offset: i64) -> Response {
        let at = json!({"topic": topic, "partition": 0, "offset": offset});
        self.post("offsets", json!({"offsets": [at]})).await
    }

    pub(crate) async fn seek(&self, topic: &str, offset: i64) -> Response {
        let at = json!({"topic": topic, "partition": 0, "offset": offset});
        self.post("positions", json!({"offsets": [at]})).await
    }

    /// What the group has committed.
    pub(crate) async fn committed(&self, body: &str) -> Response {
        let path = format!("{}/offsets", self.path);
        self.user.send("GET", &path, &[], body).await
    }

    /// The partitions that are assigned.
    pub(crate) async fn assigned(&self) -> Value {
        let path = format!("{}/assignments", self.path);
        self.user.get(&path).await.expect(200).json()["partitions"].take()
    }

    pub(crate) async fn delete(&self) -> Response {
        self.user.delete(&self.path).await
    }

    /// A fetch that runs beside the test.
    pub(crate) fn fetch(&self, query: &str) -> JoinHandle<Response> {
        let (reader, query) = (self.clone(), query.to_owned());
        tokio::spawn(async move { reader.user.fetch(&reader.path, &query, reader.accept).await })
    }

    /// The connection of a fetch whose client has read nothing but that there is a reply, and takes little of it.
    pub(crate) async fn stalled(&self, query: &str) -> Connection {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4096).expect("a small window");
        let stream = socket.connect(self.user.address).await.expect("a connection");
        let mut connection = Connection::of(stream);
        let path = format!("{}/records{query}", self.path);
        let head = self.user.head("GET", &path, &[("Accept", self.accept)], "");
        connection.send(&head).await;
        timeout(PATIENCE, connection.stream.readable())
            .await
            .expect("a reply in time")
            .expect("a connection");
        connection
    }

    /// The reply to a fetch that has something to find, or is refused.
    pub(crate) async fn reply(&self, service: &Service, query: &str) -> Response {
        let query = format!("?timeout=30000&{query}");
        service
            .soon(self.user.fetch(&self.path, &query, self.accept))
            .await
    }

    /// The records of such a fetch.
    pub(crate) async fn records(&self, service: &Service, query: &str) -> Vec<Value> {
        let reply = self.reply(service, query).await.expect(200);
        reply.json().as_array().expect("a list of records").clone()
    }

    /// Topic and offset of each record of such a fetch.
    pub(crate) async fn offsets(&self, service: &Service, query: &str) -> Vec<(String, i64)> {
        let records = self.records(service, query).await;
        records.iter().map(place).collect()
    }

    /// One turn that does not wait: what a fetch finds that must not wait for records.
    pub(crate) async fn turn(&self, service: &Service) -> Response {
        let fetch = self.fetch("?timeout=1");
        service.soon(fetch).await.expect("a fetch")
    }
}

/// A list of partitions, one a topic.
pub(crate) fn partitions(topics: &[&str]) -> Value {
    let list = topics.iter().map(|topic| json!({"topic": topic, "partition": 0}));
    json!({"partitions": list.collect::<Value>()})
}

/// Where a record is.
pub(crate) fn place(record: &Value) -> (String, i64) {
    let topic = record["topic"].as_str().expect("a topic");
    (topic.to_owned(), record["offset"].as_i64().expect("an offset"))
}
