use std::net::SocketAddr;

use http::{HeaderMap, Uri, Version};
use octopus_core::{Format, Position};

use super::*;
use crate::{
    base_uri::Scheme,
    headers::{BINARY, JSON},
};

/// [CR-01] [RT-05]
#[test]
fn a_create_answers_its_id_and_url() {
    assert_eq!(
        answer(Operation::Create, V2, Reply::Created),
        (
            200,
            Some(V2.to_owned()),
            r#"{"instance_id":"my-instance","base_uri":"http://a:1/api/v2/consumers/my-group/instances/my-instance"}"#
                .to_owned()
        )
    );
}

/// [RT-01] [RT-05]
#[test]
fn every_other_answer_has_its_body_and_the_v2_type() {
    let at = |topic: &str| TopicPartition::only(topic.into());
    for (operation, reply, body) in [
        (
            Operation::Subscription,
            Reply::Topics(Vec::new()),
            r#"{"topics":[]}"#,
        ),
        (
            Operation::Subscription,
            Reply::Topics(vec!["b".into(), "a\"\u{1}".into()]),
            r#"{"topics":["b","a\"\u0001"]}"#,
        ),
        (
            Operation::Assignments,
            Reply::Partitions(Vec::new()),
            r#"{"partitions":[]}"#,
        ),
        (
            Operation::Assignments,
            Reply::Partitions(vec![at("a"), at("b")]),
            r#"{"partitions":[{"topic":"a","partition":0},{"topic":"b","partition":0}]}"#,
        ),
        (
            Operation::Committed,
            Reply::Offsets(Vec::new()),
            r#"{"offsets":[]}"#,
        ),
        (
            Operation::Committed,
            Reply::Offsets(vec![Commit {
                partition: at("a"),
                position: Position::at(42),
                metadata: "m".into(),
            }]),
            r#"{"offsets":[{"topic":"a","partition":0,"offset":42,"metadata":"m"}]}"#,
        ),
        (Operation::Commit, Reply::Empty, "[]"),
    ] {
        let expected = (200, Some(V2.to_owned()), body.to_owned());
        assert_eq!(answer(operation, V2, reply.clone()), expected);
        assert_eq!(answer(operation, JSON, reply), expected);
    }
}

/// [RT-01] A 204 has no body, and so no type.
#[test]
fn no_content_is_nothing_at_all() {
    for operation in [Operation::Delete, Operation::Subscribe, Operation::Seek] {
        assert_eq!(
            answer(operation, V2, Reply::NoContent),
            (204, None, String::new())
        );
    }
}

/// [RT-05]
#[test]
fn a_fetch_answers_in_the_type_that_was_chosen() {
    for media_type in [BINARY, V2, JSON] {
        let found = answer(Operation::Fetch, media_type, Reply::Empty);
        assert_eq!(found, (200, Some(media_type.to_owned()), "[]".to_owned()));
        let response = done(
            Reply::Records(CallId(7)),
            &asked(Operation::Fetch, media_type, &origin()),
        );
        assert_eq!(response.headers()[header::CONTENT_TYPE], media_type);
        assert_eq!(response.into_body(), Content::Records(CallId(7)));
    }
}

