use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use octopus_codec::is_json;
use octopus_kafka::producer::NewRecord;
use proptest::{collection::vec, option, prelude::*};
use serde_json::{Value, json};

use super::*;

fn one(body: &str) -> Given {
    let mut read = records(body.as_bytes()).unwrap();
    assert_eq!(read.len(), 1, "{body}");
    read.remove(0)
}

fn value(body: &str) -> Option<Bytes> {
    one(&format!(r#"{{"value":{body}}}"#)).unwrap().record.value
}

#[test]
fn a_record_is_what_its_body_says() {
    let body = r#"{
        "partition_id": 0,
        "headers": [{"name": "trace", "value": "AAE="}, {"name": "", "value": null}, {"name": "trace"}],
        "key": {"type": "STRING", "data": "k\u00e4\n"},
        "value": {"type": "JSON", "data": {"step": 7, "loss": 0.310, "step": 8}},
        "timestamp": "2030-01-31T12:00:00.5Z"
    }"#;
    let header = |name: &str, value: Option<&'static [u8]>| (name.to_owned(), value.map(Bytes::from));
    let expected = Outgoing {
        partition: 0,
        record: NewRecord {
            key: Some("kä\n".into()),
            value: Some(r#"{"step":7,"loss":0.310,"step":8}"#.into()),
            headers: vec![
                header("trace", Some(&[0, 1])),
                header("", None),
                header("trace", None),
            ],
            timestamp: Some(1_896_091_200_500),
        },
        key: Some(Part {
            form: Form::String,
            size: 4,
        }),
        value: Some(Part {
            form: Form::Json,
            size: 32,
        }),
    };
    assert_eq!(one(body), Ok(expected));
}

#[test]
fn each_form_has_its_bytes() {
    for (body, bytes) in [
        (r#"{"type":"BINARY","data":"AP8="}"#, Some(&b"\0\xff"[..])),
        (r#"{"type":"BINARY","data":"A\u0050\/8"}"#, Some(b"\0\xff\xfc")),
        (r#"{"type":"BINARY","data":""}"#, Some(b"")),
        (r#"{"type":"STRING","data":""}"#, Some(b"")),
        (r#"{"type":"STRING","data":"{\"a\": 1}"}"#, Some(b"{\"a\": 1}")),
        (r#"{"type":"JSON","data":"a b"}"#, Some(b"\"a b\"")),
        (r#"{"type":"JSON","data":"\ud800"}"#, Some(b"\"\\ud800\"")),
        (
            r#"{"type":"JSON","data": [ 1.0 , 2e400 ] }"#,
            Some(b"[1.0,2e400]"),
        ),
        (r#"{"type":"JSON","data":false}"#, Some(b"false")),
        // In any form null is null, and so is what is absent.
        (r#"{"type":"JSON","data":null}"#, None),
        (r#"{"type":"BINARY","data":null}"#, None),
        (r#"{"type":"STRING"}"#, None),
        (r#"{"data":"a","type":"string"}"#, Some(b"a")),
    ] {
        assert_eq!(value(body).as_deref(), bytes, "{body}");
    }
}

/// A compacted topic's way to delete a key.
#[test]
fn a_record_without_a_value_has_none() {
    for body in [
        r#"{"key":{"type":"STRING","data":"k"}}"#,
        r#"{"key":{"type":"STRING","data":"k"},"value":null}"#,
    ] {
        let read = one(body).unwrap();
        assert_eq!((read.record.value, read.value), (None, None), "{body}");
    }
    let given = one(r#"{"key":{"type":"STRING","data":"k"},"value":{"type":"JSON","data":null}}"#).unwrap();
    assert_eq!(given.record.value, None);
    assert_eq!(given.value.unwrap().size, 0);
}

/// [D-05] [D-07] [D-08]
#[test]
fn what_is_no_record_is_told_of_that_one() {
    let cases = [
        ("7", BODY),
        ("[]", BODY),
        ("{}", "A key or a value"),
        (
            r#"{"key":null,"value":null,"timestamp":"2030-01-31T12:00:00Z"}"#,
            "A key or a value",
        ),
        (r#"{"value":"text"}"#, "value"),
        (r#"{"value":{}}"#, "type"),
        (r#"{"value":{"data":"x"}}"#, "type"),
        (r#"{"value":{"type":7,"data":"x"}}"#, "type"),
        (r#"{"value":{"type":"AVRO","data":"x"}}"#, "type"),
        (r#"{"key":[]}"#, "key"),
        (r#"{"value":{"type":"BINARY","data":"A"}}"#, "data"),
        (r#"{"value":{"type":"BINARY","data":"AA"}}"#, "data"),
        (r#"{"value":{"type":"BINARY","data":"AB=="}}"#, "data"),
        (r#"{"value":{"type":"BINARY","data":"AA==\n"}}"#, "data"),
        (r#"{"value":{"type":"BINARY","data":"_-8="}}"#, "data"),
        (r#"{"value":{"type":"BINARY","data":1}}"#, "data"),
        (r#"{"value":{"type":"STRING","data":1}}"#, "data"),
        (r#"{"value":{"type":"STRING","data":"\ud800"}}"#, "data"),
        (r#"{"value":{"type":"JSON","data":1},"headers":{}}"#, "headers"),
        (
            r#"{"value":{"type":"JSON","data":1},"headers":[{"value":"AA=="}]}"#,
            "headers",
        ),
        (
            r#"{"value":{"type":"JSON","data":1},"headers":[{"name":null}]}"#,
            "headers",
        ),
        (
            r#"{"value":{"type":"JSON","data":1},"headers":[{"name":"a","value":"?"}]}"#,
            "headers",
        ),
        (r#"{"value":{"type":"JSON","data":1},"headers":[7]}"#, "headers"),
        (r#"{"value":{"type":"JSON","data":1},"timestamp":1}"#, "timestamp"),
        (
            r#"{"value":{"type":"JSON","data":1},"timestamp":"1969-12-31T00:00:00Z"}"#,
            "timestamp",
        ),
        (
            r#"{"value":{"type":"JSON","data":1},"partition_id":"one"}"#,
            "partition_id",
        ),
        (
            r#"{"value":{"type":"JSON","data":1},"partition_id":0.5}"#,
            "partition_id",
        ),
        (
            r#"{"value":{"type":"JSON","data":1},"partition_id":[]}"#,
            "partition_id",
        ),
    ];
    for (body, field) in cases {
        assert_eq!(one(body), Err(invalid(Error::FieldInvalid(field))), "{body}");
    }
    for (body, field) in [
        (r#"{"value":{"type":"JSON","data":1},"surprise":1}"#, "surprise"),
        (r#"{"value":{"type":"JSON","data":1,"schema_id":1}}"#, "schema_id"),
        (
            r#"{"value":{"type":"JSON","data":1},"headers":[{"name":"a","key":1}]}"#,
            "key",
        ),
        (r#"{"id":"1","value":{"type":"JSON","data":1}}"#, "id"),
    ] {
        assert_eq!(
            one(body),
            Err(invalid(Error::FieldUnknown(field.into()))),
            "{body}"
        );
    }
    let headers = |count: usize| {
        let headers = vec![json!({"name": "a"}); count];
        one(&json!({"value": {"type": "JSON", "data": 1}, "headers": headers}).to_string())
    };
    assert_eq!(headers(100).unwrap().record.headers.len(), 100);
    assert_eq!(headers(101), Err(invalid(Error::ListTooLong("headers", 100))));
    // The last of a repeated field counts.
    let twice = one(r#"{"value":7,"value":{"type":"AVRO","type":"JSON","data":1}}"#).unwrap();
    assert_eq!(twice.record.value, Some("1".into()));
}

/// [AS-02] [D-06]
#[test]
fn a_partition_may_be_written_in_any_way() {
    for (partition, number) in [
        ("0", 0),
        ("0.0", 0),
        (r#""0""#, 0),
        ("null", 0),
        ("7", 7),
        ("-1", -1),
        ("2e0", 2),
    ] {
        let read = one(&format!(
            r#"{{"value":{{"type":"JSON","data":1}},"partition_id":{partition}}}"#
        ));
        assert_eq!(read.unwrap().partition, number, "{partition}");
    }
}

#[test]
fn records_stand_one_behind_the_other() {
    let values = |body: &str| {
        let read = records(body.as_bytes()).unwrap();
        Vec::from_iter(
            read.into_iter()
                .map(|read| read.map(|out| out.record.value.unwrap())),
        )
    };
    let [a, b] = ["1", "2"].map(|data| format!(r#"{{"value":{{"type":"JSON","data":{data}}}}}"#));
    for between in ["", " ", "\n", "\r\n\r\n", "\t"] {
        assert_eq!(
            values(&format!("{a}{between}{b}{between}")),
            [Ok("1".into()), Ok("2".into())]
        );
    }
    assert_eq!(values(&format!("\u{feff}{a}")), [Ok("1".into())]);
    // One that is none does not keep the others out.
    assert_eq!(
        values(&format!("{a} {{}} {b}")),
        [
            Ok("1".into()),
            Err(invalid(Error::FieldInvalid("A key or a value"))),
            Ok("2".into())
        ]
    );
}

/// [CT-03] nothing is written of a body that ends early or breaks.
#[test]
fn a_body_that_is_not_json_throughout_has_no_records() {
    let good = r#"{"value":{"type":"JSON","data":1}}"#;
    for bad in [&good[..20], "x", ",", "]", "{\"a\":01}", "1x", "'a'"] {
        for body in [bad.to_owned(), format!("{good}{bad}"), format!("{good} {bad}")] {
            assert_eq!(records(body.as_bytes()), Err(Error::BodyNotJson), "{body}");
        }
    }
    let marked = format!("{good}\u{feff}{good}");
    assert_eq!(records(marked.as_bytes()), Err(Error::BodyNotJson));
    assert_eq!(records(b"\xff"), Err(Error::BodyNotJson));
    assert_eq!(
        records(&[good.as_bytes(), b"{\"a\":\"\xff\"}"].concat()),
        Err(Error::BodyNotJson)
    );
    for empty in ["", " \n", "null", "\u{feff}"] {
        assert_eq!(
            records(empty.as_bytes()),
            Err(Error::FieldInvalid(BODY)),
            "{empty:?}"
        );
    }
    let many = |count: usize| records(good.repeat(count).as_bytes());
    assert_eq!(many(500).unwrap().len(), 500);
    assert_eq!(many(501), Err(Error::ListTooLong(BODY, 500)));
}

#[test]
fn depth_and_width_cost_no_stack_and_little_memory() {
    let deep = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));
    assert_eq!(
        value(&format!(r#"{{"type":"JSON","data":{deep}}}"#)).unwrap(),
        deep
    );
    let unknown = format!(r#"{{"value":{{"type":"JSON","data":1}},"surprise":{deep}}}"#);
    assert_eq!(
        one(&unknown),
        Err(invalid(Error::FieldUnknown("surprise".into())))
    );
    let wide = format!(r#"{{"entries":[{}1]}}"#, "1,".repeat(1_000_000));
    assert_eq!(batch(wide.as_bytes()), Err(Error::ListTooLong("entries", 500)));
}

#[test]
fn a_batch_is_its_entries_by_their_ids() {
    let body = json!({"entries": [
        {"id": "a-_9", "value": {"type": "JSON", "data": 1}},
        {"id": "x".repeat(80), "value": {"type": "JSON"}, "surprise": 1},
        {"id": "2", "partition_id": 0},
    ]});
    let (ids, read) = batch(body.to_string().as_bytes()).unwrap();
    assert_eq!(ids, ["a-_9", &"x".repeat(80), "2"]);
    assert_eq!(read[0].as_ref().unwrap().record.value, Some("1".into()));
    assert_eq!(read[1], Err(invalid(Error::FieldUnknown("surprise".into()))));
    assert_eq!(read[2], Err(invalid(Error::FieldInvalid("A key or a value"))));
}

/// [CT-06] [D-05]
#[test]
fn a_batch_whose_entries_have_no_ids_of_their_own_is_none() {
    let entry = |id: Value| json!({"id": id, "value": {"type": "JSON", "data": 1}});
    for (body, field) in [
        (json!([]), BODY),
        (json!({}), "entries"),
        (json!({"entries": null}), "entries"),
        (json!({"entries": {}}), "entries"),
        (json!({"entries": []}), "entries"),
        (json!({"entries": [7]}), "entries"),
        (
            json!({"entries": [entry(json!("1")), {"value": {"type": "JSON", "data": 1}}]}),
            "id",
        ),
        (json!({"entries": [entry(json!(1))]}), "id"),
        (json!({"entries": [entry(json!(""))]}), "id"),
        (json!({"entries": [entry(json!("a b"))]}), "id"),
        (json!({"entries": [entry(json!("ä"))]}), "id"),
        (json!({"entries": [entry(json!("x".repeat(81)))]}), "id"),
        (
            json!({"entries": [entry(json!("1")), entry(json!("2")), entry(json!("1"))]}),
            "id",
        ),
    ] {
        let read = batch(body.to_string().as_bytes());
        assert_eq!(read, Err(Error::FieldInvalid(field)), "{body}");
    }
    let unknown = json!({"entries": [entry(json!("1"))], "acks": 1}).to_string();
    assert_eq!(batch(unknown.as_bytes()), Err(Error::FieldUnknown("acks".into())));
    for (body, why) in [
        ("", Error::FieldInvalid(BODY)),
        ("{}{}", Error::FieldInvalid(BODY)),
        ("{", Error::BodyNotJson),
    ] {
        assert_eq!(batch(body.as_bytes()), Err(why), "{body}");
    }
    let many = |count: usize| {
        let entries: Vec<_> = (0..count).map(|id| entry(json!(id.to_string()))).collect();
        batch(json!({ "entries": entries }).to_string().as_bytes())
    };
    assert_eq!(many(500).unwrap().0.len(), 500);
    assert_eq!(many(501), Err(Error::ListTooLong("entries", 500)));
}

/// Data and the bytes that it stands for.
fn data() -> impl Strategy<Value = (Value, Option<Vec<u8>>)> {
    prop_oneof![
        vec(any::<u8>(), 0..40).prop_map(|bytes| {
            let data = BASE64_STANDARD.encode(&bytes);
            (json!({"type": "BINARY", "data": data}), Some(bytes))
        }),
        ".{0,20}".prop_map(|text| (json!({"type": "STRING", "data": text}), Some(text.into_bytes()))),
        any::<i64>().prop_map(|number| {
            (
                json!({"type": "JSON", "data": [number]}),
                Some(format!("[{number}]").into_bytes()),
            )
        }),
        Just((json!({"type": "JSON", "data": null}), None)),
    ]
}

proptest! {
    #[test]
    fn a_record_is_read_as_it_was_written(
        key in option::of(data()),
        (value, value_bytes) in data(),
        headers in vec((".{0,5}", option::of(vec(any::<u8>(), 0..9))), 0..5),
        time in option::of(0i64..4_000_000_000_000),
        pretty: bool,
    ) {
        let names = headers.iter();
        let listed: Vec<_> = names
            .map(|(name, value)| json!({"name": name, "value": value.as_ref().map(|v| BASE64_STANDARD.encode(v))}))
            .collect();
        let body = json!({
            "key": key.as_ref().map(|(key, _)| key),
            "value": value,
            "headers": listed,
            "timestamp": time.and_then(timestamp::format),
        });
        let body = if pretty { serde_json::to_string_pretty(&body).unwrap() } else { body.to_string() };
        let read = one(&body).unwrap();
        prop_assert_eq!(read.record.value.as_deref(), value_bytes.as_deref());
        prop_assert_eq!(read.value.unwrap().size, value_bytes.map_or(0, |bytes| bytes.len()));
        let key_bytes = key.and_then(|(_, bytes)| bytes);
        prop_assert_eq!(read.record.key.as_deref(), key_bytes.as_deref());
        prop_assert_eq!(read.record.timestamp, time);
        let expected: Vec<_> = headers.into_iter().map(|(name, value)| (name, value.map(Bytes::from))).collect();
        prop_assert_eq!(read.record.headers, expected);
    }

    /// [FE-03] whatever is written as JSON is JSON to a json instance.
    #[test]
    fn any_body_is_taken_without_harm(body in "[\\[\\]{}\":,a-z0-9 \\\\]{0,60}|.{0,40}", wrap: bool) {
        let body = if wrap { format!(r#"{{"value":{{"type":"JSON","data":{body}}}}}"#) } else { body };
        if let Ok(read) = records(body.as_bytes()) {
            for outgoing in read.into_iter().flatten() {
                if let (Some(Part { form: Form::Json, .. }), Some(bytes)) = (outgoing.value, outgoing.record.value) {
                    prop_assert!(is_json(&bytes), "{}", body);
                }
            }
        }
        let _ = batch(body.as_bytes());
    }
}
