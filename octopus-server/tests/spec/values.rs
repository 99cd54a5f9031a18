//! *Records*: keys, values and headers of every kind, in both formats, byte for byte.

use octopus_kafka::records::{BatchWriter, Compression};
use serde_json::json;

use crate::{
    client::{BINARY, Client, JSON},
    reader::{Reader, partitions, place},
    service::{Service, on_kafka},
};

const JSON_FORMAT: &str = "json";

/// A key or a value.
type Part<'a> = Option<&'a [u8]>;

impl Service {
    /// Writes a batch of records: key and value.
    fn put(&self, user: &Client, topic: &str, records: &[(Part<'_>, Part<'_>)]) {
        let mut batch = BatchWriter::new(Compression::None);
        for (key, value) in records {
            batch.push(0, *key, *value, &[]);
        }
        let base = self.broker.append(&on_kafka(user, topic), batch.finish());
        assert!(base.is_some());
    }

    /// An instance that is assigned these topics, with this format.
    async fn assigned(&self, user: &Client, group: &str, topics: &[&str], format: &str) -> Reader {
        let reader = self.reader(user, group, "i", json!({"format": format})).await;
        reader.assign(topics).await;
        reader
    }
}

/// [FE-01] [FE-03] [RT-05] the specification's record, in the order of its fields; headers in Kafka's order, repeated
/// names and null values kept.
#[tokio::test]
async fn a_record_is_its_fields_in_their_order() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "my-topic");
    service.fill(&user, "my-topic", 12);
    let mut batch = BatchWriter::new(Compression::None);
    let value = br#"{"step": 7, "loss": 0.31}"#;
    batch.push(5, None, Some(value), &[(b"trace", Some(&[0, 1]))]);
    batch.push(
        6,
        Some(b"k"),
        None,
        &[
            (b"b\"", None),
            (b"a", Some(b"")),
            (b"b\"", Some(b"1")),
            (b"", None),
        ],
    );
    service
        .broker
        .append(&on_kafka(&user, "my-topic"), batch.finish());

    let reader = service.assigned(&user, "g", &["my-topic"], JSON_FORMAT).await;
    reader.seek("my-topic", 12).await.expect(204);
    let reply = reader.reply(&service, "").await.expect(200);
    assert_eq!(reply.header("content-type"), Some(JSON));
    assert_eq!(
        reply.text(),
        concat!(
            r#"[{"topic":"my-topic","key":null,"value":{"step": 7, "loss": 0.31},"partition":0,"offset":12,"#,
            r#""headers":[{"name":"trace","value":"AAE="}]},"#,
            r#"{"topic":"my-topic","key":"k","value":null,"partition":0,"offset":13,"#,
            r#""headers":[{"name":"b\"","value":null},{"name":"a","value":""},{"name":"b\"","value":"MQ=="},"#,
            r#"{"name":"","value":null}]}]"#,
        )
    );

    let reader = service.assigned(&user, "h", &["my-topic"], "binary").await;
    reader.seek("my-topic", 13).await.expect(204);
    let reply = reader.reply(&service, "").await.expect(200);
    assert_eq!(reply.header("content-type"), Some(BINARY));
    assert!(
        reply
            .text()
            .starts_with(r#"[{"topic":"my-topic","key":"aw==","value":null,"partition":0,"offset":13,"#)
    );
}

