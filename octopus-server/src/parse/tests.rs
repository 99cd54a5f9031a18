use std::time::Duration;

use octopus_core::{
    AutoOffsetReset, Fetch, Offset, Position, Processed, Settings, TopicName, TopicPartition,
};
use proptest::prelude::*;

use super::*;

const MAX_TOPICS: usize = 3;

/// The routes that need a list, with the name of the list.
const NEED_A_LIST: [(Operation, &str); 5] = [
    (Operation::Subscribe, "topics"),
    (Operation::Assign, "partitions"),
    (Operation::Seek, "offsets"),
    (Operation::SeekToBeginning, "partitions"),
    (Operation::SeekToEnd, "partitions"),
];

/// [CT-03]
#[test]
fn a_body_that_is_not_json_is_40003() {
    for body in [
        &b"{"[..],
        b"}",
        b"{topics: []}",
        b"{'topics': []}",
        b"{\"topics\": [\"a\",]}",
        b"{\"topics\": [\"a\"]} x",
        b"{\"topics\": [\"a\"]}{}",
        b"{\"topics\" [\"a\"]}",
        b"{\"topics\": [\"a\"]",
        b"{\"topics\": [\"a\n\"]}",
        b"{\"topics\": [\"\\x\"]}",
        b"{\"topics\": [\"\xff\"]}",
        b"\xff",
        b"{\"topics\": [01]}",
        b"{\"topics\": [+1]}",
        b"{\"topics\": [.5]}",
        b"{\"topics\": [NaN]}",
        b"{\"topics\": [\"a\"]} // all",
        b"nul",
        b"nulll",
        b"null null",
        b"[1",
        b"name=x",
    ] {
        for (operation, _) in NEED_A_LIST.into_iter().chain([
            (Operation::Create, ""),
            (Operation::Commit, ""),
            (Operation::Committed, ""),
        ]) {
            let error = refusal(operation, body);
            assert_eq!(
                error,
                Error::BodyNotJson,
                "{operation:?} {}",
                String::from_utf8_lossy(body)
            );
            assert_eq!((error.code().status(), error.code().error_code()), (400, 40003));
        }
    }
}

