use http::HeaderValue;
use proptest::prelude::*;

use super::*;

/// [AC-01] [D-03]
#[test]
fn binary_is_what_no_preference_reads() {
    assert_eq!(chosen(&[]), Ok(BINARY));
    for value in [
        "",
        " ",
        ",",
        "*/*",
        "*",
        "application/*",
        "Application/*",
        "application",
        "application/vnd.kafka.binary.v2+json",
        "application/json, */*",
        "application/json, */*;q=0.5",
        "text/html, */*;q=0.8",
        "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2",
        "application/vnd.kafka.v2+json, application/vnd.kafka.binary.v2+json",
        "application/vnd.kafka.v2+json, */*",
    ] {
        assert_eq!(chosen(&[value]), Ok(BINARY), "{value}");
    }
    for value in [
        "application/vnd.kafka.v2+json",
        "application/vnd.kafka.v2+json, application/vnd.kafka+json, application/json",
        "application/vnd.kafka.v2+json, */*;q=0.5",
    ] {
        assert_eq!(chosen(&[value]), Ok(V2), "{value}");
    }
    assert_eq!(accept(&HeaderMap::new()).unwrap().format, Some(Format::Binary));
    assert_eq!(of(&[V2]).unwrap().format, Some(Format::Binary));
}

/// [AC-02] [D-03]
#[test]
fn json_is_read_where_it_is_named_best() {
    for value in [
        "application/vnd.kafka.json.v2+json",
        "application/vnd.kafka.json.v2+json; charset=utf-8",
        "application/vnd.kafka.json.v2+json;charset=\"utf-8\"",
        "application/vnd.kafka.json.v2+json;x=\"a,b;q=0\"",
        "APPLICATION/VND.KAFKA.JSON.V2+JSON",
        "application/vnd.kafka.json.v2+json, application/vnd.kafka.v2+json;q=0.9, application/json;q=0.5",
        "application/vnd.kafka.json.v2+json, */*;q=0.9",
        "application/vnd.kafka.json.v2+json;q=0.9, application/vnd.kafka.binary.v2+json;q=0.8",
        "application/vnd.kafka.binary.v2+json;q=0.5, application/vnd.kafka.json.v2+json;q=0.9",
        "text/html, application/vnd.kafka.json.v2+json;q=0.1",
        "application/vnd.kafka.json.v2+json;Q=0.001",
        "application/vnd.kafka.json.v2+json, application/vnd.kafka.avro.v2+json",
        "*/*;q=0, application/vnd.kafka.json.v2+json",
    ] {
        assert_eq!(chosen(&[value]), Ok(JSON), "{value}");
    }
    assert_eq!(of(&[JSON]).unwrap().format, Some(Format::Json));
}

/// [AC-03] [D-03]
#[test]
fn a_type_of_another_format_is_still_chosen() {
    for (value, media_type) in [
        (
            "application/vnd.kafka.json.v2+json, application/vnd.kafka.v2+json, application/json",
            V2,
        ),
        (
            "application/vnd.kafka.json.v2+json, application/vnd.kafka.v2+json, application/json, */*",
            BINARY,
        ),
        ("application/vnd.kafka.json.v2+json, */*", BINARY),
        ("application/vnd.kafka.json.v2+json;q=0.5, */*;q=0.5", BINARY),
    ] {
        assert_eq!(chosen(&[value]), Ok(media_type), "{value}");
    }
    for (value, media_type) in [
        ("application/vnd.kafka.avro.v2+json", AVRO),
        ("application/vnd.kafka.jsonschema.v2+json", JSON_SCHEMA),
        ("application/vnd.kafka.protobuf.v2+json", PROTOBUF),
        (
            "application/vnd.kafka.avro.v2+json, application/vnd.kafka.json.v2+json",
            AVRO,
        ),
    ] {
        let accept = of(&[value]).unwrap();
        assert_eq!((accept.media_type, accept.format), (media_type, None), "{value}");
    }
}

/// [AC-04]
#[test]
fn no_v2_type_is_406() {
    for value in [
        "application/json",
        "text/html",
        "text/*",
        "application/vnd.kafka.json.v1+json",
        "application/vnd.kafka+json",
        "application/*+json",
        "application/vnd.kafka.v2+json;q=0",
        "*/*;q=0",
        "*/*;q=0.0",
        "*/*, */*;q=0, application/*;q=0",
        "application/vnd.kafka.v2+json;q=1.1",
        "application/vnd.kafka.v2+json;q=0.1234",
        "application/vnd.kafka.v2+json;q=",
        "application/vnd.kafka.v2+json;q=-1",
        "application/vnd.kafka.v2+json;q=x",
        "*/json",
        "application/",
        "/",
        "application/vnd.kafka.v2+json application/json",
        "\"application/vnd.kafka.v2+json",
        "applicatiön/vnd.kafka.v2+json",
    ] {
        let error = of(&[value]).unwrap_err();
        assert_eq!(
            (error.code().status(), error.code().error_code()),
            (406, 406),
            "{value}"
        );
    }
}

/// [D-03]
#[test]
fn q_zero_excludes() {
    for (value, media_type) in [
        (
            "application/vnd.kafka.json.v2+json;q=0, application/vnd.kafka.v2+json",
            V2,
        ),
        ("application/vnd.kafka.binary.v2+json;q=0, */*", V2),
        (
            "*/*, application/vnd.kafka.binary.v2+json;q=0, application/vnd.kafka.v2+json;q=0.000",
            JSON,
        ),
        (
            "application/*;q=0, application/vnd.kafka.json.v2+json;q=0.2, */*",
            JSON,
        ),
    ] {
        assert_eq!(chosen(&[value]), Ok(media_type), "{value}");
    }
}

/// [D-03]
#[test]
fn several_header_lines_are_one_list() {
    assert_eq!(
        chosen(&["application/json", "application/vnd.kafka.json.v2+json"]),
        Ok(JSON)
    );
    assert_eq!(
        chosen(&["application/vnd.kafka.json.v2+json;q=0.5", "*/*;q=0.4"]),
        Ok(JSON)
    );
    assert_eq!(
        chosen(&["application/vnd.kafka.json.v2+json;q=0.5", "*/*"]),
        Ok(BINARY)
    );
    assert_eq!(
        chosen(&["application/json;x=\"", "application/vnd.kafka.json.v2+json"]),
        Ok(JSON)
    );
}

proptest! {
    #[test]
    fn no_header_is_too_strange(value in "[ -~]{0,60}") {
        let _ = of(&[&value]);
    }

    /// [D-03] With no q, the weights decide, whatever the order.
    #[test]
    fn the_order_decides_only_between_equal_weights(order in Just(vec![V2, JSON, BINARY, AVRO]).prop_shuffle()) {
        prop_assert_eq!(chosen(&[&order.join(", ")]), Ok(BINARY));
        let rest = order.iter().copied().filter(|t| *t != BINARY && *t != V2).collect::<Vec<_>>();
        prop_assert_eq!(chosen(&[&rest.join(",")]), Ok(rest[0]));
    }
}

fn chosen(lines: &[&str]) -> Result<&'static str, Error> {
    of(lines).map(|accept| accept.media_type)
}

fn of(lines: &[&str]) -> Result<Accept, Error> {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(header::ACCEPT, HeaderValue::from_bytes(line.as_bytes()).unwrap());
    }
    accept(&headers)
}
