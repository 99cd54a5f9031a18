//! Twelve instances of three users, each in another state when SIGTERM comes.

use std::time::Duration;

use octopus_kafka::broker::{ApiKey, always};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::support::{
    client::{BINARY, Client, Response},
    kafka::{Broker, on_kafka},
    server::Server,
};

/// The time that all instances share [AK-03].
const GRACE: Duration = Duration::from_secs(8);
/// What the process may take behind it, and what a slow machine may add.
const BEHIND: Duration = Duration::from_secs(1 + 8);
/// Longer than the service lives.
const NEVER: Duration = Duration::from_secs(60);
/// Kafka's COORDINATOR_LOAD_IN_PROGRESS: to be tried again.
const LOADING: i16 = 14;

/// An instance with a group and a topic of its own.
struct Instance {
    user: Client,
    name: &'static str,
}

/// How an instance reads.
#[derive(Clone, Copy)]
enum Reads {
    Assigned,
    Subscribed,
}

impl Instance {
    /// Creates it, with its topic.
    async fn create(user: &Client, broker: &Broker, name: &'static str, auto_commit: bool) -> Self {
        broker.topic(user, name).await;
        let settings = json!({
            "name": "i", "auto.offset.reset": "earliest", "auto.commit.enable": auto_commit,
        });
        user.post(&format!("/api/v2/consumers/{name}"), &settings.to_string())
            .await
            .expect(200);
        Self {
            user: user.clone(),
            name,
        }
    }

    /// Creates it, and has it read so many records, one after the other.
    async fn read(
        user: &Client,
        broker: &Broker,
        name: &'static str,
        (auto_commit, reads, count): (bool, Reads, usize),
    ) -> Self {
        let instance = Self::create(user, broker, name, auto_commit).await;
        let (route, body) = match reads {
            Reads::Assigned => (
                "/assignments",
                json!({"partitions": [{"topic": name, "partition": 0}]}),
            ),
            Reads::Subscribed => ("/subscription", json!({"topics": [name]})),
        };
        user.post(&(instance.path() + route), &body.to_string())
            .await
            .expect(204);
        for _ in 0..count {
            instance.write(broker, b"record").await;
            let records = user.fetch_some(&instance.path(), "?timeout=10000", BINARY).await;
            assert_eq!(records.len(), 1);
        }
        instance
    }

    fn path(&self) -> String {
        format!("/api/v2/consumers/{}/instances/i", self.name)
    }

    /// What it calls itself to Kafka.
    fn client_id(&self) -> String {
        format!("octopus-{}-i", self.name)
    }

    async fn write(&self, broker: &Broker, value: &[u8]) {
        broker.write(&on_kafka(&self.user, self.name), &[value]).await;
    }

    async fn committed(&self, broker: &Broker) -> Option<i64> {
        broker.committed(&self.user, self.name, self.name).await
    }

    /// Whether its group has a member.
    fn is_member(&self, broker: &octopus_kafka::broker::Broker) -> bool {
        !broker.group_members(&on_kafka(&self.user, self.name)).is_empty()
    }

    /// Sends a request in the background.
    fn asks(&self, method: &'static str, route: &str, body: &str) -> JoinHandle<Response> {
        let (user, path, body) = (self.user.clone(), self.path() + route, body.to_owned());
        tokio::spawn(async move { user.send(method, &path, &[], &body).await })
    }

    /// Fetches with a small window and reads the first bytes of the reply, no more.
    async fn stalls(&self) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut stream = socket.connect(self.user.address).await.unwrap();
        let path = self.path() + "/records?timeout=10000";
        let fetch = self.user.head("GET", &path, &[("Accept", BINARY)], "");
        stream.write_all(fetch.as_bytes()).await.unwrap();
        let mut part = [0; 1024];
        stream.read_exact(&mut part).await.unwrap();
        assert!(part.starts_with(b"HTTP/1.1 200"));
        stream
    }
}

/// Waits until the broker has a commit of each of these clients.
async fn commits_came(broker: &octopus_kafka::broker::Broker, instances: &[&Instance]) {
    let came = |instance: &&Instance| {
        let mut requests = broker.requests().into_iter();
        requests
            .any(|request| request.api == ApiKey::OffsetCommit && request.client_id == instance.client_id())
    };
    while !instances.iter().all(came) {
        sleep(Duration::from_millis(5)).await;
    }
}

/// Creates until nobody listens any more: each one is refused the same way.
async fn creates_are_refused(user: Client) -> usize {
    let mut refused = 0;
    while let Some(response) = user.try_send("POST", "/api/v2/consumers/late", &[], "{}").await {
        assert_eq!(response.error(), (503, 503));
        refused += 1;
        sleep(Duration::from_millis(20)).await;
    }
    refused
}