/// [CT-03]
#[test]
fn an_escape_that_is_no_character_is_40003() {
    for (operation, body) in [
        (Operation::Subscribe, r#"{"topics": ["\ud800"]}"#),
        (Operation::Subscribe, r#"{"topics": ["\udc00\ud800"]}"#),
        (
            Operation::Assign,
            r#"{"partitions": [{"topic": "\ud800a", "partition": 0}]}"#,
        ),
        (Operation::Create, r#"{"name": "\udfff"}"#),
        (Operation::Create, r#"{"\ud800": 1}"#),
    ] {
        assert_eq!(refusal(operation, body.as_bytes()), Error::BodyNotJson, "{body}");
    }
}

/// [CT-04] [D-07]
#[test]
fn a_body_that_is_no_object_is_422() {
    for body in ["[]", "\"s\"", "5", "true", "false", "1e400", "[{}]"] {
        for operation in [
            Operation::Create,
            Operation::Subscribe,
            Operation::Commit,
            Operation::Committed,
        ] {
            let error = refusal(operation, body.as_bytes());
            assert_eq!(
                error,
                Error::FieldInvalid("The request body"),
                "{operation:?} {body}"
            );
            assert_eq!((error.code().status(), error.code().error_code()), (422, 422));
        }
    }
}

/// [D-02] [CR-01]
#[test]
fn a_blank_body_and_null_count_as_none() {
    for body in [
        &b""[..],
        b" ",
        b"\r\n\t ",
        b"null",
        b" null\n",
        b"\xef\xbb\xbf",
        b"\xef\xbb\xbfnull",
    ] {
        assert_eq!(
            command(Operation::Create, body),
            Command::Create(Settings::default())
        );
        assert_eq!(command(Operation::Commit, body), Command::Commit(None));
        assert_eq!(command(Operation::Committed, body), Command::Committed(None));
        for (operation, list) in NEED_A_LIST {
            assert_eq!(
                refusal(operation, body),
                Error::FieldInvalid(list),
                "{operation:?}"
            );
        }
    }
    let marked = "\u{feff}{\"topics\": [\"a\"]}";
    assert_eq!(
        command(Operation::Subscribe, marked.as_bytes()),
        Command::Subscribe(topics(&["a"]))
    );
}

/// [D-05]
#[test]
fn an_unknown_field_is_422_and_named_at_every_level() {
    for (operation, body, name) in [
        (Operation::Create, r#"{"nam": "x"}"#, "nam"),
        (
            Operation::Create,
            r#"{"responseMinBytes": 1}"#,
            "responseMinBytes",
        ),
        (Operation::Create, r#"{"Format": "json"}"#, "Format"),
        (Operation::Create, r#"{"metadata": null}"#, "metadata"),
        (Operation::Subscribe, r#"{"topics": ["a"], "x": null}"#, "x"),
        (Operation::Subscribe, r#"{"x": 1}"#, "x"),
        (
            Operation::Assign,
            r#"{"partitions": [], "offsets": []}"#,
            "offsets",
        ),
        (
            Operation::Assign,
            r#"{"partitions": [{"topic": "a", "partition": 0, "offset": 1}]}"#,
            "offset",
        ),
        (
            Operation::Committed,
            r#"{"partitions": [{"topic": "a", "partition": 0, "": 1}]}"#,
            "",
        ),
        (
            Operation::Commit,
            r#"{"offsets": [], "timestamps": []}"#,
            "timestamps",
        ),
        (
            Operation::Commit,
            r#"{"offsets": [{"topic": "a", "partition": 0, "offset": 1, "leader": 2}]}"#,
            "leader",
        ),
        (
            Operation::Seek,
            r#"{"offsets": [{"topic": "a", "partition": 0, "offset": 1, "timestamp": 2}]}"#,
            "timestamp",
        ),
        (Operation::SeekToEnd, r#"{"partitions": [], "\u0078": 1}"#, "x"),
    ] {
        let error = refusal(operation, body.as_bytes());
        assert_eq!(error, Error::FieldUnknown(name.into()), "{body}");
        assert_eq!((error.code().status(), error.code().error_code()), (422, 422));
    }
    assert!(
        refusal(Operation::Create, br#"{"nam": 1}"#)
            .to_string()
            .contains("nam")
    );
}

/// [D-05]
#[test]
fn known_fields_are_ignored_where_they_are_unused() {
    let seek = command(
        Operation::Seek,
        br#"{"offsets": [{"topic": "a", "partition": 0, "offset": 7, "metadata": [1]}]}"#,
    );
    assert_eq!(seek, Command::Seek(vec![(at("a", 0), Position::at(7))]));
    let subscribe = command(
        Operation::Subscribe,
        br#"{"topic_pattern": null, "topics": ["a"]}"#,
    );
    assert_eq!(subscribe, Command::Subscribe(topics(&["a"])));
}

/// [CR-04] [CR-05] [CR-06] [CR-08]
#[test]
fn a_create_takes_its_settings() {
    let mut settings = Settings::default();
    settings.format = Format::Json;
    settings.auto_offset_reset = AutoOffsetReset::Earliest;
    settings.auto_commit = true;
    settings.min_bytes = 100;
    settings.request_timeout = Duration::from_millis(250);
    let body =
        br#"{"name": "i-1", "format": "JSON", "auto.offset.reset": "Earliest", "auto.commit.enable": "TRUE",
        "fetch.min.bytes": "100", "consumer.request.timeout.ms": 250}"#;
    let parsed = parse(&route(Operation::Create), None, body, None, MAX_TOPICS).unwrap();
    assert_eq!(parsed.command, Command::Create(settings));
    assert_eq!(parsed.group.as_str(), "g");
    assert_eq!(parsed.instance.unwrap().as_str(), "i-1");

    for (field, value, settings) in [
        ("format", "\"binary\"", with(|_| {})),
        ("format", "\"Binary\"", with(|_| {})),
        ("format", "\"json\"", with(|s| s.format = Format::Json)),
        ("auto.offset.reset", "\"LATEST\"", with(|_| {})),
        (
            "auto.offset.reset",
            "\"none\"",
            with(|s| s.auto_offset_reset = AutoOffsetReset::None),
        ),
        ("auto.commit.enable", "true", with(|s| s.auto_commit = true)),
        ("auto.commit.enable", "false", with(|_| {})),
        ("auto.commit.enable", "\"True\"", with(|s| s.auto_commit = true)),
        ("auto.commit.enable", "\"fAlse\"", with(|_| {})),
        ("fetch.min.bytes", "0", with(|s| s.min_bytes = 0)),
        ("fetch.min.bytes", "\"0\"", with(|s| s.min_bytes = 0)),
        ("fetch.min.bytes", "5.0", with(|s| s.min_bytes = 5)),
        ("fetch.min.bytes", "2147483647", with(|s| s.min_bytes = i32::MAX)),
        (
            "consumer.request.timeout.ms",
            "\"250\"",
            with(|s| s.request_timeout = Duration::from_millis(250)),
        ),
        (
            "consumer.request.timeout.ms",
            "0",
            with(|s| s.request_timeout = Duration::ZERO),
        ),
    ] {
        let body = format!(r#"{{"{field}": {value}}}"#);
        assert_eq!(
            command(Operation::Create, body.as_bytes()),
            Command::Create(settings),
            "{body}"
        );
    }
}

/// [D-06] [CR-08]
#[test]
fn numbers_past_their_bound_are_capped_at_create() {
    let long = "9".repeat(1000);
    for value in [
        "2147483648",
        "1e300",
        "\"99999999999999999999999999\"",
        &long,
        &format!("\"{long}\""),
    ] {
        let body = format!(r#"{{"fetch.min.bytes": {value}, "consumer.request.timeout.ms": {value}}}"#);
        let settings = with(|s| {
            s.min_bytes = i32::MAX;
            s.request_timeout = Duration::from_secs(30);
        });
        assert_eq!(
            command(Operation::Create, body.as_bytes()),
            Command::Create(settings),
            "{value}"
        );
    }
    let settings = with(|s| s.request_timeout = Duration::from_secs(30));
    let body = br#"{"consumer.request.timeout.ms": 30001}"#;
    assert_eq!(command(Operation::Create, body), Command::Create(settings));
}

/// [CR-05] [CR-06] [D-43]
#[test]
fn a_setting_that_breaks_its_rule_is_42204_and_named() {
    for (field, values) in [
        (
            "auto.offset.reset",
            &[
                "\"smallest\"",
                "\"\"",
                "\" latest\"",
                "\"by_duration:PT1H\"",
                "0",
                "true",
                "[]",
                "{}",
            ][..],
        ),
        (
            "auto.commit.enable",
            &["\"yes\"", "\"\"", "\"true \"", "0", "1", "[]", "{}"],
        ),
        (
            "fetch.min.bytes",
            &[
                "-1", "1.5", "\"1.5\"", "\"-1\"", "\"\"", "\"x\"", "\"5.0\"", "\"+5\"", "true", "[]", "{}",
                "-1e400",
            ],
        ),
        (
            "consumer.request.timeout.ms",
            &[
                "-1", "1.5", "true", "\" 5\"", "\"5 \"", "\"1e3\"", "\"0x5\"", "[5]", "{}", "1e-400",
            ],
        ),
    ] {
        for value in values {
            let error = refusal(Operation::Create, format!(r#"{{"{field}": {value}}}"#).as_bytes());
            assert!(
                matches!(error, Error::SettingInvalid(name, _) if name == field),
                "{field} {value}: {error}"
            );
            assert_eq!((error.code().status(), error.code().error_code()), (422, 42204));
            assert!(error.to_string().starts_with(field), "{error}");
        }
    }
}

/// [CR-04] [D-43]
#[test]
fn any_other_format_is_422() {
    for value in [
        "\"avro\"",
        "\"jsonschema\"",
        "\"protobuf\"",
        "\"string\"",
        "\"\"",
        "\"json \"",
        "1",
        "true",
        "[]",
        "{}",
    ] {
        let error = refusal(Operation::Create, format!(r#"{{"format": {value}}}"#).as_bytes());
        assert_eq!(error, Error::FormatUnknown, "{value}");
        assert_eq!((error.code().status(), error.code().error_code()), (422, 422));
    }
}

/// [CR-02] [D-07] [D-43]
#[test]
fn a_name_that_breaks_its_rule_is_42204() {
    let long = format!("\"{}\"", "x".repeat(129));
    for value in [
        "\"\"",
        "\" \"",
        "\"..\"",
        "\".a\"",
        "\"-a\"",
        "\"_a\"",
        "\"a b\"",
        "\"a/b\"",
        "\"ä\"",
        "\"a\\u0000\"",
        "5",
        "true",
        "[]",
        "{}",
        &long,
    ] {
        for field in ["name", "id"] {
            let error = refusal(Operation::Create, format!(r#"{{"{field}": {value}}}"#).as_bytes());
            assert_eq!(error, Error::NameInvalid("name"), "{field} {value}");
            assert_eq!((error.code().status(), error.code().error_code()), (422, 42204));
            assert!(error.to_string().contains("name"), "{error}");
        }
    }
    for group in ["..", ".a", "-a", "a b", "a/b", "ä", "\u{fffd}", &"x".repeat(129)] {
        let mut route = route(Operation::Create);
        route.group = group.to_owned();
        let error = parse(&route, None, b"", None, MAX_TOPICS).unwrap_err();
        assert_eq!(error, Error::NameInvalid("group"), "{group}");
        assert_eq!(error.code().error_code(), 42204);
        assert!(error.to_string().contains("group"), "{error}");
    }
}

/// [CR-03] [D-05]
#[test]
fn the_id_is_taken_as_the_name() {
    for (body, name) in [
        ("{}", None),
        (r#"{"name": null, "id": null}"#, None),
        (r#"{"name": "n"}"#, Some("n")),
        (r#"{"id": "i"}"#, Some("i")),
        (r#"{"id": "i", "name": "n"}"#, Some("i")),
        (r#"{"name": "..", "id": "i"}"#, Some("i")),
        (r#"{"name": "n", "id": null}"#, Some("n")),
    ] {
        let parsed = parse(&route(Operation::Create), None, body.as_bytes(), None, MAX_TOPICS).unwrap();
        assert_eq!(parsed.instance.as_ref().map(Name::as_str), name, "{body}");
    }
}

/// [D-07]
#[test]
fn a_null_setting_is_absent() {
    let body = br#"{"id": null, "name": null, "format": null, "auto.offset.reset": null,
        "auto.commit.enable": null, "fetch.min.bytes": null, "consumer.request.timeout.ms": null}"#;
    assert_eq!(
        command(Operation::Create, body),
        Command::Create(Settings::default())
    );
}

/// [SU-02] [D-43]
#[test]
fn a_subscribe_needs_topics_and_takes_no_pattern() {
    for (body, error) in [
        (r#"{"topics": []}"#, Error::TopicsEmpty),
        (r#"{"topic_pattern": "a.*"}"#, Error::TopicPattern),
        (r#"{"topic_pattern": ""}"#, Error::TopicPattern),
        (r#"{"topic_pattern": 5, "topics": ["a"]}"#, Error::TopicPattern),
        (r#"{"topics": 5, "topic_pattern": "a.*"}"#, Error::TopicPattern),
        (
            r#"{"topics": ["a", "b", "c", "d"], "topic_pattern": "a"}"#,
            Error::TopicPattern,
        ),
    ] {
        assert_eq!(refusal(Operation::Subscribe, body.as_bytes()), error, "{body}");
        assert_eq!((error.code().status(), error.code().error_code()), (422, 42204));
    }
}

/// [CT-04] [D-07] [D-13]
#[test]
fn a_list_that_is_missing_or_of_the_wrong_type_is_422() {
    for (operation, list) in NEED_A_LIST.into_iter().chain([
        (Operation::Commit, "offsets"),
        (Operation::Committed, "partitions"),
    ]) {
        for value in ["null", "\"a\"", "5", "true", "{}"] {
            let error = refusal(operation, format!(r#"{{"{list}": {value}}}"#).as_bytes());
            assert_eq!(error, Error::FieldInvalid(list), "{operation:?} {value}");
            assert_eq!((error.code().status(), error.code().error_code()), (422, 422));
        }
        assert_eq!(
            refusal(operation, b"{}"),
            Error::FieldInvalid(list),
            "{operation:?}"
        );
        for item in ["null", "5", "true", "[]"] {
            let error = refusal(operation, format!(r#"{{"{list}": [{item}]}}"#).as_bytes());
            assert_eq!(error, Error::FieldInvalid(list), "{operation:?} {item}");
        }
    }
    for item in ["\"\"", "\" \"", "\"\\t\"", "{}"] {
        let error = refusal(
            Operation::Subscribe,
            format!(r#"{{"topics": ["a", {item}]}}"#).as_bytes(),
        );
        assert_eq!(error, Error::FieldInvalid("topics"), "{item}");
    }
}

/// [CT-04] [D-06] [D-07]
#[test]
fn an_item_s_field_that_is_missing_or_of_the_wrong_type_is_422_and_named() {
    let large = i64::MAX.to_string();
    for (field, values) in [
        ("topic", &["null", "\"\"", "\"  \"", "5", "true", "[]", "{}"][..]),
        (
            "partition",
            &[
                "null",
                "0.5",
                "\"\"",
                "\"0.0\"",
                "\"x\"",
                "\" 0\"",
                "true",
                "[]",
                "{}",
                "2147483648",
                "1e400",
            ],
        ),
        (
            "offset",
            &[
                "null", "-1", "\"-1\"", "5.9", "\"5.0\"", "true", "\"\"", "[]", "{}", "1e19", &large,
            ],
        ),
    ] {
        for value in values {
            let fields = ["topic", "partition", "offset"].map(|name| match (name, name == field) {
                (_, true) => format!(r#""{name}": {value}"#),
                ("topic", false) => r#""topic": "a""#.to_owned(),
                (_, false) => format!(r#""{name}": 0"#),
            });
            for operation in [Operation::Commit, Operation::Seek] {
                let body = format!(r#"{{"offsets": [{{{}}}]}}"#, fields.join(", "));
                assert_eq!(
                    refusal(operation, body.as_bytes()),
                    Error::FieldInvalid(field),
                    "{body}"
                );
            }
            if field != "offset" {
                let body = format!(r#"{{"partitions": [{{{}, {}}}]}}"#, fields[0], fields[1]);
                assert_eq!(
                    refusal(Operation::Assign, body.as_bytes()),
                    Error::FieldInvalid(field),
                    "{body}"
                );
            }
        }
    }
    for (body, field) in [
        (r#"{"offsets": [{"partition": 0, "offset": 0}]}"#, "topic"),
        (r#"{"offsets": [{"topic": "a", "offset": 0}]}"#, "partition"),
        (r#"{"offsets": [{"topic": "a", "partition": 0}]}"#, "offset"),
        (
            r#"{"offsets": [{"topic": "a", "partition": 0, "offset": 0, "metadata": 5}]}"#,
            "metadata",
        ),
    ] {
        assert_eq!(
            refusal(Operation::Commit, body.as_bytes()),
            Error::FieldInvalid(field),
            "{body}"
        );
    }
}

/// [D-06]
#[test]
fn numbers_may_be_written_in_several_ways() {
    for (written, offset) in [
        ("5", 5),
        ("5.0", 5),
        ("\"5\"", 5),
        ("5e0", 5),
        ("\"0\"", 0),
        ("-0", 0),
        ("9223372036854775806", Offset::MAX.0),
        ("\"9223372036854775806\"", Offset::MAX.0),
    ] {
        let body = format!(r#"{{"offsets": [{{"topic": "a", "partition": "0", "offset": {written}}}]}}"#);
        let seek = Command::Seek(vec![(at("a", 0), Position::at(offset))]);
        assert_eq!(command(Operation::Seek, body.as_bytes()), seek, "{written}");
    }
}

/// [D-01] A partition other than 0 is refused only once the instance is known to be there.
#[test]
fn another_partition_is_left_to_the_engine() {
    let body = br#"{"partitions": [{"topic": "a", "partition": 1}, {"topic": "a", "partition": -1}]}"#;
    assert_eq!(
        command(Operation::Assign, body),
        Command::Assign(vec![at("a", 1), at("a", -1)])
    );
}

/// [CT-06]
#[test]
fn a_list_longer_than_a_namespace_s_topics_is_422() {
    for (operation, list) in NEED_A_LIST.into_iter().chain([
        (Operation::Commit, "offsets"),
        (Operation::Committed, "partitions"),
    ]) {
        let item = match list {
            "topics" => "\"a\"",
            "partitions" => r#"{"topic": "a", "partition": 0}"#,
            _ => r#"{"topic": "a", "partition": 0, "offset": 1}"#,
        };
        let body = |items| format!(r#"{{"{list}": [{}]}}"#, vec![item; items].join(","));
        assert!(
            parse(
                &route(operation),
                None,
                body(MAX_TOPICS).as_bytes(),
                None,
                MAX_TOPICS
            )
            .is_ok()
        );
        let error = refusal(operation, body(MAX_TOPICS + 1).as_bytes());
        assert_eq!(error, Error::ListTooLong(list, MAX_TOPICS), "{operation:?}");
        assert_eq!((error.code().status(), error.code().error_code()), (422, 422));
    }
}

/// [D-08]
#[test]
fn what_is_named_twice_counts_once() {
    let command = |operation, body: &str| command(operation, body.as_bytes());
    assert_eq!(
        command(Operation::Subscribe, r#"{"topics": ["b", "a", "b"]}"#),
        Command::Subscribe(topics(&["b", "a"]))
    );
    assert_eq!(
        command(
            Operation::Assign,
            r#"{"partitions": [{"topic": "b", "partition": 0}, {"topic": "a", "partition": 0},
                {"partition": "0", "topic": "b"}]}"#
        ),
        Command::Assign(vec![at("b", 0), at("a", 0)])
    );
    assert_eq!(
        command(
            Operation::Commit,
            r#"{"offsets": [{"topic": "b", "partition": 0, "offset": 9, "metadata": "x"},
                {"topic": "a", "partition": 0, "offset": 1}, {"topic": "b", "partition": 0, "offset": 2}]}"#
        ),
        Command::Commit(Some(vec![
            Processed {
                partition: at("b", 0),
                offset: Offset(2),
                metadata: "".into()
            },
            Processed {
                partition: at("a", 0),
                offset: Offset(1),
                metadata: "".into()
            },
        ]))
    );
    assert_eq!(
        command(
            Operation::Seek,
            r#"{"offsets": [{"topic": "a", "partition": 0, "offset": 9}, {"topic": "a", "partition": 0, "offset": 2}]}"#
        ),
        Command::Seek(vec![(at("a", 0), Position::at(2))])
    );
    assert_eq!(
        command(Operation::Subscribe, r#"{"topics": 5, "topics": ["a"]}"#),
        Command::Subscribe(topics(&["a"]))
    );
    assert_eq!(
        command(
            Operation::Seek,
            r#"{"offsets": [{"topic": "x", "topic": "a", "partition": 0, "offset": 9, "offset": 2}]}"#
        ),
        Command::Seek(vec![(at("a", 0), Position::at(2))])
    );
}

/// [D-13]
#[test]
fn an_empty_list_is_a_list_but_no_list_is_not() {
    let partitions = br#"{"partitions": []}"#;
    let offsets = br#"{"offsets": []}"#;
    assert_eq!(
        command(Operation::Assign, partitions),
        Command::Assign(Vec::new())
    );
    assert_eq!(
        command(Operation::Committed, partitions),
        Command::Committed(Some(Vec::new()))
    );
    assert_eq!(
        command(Operation::SeekToBeginning, partitions),
        Command::SeekToBeginning(Vec::new())
    );
    assert_eq!(
        command(Operation::SeekToEnd, partitions),
        Command::SeekToEnd(Vec::new())
    );
    assert_eq!(command(Operation::Seek, offsets), Command::Seek(Vec::new()));
    assert_eq!(
        command(Operation::Commit, offsets),
        Command::Commit(Some(Vec::new()))
    );
    assert_eq!(refusal(Operation::Commit, b"{}"), Error::FieldInvalid("offsets"));
}

/// [CO-01] The metadata goes with its offset.
#[test]
fn a_commit_carries_its_metadata() {
    let body = r#"{"offsets": [{"topic": "a", "partition": 0, "offset": 41, "metadata": "ü\u0000\ud83d\ude00"},
        {"topic": "b", "partition": 0, "offset": 1, "metadata": null}]}"#;
    let Command::Commit(Some(processed)) = command(Operation::Commit, body.as_bytes()) else {
        panic!("no commit");
    };
    assert_eq!(&*processed[0].metadata, "ü\0😀");
    assert_eq!(processed[0].offset, Offset(41));
    assert_eq!(&*processed[1].metadata, "");
}

/// [D-10] [D-01]
#[test]
fn a_name_in_the_path_that_breaks_the_rule_is_no_instance() {
    for (group, instance) in [
        ("..", "i"),
        ("g", ".."),
        ("g", "a b"),
        ("\u{fffd}", "i"),
        ("a/b", "i"),
    ] {
        let named = |operation| Route {
            operation,
            group: group.to_owned(),
            instance: Some(instance.to_owned()),
        };
        for operation in [
            Operation::Delete,
            Operation::Subscription,
            Operation::Fetch,
            Operation::Committed,
        ] {
            let error = parse(&named(operation), None, b"", None, MAX_TOPICS).unwrap_err();
            assert_eq!(error, Error::InstanceNotFound, "{group} {instance}");
            assert_eq!((error.code().status(), error.code().error_code()), (404, 40403));
        }
        let subscribe =
            |body: &[u8]| parse(&named(Operation::Subscribe), None, body, None, MAX_TOPICS).unwrap_err();
        assert_eq!(subscribe(b"{"), Error::BodyNotJson);
        assert_eq!(subscribe(b"{}"), Error::FieldInvalid("topics"));
        let fetch = parse(&named(Operation::Fetch), Some("timeout=x"), b"", None, MAX_TOPICS);
        assert_eq!(fetch, Err(Error::FieldInvalid("timeout")));
    }
}

/// [D-01] At a create the body is read before the group's name is looked at.
#[test]
fn a_create_of_a_bad_group_needs_json_first() {
    let mut route = route(Operation::Create);
    route.group = "..".to_owned();
    assert_eq!(
        parse(&route, None, b"{", None, MAX_TOPICS),
        Err(Error::BodyNotJson)
    );
    assert_eq!(
        parse(&route, None, b"{}", None, MAX_TOPICS),
        Err(Error::NameInvalid("group"))
    );
}

/// [D-01] A body on a route that takes none, and a query on one that takes none, are ignored.
#[test]
fn what_a_route_does_not_take_is_ignored() {
    for (operation, expected) in [
        (Operation::Delete, Command::Delete),
        (Operation::Subscription, Command::Subscription),
        (Operation::Unsubscribe, Command::Unsubscribe),
        (Operation::Assignments, Command::Assignments),
    ] {
        let parsed = parse(&route(operation), Some("timeout=x"), b"\xff{", None, MAX_TOPICS);
        assert_eq!(parsed.map(|parsed| parsed.command), Ok(expected));
    }
    let parsed = parse(
        &route(Operation::Fetch),
        Some("timeout=7"),
        b"{",
        Some(Format::Json),
        MAX_TOPICS,
    );
    let fetch = Fetch {
        format: Some(Format::Json),
        timeout: Some(Duration::from_millis(7)),
        max_bytes: None,
    };
    assert_eq!(parsed.map(|parsed| parsed.command), Ok(Command::Fetch(fetch)));
    let create = parse(
        &route(Operation::Create),
        Some("timeout=x"),
        b"",
        None,
        MAX_TOPICS,
    );
    assert!(create.is_ok());
}

/// [CT-04] Nesting as deep as a body can hold costs no stack, and the longest number no range.
#[test]
fn deep_nesting_and_long_numbers_are_refused_like_others() {
    let deep = format!("{}{}", "[".repeat(30_000), "]".repeat(30_000));
    let objects = format!("{}0{}", "{\"a\":".repeat(12_000), "}".repeat(12_000));
    let digits = "9".repeat(60_000);
    for value in [&deep, &objects, &digits] {
        assert_eq!(
            refusal(
                Operation::Subscribe,
                format!(r#"{{"topics": [{value}]}}"#).as_bytes()
            ),
            Error::FieldInvalid("topics")
        );
        assert_eq!(
            refusal(Operation::Create, format!(r#"{{"x": {value}}}"#).as_bytes()),
            Error::FieldUnknown("x".into())
        );
        let item = format!(r#"{{"offsets": [{{"topic": "a", "partition": 0, "offset": {value}}}]}}"#);
        assert_eq!(
            refusal(Operation::Commit, item.as_bytes()),
            Error::FieldInvalid("offset")
        );
    }
    assert_eq!(
        refusal(Operation::Create, deep.as_bytes()),
        Error::FieldInvalid("The request body")
    );
    assert_eq!(
        refusal(Operation::Create, "[".repeat(60_000).as_bytes()),
        Error::BodyNotJson
    );
}

proptest! {
    /// [CT-03] No bytes are too strange, and what is accepted is JSON.
    #[test]
    fn no_body_is_too_strange(body in any::<Vec<u8>>(), operation in operation()) {
        holds(operation, &body)?;
    }

    /// [CT-04] [CT-06] A body that was good before some of its bytes changed is refused, or good again.
    #[test]
    fn a_changed_body_is_refused_or_good(
        body in prop::sample::select(BODIES.to_vec()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), change()), 0..4),
        operation in operation(),
    ) {
        let mut body = body.as_bytes().to_vec();
        for (place, change) in changes {
            let place = place.index(body.len());
            match change {
                Some(byte) => body[place] = byte,
                None => { body.remove(place); }
            }
            if body.is_empty() {
                break;
            }
        }
        holds(operation, &body)?;
    }
}

const BODIES: [&str; 6] = [
    r#"{"topics": ["a", "b", "a"]}"#,
    r#"{"partitions": [{"topic": "a", "partition": 0}, {"topic": "b", "partition": "0"}]}"#,
    r#"{"offsets": [{"topic": "a", "partition": 0, "offset": 9223372036854775806, "metadata": "m"}]}"#,
    r#"{"offsets": [{"topic": "a", "partition": 0, "offset": 1e3}, {"topic": "a", "partition": 0, "offset": "2"}]}"#,
    r#"{"name": "n", "format": "json", "auto.offset.reset": "none", "auto.commit.enable": "true"}"#,
    r#"{"id": "n", "fetch.min.bytes": "100", "consumer.request.timeout.ms": 30000.0}"#,
];

/// A byte to put in, or none to take one out.
fn change() -> impl Strategy<Value = Option<u8>> {
    prop_oneof![
        Just(None),
        prop::sample::select(&b"{}[]\",:\\ -+.eE0159nulltruefalse\xff\0"[..]).prop_map(Some),
        any::<u8>().prop_map(Some),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop::sample::select(vec![
        Operation::Create,
        Operation::Subscribe,
        Operation::Assign,
        Operation::Commit,
        Operation::Committed,
        Operation::Seek,
        Operation::SeekToBeginning,
        Operation::SeekToEnd,
    ])
}

/// What is accepted keeps to the rules.
fn holds(operation: Operation, body: &[u8]) -> Result<(), TestCaseError> {
    let Ok(parsed) = parse(&route(operation), None, body, None, MAX_TOPICS) else {
        return Ok(());
    };
    let text = str::from_utf8(body).unwrap().trim_start_matches('\u{feff}');
    prop_assert!(text.trim_ascii().is_empty() || serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok());
    match parsed.command {
        Command::Create(settings) => {
            prop_assert!(settings.min_bytes >= 0);
            prop_assert!(settings.request_timeout <= Duration::from_secs(30));
        }
        Command::Subscribe(topics) => {
            prop_assert!((1..=MAX_TOPICS).contains(&topics.len()));
            once(topics.iter().map(|topic| topic.as_str().to_owned()))?;
        }
        Command::Assign(list) | Command::SeekToBeginning(list) | Command::SeekToEnd(list) => {
            once(list.iter().map(|at| format!("{at:?}")))?;
        }
        Command::Committed(list) => once(list.iter().flatten().map(|at| format!("{at:?}")))?,
        Command::Commit(list) => {
            for processed in list.iter().flatten() {
                prop_assert!((Offset(0)..=Offset::MAX).contains(&processed.offset));
            }
            once(
                list.iter()
                    .flatten()
                    .map(|processed| format!("{:?}", processed.partition)),
            )?;
        }
        Command::Seek(list) => {
            prop_assert!(
                list.iter()
                    .all(|(_, position)| (0..=Offset::MAX.0).contains(&position.offset))
            );
            once(list.iter().map(|(at, _)| format!("{at:?}")))?;
        }
        other @ (Command::Delete
        | Command::Subscription
        | Command::Unsubscribe
        | Command::Assignments
        | Command::Fetch(_)) => prop_assert!(false, "{:?}", other),
    }
    Ok(())
}

fn once(names: impl Iterator<Item = String>) -> Result<(), TestCaseError> {
    let mut names = names.collect::<Vec<_>>();
    prop_assert!(names.len() <= MAX_TOPICS);
    names.sort();
    prop_assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    Ok(())
}

fn route(operation: Operation) -> Route {
    Route {
        operation,
        group: "g".to_owned(),
        instance: (!operation.is_create()).then(|| "i".to_owned()),
    }
}

fn command(operation: Operation, body: &[u8]) -> Command {
    match parse(&route(operation), None, body, None, MAX_TOPICS) {
        Ok(parsed) => parsed.command,
        Err(error) => panic!("{operation:?} {}: {error}", String::from_utf8_lossy(body)),
    }
}

fn refusal(operation: Operation, body: &[u8]) -> Error {
    match parse(&route(operation), None, body, None, MAX_TOPICS) {
        Ok(parsed) => panic!("{operation:?} {}: {parsed:?}", String::from_utf8_lossy(body)),
        Err(error) => error,
    }
}

fn with(change: impl FnOnce(&mut Settings)) -> Settings {
    let mut settings = Settings::default();
    change(&mut settings);
    settings
}

fn topics(names: &[&str]) -> Vec<TopicName> {
    names.iter().map(|name| TopicName::from(*name)).collect()
}

fn at(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition {
        topic: topic.into(),
        partition,
    }
}
