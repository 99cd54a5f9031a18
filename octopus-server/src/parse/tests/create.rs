use super::*;

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

fn with(change: impl FnOnce(&mut Settings)) -> Settings {
    let mut settings = Settings::default();
    change(&mut settings);
    settings
}
