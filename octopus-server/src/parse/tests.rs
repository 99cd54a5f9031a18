mod any;
mod create;
mod list;

use std::time::Duration;

use octopus_core::{
    AutoOffsetReset, Fetch, Offset, Position, Processed, Settings, TopicName, TopicPartition,
};

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

fn topics(names: &[&str]) -> Vec<TopicName> {
    names.iter().map(|name| TopicName::from(*name)).collect()
}

fn at(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition {
        topic: topic.into(),
        partition,
    }
}
