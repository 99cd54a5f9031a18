//! Readers by HTTP, which do what a careful client does: try again, create again, and commit what they processed.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    ledger::Ledger,
    seed::Seed,
    support::client::{BINARY, Client, Response},
};

/// One who reads, with an instance of its own.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) user: Client,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) seed: Seed,
    pub(crate) group: String,
    pub(crate) name: String,
}

/// How a member commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Commits {
    /// By `auto.commit.enable`.
    Auto,
    /// Without a body, after each fetch.
    Positions,
    /// What it processed, after each fetch.
    Processed,
}

/// Why an instance is of no use any more: it is gone.
struct Gone;

impl Reader {
    /// Reads one topic, assigned, from its first record on, and seeks to where it was with each new instance. It never
    /// ends.
    pub(crate) async fn read_assigned(mut self, topic: String) {
        let mut next = 0;
        loop {
            // The instance is gone: the next one goes on where this reader was.
            let Err(Gone) = self.assigned(&topic, &mut next).await;
        }
    }

    async fn assigned(&mut self, topic: &str, next: &mut i64) -> Result<std::convert::Infallible, Gone> {
        self.create(json!({"auto.offset.reset": "earliest"})).await;
        let partition = json!({"partitions": [{"topic": topic, "partition": 0}]});
        self.post("assignments", &partition).await?;
        if *next > 0 {
            let offset = json!({"offsets": [{"topic": topic, "partition": 0, "offset": *next}]});
            self.post("positions", &offset).await?;
        }
        loop {
            for record in self.fetch().await? {
                let (topic, offset, hash) = seen(&record);
                self.ledger.read(&self.name, topic, offset, &hash, *next);
                *next = offset + 1;
            }
            // Sometimes it starts anew by itself.
            if self.seed.once_in(200) {
                self.delete().await;
                return Err(Gone);
            }
        }
    }

    /// Reads as a member of its group. It never ends.
    pub(crate) async fn read_subscribed(mut self, topics: Vec<String>, commits: Commits) {
        loop {
            let Err(Gone) = self.subscribed(&topics, commits).await;
        }
    }

    async fn subscribed(
        &mut self,
        topics: &[String],
        commits: Commits,
    ) -> Result<std::convert::Infallible, Gone> {
        let settings = json!({
            "auto.offset.reset": "earliest",
            "auto.commit.enable": commits == Commits::Auto,
        });
        self.create(settings).await;
        self.post("subscription", &json!({"topics": topics})).await?;
        loop {
            let records = self.fetch().await?;
            let mut last = serde_json::Map::new();
            for record in &records {
                let (topic, offset, hash) = seen(record);
                self.ledger.read(&self.name, topic, offset, &hash, 0);
                last.insert(topic.to_owned(), json!(offset));
            }
            // A client at work on what it was given for longer than its group waits, and one that leaves its group.
            if self.seed.once_in(150) {
                sleep(Duration::from_secs(12)).await;
                continue;
            }
            if self.seed.once_in(150) {
                self.delete().await;
                return Err(Gone);
            }
            match commits {
                Commits::Auto => {
                    if self.seed.once_in(10) {
                        self.committed(topics).await?;
                    }
                }
                Commits::Positions => {
                    if self.try_post("offsets", "").await?.is_some() {
                        self.committed(topics).await?;
                    }
                }
                Commits::Processed => {
                    let offsets: Vec<_> = last
                        .iter()
                        .map(|(topic, offset)| json!({"topic": topic, "partition": 0, "offset": offset}))
                        .collect();
                    let body = json!({"offsets": offsets}).to_string();
                    if self.try_post("offsets", &body).await?.is_some() {
                        for (topic, offset) in &last {
                            self.ledger.committed(topic, offset.as_i64().unwrap() + 1);
                        }
                    }
                }
            }
        }
    }

