//! The routes that write records: what they take, what they answer, and what they refuse.

mod fate;

use std::time::Duration;

use octopus_core::Limits;
use octopus_kafka::broker::{self, ApiKey, always, first};
use octopus_server::Server;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::{
    client::{BINARY, Client, JSON, Response},
    raw::{Raw, is_error},
    service::{Service, on_kafka},
};

const PLAIN: &str = "application/json";

/// The path of the records of a user's topic.
fn records(user: &Client, topic: &str) -> String {
    let namespace = on_kafka(user, "");
    format!(
        "/api/v3/{}/topics/{topic}/records",
        namespace.trim_end_matches('.')
    )
}

async fn produce(user: &Client, topic: &str, body: &str) -> Response {
    let path = records(user, topic);
    user.send("POST", &path, &[("Content-Type", PLAIN)], body).await
}

async fn produce_batch(user: &Client, topic: &str, entries: &[Value]) -> Response {
    let path = format!("{}:batch", records(user, topic));
    let body = json!({ "entries": entries }).to_string();
    user.send("POST", &path, &[("Content-Type", PLAIN)], &body).await
}

fn text(data: &str) -> Value {
    json!({"value": {"type": "STRING", "data": data}})
}

fn entry(id: &str, data: &str) -> Value {
    let mut entry = text(data);
    entry["id"] = id.into();
    entry
}

/// A request that is on its way.
fn producing(user: &Client, topic: &str, body: String) -> JoinHandle<Response> {
    let (user, topic) = (user.clone(), topic.to_owned());
    tokio::spawn(async move { produce(&user, &topic, &body).await })
}

/// What a topic holds, as an instance of a format has it.
async fn read(service: &Service, user: &Client, topic: &str, format: &str, count: usize) -> Vec<Value> {
    let reader = service
        .reader(
            user,
            "readers",
            &format!("{topic}-{format}"),
            json!({"format": format}),
        )
        .await;
    reader.assign(&[topic]).await;
    let accept = if format == "json" { JSON } else { BINARY };
    let mut read = Vec::new();
    while read.len() < count {
        read.extend(user.fetch_some(&reader.path, "?timeout=30000", accept).await);
    }
    read
}

/// [FE-03] [FE-01] what is written is read as it was, and the reply says where it is.
#[tokio::test]
async fn a_record_is_read_as_it_was_written() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    let body = r#"{
        "key": {"type": "BINARY", "data": "AP8="},
        "value": {"type": "JSON", "data": { "loss" : 0.310, "a": "\u00e4", "a": 1E2 }},
        "headers": [{"name": "trace", "value": "AAE="}, {"name": "none"}],
        "timestamp": "2026-01-31T12:00:00.25+01:00"
    }"#;
    let reply = produce(&user, "t", body).await.expect(200);
    assert_eq!(reply.header("content-type"), Some(PLAIN));
    let told = reply.json();
    let cluster = told["cluster_id"].as_str().unwrap();
    assert!(!cluster.is_empty());
    let expected = json!({
        "error_code": 200, "cluster_id": cluster, "topic_name": "t", "partition_id": 0, "offset": 0,
        "timestamp": "2026-01-31T11:00:00.250Z",
        "key": {"type": "BINARY", "size": 2}, "value": {"type": "JSON", "size": 35},
    });
    assert_eq!(told, expected);
    let second = produce(&user, "t", &text("plain").to_string())
        .await
        .expect(200)
        .json();
    assert_eq!((&second["offset"], second.get("key")), (&json!(1), None));
    assert_eq!(second["value"], json!({"type": "STRING", "size": 5}));
    assert!(second["timestamp"].as_str().unwrap().ends_with('Z'));

    let binary = read(&service, &user, "t", "binary", 2).await;
    assert_eq!(binary[0]["key"], json!("AP8="));
    assert_eq!(
        binary[0]["headers"],
        json!([{"name": "trace", "value": "AAE="}, {"name": "none", "value": null}])
    );
    assert_eq!(
        (&binary[1]["key"], &binary[1]["value"]),
        (&json!(null), &json!("cGxhaW4="))
    );
    let one = r#"{"value":{"type":"JSON","data": { "loss" : 0.310, "a": "\u00e4", "a": 1E2 }}}"#;
    service.topic(&user, "u");
    produce(&user, "u", one).await.expect(200);
    let reader = service
        .reader(&user, "readers", "u", json!({"format": "json"}))
        .await;
    reader.assign(&["u"]).await;
    let reply = user.fetch(&reader.path, "?timeout=30000", JSON).await.expect(200);
    let kept = r#""value":{"loss":0.310,"a":"\u00e4","a":1E2}"#;
    assert!(reply.text().contains(kept), "{}", reply.text());
}