/// [FE-02] standard base64 of the exact bytes; null stays null.
#[tokio::test]
async fn a_binary_instance_returns_base64() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    #[rustfmt::skip]
    let rows: [(Part<'_>, &str); 8] = [
        (None, "null"),
        (Some(b""), r#""""#),
        (Some(b"\0"), r#""AA==""#),
        (Some(b"\xff\xfe"), r#""//4=""#),
        (Some(b"\xfb\xef\xbe"), r#""++++""#),
        (Some(b"null"), r#""bnVsbA==""#),
        (Some(b"{\"a\": 1}\n"), r#""eyJhIjogMX0K""#),
        (Some("é\u{feff}".as_bytes()), r#""w6nvu78=""#),
    ];
    let records: Vec<_> = rows.iter().map(|(part, _)| (*part, *part)).collect();
    service.put(&user, "t", &records);
    let every: Vec<u8> = (0..=255).collect();
    service.put(&user, "t", &[(None, Some(&every))]);
    let reader = service.assigned(&user, "g", &["t"], "binary").await;
    let mut text = String::new();
    let mut next = 0;
    while next < 9 {
        let reply = reader.reply(&service, "").await.expect(200);
        next = place(reply.json().as_array().unwrap().last().unwrap()).1 + 1;
        text += reply.text();
    }
    for (i, (_, shown)) in rows.iter().enumerate() {
        let record = format!(r#"{{"topic":"t","key":{shown},"value":{shown},"partition":0,"offset":{i},"#);
        assert!(text.contains(&record), "{record} is not in {text}");
    }
    let alphabet = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+P0BBQkNERUZHSElKS0xNTk9QUVJTVFVWV1hZWltcXV5fYGFiY2RlZmdoaWprbG1ub3BxcnN0dXZ3eHl6e3x9fn+AgYKDhIWGh4iJiouMjY6PkJGSk5SVlpeYmZqbnJ2en6ChoqOkpaanqKmqq6ytrq+wsbKztLW2t7i5uru8vb6/wMHCw8TFxsfIycrLzM3Oz9DR0tPU1dbX2Nna29zd3t/g4eLj5OXm5+jp6uvs7e7v8PHy8/T19vf4+fr7/P3+/w==";
    assert!(text.contains(&format!(r#""value":"{alphabet}""#)));
}

/// [FE-03] [D-27] one JSON value comes back as it was produced, to the byte.
#[tokio::test]
async fn a_json_value_comes_back_as_it_was_produced() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let long = format!(
        "-{}.{}E+{}",
        "9".repeat(1_000),
        "0".repeat(1_000),
        "1".repeat(1_000)
    );
    let values = [
        r#"{"step": 7, "loss": 0.31}"#,
        " \t\r\n{ \"b\" : [ 1.50 , \"b\" ] , \"b\":1e2 }\n\n",
        r#"{"a":1,"a":2,"":{}}"#,
        "\"a string\"",
        r#""\u0041\/\"\\\b\u00e9é😀""#,
        r#""\ud800""#,
        r#""\udc00\ud800 \uDBFF""#,
        "\"\u{2028}\u{7f}\u{feff}\"",
        "null",
        "true",
        " false ",
        "0",
        "-0.0e-0",
        "1E400",
        "[]",
        "{}",
        &long,
        &deep,
    ];
    come_back(&values, |value| value.to_owned()).await;
}

/// [FE-04] [D-27] any other text is a string of it, also where a JSON value is a part of it.
#[tokio::test]
async fn any_other_text_is_a_string() {
    let controls: String = (0..=0x7f_u8).map(char::from).collect();
    let open = "[".repeat(100_000) + &"]".repeat(99_999);
    let values = [
        r#"{"a":1} {"b":2}"#,
        r#"{"a":1}{"b":2}"#,
        "1 2",
        "1,",
        "plain text",
        "",
        " ",
        "\n\t",
        "\u{feff}1",
        "1\u{feff}",
        "\u{a0}1",
        "1\0",
        "01",
        "1.",
        ".5",
        "+1",
        "-",
        "1e",
        "0x10",
        "NaN",
        "Infinity",
        "nul",
        "True",
        "'a'",
        "\"open",
        "\"a\nb\"",
        r#""\x41""#,
        r#""\u12""#,
        "[1,]",
        "[1 2]",
        "{\"a\"}",
        "{a:1}",
        "{\"a\":1,}",
        "// 1\n1",
        "é 😀 \u{2028}",
        &controls,
        &open,
    ];
    come_back(&values, |value| serde_json::to_string(value).unwrap()).await;
}

/// Writes each value as a key and as a value, and reads what a json instance shows.
async fn come_back(values: &[&str], shown: impl Fn(&str) -> String) {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    let records: Vec<_> = values
        .iter()
        .map(|value| (Some(value.as_bytes()), Some(value.as_bytes())))
        .collect();
    service.put(&user, "t", &records);
    let reader = service.assigned(&user, "g", &["t"], JSON_FORMAT).await;
    let reply = reader.reply(&service, "").await.expect(200);
    let objects: Vec<_> = values
        .iter()
        .enumerate()
        .map(|(i, value)| {
            let shown = shown(value);
            format!(
                r#"{{"topic":"t","key":{shown},"value":{shown},"partition":0,"offset":{i},"headers":[]}}"#
            )
        })
        .collect();
    let expected = format!("[{}]", objects.join(","));
    let same = expected
        .bytes()
        .zip(&reply.body)
        .take_while(|(a, b)| a == *b)
        .count();
    let shown = String::from_utf8_lossy(&reply.body[same.saturating_sub(40)..]);
    assert!(same == expected.len(), "at byte {same}: {shown:.80}");
    assert_eq!(reply.body.len(), same);
}

/// [D-40] what the reference showed as text for its size is the JSON that it is.
#[tokio::test]
async fn a_large_array_of_small_objects_is_json() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    let value = format!("[{}{{\"a\":1}}]", "{\"a\":1},".repeat(400_000));
    service.put(&user, "t", &[(None, Some(value.as_bytes()))]);
    let reader = service.assigned(&user, "g", &["t"], JSON_FORMAT).await;
    let reply = reader.reply(&service, "").await.expect(200);
    let expected =
        format!(r#"[{{"topic":"t","key":null,"value":{value},"partition":0,"offset":0,"headers":[]}}]"#);
    assert!(reply.text() == expected);
}

/// [FE-05] [FE-06] [D-37] [RT-05] a record that is not UTF-8 ends its partition's part; then it is refused until it is
/// sought past, whatever the other partitions hold.
#[tokio::test]
async fn a_record_that_is_not_utf8_waits_for_a_seek() {
    let good: &[u8] = b"1";
    for bad in [
        &b"\xff"[..],
        b"\x80",
        b"a\xc3",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xf8\x88\x80\x80\x80",
        b"{\"a\":\"\xe2\x82\"}",
    ] {
        let service = Service::start().await;
        let user = service.user(1);
        service.topic(&user, "a");
        service.topic(&user, "b");
        let is_key = bad.len() % 2 == 1;
        let record = if is_key {
            (Some(bad), Some(good))
        } else {
            (None, Some(bad))
        };
        let fine = (None, Some(good));
        service.put(&user, "a", &[fine, fine, record, fine]);
        service.put(&user, "b", &[fine, fine]);
        let at = |topic: &str, offset| (topic.to_owned(), offset);

        let reader = service.assigned(&user, "g", &["a", "b"], JSON_FORMAT).await;
        let mut read = Vec::new();
        while read.len() < 4 {
            read.extend(reader.offsets(&service, "").await);
        }
        read.sort();
        assert_eq!(read, [at("a", 0), at("a", 1), at("b", 0), at("b", 1)]);
        reader.commit().await.expect(200);
        assert_eq!(service.committed(&user, "g", "a"), Some(2), "it is sought back");

        service.put(&user, "b", &[fine]);
        for _ in 0..3 {
            let refused = reader.reply(&service, "").await;
            assert_eq!(refused.error(), (408, 40801));
            assert_eq!(refused.header("content-type"), Some(JSON));
            assert!(refused.text().contains(" a "), "{}", refused.text());
        }
        reader.seek("b", 0).await.expect(204);
        assert_eq!(reader.reply(&service, "").await.error(), (408, 40801));
        reader.seek("a", 3).await.expect(204);
        let mut read = Vec::new();
        while read.len() < 4 {
            read.extend(reader.offsets(&service, "").await);
        }
        read.sort();
        assert_eq!(read, [at("a", 3), at("b", 0), at("b", 1), at("b", 2)]);

        // Once its partition is no longer assigned, it bars nothing.
        reader.seek("a", 2).await.expect(204);
        assert_eq!(reader.reply(&service, "").await.error(), (408, 40801));
        reader.assign(&["b"]).await;
        reader
            .post("positions/beginning", partitions(&["b"]))
            .await
            .expect(204);
        assert_eq!(reader.offsets(&service, "").await[0], at("b", 0));

        let binary = service.assigned(&user, "h", &["a"], "binary").await;
        assert_eq!(binary.offsets(&service, "").await.len(), 4);
    }
}

/// [D-25] the name of a header is never a block.
#[tokio::test]
async fn a_header_name_that_is_not_utf8_is_shown_with_replacements() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    let mut batch = BatchWriter::new(Compression::None);
    batch.push(0, None, Some(b"1"), &[(b"a\xffb", Some(b"\xff"))]);
    service.broker.append(&on_kafka(&user, "t"), batch.finish());
    for format in ["binary", JSON_FORMAT] {
        let reader = service.assigned(&user, format, &["t"], format).await;
        let records = reader.records(&service, "").await;
        assert_eq!(
            records[0]["headers"],
            json!([{"name": "a\u{fffd}b", "value": "/w=="}])
        );
    }
}
