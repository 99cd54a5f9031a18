//! Clients that are slow to ask [D-32].

use std::{io::ErrorKind, time::Duration};

use octopus_core::Limits;
use tokio::{io::AsyncReadExt, time::timeout};

use crate::{
    client::{Client, Connection},
    service::Service,
};

/// Longer than anything that a test waits for; only a hang meets it.
const PATIENCE: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(1);

/// A connection whose replies show that the service has seen what other clients sent before.
struct Witness(Connection, String);

impl Witness {
    async fn new(user: &Client) -> Self {
        Self(user.connect().await, user.head("GET", "/nowhere", &[], ""))
    }

    async fn looks(&mut self) {
        for _ in 0..3 {
            self.0.send(&self.1).await;
            self.0.receive().await.expect(404);
        }
    }
}

/// Nothing has come on a connection, nor its end.
fn is_open(connection: &Connection) -> bool {
    let read = connection.stream.try_read(&mut [0; 16]);
    read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// The connection ends without an answer.
async fn ends(mut connection: Connection) {
    let mut bytes = [0; 16];
    let read = timeout(PATIENCE, connection.stream.read(&mut bytes)).await;
    assert!(matches!(read.expect("an end in time"), Ok(0) | Err(_)));
}

/// [D-32] the headers come within 10 s of their first byte.
#[tokio::test]
async fn a_head_has_ten_seconds() {
    let service = Service::start().await;
    let user = service.user(1);
    let mut witness = Witness::new(&user).await;
    let mut slow = user.connect().await;
    witness.looks().await;
    // The time runs from its first byte, not from the connection's begin, and no byte behind that prolongs it.
    service.clock.advance(Duration::from_secs(60));
    slow.send("P").await;
    witness.looks().await;
    service.clock.advance(Duration::from_secs(9));
    slow.send("OST /api/v2/consumers/g HTTP/1.1\r\n").await;
    witness.looks().await;
    service.clock.advance(Duration::from_secs(1) - TICK);
    witness.looks().await;
    assert!(is_open(&slow));
    service.clock.advance(TICK);
    ends(slow).await;
    witness.looks().await;
}

/// [D-32] a body comes within 30 s of its head; until then its request holds no place, and then its connection closes.
#[tokio::test]
async fn a_body_has_thirty_seconds_and_holds_no_place() {
    let mut limits = Limits::default();
    limits.max_instances = 1;
    let service = Service::with(limits, |builder| builder).await;
    let user = service.user(1);
    let mut witness = Witness::new(&user).await;
    let mut slow = user.connect().await;
    let create = user.head("POST", "/api/v2/consumers/g", &[], r#"{"name": "slow"}"#);
    let came = service.arrivals();
    slow.send(&create[..create.len() - 1]).await;
    service.arrived(came + 1).await;
    witness.looks().await;
    let other = r#"{"name": "quick"}"#;
    user.post("/api/v2/consumers/g", other).await.expect(200);
    service.clock.advance(Duration::from_secs(30) - TICK);
    witness.looks().await;
    assert!(is_open(&slow));
    service.clock.advance(TICK);
    ends(slow).await;
    assert_eq!(
        user.post("/api/v2/consumers/g", other).await.error(),
        (409, 40902)
    );
    let slow = "/api/v2/consumers/g/instances/slow";
    assert_eq!(user.delete(slow).await.error(), (404, 40403));
}

/// [D-32] a kept-alive connection without a request closes after 75 s.
#[tokio::test]
async fn a_connection_without_a_request_has_seventy_five_seconds() {
    let service = Service::start().await;
    let user = service.user(1);
    let mut fresh = user.connect().await;
    let mut witness = Witness::new(&user).await;
    witness.looks().await;
    service.clock.advance(Duration::from_secs(75) - TICK);
    witness.looks().await;
    assert!(is_open(&fresh));
    // A request gives a connection as much again.
    fresh.send(&user.head("GET", "/nowhere", &[], "")).await;
    fresh.receive().await.expect(404);
    service.clock.advance(Duration::from_secs(75) - TICK);
    witness.looks().await;
    assert!(is_open(&fresh));
    service.clock.advance(TICK);
    ends(fresh).await;
    witness.looks().await;
}

/// A user with as many requests in progress as there may be, whatever they are, is told to come again, before a body is
/// read; others are not concerned, and an end of one makes room.
#[tokio::test]
async fn a_user_has_so_many_requests_in_progress() {
    let mut limits = Limits::default();
    limits.max_requests_per_user = 2;
    let service = Service::with(limits, |builder| builder).await;
    let (ann, ben) = (service.user(1), service.user(2));
    // Bodies that never come to their end.
    let begun = ann.head("POST", "/api/v2/consumers/g", &[], r#"{"name": "a"}"#);
    let (one, mut other) = (ann.connect().await, ann.connect().await);
    let mut held = Vec::from([one]);
    held[0].send(&begun[..begun.len() - 1]).await;
    other.send(&begun[..begun.len() - 1]).await;
    let told = async {
        loop {
            let reply = ann.get("/api/v3/namespace").await;
            if reply.status == 429 {
                return reply;
            }
        }
    };
    let reply = timeout(PATIENCE, told).await.expect("both are in progress soon");
    assert_eq!(reply.error(), (429, 42901));
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert!(
        reply.text().contains("2 requests in progress"),
        "{}",
        reply.text()
    );
    ben.get("/api/v3/namespace").await.expect(200);
    held.clear();
    let goes = async { while ann.get("/api/v3/namespace").await.status == 429 {} };
    timeout(PATIENCE, goes).await.expect("room soon");
    other.send("}").await;
    other.receive().await.expect(200);
}