/// A compacted topic's way to delete a key.
#[tokio::test]
async fn a_record_without_a_value_is_a_key_alone() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    let reply = produce(&user, "t", r#"{"key":{"type":"STRING","data":"k"}}"#)
        .await
        .expect(200);
    assert_eq!(reply.json().get("value"), None);
    assert_eq!(reply.json()["key"], json!({"type": "STRING", "size": 1}));
    let record = &read(&service, &user, "t", "binary", 1).await[0];
    assert_eq!((&record["key"], &record["value"]), (&json!("aw=="), &json!(null)));
}

#[tokio::test]
async fn each_of_several_records_has_its_reply() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    let body = format!(
        "{}{} {}\n{}",
        text("a"),
        text("b"),
        r#"{"surprise":1}"#,
        text("c")
    );
    let reply = produce(&user, "t", &body).await.expect(200);
    assert_eq!(reply.header("content-type"), Some(PLAIN));
    let lines: Vec<&str> = reply.text().split_terminator("\r\n").collect();
    let replies: Vec<Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let codes: Vec<_> = replies
        .iter()
        .map(|reply| reply["error_code"].as_u64().unwrap())
        .collect();
    assert_eq!(codes, [200, 200, 40005, 200]);
    assert_eq!(
        replies[2],
        json!({"error_code": 40005, "message": "Unknown field surprise; leave it out"})
    );
    let offsets: Vec<_> = replies
        .iter()
        .filter_map(|reply| reply["offset"].as_u64())
        .collect();
    assert_eq!(offsets, [0, 1, 2]);
    let values = read(&service, &user, "t", "json", 3).await;
    let values: Vec<_> = values
        .iter()
        .map(|record| record["value"].as_str().unwrap())
        .collect();
    assert_eq!(values, ["a", "b", "c"]);
}

#[tokio::test]
async fn a_batch_tells_what_became_of_each_entry() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    let mut elsewhere = entry("elsewhere", "x");
    elsewhere["partition_id"] = json!(7);
    let entries = [
        entry("first", "a"),
        json!({"id": "none"}),
        elsewhere,
        entry("last", "b"),
    ];
    let reply = produce_batch(&user, "t", &entries).await.expect(207);
    assert_eq!(reply.header("content-type"), Some(PLAIN));
    let told = reply.json();
    let success = |id: &str, offset: i64| {
        let of = told["successes"].as_array().unwrap();
        let found = of.iter().find(|success| success["id"] == id).unwrap();
        json!({
            "id": id, "cluster_id": found["cluster_id"], "topic_name": "t", "partition_id": 0, "offset": offset,
            "timestamp": found["timestamp"], "value": {"type": "STRING", "size": 1},
        })
    };
    let expected = json!({
        "successes": [success("first", 0), success("last", 1)],
        "failures": [
            {"id": "none", "error_code": 40005,
             "message": "A key or a value is missing or invalid: a record needs one of them"},
            {"id": "elsewhere", "error_code": 40402,
             "message": "Partition 7 of topic t not found: every topic has one partition, 0"},
        ],
    });
    assert_eq!(told, expected);
    let all = produce_batch(&user, "t", &[entry("1", "c")])
        .await
        .expect(207)
        .json();
    assert_eq!(
        (&all["successes"][0]["offset"], &all["failures"]),
        (&json!(2), &json!([]))
    );
    let none = produce_batch(&user, "t", &[json!({"id": "1"})])
        .await
        .expect(207)
        .json();
    assert_eq!(
        (&none["successes"], &none["failures"][0]["id"]),
        (&json!([]), &json!("1"))
    );
    assert_eq!(service.broker.end_offset(&on_kafka(&user, "t")), Some(3));
}

