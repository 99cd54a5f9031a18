//! The service's end.

use octopus_kafka::{
    broker::{ApiKey, always},
    testing::ClosedPort,
};
use serde_json::json;

use crate::support::{client::BINARY, kafka::Broker, server::Server};

/// [AK-03] [FE-09] SIGTERM ends long polls, commits what reached the clients, and the process ends well.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_commits_what_was_delivered_and_ends_with_status_0() {
    let broker = Broker::start().await;
    let mut server = Server::start(&broker.address(), &[]).await;
    let user = server.user(0);
    let topic = broker.topic(&user, "events").await;
    broker.write(&topic, &[b"0", b"1"]).await;
    let instance = "/api/v2/consumers/g/instances/i";
    let partitions = json!({"partitions": [{"topic": "events", "partition": 0}]}).to_string();
    let create =
        json!({"name": "i", "auto.offset.reset": "earliest", "auto.commit.enable": true}).to_string();
    user.post("/api/v2/consumers/g", &create).await.expect(200);
    user.post(&format!("{instance}/assignments"), &partitions)
        .await
        .expect(204);
    assert_eq!(user.fetch_some(instance, "?timeout=10000", BINARY).await.len(), 2);

    let mut poll = user.polling(instance, BINARY).await;
    server.signal("TERM");
    assert_eq!(poll.receive().await.expect(200).json(), json!([]));
    assert_eq!(server.ended().await.code(), Some(0));

    let committed = broker.committed(&user, "g", "events").await;
    assert_eq!(committed, Some(2));
}

/// [CR-11] [D-44] a service without a Kafka endpoint says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_create_without_a_kafka_endpoint_is_50002() {
    let server = Server::start("", &[]).await;
    assert_eq!(
        server.user(0).post("/api/v2/consumers/g", "").await.error(),
        (500, 50002)
    );
}

/// [D-41] [ER-07] a create that can't reach Kafka leaves nothing behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_create_that_can_not_reach_kafka_is_50302_and_holds_no_place() {
    let closed = ClosedPort::new().unwrap();
    let server = Server::start(&closed.address(), &["--max-instances-per-user", "1"]).await;
    let user = server.user(0);
    for _ in 0..2 {
        assert_eq!(
            user.post("/api/v2/consumers/g", r#"{"name": "i"}"#).await.error(),
            (503, 50302)
        );
    }
    assert_eq!(
        user.delete("/api/v2/consumers/g/instances/i").await.error(),
        (404, 40403)
    );
}

/// [AK-05] a second signal does not wait for a Kafka that does not answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_stop_ends_the_process_at_once() {
    let broker = Broker::start().await;
    let Some(embedded) = broker.kafka.embedded() else {
        return;
    };
    let mut server = Server::start(&broker.address(), &["--shutdown-grace-ms", "60000"]).await;
    let user = server.user(0);
    let topic = broker.topic(&user, "events").await;
    broker.write(&topic, &[b"0"]).await;
    let instance = "/api/v2/consumers/g/instances/i";
    let create =
        json!({"name": "i", "auto.offset.reset": "earliest", "auto.commit.enable": true}).to_string();
    user.post("/api/v2/consumers/g", &create).await.expect(200);
    let partitions = json!({"partitions": [{"topic": "events", "partition": 0}]}).to_string();
    user.post(&format!("{instance}/assignments"), &partitions)
        .await
        .expect(204);
    user.fetch_some(instance, "?timeout=10000", BINARY).await;
    embedded.faults().on(ApiKey::OffsetCommit, always()).never();
    server.signal("TERM");
    // The commit before the close hangs once the broker has its request.
    while !embedded
        .requests()
        .iter()
        .any(|request| request.api == ApiKey::OffsetCommit)
    {
        tokio::task::yield_now().await;
    }
    assert!(server.process.try_wait().unwrap().is_none());
    server.signal("TERM");
    assert_eq!(server.ended().await.code(), Some(1));
}