    /// Asks what the group has committed, below which nothing may come again.
    async fn committed(&self, topics: &[String]) -> Result<(), Gone> {
        let partitions: Vec<_> = topics
            .iter()
            .map(|topic| json!({"topic": topic, "partition": 0}))
            .collect();
        let body = json!({"partitions": partitions}).to_string();
        let path = self.path("offsets");
        let begun = Instant::now();
        let reply = self.user.send("GET", &path, &[], &body).await;
        self.ledger.took("offsets?", begun.elapsed());
        if let Some(reply) = self.settle("offsets?", reply).await? {
            for commit in reply.json()["offsets"].as_array().unwrap() {
                let topic = commit["topic"].as_str().unwrap();
                self.ledger.committed(topic, commit["offset"].as_i64().unwrap());
            }
        }
        Ok(())
    }

    /// Creates its instance, as often as it takes.
    async fn create(&self, mut settings: Value) {
        settings["name"] = json!(self.name);
        let group = format!("/api/v2/consumers/{}", self.group);
        loop {
            let begun = Instant::now();
            let reply = self.user.post(&group, &settings.to_string()).await;
            self.ledger.took("create", begun.elapsed());
            if let Ok(Some(_)) = self.settle("create", reply).await {
                return;
            }
        }
    }

    async fn delete(&self) {
        let begun = Instant::now();
        let reply = self.user.delete(&self.path("")).await;
        self.ledger.took("delete", begun.elapsed());
        // Where it fails, the create that follows says so.
        let _ = self.settle("delete", reply).await;
    }

    /// One fetch's records.
    async fn fetch(&mut self) -> Result<Vec<Value>, Gone> {
        let timeout = *self.seed.pick(&[100, 500, 1000, 2000, 5000]);
        let max_bytes = if self.seed.once_in(5) { 50_000 } else { 0 };
        let query = format!("?timeout={timeout}&max_bytes={max_bytes}");
        let begun = Instant::now();
        let reply = self.user.fetch(&self.path(""), &query, BINARY).await;
        let wait = Duration::from_millis(timeout);
        self.ledger.took("fetch", begun.elapsed().saturating_sub(wait));
        let reply = self.settle("fetch", reply).await?;
        Ok(reply.map_or_else(Vec::new, |reply| reply.json().as_array().unwrap().clone()))
    }

    /// Sends a body, as often as it takes.
    async fn post(&self, what: &str, body: &Value) -> Result<(), Gone> {
        while self.try_post(what, &body.to_string()).await?.is_none() {}
        Ok(())
    }

    /// Sends a body once; `None` where that may be tried again.
    async fn try_post(&self, what: &str, body: &str) -> Result<Option<Response>, Gone> {
        let begun = Instant::now();
        let reply = self.user.post(&self.path(what), body).await;
        self.ledger.took(what, begun.elapsed());
        self.settle(what, reply).await
    }

    fn path(&self, what: &str) -> String {
        let slash = if what.is_empty() { "" } else { "/" };
        format!(
            "/api/v2/consumers/{}/instances/{}{slash}{what}",
            self.group, self.name
        )
    }

    /// A success; `None` where a client tries again, after a rest.
    async fn settle(&self, what: &str, reply: Response) -> Result<Option<Response>, Gone> {
        if reply.status < 300 {
            return Ok(Some(reply));
        }
        let (status, code) = reply.error();
        self.ledger.replied(format!("{what} {code}"));
        match (status, code) {
            (404, 40403) => return Err(Gone),
            (409, 40903) if what.starts_with("offsets") => {}
            (429, 42901) => sleep(Duration::from_secs(1)).await,
            (500, 50003) | (503, 50302) => sleep(Duration::from_millis(200)).await,
            _ => panic!("{}: {what}: {}", self.name, reply.text()),
        }
        Ok(None)
    }
}

/// A record's topic and offset, and the hash that the writer printed for it.
fn seen(record: &Value) -> (&str, i64, String) {
    let text = |value: &Value| value.as_str().unwrap_or("null").to_owned();
    let mut lines = vec![text(&record["key"]), text(&record["value"])];
    for header in record["headers"].as_array().unwrap() {
        let name = header["name"].as_str().unwrap();
        lines.push(format!("{name}={}", text(&header["value"])));
    }
    let hash = digest(&SHA256, lines.join("\n").as_bytes());
    let hash = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let topic = record["topic"].as_str().unwrap();
    (topic, record["offset"].as_i64().unwrap(), hash)
}