/// [D-01] a request with every fault hears of them one by one, in the order of the decision, as they are mended.
#[tokio::test]
async fn faults_are_told_in_their_order() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    let stranger = records(&service.user(2), "gone");
    for batch in ["", ":batch"] {
        let good = if batch.is_empty() {
            text("a").to_string()
        } else {
            json!({"entries": [entry("1", "a")]}).to_string()
        };
        let unknown = if batch.is_empty() {
            r#"{"surprise":1}"#.to_owned()
        } else {
            r#"{"entries":[],"surprise":1}"#.to_owned()
        };
        let subject = user.subject.clone();
        let mut request = Raw::of(&user, "PUT", &format!("{stranger}{batch}"))
            .without("subject")
            .set("authorization", "Bearer nothing")
            .set("content-type", "text/plain")
            .body("{");
        let reply = request.send().await;
        assert_eq!((reply.status, reply.header("allow")), (405, Some("POST")));
        request.method = "POST".to_owned();
        is_error(
            "headers",
            &request.send().await,
            422,
            422,
            "Header subject is missing",
        );
        request = request.set("subject", &subject);
        is_error("token", &request.send().await, 401, 40101, "token");
        request = request.set("authorization", format!("Bearer {}", user.token));
        is_error("type", &request.send().await, 415, 415, "content type");
        let typed = request.clone().without("content-type");
        let reply = typed.announce(12 * 1024 * 1024 + 1).await;
        is_error("size", &reply, 413, 41301, "12288 KiB");
        request = request.set("content-type", "application/json; charset=utf-8");
        is_error(
            "namespace",
            &request.send().await,
            403,
            40301,
            "not the caller's own; use ns-",
        );
        request.target = format!("{}{batch}", records(&user, "gone"));
        is_error("json", &request.send().await, 400, 40003, "not valid JSON");
        request = request.body(unknown);
        // Of the one record it is the record's fault.
        let (status, code) = if batch.is_empty() {
            (400, 40005)
        } else {
            (422, 422)
        };
        is_error(
            "field",
            &request.send().await,
            status,
            code,
            "Unknown field surprise",
        );
        request = request.body(good);
        is_error(
            "topic",
            &request.send().await,
            404,
            40401,
            "Topic gone not found in the namespace",
        );
        request.target = format!("{}{batch}", records(&user, "t"));
        let reply = request.send().await;
        assert_eq!(
            reply.status,
            if batch.is_empty() { 200 } else { 207 },
            "{}",
            reply.text()
        );
    }
}

/// [AU-03] no route tells one user whether another's topic exists.
#[tokio::test]
async fn anothers_namespace_is_refused_whether_it_exists_or_not() {
    let service = Service::start().await;
    let (ann, ben) = (service.user(1), service.user(2));
    service.topic(&ben, "t");
    let mut replies = Vec::new();
    for path in [
        records(&ben, "t"),
        records(&ben, "none"),
        records(&service.user(3), "t"),
        "/api/v3/nobody/topics/t/records".to_owned(),
    ] {
        let reply = ann
            .send("POST", &path, &[("Content-Type", PLAIN)], &text("a").to_string())
            .await;
        assert_eq!(reply.error(), (403, 40301), "{path}");
        replies.push(reply.body);
    }
    replies.dedup();
    assert_eq!(replies.len(), 1);
    assert_eq!(service.broker.end_offset(&on_kafka(&ben, "t")), Some(0));
}

/// [NS-05] a topic that is not there is not made, but where the service was told to.
#[tokio::test]
async fn a_topic_is_made_by_its_first_record_only_in_development() {
    let service = Service::start().await;
    let user = service.user(1);
    for name in ["t", "a%20b", "a%2Fb", "%ff", &"x".repeat(300)] {
        let reply = produce(&user, name, &text("a").to_string()).await;
        assert_eq!(reply.error(), (404, 40401), "{name}");
    }
    assert_eq!(service.broker.end_offset(&on_kafka(&user, "t")), None);

    let mut limits = Limits::default();
    limits.max_topics = 2;
    let service = Service::with(limits, |builder| builder.makes_topics(true)).await;
    let user = service.user(1);
    let both = ["a", "b"].map(|data| producing(&user, "made", text(data).to_string()));
    for one in both {
        one.await.unwrap().expect(200);
    }
    assert_eq!(service.broker.end_offset(&on_kafka(&user, "made")), Some(2));
    // By the rules of topics that are made.
    let reply = produce(&user, "a%20b", &text("a").to_string()).await;
    assert_eq!(reply.error(), (422, 42204));
    produce(&user, "second", &text("a").to_string()).await.expect(200);
    let full = produce(&user, "third", &text("a").to_string()).await;
    assert_eq!(full.error(), (429, 42901));
    assert_eq!(service.broker.end_offset(&on_kafka(&user, "third")), None);
    produce(&user, "made", &text("c").to_string()).await.expect(200);
}

