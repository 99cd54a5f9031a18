//! Keys and values of every kind, in every compression, in both formats.

use bytes::Bytes;
use octopus_kafka::records::{BatchWriter, Compression};
use serde_json::{Value, json};

use crate::support::{
    client::{BINARY, JSON},
    kafka::Broker,
    server::Server,
};

/// The specification's record.
pub(crate) fn example_record() -> Bytes {
    let mut batch = BatchWriter::new(Compression::None);
    batch.push(
        0,
        None,
        Some(br#"{"step": 7, "loss": 0.31}"#),
        &[(b"trace", Some(&[0, 1]))],
    );
    batch.finish()
}

type Row = (
    Option<&'static [u8]>,
    Option<&'static [u8]>,
    Headers,
    [Value; 2],
    [&'static str; 2],
);
type Headers = &'static [(&'static [u8], Option<&'static [u8]>)];

/// Key, value, headers; what a binary instance shows, what a json instance shows.
#[rustfmt::skip]
fn records() -> Vec<Row> {
    vec![
        (None, None, &[], [json!(null), json!(null)], ["null", "null"]),
        (Some(b""), Some(b""), &[(b"a", Some(b"1")), (b"b", None), (b"a", Some(b""))], [json!(""), json!("")], [r#""""#, r#""""#]),
        (Some(b"k"), Some(b" { \"b\" : 1.50 , \"b\":1e2} "), &[], [json!("aw=="), json!("IHsgImIiIDogMS41MCAsICJiIjoxZTJ9IA==")], [r#""k""#, " { \"b\" : 1.50 , \"b\":1e2} "]),
        (Some(b"12345678901234567890123"), Some(br#"{"a":1} {"b":2}"#), &[], [json!("MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM="), json!("eyJhIjoxfSB7ImIiOjJ9")], ["12345678901234567890123", r#""{\"a\":1} {\"b\":2}""#]),
        (Some(b"null"), Some("text \u{1} \u{2028}".as_bytes()), &[], [json!("bnVsbA=="), json!("dGV4dCABIOKAqA==")], ["null", "\"text \\u0001 \u{2028}\""]),
    ]
}

fn batch(compression: Compression) -> Bytes {
    let mut batch = BatchWriter::new(compression);
    for (key, value, headers, _, _) in records() {
        batch.push(1_700_000_000_000, key, value, headers);
    }
    batch.push(1_700_000_000_000, Some(b"\xff"), Some(b"1"), &[]);
    batch.push(1_700_000_000_000, None, Some(b"\"last\""), &[]);
    batch.finish()
}

/// [FE-01] [FE-02] [FE-03] [FE-04] [FE-05] [FE-06] [D-27]
#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_record_is_read_in_every_compression() {
    let broker = Broker::start().await;
    let server = Server::start(&broker.address(), &[]).await;
    let user = server.user(0);
    let compressions = [
        ("none", Compression::None),
        ("gzip", Compression::Gzip),
        ("snappy", Compression::Snappy),
        ("lz4", Compression::Lz4),
        ("zstd", Compression::Zstd),
    ];
    for (name, compression) in compressions {
        let topic = broker.topic(&user, name).await;
        broker.append(&topic, batch(compression)).await;
        let partition = json!({"partitions": [{"topic": name, "partition": 0}]}).to_string();
        for format in ["binary", "json"] {
            let create =
                json!({"name": format, "format": format, "auto.offset.reset": "earliest"}).to_string();
            user.post(&format!("/api/v2/consumers/{name}"), &create)
                .await
                .expect(200);
            let instance = format!("/api/v2/consumers/{name}/instances/{format}");
            user.post(&format!("{instance}/assignments"), &partition)
                .await
                .expect(204);
        }

        let binary = format!("/api/v2/consumers/{name}/instances/binary");
        let read = user.fetch_some(&binary, "?timeout=10000", BINARY).await;
        assert_eq!(read.len(), 7, "{name}");
        for (record, (i, (_, _, headers, [key, value], _))) in read.iter().zip(records().iter().enumerate()) {
            assert_eq!(
                (&record["offset"], &record["key"], &record["value"]),
                (&json!(i), key, value),
                "{name} {i}"
            );
            let names: Vec<_> = record["headers"]
                .as_array()
                .unwrap()
                .iter()
                .map(|h| h["name"].clone())
                .collect();
            let expected: Vec<_> = headers
                .iter()
                .map(|(n, _)| json!(std::str::from_utf8(n).unwrap()))
                .collect();
            assert_eq!(names, expected);
        }
        assert_eq!(
            read[1]["headers"],
            json!([{"name": "a", "value": "MQ=="}, {"name": "b", "value": null}, {"name": "a", "value": ""}])
        );
        assert_eq!(read[5]["key"], "/w==");

        let json_instance = format!("/api/v2/consumers/{name}/instances/json");
        let reply = loop {
            let reply = user
                .fetch(&json_instance, "?timeout=10000", JSON)
                .await
                .expect(200);
            if reply.body != b"[]" {
                break reply;
            }
        };
        let text = reply.text();
        assert_eq!(
            reply.json().as_array().unwrap().len(),
            5,
            "the sixth is not UTF-8"
        );
        for (_, _, _, _, [key, value]) in records() {
            assert!(
                text.contains(&format!("\"key\":{key},\"value\":{value},")),
                "{name}: {value} is not in {text}"
            );
        }
        for _ in 0..2 {
            let refused = user.fetch(&json_instance, "?timeout=10000", JSON).await;
            assert_eq!(
                (refused.error(), refused.header("content-type")),
                ((408, 40801), Some(JSON))
            );
        }
        let past = json!({"offsets": [{"topic": name, "partition": 0, "offset": 6}]}).to_string();
        user.post(&format!("{json_instance}/positions"), &past)
            .await
            .expect(204);
        assert_eq!(
            user.fetch_some(&json_instance, "?timeout=10000", JSON).await[0]["value"],
            "last"
        );
        for instance in [binary, json_instance] {
            user.delete(&instance).await.expect(204);
        }
    }
}

/// [AC-03] [AC-04]
#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_names_a_type_of_its_instances_format() {
    let broker = Broker::start().await;
    let server = Server::start(&broker.address(), &[]).await;
    let user = server.user(0);
    user.post("/api/v2/consumers/g", r#"{"name": "i", "format": "json"}"#)
        .await
        .expect(200);
    let instance = "/api/v2/consumers/g/instances/i";
    for (accept, error) in [
        ("*/*", (406, 40601)),
        (BINARY, (406, 40601)),
        ("application/json", (406, 406)),
    ] {
        assert_eq!(
            user.fetch(instance, "?timeout=1", accept).await.error(),
            error,
            "{accept}"
        );
    }
    assert_eq!(
        user.get(&format!("{instance}/records?timeout=1")).await.error(),
        (406, 40601)
    );
}
