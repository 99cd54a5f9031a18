//! *Instances, fetches and commits*: one request at a time.

use std::time::Duration;

use crate::{client::BINARY, service::Service};

const INSTANCE: &str = "/api/v2/consumers/g/instances/i";

/// [LK-01] a request waits for another for 10 s, and not a moment less; one that is served before that is served well.
#[tokio::test]
async fn a_request_waits_ten_seconds_for_another() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    user.post("/api/v2/consumers/g", r#"{"name": "i"}"#)
        .await
        .expect(200);
    user.post(&format!("{INSTANCE}/subscription"), r#"{"topics": ["t"]}"#)
        .await
        .expect(204);

    let came = service.arrivals();
    let fetch = tokio::spawn({
        let user = user.clone();
        async move { user.fetch(INSTANCE, "?timeout=30000", BINARY).await }
    });
    service.arrived(came + 1).await;
    let waiting = tokio::spawn({
        let user = user.clone();
        async move { user.get(&format!("{INSTANCE}/subscription")).await }
    });
    service.arrived(came + 2).await;
    service.clock.advance(Duration::from_millis(9_999));
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    service.clock.advance(Duration::from_millis(1));
    assert_eq!(waiting.await.unwrap().error(), (409, 40904));
    assert!(!fetch.is_finished());
    service.clock.advance(Duration::from_secs(20));
    assert_eq!(fetch.await.unwrap().expect(200).json(), serde_json::json!([]));
}
