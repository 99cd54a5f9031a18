use super::*;

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

/// The metadata goes with its offset.
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