/// A topic that is made anew is another one: its first record is its first.
#[tokio::test]
async fn a_topic_that_was_made_anew_takes_records_from_its_start() {
    let service = Service::start().await;
    let user = service.user(1);
    let topic = records(&user, "made").replace("/topics/made/records", "/made");
    user.post(&topic, "").await.expect(200);
    for round in 0..3 {
        for offset in 0..3 {
            let told = produce(&user, "made", &text("a").to_string())
                .await
                .expect(200)
                .json();
            assert_eq!(told["offset"], json!(offset), "{round}");
        }
        let anew = user.send("PUT", &format!("{topic}/recreate"), &[], "").await;
        anew.expect(200);
    }
    user.delete(&topic).await.expect(200);
    let gone = produce(&user, "made", &text("a").to_string()).await;
    assert_eq!(gone.error(), (404, 40401));
}

/// [ER-03] a topic that was deleted behind the service's back is told to be gone, and not that a record may be there.
#[tokio::test]
async fn a_topic_that_is_gone_is_404() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    produce(&user, "t", &text("a").to_string()).await.expect(200);
    assert!(service.broker.delete_topic(&on_kafka(&user, "t")));
    let first = produce(&user, "t", &text("b").to_string()).await;
    assert_eq!(first.error(), (404, 40401), "{}", first.text());
    let next = produce(&user, "t", &text("b").to_string()).await;
    is_error("next", &next, 404, 40401, "Topic t not found in the namespace");
    service.topic(&user, "t");
    let again = produce(&user, "t", &text("c").to_string()).await.expect(200);
    assert_eq!(again.json()["offset"], json!(0));
}

/// A record over the cluster's limit is refused alone.
#[tokio::test]
async fn a_record_that_is_too_large_keeps_no_other_out() {
    let mut config = broker::Config::default();
    config.max_message_bytes = 100_000;
    let service = Service::over(config, None, Limits::default(), |builder| builder).await;
    let user = service.user(1);
    service.topic(&user, "t");
    // What does not repeat is not made smaller.
    let noise: String = (0..50_000u32)
        .map(|n| format!("{:08x}", n.wrapping_mul(2_654_435_761)))
        .collect();
    let entries = [entry("1", "a"), entry("large", &noise), entry("3", "b")];
    let told = produce_batch(&user, "t", &entries).await.expect(207).json();
    let ids = |list: &str| -> Vec<Value> {
        let list = told[list].as_array().unwrap().iter();
        list.map(|entry| entry["id"].clone()).collect()
    };
    assert_eq!(
        (ids("successes"), ids("failures")),
        (vec![json!("1"), json!("3")], vec![json!("large")])
    );
    assert_eq!(told["failures"][0]["error_code"], json!(41302));
    let alone = produce(&user, "t", &text(&noise).to_string()).await;
    is_error("alone", &alone, 413, 41302, "send a smaller one");
    // What the service itself would not read again.
    let huge = json!({"value": {"type": "STRING", "data": "x".repeat((8 << 20) + 1)}}).to_string();
    is_error(
        "huge",
        &produce(&user, "t", &huge).await,
        413,
        41302,
        "send a smaller one",
    );
    assert_eq!(service.broker.end_offset(&on_kafka(&user, "t")), Some(2));
}

/// The largest record there is goes through, in the longest way to write it.
#[tokio::test]
async fn the_largest_record_goes_through_as_base64() {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    let bytes: Vec<u8> = (0..(8u32 << 20) - 100)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let data = BASE64_STANDARD.encode(&bytes);
    let body = json!({"value": {"type": "BINARY", "data": data}}).to_string();
    let told = produce(&user, "t", &body).await.expect(200).json();
    assert_eq!(told["value"], json!({"type": "BINARY", "size": bytes.len()}));
    let read = read(&service, &user, "t", "binary", 1).await;
    assert!(read[0]["value"] == json!(data));
}