/// [AK-03] [AK-04] [AK-05] [AK-06] [CR-11] [LC-03] [LC-02] Positions of replies that were delivered are committed, and
/// nothing else; the process ends well within its time.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_in_the_midst_of_twelve_busy_instances() {
    use Reads::{Assigned, Subscribed};
    let broker = Broker::start().await;
    let Some(embedded) = broker.kafka.embedded() else {
        return;
    };
    let mut server = Server::start(&broker.address(), &[]).await;
    let [one, two, three] = [0, 1, 2].map(|user| server.user(user));
    let faults = || embedded.faults();
    let read = Instance::read;

    let polls = read(&one, &broker, "polls", (true, Assigned, 2)).await;
    let polls_late = read(&one, &broker, "polls-late", (true, Subscribed, 1)).await;
    let delivered = read(&one, &broker, "delivered", (true, Assigned, 3)).await;
    let by_hand = read(&one, &broker, "by-hand", (false, Assigned, 2)).await;

    let stalled = read(&two, &broker, "stalled", (true, Assigned, 0)).await;
    let subscribed = read(&two, &broker, "subscribed", (true, Subscribed, 2)).await;
    let uncommitted = read(&two, &broker, "uncommitted", (false, Subscribed, 2)).await;
    let commits = read(&two, &broker, "commits", (false, Assigned, 2)).await;

    let refused = read(&three, &broker, "refused", (true, Assigned, 2)).await;
    let fresh = Instance::create(&three, &broker, "fresh", true).await;
    let half = read(&three, &broker, "half", (true, Assigned, 2)).await;
    let deletes = read(&three, &broker, "deletes", (true, Assigned, 2)).await;

    let all_full = three.post("/api/v2/consumers/more", "").await;
    assert_eq!(all_full.error(), (429, 42901), "twelve");
    let path = by_hand.path() + "/offsets";
    let offsets = json!({"offsets": [{"topic": "by-hand", "partition": 0, "offset": 0}]});
    one.post(&path, &offsets.to_string()).await.expect(200);
    for member in [&polls_late, &subscribed, &uncommitted] {
        assert!(member.is_member(embedded), "{}", member.name);
    }

    // A group that takes no commit, and two whose commits are answered late.
    let loading = faults().on(ApiKey::OffsetCommit, always());
    loading.client(refused.client_id()).error(LOADING);
    for late in [&commits, &deletes] {
        let fault = faults()
            .on(ApiKey::OffsetCommit, always())
            .client(late.client_id());
        fault.delay(Duration::from_secs(2));
    }
    let committing = commits.asks("POST", "/offsets", "");
    let deleting = deletes.asks("DELETE", "", "");
    commits_came(embedded, &[&commits, &deletes]).await;

    // Records that a poll has asked for and that are on their way when it ends.
    let on_the_way = faults().on(ApiKey::Fetch, always());
    on_the_way.client(polls_late.client_id()).delay(NEVER);
    polls_late.write(&broker, b"on its way").await;

    stalled.write(&broker, &vec![b'x'; 8 * 1024 * 1024 - 1024]).await;
    let mut stalling = stalled.stalls().await;

    let text = three.head(
        "POST",
        &(half.path() + "/offsets"),
        &[],
        r#"{"offsets": []}           "#,
    );
    let mut half_sent = three.connect().await;
    half_sent.send(&text[..text.len() - 15]).await;

    let mut waiting = Vec::new();
    for poll in [&polls, &polls_late, &fresh] {
        waiting.push(poll.user.polling(&poll.path(), BINARY).await);
    }

    let start = Instant::now();
    server.signal("TERM");
    let creates = tokio::spawn(creates_are_refused(two.clone()));
    for poll in &mut waiting {
        assert_eq!(poll.receive().await.expect(200).json(), json!([]));
    }
    let gone = one
        .try_send("GET", &(delivered.path() + "/subscription"), &[], "")
        .await;
    assert_eq!(gone.unwrap().error(), (404, 40403));
    assert_eq!(committing.await.unwrap().expect(200).json(), Value::Array(vec![]));
    deleting.await.unwrap().expect(204);
    assert_eq!(server.ended().await.code(), Some(0), "{}", server.log());
    let taken = start.elapsed();
    assert!(taken >= GRACE, "the stalled reply has its time: {taken:?}");
    assert!(taken < GRACE + BEHIND, "{taken:?}");
    assert!(creates.await.unwrap() > 0);
    assert_eq!(
        half_sent.try_receive().await,
        None,
        "nobody is told of half a request"
    );
    let mut rest = Vec::new();
    let cut = stalling.read_to_end(&mut rest).await;
    assert!(cut.is_err() || rest.len() < 4 * 1024 * 1024, "{}", rest.len());

    faults().clear();
    for (instance, committed) in [
        (&polls, Some(2)),
        (&polls_late, Some(1)),
        (&delivered, Some(3)),
        (&by_hand, Some(1)),
        (&stalled, None),
        (&subscribed, Some(2)),
        (&uncommitted, None),
        (&commits, Some(2)),
        (&refused, None),
        (&fresh, None),
        (&half, Some(2)),
        (&deletes, Some(2)),
    ] {
        assert_eq!(instance.committed(&broker).await, committed, "{}", instance.name);
    }
    for member in [&polls_late, &subscribed, &uncommitted] {
        assert!(!member.is_member(embedded), "{} has left its group", member.name);
    }
}