/// [RT-04] [RT-05] [D-04] [AU-02]
#[test]
fn a_refusal_has_its_code_and_message() {
    for (error, media_type, status, body) in [
        (
            Error::BodyNotJson,
            V2,
            400,
            r#"{"error_code":40003,"message":"The request body is not valid JSON; send one JSON object"}"#,
        ),
        (
            Error::NotAcceptable,
            V2,
            406,
            r#"{"error_code":406,"message":"Accept names no type of this route: use application/vnd.kafka.binary.v2+json or application/vnd.kafka.json.v2+json"}"#,
        ),
        (
            Error::FormatMismatch(Format::Binary),
            JSON,
            406,
            r#"{"error_code":40601,"message":"The consumer instance's format is binary: fetch with Accept: application/vnd.kafka.binary.v2+json"}"#,
        ),
        (
            Error::FieldUnknown("a\"b".into()),
            V2,
            422,
            r#"{"error_code":422,"message":"Unknown field a\"b; leave it out"}"#,
        ),
        (
            Error::Internal,
            V2,
            500,
            r#"{"error_code":500,"message":"Internal error; retry, and tell the operator if it goes on"}"#,
        ),
        (
            Error::NoKafka,
            V2,
            500,
            r#"{"error_code":50002,"message":"The service has no Kafka endpoint; ask its operator"}"#,
        ),
    ] {
        let response = refused(&error, Operation::Fetch.name(), media_type);
        assert_eq!(response.status(), status);
        assert_eq!(response.headers()[header::CONTENT_TYPE], media_type);
        assert!(!response.headers().contains_key(header::RETRY_AFTER));
        assert_eq!(response.into_body(), body);
    }
    let unknown = refused(&Error::TokenRefused, Operation::Create.name(), V2);
    assert_eq!(unknown.status(), 401);
    assert_eq!(unknown.headers()[header::WWW_AUTHENTICATE], "Bearer");
}

/// [LI-01] [LI-05]
#[test]
fn a_refusal_that_a_wait_cures_says_how_long() {
    for error in [Error::UserFetches(2), Error::NoTurn] {
        let response = refused(&error, Operation::Fetch.name(), BINARY);
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    }
    let full = refused(&Error::UserInstances(4), Operation::Create.name(), V2);
    assert_eq!(full.status(), 429);
    assert!(!full.headers().contains_key(header::RETRY_AFTER));
}

/// [RT-02]
#[test]
fn an_unknown_path_answers_404_with_its_detail() {
    let response = no_route(NoRoute::NotFound);
    assert_eq!(response.status(), 404);
    assert!(!response.headers().contains_key(header::ALLOW));
    assert_eq!(response.headers()[header::CONTENT_TYPE], V2);
    assert_eq!(response.into_body(), r#"{"detail":"Not Found"}"#);
}

/// [RT-03]
#[test]
fn another_method_answers_405_with_allow() {
    let response = no_route(NoRoute::MethodNotAllowed("GET, POST"));
    assert_eq!(response.status(), 405);
    assert_eq!(response.headers()[header::ALLOW], "GET, POST");
    assert_eq!(response.into_body(), r#"{"detail":"Method Not Allowed"}"#);
}

/// [D-28]
#[test]
fn a_host_that_does_not_hold_answers_400() {
    let response = host_invalid(HostInvalid);
    assert_eq!(response.status(), 400);
    assert_eq!(response.headers()[header::CONTENT_TYPE], V2);
    assert_eq!(
        response.into_body(),
        r#"{"error_code":400,"message":"The Host header is missing, repeated or not a plain host"}"#
    );
}

fn answer(operation: Operation, media_type: &'static str, reply: Reply) -> (u16, Option<String>, String) {
    let response = done(reply, &asked(operation, media_type, &origin()));
    let media_type = response.headers().get(header::CONTENT_TYPE);
    let media_type = media_type.map(|value| value.to_str().unwrap().to_owned());
    let status = response.status().as_u16();
    let Content::Bytes(body) = response.into_body() else {
        panic!("records");
    };
    (status, media_type, String::from_utf8(body.to_vec()).unwrap())
}

fn asked<'a>(operation: Operation, media_type: &'static str, origin: &'a Origin) -> Asked<'a> {
    Asked {
        operation,
        media_type,
        origin,
        group: name("my-group"),
        instance: name("my-instance"),
    }
}

fn name(text: &str) -> &'static Name {
    Box::leak(Box::new(Name::parse(text).unwrap()))
}

fn origin() -> Origin {
    let mut headers = HeaderMap::new();
    headers.insert(header::HOST, "a:1".parse().unwrap());
    let local = SocketAddr::from(([127, 0, 0, 1], 8000));
    Origin::of(
        &headers,
        &Uri::from_static("/"),
        Version::HTTP_11,
        Scheme::Http,
        local,
    )
    .unwrap()
}
