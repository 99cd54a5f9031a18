//! *Limits*: what becomes of a reply, and with it of a position.

use std::time::Duration;

use octopus_kafka::broker::ApiKey;
use serde_json::json;

use crate::{
    client::{Client, Connection},
    reader::{Reader, place},
    service::Service,
};

const MILLI: Duration = Duration::from_millis(1);
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// More than the kernel takes of a reply that nobody reads.
const LARGE: usize = 1_400_000;

impl Service {
    /// An instance with large records before it, each a reply of its own.
    async fn loaded(&self, user: &Client, settings: serde_json::Value) -> Reader {
        self.topic(user, "t");
        for first in *b"abc" {
            self.write(user, "t", &[&[first; LARGE]]);
        }
        let reader = self.reader(user, "g", "i", settings).await;
        reader.assign(&["t"]).await;
        reader
    }

    /// Where the next fetch starts, which may find the instance held for a moment.
    async fn next(&self, reader: &Reader) -> i64 {
        let reply = async {
            loop {
                let reply = reader
                    .user
                    .fetch(&reader.path, "?timeout=30000", reader.accept)
                    .await;
                if reply.status != 409 {
                    break reply;
                }
            }
        };
        let reply = self.soon(reply).await.expect(200);
        place(&reply.json()[0]).1
    }
}

/// The connection ends before the reply is whole.
async fn is_cut(mut connection: Connection) {
    assert_eq!(connection.try_receive().await, None);
}

/// [RP-03] past 30 s its connection is closed, and its records count as read.
#[tokio::test]
async fn a_reply_that_takes_over_thirty_seconds_is_not_fetched_again() {
    let service = Service::start().await;
    let user = service.user(1);
    let reader = service.loaded(&user, json!({})).await;
    let stalled = reader.stalled("?timeout=30000").await;
    service.clock.advance(SEND_TIMEOUT);
    is_cut(stalled).await;
    assert_eq!(service.next(&reader).await, 1);
    // They stay in the topic, and a seek goes back to them.
    reader.seek("t", 0).await.expect(204);
    assert_eq!(service.next(&reader).await, 0);
}

/// [RP-03] [RP-05] a reply that is read within 30 s is whole.
#[tokio::test]
async fn a_reply_has_thirty_seconds() {
    let service = Service::start().await;
    let user = service.user(1);
    let reader = service.loaded(&user, json!({})).await;
    let mut stalled = reader.stalled("?timeout=30000").await;
    service.clock.advance(SEND_TIMEOUT - MILLI);
    service.user(2).get("/").await.expect(404);
    let reply = stalled.receive().await.expect(200);
    assert_eq!(place(&reply.json()[0]).1, 0);
    assert_eq!(service.next(&reader).await, 1);
}

/// [A01] [RP-04] [FE-11] a client that leaves in the middle of a reply gets it again.
#[tokio::test]
async fn a_reply_that_was_not_received_is_fetched_again() {
    let service = Service::start().await;
    let user = service.user(1);
    let reader = service.loaded(&user, json!({})).await;
    for _ in 0..2 {
        let mut stalled = reader.stalled("?timeout=30000").await;
        service.clock.advance(SEND_TIMEOUT - MILLI);
        let mut some = [0; 1000];
        tokio::io::AsyncReadExt::read_exact(&mut stalled.stream, &mut some)
            .await
            .unwrap();
        drop(stalled);
    }
    assert_eq!(service.next(&reader).await, 0);
    assert_eq!(service.next(&reader).await, 1);
}

/// [RP-04] so it is with one that is sent in chunks.
#[tokio::test]
async fn a_reply_in_chunks_that_was_not_received_is_fetched_again() {
    let service = Service::start().await;
    let user = service.user(1);
    let reader = service.loaded(&user, json!({"format": "json"})).await;
    let end = service.write(&user, "t", &[&[1; LARGE]]);
    reader.seek("t", end).await.expect(204);
    drop(reader.stalled("?timeout=30000").await);
    assert_eq!(service.next(&reader).await, end);
    reader.seek("t", end).await.expect(204);
    let stalled = reader.stalled("?timeout=30000").await;
    service.clock.advance(SEND_TIMEOUT);
    is_cut(stalled).await;
    service.fill(&user, "t", 1);
    assert_eq!(service.next(&reader).await, end + 1);
}

/// [RP-05] the service can't know whether a client read what the network took.
#[tokio::test]
async fn a_reply_that_was_handed_over_whole_counts_as_received() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    service.fill(&user, "t", 2);
    let reader = service.reader(&user, "g", "i", json!({})).await;
    reader.assign(&["t"]).await;
    let unread = reader.stalled("?timeout=30000&max_bytes=1").await;
    drop(unread);
    assert_eq!(service.next(&reader).await, 1);
}

/// [A27] [AK-04] [RP-04] what did not reach the client is not committed.
#[tokio::test]
async fn an_undelivered_reply_is_not_committed() {
    let service = Service::start().await;
    let user = service.user(1);
    let auto = json!({"auto.commit.enable": true});
    let reader = service.loaded(&user, auto).await;
    assert_eq!(service.next(&reader).await, 0);
    let stalled = reader.stalled("?timeout=30000").await;
    drop(stalled);
    let deleted = async { while reader.delete().await.status == 409 {} };
    service.soon(deleted).await;
    assert_eq!(service.committed(&user, "g", "t"), Some(1));
}

/// [RP-03] [AK-04] while a reply is being sent its records are not committed; once its time is over, they are.
#[tokio::test]
async fn a_reply_that_took_too_long_is_committed_past() {
    let service = Service::start().await;
    let user = service.user(1);
    let reader = service.loaded(&user, json!({})).await;
    let stalled = reader.stalled("?timeout=30000").await;
    let commit = tokio::spawn({
        let reader = reader.clone();
        async move { reader.commit().await }
    });
    service.clock.advance(SEND_TIMEOUT);
    is_cut(stalled).await;
    let reply = service.soon(commit).await.unwrap();
    // It may have come just behind the end, or have waited for its 10 s at once.
    if reply.status == 409 {
        reader.commit().await.expect(200);
    }
    assert_eq!(service.committed(&user, "g", "t"), Some(1));
    assert_eq!(service.asked(ApiKey::OffsetCommit).len(), 1);
}
