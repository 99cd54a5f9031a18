//! An instance that is assigned its partitions.

use serde_json::json;

use crate::support::{client::BINARY, kafka::Broker, server::Server};

/// [AS-01] [AS-02] [SU-03] [LC-04] [CO-05] [NS-04]
#[tokio::test(flavor = "multi_thread")]
async fn an_assigned_instance_reads_commits_and_goes_on_from_its_commit() {
    let broker = Broker::start().await;
    let server = Server::start(&broker.address(), &[]).await;
    let user = server.user(0);
    let topic = broker.topic(&user, "events").await;
    broker.topic(&user, "other").await;
    broker.write(&topic, &[b"0", b"1", b"2"]).await;

    let instance = "/api/v2/consumers/readers/instances/one";
    let create = json!({"name": "one", "auto.offset.reset": "earliest"}).to_string();
    user.post("/api/v2/consumers/readers", &create).await.expect(200);
    let assignments = format!("{instance}/assignments");
    let assign = |topic: &str, partition: i32| {
        json!({"partitions": [{"topic": topic, "partition": partition}]}).to_string()
    };
    assert_eq!(
        user.post(&assignments, &assign("missing", 0)).await.error(),
        (404, 40401)
    );
    assert_eq!(
        user.post(&assignments, &assign("events", 1)).await.error(),
        (404, 40402)
    );
    user.post(&assignments, &assign("events", 0)).await.expect(204);
    assert_eq!(
        user.get(&assignments).await.expect(200).json(),
        json!({"partitions": [{"topic": "events", "partition": 0}]})
    );
    let subscription = format!("{instance}/subscription");
    assert_eq!(
        user.post(&subscription, r#"{"topics": ["other"]}"#).await.error(),
        (409, 40903)
    );

    let records = user
        .fetch_some(instance, "?timeout=10000&max_bytes=3", BINARY)
        .await;
    let offsets: Vec<_> = records.iter().map(|r| r["offset"].as_i64().unwrap()).collect();
    assert_eq!(offsets, [0, 1], "a reply stays below max_bytes");
    let other = json!({"offsets": [{"topic": "other", "partition": 0, "offset": 0}]}).to_string();
    assert_eq!(
        user.post(&format!("{instance}/offsets"), &other).await.error(),
        (409, 40903)
    );
    assert_eq!(
        user.post(&format!("{instance}/positions"), &other).await.error(),
        (409, 40903)
    );
    user.post(&format!("{instance}/offsets"), "").await.expect(200);

    user.delete(instance).await.expect(204);
    user.post("/api/v2/consumers/readers", &create).await.expect(200);
    user.post(&assignments, &assign("events", 0)).await.expect(204);
    assert_eq!(
        user.fetch_some(instance, "?timeout=10000", BINARY).await[0]["offset"],
        2
    );

    user.delete(&subscription).await.expect(204);
    user.post(&subscription, r#"{"topics": ["other"]}"#)
        .await
        .expect(204);
    assert_eq!(
        user.post(&assignments, &assign("events", 0)).await.error(),
        (409, 40903)
    );
}
