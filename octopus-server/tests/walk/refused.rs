//! What is refused: the rows of the specification's table that need a Kafka which refuses.

use serde_json::json;

use crate::support::{
    client::{Client, JSON, Response},
    kafka::Broker,
    server::Server,
};

pub(crate) const GROUP: &str = "/api/v2/consumers/g";

/// A user's four instances: `free` has nothing, `bin` has the topic `events` assigned, `sub` is subscribed to it,
/// and `text` is a json instance at a record that is not UTF-8.
pub(crate) async fn instances(broker: &Broker, user: &Client) {
    let events = broker.topic(user, "events").await;
    broker.write(&events, &[b"0"]).await;
    broker.topic(user, "quiet").await;
    let raw = broker.topic(user, "raw").await;
    broker.write(&raw, &[b"\xff"]).await;
    for (name, format, list, topics) in [
        ("free", "binary", "", json!(null)),
        (
            "bin",
            "binary",
            "assignments",
            json!({"partitions": [{"topic": "events", "partition": 0}]}),
        ),
        ("sub", "binary", "subscription", json!({"topics": ["quiet"]})),
        (
            "text",
            "json",
            "assignments",
            json!({"partitions": [{"topic": "raw", "partition": 0}]}),
        ),
    ] {
        let create = json!({"name": name, "format": format, "auto.offset.reset": "earliest"}).to_string();
        user.post(GROUP, &create).await.expect(200);
        if !list.is_empty() {
            let path = format!("{GROUP}/instances/{name}/{list}");
            user.post(&path, &topics.to_string()).await.expect(204);
        }
    }
}

/// Checks that a reply is an error in its one form, with this status, code, and words in its message.
#[track_caller]
pub(crate) fn is_error(what: &str, reply: &Response, status: u16, code: u64, words: &str) {
    assert_eq!(reply.error(), (status, code), "{what}: {reply:?}");
    let body = reply.json();
    let message = body["message"].as_str().unwrap();
    assert_eq!(
        body.as_object().unwrap().len(),
        2,
        "{what}: nothing but code and message"
    );
    assert!(message.contains(words), "{what}: {message:?} names {words:?}");
}

/// [D-33] [NS-04] [CO-05] [FE-06] what Kafka itself has to say, or the service on its behalf, is told by its row, and the log
/// holds no token.
#[tokio::test(flavor = "multi_thread")]
async fn what_kafka_refuses_is_told_by_its_row() {
    let broker = Broker::start().await;
    let server = Server::start(&broker.address(), &[]).await;
    let user = server.user(0);
    instances(&broker, &user).await;
    let item = json!({"topic": "events", "partition": 0, "offset": 0, "metadata": "m".repeat(5000)});
    let metadata = json!({"offsets": [item]}).to_string();
    #[rustfmt::skip]
    let rows: &[(u64, u16, &str, &str, &str)] = &[
        (40002, 400, "bin/offsets", &metadata, "metadata"),
        (40401, 404, "free/subscription", r#"{"topics": ["events", "missing"]}"#, "Topic missing"),
        (40401, 404, "free/subscription", r#"{"topics": ["a b"]}"#, "Topic a b"),
        (40401, 404, "free/assignments", r#"{"partitions": [{"topic": "missing", "partition": 0}]}"#, "Topic missing"),
        (40903, 409, "free/offsets", r#"{"offsets": [{"topic": "events", "partition": 0, "offset": 0}]}"#, "topic events"),
    ];
    for (code, status, path, body, words) in rows {
        let reply = user.post(&format!("{GROUP}/instances/{path}"), body).await;
        is_error(path, &reply, *status, *code, words);
    }
    let text = format!("{GROUP}/instances/text");
    let reply = user.fetch(&text, "?timeout=30000", JSON).await;
    is_error("a record that is not UTF-8", &reply, 408, 40801, "topic raw");
    is_quiet(&server, &[&user]);
}

/// The log holds no token and no panic.
pub(crate) fn is_quiet(server: &Server, users: &[&Client]) {
    let log = server.log();
    assert!(!log.contains("panicked"), "{log}");
    for user in users {
        assert!(!log.contains(&user.token), "{log}");
    }
}
