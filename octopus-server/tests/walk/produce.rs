//! Records that are written by HTTP, as a user does who has no Kafka client, on whichever Kafka there is.

use std::time::Duration;

use octopus_kafka::{Cluster, Config, NewTopic};
use serde_json::{Value, json};

use crate::support::{
    client::{BINARY, Client, JSON, Response},
    kafka::{Broker, on_kafka},
    server::Server,
};

const SOON: Duration = Duration::from_secs(30);

async fn produce(user: &Client, topic: &str, batch: &str, body: &Value) -> Response {
    let namespace = &user.subject[24..];
    let path = format!("/api/v3/ns-{namespace}/topics/{topic}/records{batch}");
    let head = [("Content-Type", "application/json")];
    user.send("POST", &path, &head, &body.to_string()).await
}

/// What a binary and a json instance read of a topic.
async fn read(user: &Client, topic: &str, accept: &str, count: usize) -> Vec<Value> {
    let format = if accept == JSON { "json" } else { "binary" };
    let create = json!({"name": topic, "format": format, "auto.offset.reset": "earliest"}).to_string();
    let group = format!("/api/v2/consumers/{format}");
    user.post(&group, &create).await.expect(200);
    let instance = format!("{group}/instances/{topic}");
    let partitions = json!({"partitions": [{"topic": topic, "partition": 0}]}).to_string();
    user.post(&format!("{instance}/assignments"), &partitions)
        .await
        .expect(204);
    let mut read = Vec::new();
    while read.len() < count {
        read.extend(user.fetch_some(&instance, "?timeout=5000", accept).await);
    }
    read
}

/// [FE-01] [FE-03] [FE-04] each form of a key and a value comes back as it was written, in both formats.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_by_http_is_read_by_http() {
    let broker = Broker::start().await;
    let server = Server::start(&broker.address(), &[]).await;
    let user = server.user(0);
    let path = format!("/api/v3/ns-{}/written", &user.subject[24..]);
    user.post(&path, "").await.expect(200);
    let entries = json!({"entries": [
        {"id": "json", "key": {"type": "JSON", "data": {"k": [1, null]}}, "value": {"type": "JSON", "data": "text"}},
        {"id": "string", "key": {"type": "STRING", "data": "42"}, "value": {"type": "STRING", "data": "a \"b\" ä"}},
        {"id": "binary", "key": {"type": "BINARY", "data": ""}, "value": {"type": "BINARY", "data": "c2w="},
         "headers": [{"name": "h", "value": "/w=="}, {"name": "h", "value": null}]},
        {"id": "deleted", "key": {"type": "STRING", "data": "k"}},
    ]});
    let told = produce(&user, "written", ":batch", &entries)
        .await
        .expect(207)
        .json();
    assert_eq!(told["failures"], json!([]));
    let successes = told["successes"].as_array().unwrap();
    let offsets: Vec<_> = successes.iter().map(|success| &success["offset"]).collect();
    assert_eq!(offsets, [0, 1, 2, 3]);
    let cluster = successes[0]["cluster_id"].as_str().unwrap();
    assert!(!cluster.is_empty());
    assert!(
        successes
            .iter()
            .all(|success| success["timestamp"].as_str().unwrap().len() == 24)
    );

    let shown = |read: &[Value]| -> Vec<(Value, Value)> {
        read.iter()
            .map(|record| (record["key"].clone(), record["value"].clone()))
            .collect()
    };
    let json = read(&user, "written", JSON, 4).await;
    assert_eq!(
        shown(&json),
        [
            (json!({"k": [1, null]}), json!("text")),
            (json!(42), json!("a \"b\" ä")),
            (json!(""), json!("sl")),
            (json!("k"), json!(null)),
        ]
    );
    assert_eq!(
        json[2]["headers"],
        json!([{"name": "h", "value": "/w=="}, {"name": "h", "value": null}])
    );
    let binary = read(&user, "written", BINARY, 4).await;
    assert_eq!(
        shown(&binary),
        [
            (json!("eyJrIjpbMSxudWxsXX0="), json!("InRleHQi")),
            (json!("NDI="), json!("YSAiYiIgw6Q=")),
            (json!(""), json!("c2w=")),
            (json!("aw=="), json!(null)),
        ]
    );
}

/// What the topic's own rules refuse is refused alone, with what to do. The embedded broker has but the rule of size.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_topic_does_not_take_is_refused_alone() {
    let broker = Broker::start().await;
    let server = Server::start(&broker.address(), &[]).await;
    let user = server.user(0);
    let cluster = Cluster::new(Config::new(vec![broker.address()]));
    let topic = NewTopic::named(on_kafka(&user, "compacted"))
        .config("cleanup.policy", "compact")
        .config("message.timestamp.after.max.ms", "3600000")
        .config("max.message.bytes", "2000");
    assert!(cluster.ensure_topic(&topic, SOON).await.unwrap());
    // What has no pattern is not made smaller.
    let noise = (0..500).scan(1u64, |state, _| {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        Some(format!("{state:016x}"))
    });
    let noise: String = noise.collect();
    let text = |data: &str| json!({"type": "STRING", "data": data});
    let entries = json!({"entries": [
        {"id": "first", "key": text("k"), "value": text("a")},
        {"id": "large", "key": text("k"), "value": text(&noise)},
        {"id": "keyless", "value": text("a")},
        {"id": "last", "key": text("k"), "value": text("b")},
    ]});
    let told = produce(&user, "compacted", ":batch", &entries)
        .await
        .expect(207)
        .json();
    let failures: Vec<_> = told["failures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|failure| {
            (
                failure["id"].as_str().unwrap(),
                failure["error_code"].as_u64().unwrap(),
            )
        })
        .collect();
    if broker.kafka.embedded().is_some() {
        assert_eq!(failures, [("large", 41302)]);
        return;
    }
    assert_eq!(failures, [("large", 41302), ("keyless", 40002)]);
    let alone = produce(&user, "compacted", "", &json!({"value": text("a")})).await;
    assert_eq!(alone.error(), (400, 40002));
    assert!(alone.text().contains("give it a key"), "{}", alone.text());
    let late = json!({"key": text("k"), "value": text("a"), "timestamp": "2999-01-01T00:00:00Z"});
    let late = produce(&user, "compacted", "", &late).await;
    assert_eq!(late.error(), (400, 40002));
}
