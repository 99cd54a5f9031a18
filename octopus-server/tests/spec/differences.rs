//! *Differences from Confluent's REST Proxy*: the table, each row as one or two requests show it.

use std::time::Duration;

use octopus_core::Limits;
use octopus_kafka::{
    broker::{ApiKey, Request, always},
    records::{BatchWriter, Compression},
};
use serde_json::{Value, json};

use crate::{
    client::{BINARY, JSON, Response},
    create::still,
    raw::{GROUP, INSTANCE, Raw},
    reader::{Reader, partitions},
    service::{Service, on_kafka},
};

/// The cases in the order of the table, and what Octopus does: a status and a code, or what is read.
#[rustfmt::skip]
const DIFFERENCES: [(&str, &str); 27] = [
    ("Namespace and topic names", r#"the topic "t" of the group ns-000000000001.g"#),
    ("Group and instance names", "422, 42204"),
    ("Request content type application/json", "200"),
    ("Record headers", r#"[{"name":"trace","value":"AAE="}]"#),
    ("A json key or value that is UTF-8 text but not JSON", r#"["text"]"#),
    ("A json key or value that is not UTF-8", r#"["before"], then 408, 40801"#),
    (r#"Text after a JSON value, as in {"a":1} {"b":2}"#, r#"["{\"a\":1} {\"b\":2}"]"#),
    ("max_bytes", r#"["long"], then ["longer"]"#),
    ("Format avro, jsonschema or protobuf", "422, 422"),
    ("Body not JSON", "400, 40003"),
    ("Body over 64 KiB", "413, 41301"),
    ("More than 4 instances for a user, or 12 in all", "429, 42901"),
    ("A list longer than a namespace's topics", "422, 422"),
    ("Token check failed", "401, 40101"),
    ("The service fails to authenticate to Kafka", "500, 50002"),
    ("A commit the group refuses after a rebalance", "409, 40903"),
    ("A commit for a partition not assigned to the instance", "409, 40903"),
    ("A partition other than 0", "404, 40402"),
    ("Kafka reports an unknown topic or partition", "404, 40401"),
    ("Most bytes a fetch asks for", "1048576"),
    ("More than 2 fetches for a user, or no turn to poll within the fetch's wait", "429, 42901, Retry-After: 1"),
    ("Reply over 2 MiB of JSON", "1 record, then 1 record"),
    ("A json key or value whose check would take over 32 MiB", "the JSON that it is"),
    ("timeout", "longer than consumer.request.timeout.ms, and at most 30000 ms"),
    ("consumer.request.timeout.ms", "at most 30000 ms"),
    ("fetch.min.bytes", "7"),
    ("Commit of offset N", "N + 1"),
];

/// [NS-01] [CR-02] [CT-01] [FE-01] [FE-04] [FE-05] [FE-06] [FE-10] [CR-04] [CT-03] [CT-05] [CR-10] [CT-06] [AU-02] [ER-05]
/// [CO-06] [CO-05] [AS-02] [ER-03] [FE-13] [LI-01] [RP-01] [RP-02] [D-40] [FE-08] [CR-08] [CR-07] [CO-01] each row.
#[tokio::test]
async fn octopus_differs_from_confluents_proxy_where_the_table_says() {
    let mut limits = Limits::default();
    limits.call_wait = Duration::from_secs(2);
    for (case, expected) in DIFFERENCES {
        let service = Service::with(limits.clone(), |builder| builder).await;
        assert_eq!(octopus(&service, case).await, expected, "{case}");
    }
}

#[expect(clippy::too_many_lines, reason = "one arm a row of the table")]
async fn octopus(service: &Service, case: &str) -> String {
    let user = service.user(1);
    service.topic(&user, "t");
    let create = |body: &'static str| user.post(GROUP, body);
    match case {
        "Namespace and topic names" => {
            let reader = json_reader(service, &[b"1"]).await;
            let topic = records(&reader, service, "").await[0]["topic"].to_string();
            reader.commit().await.expect(200);
            assert_eq!(
                service.broker.committed("ns-000000000001.g", "ns-000000000001.t"),
                Some(1)
            );
            format!("the topic {topic} of the group {}", on_kafka(&user, "g"))
        }
        "Group and instance names" => shown(&create(r#"{"name": ".."}"#).await),
        "Request content type application/json" => {
            let create = Raw::of(&user, "POST", GROUP).add("Content-Type", "application/json");
            create.body("{}").send().await.status.to_string()
        }
        "Record headers" => {
            let mut batch = BatchWriter::new(Compression::None);
            batch.push(0, None, Some(b"1"), &[(b"trace", Some(&b"\x00\x01"[..]))]);
            service.broker.append(&on_kafka(&user, "t"), batch.finish());
            let reader = json_reader(service, &[]).await;
            records(&reader, service, "").await[0]["headers"].to_string()
        }
        "A json key or value that is UTF-8 text but not JSON" => {
            let reader = json_reader(service, &[b"text"]).await;
            values(&reader, service, "").await
        }
        "A json key or value that is not UTF-8" => {
            let reader = json_reader(service, &[b"before", b"\xff", b"after"]).await;
            let before = values(&reader, service, "").await;
            format!("{before}, then {}", shown(&reader.reply(service, "").await))
        }
        r#"Text after a JSON value, as in {"a":1} {"b":2}"# => {
            let reader = json_reader(service, &[br#"{"a":1} {"b":2}"#]).await;
            values(&reader, service, "").await
        }
        "max_bytes" => {
            let reader = json_reader(service, &[b"long", b"longer"]).await;
            let first = values(&reader, service, "max_bytes=1").await;
            format!("{first}, then {}", values(&reader, service, "max_bytes=1").await)
        }
        "Format avro, jsonschema or protobuf" => {
            let avro = shown(&create(r#"{"format": "avro"}"#).await);
            assert_eq!(shown(&create(r#"{"format": "jsonschema"}"#).await), avro);
            assert_eq!(shown(&create(r#"{"format": "protobuf"}"#).await), avro);
            avro
        }
        "Body not JSON" => shown(&create("{").await),
        "Body over 64 KiB" => shown(&Raw::of(&user, "POST", GROUP).announce(64 * 1024 + 1).await),
        "More than 4 instances for a user, or 12 in all" => {
            for held in 0..12 {
                service.user(1 + held / 4).post(GROUP, "").await.expect(200);
            }
            let in_all = shown(&service.user(4).post(GROUP, "").await);
            service.user(2).delete(INSTANCE).await.expect(404);
            assert_eq!(shown(&create("").await), in_all);
            in_all
        }
        "A list longer than a namespace's topics" => {
            let reader = service.reader(&user, "g", "i", json!({})).await;
            shown(
                &reader
                    .post("subscription", json!({"topics": vec!["t"; 51]}))
                    .await,
            )
        }
        "Token check failed" => {
            let create = Raw::of(&user, "POST", GROUP);
            shown(&create.set("authorization", "Bearer x").send().await)
        }
        "The service fails to authenticate to Kafka" => shown(&commit_answered(service, 58).await),
        "A commit the group refuses after a rebalance" => shown(&commit_answered(service, 25).await),
        "A commit for a partition not assigned to the instance" => {
            let reader = service.reader(&user, "g", "i", json!({})).await;
            shown(&reader.commit_of("t", 0).await)
        }
        "A partition other than 0" => {
            let reader = service.reader(&user, "g", "i", json!({})).await;
            let one = json!({"partitions": [{"topic": "t", "partition": 1}]});
            shown(&reader.post("assignments", one).await)
        }
        "Kafka reports an unknown topic or partition" => shown(&commit_answered(service, 3).await),
        "Most bytes a fetch asks for" => {
            let reader = json_reader(service, &[b"1"]).await;
            records(&reader, service, "").await;
            last_fetch(service).0.to_string()
        }
        "More than 2 fetches for a user, or no turn to poll within the fetch's wait" => {
            let mut limits = Limits::default();
            limits.max_polls = 0;
            let no_turn = Service::with(limits, |builder| builder).await;
            let reader = json_reader_of(&no_turn, "i").await;
            let came = no_turn.arrivals();
            let fetch = reader.fetch("?timeout=1");
            no_turn.arrived(came + 1).await;
            no_turn.clock.advance(Duration::from_millis(1));
            let no_turn = waits(&fetch.await.unwrap());

            let mut fetches = Vec::new();
            for name in ["i", "j"] {
                let reader = service.reader(&user, "g", name, json!({})).await;
                let came = service.arrivals();
                fetches.push(reader.fetch("?timeout=30000"));
                service.arrived(came + 1).await;
            }
            let third = service.reader(&user, "g", "k", json!({})).await;
            let third = waits(&user.fetch(&third.path, "", BINARY).await);
            assert_eq!(third, no_turn);
            third
        }
        "Reply over 2 MiB of JSON" => {
            let large = vec![b'x'; 1_500_000];
            let reader = json_reader(service, &[&large, &large]).await;
            let counts = [
                records(&reader, service, "").await.len(),
                records(&reader, service, "").await.len(),
            ];
            format!("{} record, then {} record", counts[0], counts[1])
        }
        "A json key or value whose check would take over 32 MiB" => {
            let deep = format!("{}{}", "[".repeat(600_000), "]".repeat(600_000));
            let reader = json_reader(service, &[deep.as_bytes()]).await;
            let reply = reader.reply(service, "").await.expect(200);
            let found = reply.text().contains(&format!(r#""value":{deep},"#));
            (if found { "the JSON that it is" } else { "a string" }).to_owned()
        }
        "timeout" => {
            let reader = service
                .reader(&user, "g", "i", json!({"consumer.request.timeout.ms": 1000}))
                .await;
            for (query, wait) in [
                ("?timeout=2000", 2000),
                ("?timeout=1", 1),
                ("?timeout=30000", 30_000),
                ("?timeout=30001", 30_000),
                ("?timeout=0", 1000),
                ("?timeout=-5", 1000),
                ("", 1000),
            ] {
                waits_for(service, &reader, query, wait).await;
            }
            "longer than consumer.request.timeout.ms, and at most 30000 ms".to_owned()
        }
        "consumer.request.timeout.ms" => {
            let reader = service
                .reader(&user, "g", "i", json!({"consumer.request.timeout.ms": 31_000}))
                .await;
            let other = service.reader(&user, "g", "j", json!({})).await;
            waits_for(service, &other, "", 5000).await;
            waits_for(service, &reader, "", 30_000).await;
            "at most 30000 ms".to_owned()
        }
        "fetch.min.bytes" => {
            let settings = json!({"format": "json", "fetch.min.bytes": 7});
            let reader = service.reader(&user, "g", "i", settings).await;
            service.fill(&user, "t", 10);
            reader.assign(&["t"]).await;
            records(&reader, service, "").await;
            last_fetch(service).1.to_string()
        }
        "Commit of offset N" => {
            let reader = json_reader_of(service, "i").await;
            reader.commit_of("t", 41).await.expect(200);
            let committed = reader.committed(&partitions(&["t"]).to_string()).await;
            let more = committed.json()["offsets"][0]["offset"].as_i64().unwrap() - 41;
            format!("N + {more}")
        }
        other => panic!("no way to show: {other}"),
    }
}

/// A json instance at the first of these values of the topic `t`.
async fn json_reader(service: &Service, values: &[&[u8]]) -> Reader {
    if !values.is_empty() {
        service.write(&service.user(1), "t", values);
    }
    json_reader_of(service, "i").await
}

async fn json_reader_of(service: &Service, name: &str) -> Reader {
    let user = service.user(1);
    if service.broker.end_offset(&on_kafka(&user, "t")).is_none() {
        service.topic(&user, "t");
    }
    let reader = service.reader(&user, "g", name, json!({"format": "json"})).await;
    assert_eq!(reader.accept, JSON);
    reader.assign(&["t"]).await;
    reader
}

async fn records(reader: &Reader, service: &Service, query: &str) -> Vec<Value> {
    reader.records(service, query).await
}

/// The values of a fetch's records.
async fn values(reader: &Reader, service: &Service, query: &str) -> String {
    let records = records(reader, service, query).await;
    let values: Value = records.iter().map(|record| record["value"].clone()).collect();
    values.to_string()
}

/// Has a fetch find nothing for so many milliseconds, no more and no less.
async fn waits_for(service: &Service, reader: &Reader, query: &str, wait: u64) {
    let came = service.arrivals();
    let fetch = reader.fetch(query);
    service.arrived(came + 1).await;
    service.clock.advance(Duration::from_millis(wait - 1));
    still(&fetch).await;
    service.clock.advance(Duration::from_millis(1));
    assert_eq!(fetch.await.unwrap().expect(200).text(), "[]");
}

async fn commit_answered(service: &Service, code: i16) -> Response {
    let reader = json_reader_of(service, "i").await;
    let faults = service.broker.faults();
    faults.on(ApiKey::OffsetCommit, always()).error(code);
    reader.commit_of("t", 0).await
}

/// The most bytes and the least that the last fetch of the broker asked for.
fn last_fetch(service: &Service) -> (i32, i32) {
    let fetches = service.asked(ApiKey::Fetch);
    let Some(Request::Fetch(fetch)) = fetches.last().map(|received| &received.request) else {
        panic!("a fetch of the broker");
    };
    (fetch.max_bytes, fetch.min_bytes)
}

fn shown(reply: &Response) -> String {
    let (status, code) = reply.error();
    format!("{status}, {code}")
}

fn waits(reply: &Response) -> String {
    format!(
        "{}, Retry-After: {}",
        shown(reply),
        reply.header("retry-after").unwrap_or("none")
    )
}
