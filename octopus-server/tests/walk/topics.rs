//! A topic's life, from the route that makes it to the one that deletes it, in both ways of knowing topics.

use serde_json::{Value, json};

use crate::support::{
    client::{Client, JSON},
    kafka::{Broker, on_kafka},
    server::Server,
};

const MODES: [&str; 2] = ["cluster", "registry"];

/// The path of a user's topic.
fn path(user: &Client, topic: &str) -> String {
    format!("/api/v3/ns-{}/{topic}", &user.subject[24..])
}

async fn done(user: &Client, method: &str, path: &str) -> Value {
    let body = user.send(method, path, &[], "").await.expect(200).json();
    assert_eq!(body["status"], json!("success"), "{body}");
    body
}

/// The topics of the user's one namespace.
async fn listed(user: &Client) -> Value {
    let body = done(user, "GET", "/api/v3/namespace").await;
    body["namespaces"][format!("ns-{}", &user.subject[24..])].clone()
}

/// The steps of all records of `my-topic` that a new group finds, of which there are so many.
async fn read(user: &Client, group: &str, count: usize) -> Vec<i64> {
    let create = json!({"name": "i", "format": "json", "auto.offset.reset": "earliest"}).to_string();
    user.post(&format!("/api/v2/consumers/{group}"), &create)
        .await
        .expect(200);
    let instance = format!("/api/v2/consumers/{group}/instances/i");
    user.post(&format!("{instance}/subscription"), r#"{"topics": ["my-topic"]}"#)
        .await
        .expect(204);
    let mut steps = Vec::new();
    while steps.len() < count {
        let records = user.fetch_some(&instance, "?timeout=5000", JSON).await;
        steps.extend(
            records
                .iter()
                .map(|record| record["value"]["step"].as_i64().unwrap()),
        );
    }
    user.delete(&instance).await.expect(204);
    steps
}

/// [NS-02] [NS-04] what one server makes, another one reads at once; what was made anew has none of the old records.
#[tokio::test]
async fn a_topic_that_one_server_makes_is_read_through_another() {
    let broker = Broker::start().await;
    for mode in MODES {
        let flags = ["--namespaces", mode];
        let mut one = Server::start(&broker.address(), &flags).await;
        let user = one.user(0);
        let name = on_kafka(&user, "my-topic");
        let mut other = Server::start(&broker.address(), &flags).await;
        let (there, own) = (
            Client {
                address: other.address,
                ..user.clone()
            },
            path(&user, "my-topic"),
        );
        // The other server has users of its own.
        std::fs::copy(one.tokens(), other.tokens()).unwrap();
        other.restart().await;
        let there = Client {
            address: other.address,
            ..there
        };
        done(&user, "POST", "/api/v3/user").await;
        let made = done(&user, "POST", &own).await;
        assert_eq!(made["topics"], json!(["my-topic"]), "{mode}");
        assert_eq!(listed(&there).await, json!(["my-topic"]), "{mode}");
        broker.write(&name, &[br#"{"step": 1}"#, br#"{"step": 2}"#]).await;
        assert_eq!(read(&there, "a", 2).await, [1, 2], "{mode}");
        done(&there, "PUT", &format!("{own}/recreate")).await;
        broker.write(&name, &[br#"{"step": 3}"#]).await;
        assert_eq!(read(&user, "b", 1).await, [3], "{mode}");
        one.restart().await;
        let user = Client {
            address: one.address,
            ..user
        };
        assert_eq!(listed(&user).await, json!(["my-topic"]), "{mode}");
        let gone = done(&user, "DELETE", &own).await;
        assert_eq!(gone["topics"], json!([]), "{mode}");
        assert_eq!(listed(&there).await, json!([]), "{mode}");
        let key = user.send("POST", "/api/v3/key", &[], "").await;
        assert_eq!(key.error(), (400, 40002), "{mode}");
        done(&there, "DELETE", "/api/v3/user").await;
    }
}
