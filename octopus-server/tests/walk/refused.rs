//! What is refused: the specification's table of errors, and its order.

use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use crate::support::{
    client::{BINARY, Client, JSON, Response, V2},
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

/// Code, status, method, path below the group, headers, body, and words of the message.
type Row<'a> = (
    u64,
    u16,
    &'a str,
    &'a str,
    &'a [(&'a str, &'a str)],
    &'a str,
    &'a str,
);

/// [RT-04] every row of the table that a client can bring about by itself, and what its message names.
#[tokio::test(flavor = "multi_thread")]
async fn every_row_of_the_table_is_answered_with_its_code_and_a_message_that_names_the_cause() {
    let broker = Broker::start().await;
    let server = Server::start(&broker.address(), &["--max-instances", "4"]).await;
    let (user, other) = (server.user(0), server.user(1));
    instances(&broker, &user).await;

    let large = format!(r#"{{"name": "{}"}}"#, "x".repeat(65 * 1024));
    let long = json!({"topics": vec!["t"; 51]}).to_string();
    let metadata = json!({"offsets": [{"topic": "events", "partition": 0, "offset": 0,
        "metadata": "m".repeat(5000)}]})
    .to_string();
    let plain = &[("Content-Type", "text/plain")][..];
    let (binary, text, any) = (
        &[("Accept", BINARY)][..],
        &[("Accept", JSON)][..],
        &[("Accept", "application/json")][..],
    );
    #[rustfmt::skip]
    let rows: &[Row<'_>] = &[
        (40002, 400, "POST", "/instances/bin/offsets", &[], &metadata, "invalid"),
        (40003, 400, "POST", "", &[], r#"{"name": "#, "JSON"),
        (40003, 400, "POST", "/instances/bin/offsets", &[], "{} {}", "JSON"),
        (40401, 404, "POST", "/instances/free/subscription", &[], r#"{"topics": ["missing"]}"#, "missing"),
        (40401, 404, "POST", "/instances/free/assignments", &[], r#"{"partitions": [{"topic": "missing", "partition": 0}]}"#, "missing"),
        (40401, 404, "GET", "/instances/free/offsets", &[], r#"{"partitions": [{"topic": "missing", "partition": 0}]}"#, "missing"),
        (40402, 404, "POST", "/instances/free/assignments", &[], r#"{"partitions": [{"topic": "events", "partition": 7}]}"#, "Partition 7 of topic events"),
        (40402, 404, "POST", "/instances/bin/positions", &[], r#"{"offsets": [{"topic": "events", "partition": 1, "offset": 0}]}"#, "Partition 1 of topic events"),
        (40402, 404, "GET", "/instances/free/offsets", &[], "", "name the partitions"),
        (40403, 404, "DELETE", "/instances/nobody", &[], "", "not found"),
        (40403, 404, "GET", "/instances/no%20name/records", binary, "", "not found"),
        (406, 406, "GET", "/instances/free/records", any, "", "Accept"),
        (40601, 406, "GET", "/instances/free/records", text, "", "format"),
        (40601, 406, "GET", "/instances/text/records", binary, "", "format"),
        (40801, 408, "GET", "/instances/text/records?timeout=30000", text, "", "topic raw"),
        (40902, 409, "POST", "", &[], r#"{"name": "free"}"#, "already"),
        (40903, 409, "POST", "/instances/free/positions", &[], r#"{"offsets": [{"topic": "events", "partition": 0, "offset": 0}]}"#, "topic events"),
        (40903, 409, "POST", "/instances/free/positions/end", &[], r#"{"partitions": []}"#, "No partition is assigned"),
        (40903, 409, "POST", "/instances/free/offsets", &[], r#"{"offsets": [{"topic": "events", "partition": 0, "offset": 0}]}"#, "topic events"),
        (40903, 409, "POST", "/instances/bin/subscription", &[], r#"{"topics": ["events"]}"#, "unsubscribe first"),
        (40903, 409, "POST", "/instances/sub/assignments", &[], r#"{"partitions": [{"topic": "events", "partition": 0}]}"#, "unsubscribe first"),
        (41301, 413, "POST", "", &[], &large, "64 KiB"),
        (415, 415, "POST", "", plain, "{}", "application/json"),
        (422, 422, "POST", "", &[], r#"{"format": "avro"}"#, "format must be binary or json"),
        (422, 422, "POST", "", &[], r#"{"surprise": 1}"#, "surprise"),
        (422, 422, "POST", "/instances/free/subscription", &[], "{}", "topics"),
        (422, 422, "POST", "/instances/free/subscription", &[], &long, "more than 50"),
        (422, 422, "POST", "/instances/bin/positions", &[], r#"{"offsets": [{"topic": "events", "partition": 0}]}"#, "offset"),
        (422, 422, "POST", "/instances/bin/offsets", &[], r#"{"offsets": [{"topic": "events", "partition": 0, "offset": -1}]}"#, "offset"),
        (422, 422, "GET", "/instances/free/records?timeout=soon", binary, "", "timeout"),
        (422, 422, "GET", "/instances/free/records?max_bytes=1.5", binary, "", "max_bytes"),
        (42204, 422, "POST", "", &[], r#"{"name": "-x"}"#, "The name must be 1 to 128"),
        (42204, 422, "POST", "%20g", &[], "", "The group must be 1 to 128"),
        (42204, 422, "POST", "", &[], r#"{"auto.offset.reset": "first"}"#, "auto.offset.reset must be earliest"),
        (42204, 422, "POST", "", &[], r#"{"auto.commit.enable": 1}"#, "auto.commit.enable must be true"),
        (42204, 422, "POST", "", &[], r#"{"fetch.min.bytes": -1}"#, "fetch.min.bytes must be"),
        (42204, 422, "POST", "", &[], r#"{"consumer.request.timeout.ms": 1.5}"#, "consumer.request.timeout.ms must be"),
        (42204, 422, "POST", "/instances/free/subscription", &[], r#"{"topics": []}"#, "topics"),
        (42204, 422, "POST", "/instances/free/subscription", &[], r#"{"topic_pattern": ".*"}"#, "topic_pattern"),
        (42901, 429, "POST", "", &[], r#"{"name": "fifth"}"#, "The user holds 4"),
    ];
    for (code, status, method, path, headers, body, words) in rows {
        let reply = user.send(method, &format!("{GROUP}{path}"), headers, body).await;
        let what = format!("{method} {path} {}", &body[..body.len().min(80)]);
        is_error(&what, &reply, *status, *code, words);
        assert_eq!(reply.header("retry-after"), None, "{what}");
        let chosen = headers
            .iter()
            .find(|(name, value)| *name == "Accept" && value.contains("vnd"));
        assert_eq!(
            reply.header("content-type"),
            Some(chosen.map_or(V2, |(_, v)| v)),
            "{what}"
        );
    }

    let reply = other.post(GROUP, "").await;
    is_error("another user's create", &reply, 429, 42901, "The service holds 4");
    let stranger = Client {
        token: "a_token_that_nobody_was_given_by_anyone".to_owned(),
        ..user.clone()
    };
    is_error(
        "an unknown token",
        &stranger.post(GROUP, "").await,
        401,
        40101,
        "token",
    );
    let thief = Client {
        token: other.token.clone(),
        ..user.clone()
    };
    is_error(
        "another user's token",
        &thief.post(GROUP, "").await,
        401,
        40101,
        "token",
    );
    let nobody = Client {
        subject: "nobody".to_owned(),
        ..user.clone()
    };
    is_error(
        "a subject that is no UUID",
        &nobody.post(GROUP, "").await,
        401,
        40101,
        "UUID",
    );
    let theirs = other.delete(&format!("{GROUP}/instances/free")).await;
    is_error("another user's instance", &theirs, 404, 40403, "not found");

    let (free, sub, bin) = ["free", "sub", "bin"]
        .map(|name| format!("{GROUP}/instances/{name}"))
        .into();
    let _first = user.polling(&free, BINARY).await;
    let busy = user.fetch(&free, "", BINARY).await;
    is_error("a fetch behind a fetch", &busy, 409, 40904, "retry");
    let sub_busy = user.fetch(&sub, "?timeout=1", BINARY).await;
    assert_eq!(sub_busy.status, 200, "{sub_busy:?}");
    let _second = user.polling(&sub, BINARY).await;
    let third = user.fetch(&bin, "", BINARY).await;
    is_error(
        "a user's third fetch",
        &third,
        429,
        42901,
        "2 fetches in progress",
    );
    assert_eq!(third.header("retry-after"), Some("1"));

    let lost = user.get("/api/v2/nowhere").await;
    assert_eq!((lost.status, lost.json()), (404, json!({"detail": "Not Found"})));
    let wrong = user.send("PUT", GROUP, &[], "").await;
    assert_eq!(
        (wrong.status, wrong.json()),
        (405, json!({"detail": "Method Not Allowed"}))
    );
    assert_eq!(wrong.header("allow"), Some("POST"));
    is_quiet(&server, &[&user, &other]);
}

/// The log holds no token and no panic.
pub(crate) fn is_quiet(server: &Server, users: &[&Client]) {
    let log = server.log();
    assert!(!log.contains("panicked"), "{log}");
    for user in users {
        assert!(!log.contains(&user.token), "{log}");
    }
}

/// A request that is written as it stands.
#[derive(Clone)]
struct Raw {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Raw {
    fn set(&mut self, name: &'static str, value: &str) {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.to_owned()));
    }

    async fn send(&self, user: &Client) -> Response {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += &format!("Content-Length: {}\r\n\r\n", self.body.len());
        let mut connection = user.connect().await;
        // A body that is refused unread may not be taken whole.
        let _ = connection.stream.write_all((text + &self.body).as_bytes()).await;
        connection.receive().await
    }
}

/// [D-01] a request with every fault hears of them in the order of the decision, as they are mended one by one.
#[tokio::test(flavor = "multi_thread")]
async fn faults_are_told_in_their_order() {
    let broker = Broker::start().await;
    let server = Server::start(&broker.address(), &[]).await;
    let user = server.user(0);
    instances(&broker, &user).await;

    let mut assign = Raw {
        method: "PATCH",
        path: format!("{GROUP}/instance/nobody/assignments"),
        headers: vec![
            ("Host", "a b".to_owned()),
            ("Content-Type", "text/plain".to_owned()),
        ],
        body: format!("{{{}", " ".repeat(70_000)),
    };
    let reply = assign.send(&user).await;
    is_error("host", &reply, 400, 400, "Host");
    assign.set("Host", "octopus.example");
    assert_eq!(assign.send(&user).await.status, 404);
    assign.path = format!("{GROUP}/instances/nobody/assignments");
    assert_eq!(assign.send(&user).await.status, 405);
    assign.method = "POST";
    is_error("subject", &assign.send(&user).await, 422, 422, "subject");
    assign.set("subject", &user.subject);
    is_error(
        "authorization",
        &assign.send(&user).await,
        422,
        422,
        "authorization",
    );
    assign.set("authorization", "Bearer x");
    is_error("token", &assign.send(&user).await, 401, 40101, "token");
    assign.set("authorization", &format!("Bearer {}", user.token));
    is_error(
        "content type",
        &assign.send(&user).await,
        415,
        415,
        "content type",
    );
    assign.set("Content-Type", V2);
    is_error("size", &assign.send(&user).await, 413, 41301, "64 KiB");
    assign.body = "{".to_owned();
    is_error("JSON", &assign.send(&user).await, 400, 40003, "JSON");
    assign.body = json!({"partitions": [{"topic": "missing", "partition": "first"}]}).to_string();
    is_error("field", &assign.send(&user).await, 422, 422, "partition");
    assign.body = json!({"partitions": [{"topic": "missing", "partition": 1}]}).to_string();
    is_error("instance", &assign.send(&user).await, 404, 40403, "instance");
    assign.path = format!("{GROUP}/instances/sub/assignments");
    is_error("partition", &assign.send(&user).await, 404, 40402, "Partition 1");
    assign.body = json!({"partitions": [{"topic": "missing", "partition": 0}]}).to_string();
    is_error("topic", &assign.send(&user).await, 404, 40401, "missing");
    assign.body = json!({"partitions": [{"topic": "events", "partition": 0}]}).to_string();
    is_error("state", &assign.send(&user).await, 409, 40903, "unsubscribe");
    assign.path = format!("{GROUP}/instances/free/assignments");
    assert_eq!(assign.send(&user).await.status, 204);

    // With nothing left to read, the poll waits.
    let bin = format!("{GROUP}/instances/bin");
    user.fetch_some(&bin, "?timeout=5000", BINARY).await;
    let poll = user.polling(&bin, BINARY).await;
    let mut fetch = Raw {
        method: "GET",
        path: format!("{GROUP}/instances/nobody/records?timeout=x"),
        headers: vec![
            ("Host", "octopus.example".to_owned()),
            ("subject", user.subject.clone()),
            ("authorization", format!("Bearer {}", user.token)),
            ("Content-Type", "text/plain".to_owned()),
            ("Accept", "text/html".to_owned()),
        ],
        body: " ".repeat(70_000),
    };
    is_error("size", &fetch.send(&user).await, 413, 41301, "64 KiB");
    fetch.body.truncate(64 * 1024);
    is_error("Accept", &fetch.send(&user).await, 406, 406, "Accept");
    fetch.set("Accept", JSON);
    is_error("query", &fetch.send(&user).await, 422, 422, "timeout");
    fetch.path = format!("{GROUP}/instances/nobody/records?timeout=1");
    is_error("instance", &fetch.send(&user).await, 404, 40403, "instance");
    fetch.path = format!("{GROUP}/instances/bin/records?timeout=1");
    is_error("format", &fetch.send(&user).await, 406, 40601, "format");
    fetch.set("Accept", BINARY);
    is_error("busy", &fetch.send(&user).await, 409, 40904, "retry");
    drop(poll);
}
