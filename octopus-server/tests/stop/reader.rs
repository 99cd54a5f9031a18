//! A client that reads through restarts, as the documentation tells it to.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::support::client::{BINARY, Client, Response};

/// Longer than a service takes to stop and to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// The empty replies after which nothing is waited for any more.
const MOST_QUIET: u32 = 30;

/// How a reader comes to its partition.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reads {
    Assigned,
    Subscribed,
}

/// Who commits.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Commits {
    /// The service, by itself.
    Auto,
    /// The reader, after every third reply.
    ByHand,
}

/// A reader of one topic in a group of its own, and what it has seen.
pub(crate) struct Reader {
    user: Client,
    addresses: watch::Receiver<SocketAddr>,
    pub(crate) topic: String,
    reads: Reads,
    pub(crate) commits: Commits,
    /// The record behind the last one that it received.
    pub(crate) position: i64,
    /// What it knows to be committed.
    committed: i64,
    /// A commit whose answer it did not get.
    maybe_committed: Option<i64>,
    /// How many instances it has had.
    pub(crate) lives: usize,
    /// How many records came again.
    pub(crate) repeats: i64,
}

/// Why a life ended: the instance is gone, or the service.
struct Gone;

impl Reader {
    pub(crate) fn new(
        user: Client,
        topic: String,
        reads: Reads,
        commits: Commits,
        addresses: watch::Receiver<SocketAddr>,
    ) -> Self {
        Self {
            user,
            addresses,
            topic,
            reads,
            commits,
            position: 0,
            committed: 0,
            maybe_committed: None,
            lives: 0,
            repeats: 0,
        }
    }

    /// Reads to `end`, which is far off until it is known; gives up where nothing comes for long behind that.
    pub(crate) async fn run(mut self, end: Arc<AtomicI64>) -> Self {
        while self.live(&end).await.is_err() {}
        self
    }

    /// One life: creates the instance, has it read, and fetches until it is gone.
    async fn live(&mut self, end: &AtomicI64) -> Result<(), Gone> {
        self.create().await?;
        let (route, body) = match self.reads {
            Reads::Assigned => (
                "/assignments",
                json!({"partitions": [{"topic": self.topic, "partition": 0}]}),
            ),
            Reads::Subscribed => ("/subscription", json!({"topics": [self.topic]})),
        };
        self.ask("POST", route, &body.to_string()).await?.expect(204);
        self.lives += 1;
        let mut is_first = true;
        let (mut replies, mut quiet) = (0, 0);
        loop {
            let end = end.load(Ordering::Relaxed);
            if self.position >= end || (end < i64::MAX && quiet > MOST_QUIET) {
                return Ok(());
            }
            let reply = self.ask("GET", "/records?timeout=1000", "").await?.expect(200);
            let Value::Array(records) = reply.json() else {
                panic!("no list: {}", reply.text());
            };
            if records.is_empty() {
                quiet += 1;
                continue;
            }
            self.receive(&records, is_first);
            is_first = false;
            replies += 1;
            quiet = 0;
            if let Commits::ByHand = self.commits
                && replies % 3 == 0
            {
                self.maybe_committed = Some(self.position);
                self.ask("POST", "/offsets", "").await?.expect(200);
                self.committed = self.position;
                self.maybe_committed = None;
            }
        }
    }

    /// Records follow on each other; a life's first ones follow on the group's last commit [LC-04].
    fn receive(&mut self, records: &[Value], is_first: bool) {
        let offsets = records.iter().map(|record| record["offset"].as_i64().unwrap());
        let offsets: Vec<_> = offsets.collect();
        let start = offsets[0];
        let all: Vec<_> = (start..).take(offsets.len()).collect();
        assert_eq!(offsets, all, "{}: in order", self.topic);
        let allowed = match (self.commits, is_first) {
            (Commits::ByHand, true) => vec![Some(self.committed), self.maybe_committed],
            (Commits::Auto, _) | (_, false) => vec![Some(self.position)],
        };
        assert!(
            allowed.contains(&Some(start)),
            "{}: from {start}, not from {allowed:?}; read to {}",
            self.topic,
            self.position
        );
        if is_first {
            self.committed = start;
            self.maybe_committed = None;
        }
        let end = start + i64::try_from(offsets.len()).unwrap();
        self.repeats += self.position.min(end) - start;
        self.position = self.position.max(end);
    }

    async fn create(&mut self) -> Result<(), Gone> {
        let settings = json!({
            "name": "i", "auto.offset.reset": "earliest",
            "auto.commit.enable": matches!(self.commits, Commits::Auto),
        });
        let path = format!("/api/v2/consumers/{}", self.topic);
        let created = self
            .user
            .try_send("POST", &path, &[], &settings.to_string())
            .await;
        match created {
            Some(response) if response.status == 200 => Ok(()),
            Some(response) => {
                assert_eq!(response.error(), (503, 503));
                self.wait_for_service().await;
                Err(Gone)
            }
            None => {
                self.wait_for_service().await;
                Err(Gone)
            }
        }
    }

    /// Asks until there is an answer other than "retry".
    async fn ask(&mut self, method: &str, route: &str, body: &str) -> Result<Response, Gone> {
        let path = format!("/api/v2/consumers/{}/instances/i{route}", self.topic);
        loop {
            let response = self
                .user
                .try_send(method, &path, &[("Accept", BINARY)], body)
                .await;
            let Some(response) = response else {
                self.wait_for_service().await;
                return Err(Gone);
            };
            if response.status < 400 {
                return Ok(response);
            }
            match response.error() {
                (404, 40403) => return Err(Gone),
                (409, 40904) | (429, 42901) => sleep(Duration::from_millis(20)).await,
                other => panic!("{}: {method} {route}: {other:?}", self.topic),
            }
        }
    }

    /// Waits until the service is started again. It is asked no more where it was: it said that it ends.
    async fn wait_for_service(&mut self) {
        let old = self.user.address;
        let started = self.addresses.wait_for(|address| *address != old);
        let address = timeout(PATIENCE, started)
            .await
            .expect("a start in time")
            .unwrap();
        let address = *address;
        self.user.address = address;
    }
}
