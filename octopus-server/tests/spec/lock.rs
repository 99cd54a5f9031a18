//! *Instances, fetches and commits*: one request at a time.

use std::time::Duration;

use octopus_kafka::broker::{ApiKey, first};
use serde_json::json;

use crate::{client::BINARY, reader::Reader, service::Service};

const MILLI: Duration = Duration::from_millis(1);
const LOCK_WAIT: Duration = Duration::from_secs(10);

impl Service {
    /// An instance that waits at the end of a topic `t`.
    async fn waiting(&self) -> Reader {
        let user = self.user(1);
        self.topic(&user, "t");
        let reader = self.reader(&user, "g", "i", json!({})).await;
        reader.assign(&["t"]).await;
        reader
    }
}

/// [LK-01] a request waits for another for 10 s, and not a moment less.
#[tokio::test]
async fn a_request_waits_ten_seconds_for_another() {
    let service = Service::start().await;
    let reader = service.waiting().await;
    let came = service.arrivals();
    let fetch = reader.fetch("?timeout=30000");
    service.arrived(came + 1).await;
    for route in ["subscription", "assignments"] {
        let came = service.arrivals();
        let waiting = tokio::spawn({
            let (user, path) = (reader.user.clone(), format!("{}/{route}", reader.path));
            async move { user.get(&path).await }
        });
        service.arrived(came + 1).await;
        service.clock.advance(LOCK_WAIT - MILLI);
        // Whoever comes behind it has it answered first.
        service.user(2).get("/").await.expect(404);
        assert!(!waiting.is_finished());
        service.clock.advance(MILLI);
        assert_eq!(waiting.await.unwrap().error(), (409, 40904));
        assert!(!fetch.is_finished());
    }
    service.clock.advance(LOCK_WAIT);
    assert_eq!(fetch.await.unwrap().expect(200).json(), json!([]));
}

/// [LK-01] [LK-02] those who wait are served in their order once it is free; a fetch passes none of them.
#[tokio::test]
async fn who_waits_is_served_in_order() {
    let service = Service::start().await;
    let reader = service.waiting().await;
    let came = service.arrivals();
    let fetch = reader.fetch("?timeout=30000");
    service.arrived(came + 1).await;
    let send = |method: &'static str, path: String| {
        let user = reader.user.clone();
        tokio::spawn(async move { user.send(method, &path, &[], "").await })
    };
    let drop = send("DELETE", format!("{}/subscription", reader.path));
    service.arrived(came + 2).await;
    let list = send("GET", format!("{}/assignments", reader.path));
    service.arrived(came + 3).await;
    assert_eq!(
        reader.user.fetch(&reader.path, "", BINARY).await.error(),
        (409, 40904)
    );
    service.fill(&reader.user, "t", 1);
    fetch.await.unwrap().expect(200);
    drop.await.unwrap().expect(204);
    assert_eq!(list.await.unwrap().expect(200).text(), r#"{"partitions":[]}"#);
}

/// [LK-02] at once, whatever holds it: the clock stands still.
#[tokio::test]
async fn a_fetch_does_not_wait_for_the_instance() {
    let service = Service::start().await;
    let reader = service.waiting().await;
    let fetch = reader.fetch("?timeout=30000");
    service.was_asked(ApiKey::Fetch, 1).await;
    let refused = reader.user.fetch(&reader.path, "?timeout=30000", BINARY).await;
    assert_eq!(refused.error(), (409, 40904));
    service.fill(&reader.user, "t", 1);
    fetch.await.unwrap().expect(200);

    let faults = service.broker.faults();
    faults
        .on(ApiKey::OffsetCommit, first(1))
        .delay(Duration::from_millis(300));
    let commit = tokio::spawn({
        let reader = reader.clone();
        async move { reader.commit().await }
    });
    service.was_asked(ApiKey::OffsetCommit, 1).await;
    let refused = reader.user.fetch(&reader.path, "?timeout=30000", BINARY).await;
    assert_eq!(refused.error(), (409, 40904));
    assert!(!commit.is_finished());
    commit.await.unwrap().expect(200);
}

/// [D-31] [LC-02] a delete waits like any other, and whoever waits behind it finds nothing.
#[tokio::test]
async fn a_delete_waits_for_a_fetch() {
    let service = Service::start().await;
    let reader = service.waiting().await;
    let came = service.arrivals();
    let fetch = reader.fetch("?timeout=30000");
    service.arrived(came + 1).await;
    let delete = || {
        let reader = reader.clone();
        tokio::spawn(async move { reader.delete().await })
    };
    let late = delete();
    service.arrived(came + 2).await;
    service.clock.advance(LOCK_WAIT);
    assert_eq!(late.await.unwrap().error(), (409, 40904));

    let delete = delete();
    service.arrived(came + 3).await;
    let behind = tokio::spawn({
        let (user, path) = (reader.user.clone(), format!("{}/subscription", reader.path));
        async move { user.get(&path).await }
    });
    service.arrived(came + 4).await;
    service.fill(&reader.user, "t", 1);
    service.soon(fetch).await.unwrap().expect(200);
    delete.await.unwrap().expect(204);
    assert_eq!(behind.await.unwrap().error(), (404, 40403));
    assert_eq!(reader.delete().await.error(), (404, 40403));
}
