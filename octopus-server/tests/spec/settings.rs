//! The settings of a create: each as it may be written, shown by what the instance does.

use std::time::Duration;

use octopus_kafka::broker::{ApiKey, Request};
use serde_json::json;

use crate::{
    client::{BINARY, JSON},
    create::{assign, create, still, waiting},
    raw::{GROUP, INSTANCE, is_error},
    service::Service,
};

/// [CR-04] [D-07] `format` in any case, shown by what reads the instance.
#[tokio::test]
async fn a_format_is_binary_or_json() {
    let service = Service::start().await;
    let user = service.user(1);
    for (format, accept) in [
        (json!("binary"), BINARY),
        (json!("Binary"), BINARY),
        (json!("BINARY"), BINARY),
        (json!(null), BINARY),
        (json!("json"), JSON),
        (json!("Json"), JSON),
        (json!("JSON"), JSON),
    ] {
        let settings = json!({"name": "i", "format": format, "consumer.request.timeout.ms": 0});
        create(&user, &settings).await.expect(200);
        user.fetch(INSTANCE, "", accept).await.expect(200);
        let other = if accept == JSON { BINARY } else { JSON };
        assert_eq!(
            user.fetch(INSTANCE, "", other).await.error(),
            (406, 40601),
            "{format}"
        );
        user.delete(INSTANCE).await.expect(204);
    }
    for format in [
        json!("avro"),
        json!("jsonschema"),
        json!("protobuf"),
        json!("AVRO"),
        json!("xml"),
        json!(""),
        json!(" json"),
        json!(1),
        json!(true),
        json!(["json"]),
        json!({}),
    ] {
        let reply = create(&user, &json!({"format": format})).await;
        is_error(
            &format.to_string(),
            &reply,
            422,
            422,
            "format must be binary or json",
        );
    }
}

/// [CR-05] [FE-15] `auto.offset.reset` in any case, shown by where a group that never committed stands.
#[tokio::test]
async fn reading_starts_where_auto_offset_reset_says() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    service.write(&user, "t", &[b"0", b"1", b"2"]);
    for (reset, start) in [
        (json!("earliest"), Some(0)),
        (json!("EARLIEST"), Some(0)),
        (json!("latest"), Some(3)),
        (json!("Latest"), Some(3)),
        (json!(null), Some(3)),
        (json!("none"), None),
        (json!("NONE"), None),
    ] {
        let group = format!("g-{}", reset.as_str().unwrap_or("null"));
        let path = format!("/api/v2/consumers/{group}");
        let settings = json!({"name": "i", "auto.offset.reset": reset}).to_string();
        user.post(&path, &settings).await.expect(200);
        let instance = format!("{path}/instances/i");
        assign(&user, &instance).await;
        let reply = user.post(&format!("{instance}/offsets"), "").await;
        match start {
            Some(_) => assert_eq!(reply.expect(200).text(), "[]"),
            None => is_error("none", &reply, 500, 50002, "auto.offset.reset is none"),
        }
        assert_eq!(service.committed(&user, &group, "t"), start, "{reset}");
        user.delete(&instance).await.expect(204);
    }
    let rule = "auto.offset.reset must be earliest, latest or none";
    for reset in [
        json!("smallest"),
        json!(""),
        json!(" latest"),
        json!("by_duration:PT1H"),
        json!(0),
        json!(true),
        json!([]),
        json!({}),
    ] {
        let reply = create(&user, &json!({"auto.offset.reset": reset})).await;
        is_error(&reset.to_string(), &reply, 422, 42204, rule);
    }
}

/// [CR-05] [AK-06] `auto.commit.enable` in any case, as a boolean or a string, shown by what a delete commits.
#[tokio::test]
async fn auto_commit_is_true_or_false() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    service.write(&user, "t", &[b"0"]);
    for (enable, commits) in [
        (json!(true), true),
        (json!("true"), true),
        (json!("TRUE"), true),
        (json!("True"), true),
        (json!(false), false),
        (json!("false"), false),
        (json!("fAlse"), false),
        (json!(null), false),
    ] {
        let group = format!(
            "g-{}-{}",
            enable.is_string(),
            enable.as_str().unwrap_or(&enable.to_string())
        );
        let path = format!("/api/v2/consumers/{group}");
        let settings = json!({"name": "i", "auto.offset.reset": "earliest", "auto.commit.enable": enable});
        user.post(&path, &settings.to_string()).await.expect(200);
        let instance = format!("{path}/instances/i");
        assign(&user, &instance).await;
        let read = service.soon(user.fetch(&instance, "", BINARY)).await;
        assert_eq!(read.expect(200).json()[0]["offset"], 0);
        user.delete(&instance).await.expect(204);
        assert_eq!(
            service.committed(&user, &group, "t"),
            commits.then_some(1),
            "{enable}"
        );
    }
    for enable in [
        json!("yes"),
        json!(""),
        json!("true "),
        json!("1"),
        json!(0),
        json!(1),
        json!([true]),
        json!({}),
    ] {
        let reply = create(&user, &json!({"auto.commit.enable": enable})).await;
        is_error(
            &enable.to_string(),
            &reply,
            422,
            42204,
            "auto.commit.enable must be true or false",
        );
    }
}

/// What is no whole number of at least 0.
const NO_NUMBERS: &[&str] = &[
    "-1", "1.5", "-0.5", "1e-3", "-1e400", "\"-1\"", "\"1.5\"", "\"5.0\"", "\"\"", "\" 5\"", "\"5 \"",
    "\"+5\"", "\"1e3\"", "\"0x5\"", "\"five\"", "true", "false", "[]", "[5]", "{}",
];

/// [CR-06] [CR-07] [D-06] `fetch.min.bytes` as a number or a string, shown by what the broker is asked to wait for.
#[tokio::test]
async fn fetch_min_bytes_is_what_a_broker_waits_for() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    let digits = "9".repeat(1000);
    for (written, asked) in [
        ("0", 0),
        ("\"0\"", 0),
        ("1", 1),
        ("100", 100),
        ("\"100\"", 100),
        ("100.0", 100),
        ("1e2", 100),
        ("\"00100\"", 100),
        ("2147483647", i32::MAX),
        ("2147483648", i32::MAX),
        ("\"99999999999999999999\"", i32::MAX),
        ("1e300", i32::MAX),
        (&digits, i32::MAX),
        ("null", 1),
    ] {
        let body = format!(r#"{{"name": "i", "fetch.min.bytes": {written}}}"#);
        user.post(GROUP, &body).await.expect(200);
        assign(&user, INSTANCE).await;
        let before = service.asked(ApiKey::Fetch).len();
        let fetch = waiting(&service, &user, INSTANCE).await;
        service.was_asked(ApiKey::Fetch, before + 1).await;
        assert_eq!(last_min_bytes(&service), asked, "{written:.40}");
        service.clock.advance(Duration::from_secs(5));
        fetch.await.unwrap().expect(200);
        user.delete(INSTANCE).await.expect(204);
    }
    let rule = "fetch.min.bytes must be a whole number of at least 0";
    for written in NO_NUMBERS {
        let body = format!(r#"{{"name": "i", "fetch.min.bytes": {written}}}"#);
        is_error(written, &user.post(GROUP, &body).await, 422, 42204, rule);
    }
}

/// [CR-06] [CR-08] [FE-08] [D-06] [D-19] `consumer.request.timeout.ms` as a number or a string, shown by how long a fetch
/// that names no wait of its own waits.
#[tokio::test]
async fn the_request_timeout_is_the_wait_of_a_fetch_that_names_none() {
    let service = Service::start().await;
    let user = service.user(1);
    let digits = "9".repeat(1000);
    for (written, wait) in [
        ("0", 0),
        ("\"0\"", 0),
        ("1", 1),
        ("250", 250),
        ("\"250\"", 250),
        ("250.0", 250),
        ("2.5e2", 250),
        ("29999", 29_999),
        ("30000", 30_000),
        ("30001", 30_000),
        ("\"999999\"", 30_000),
        ("1e300", 30_000),
        (&digits, 30_000),
        ("null", 5_000),
    ] {
        let body = format!(r#"{{"name": "i", "consumer.request.timeout.ms": {written}}}"#);
        user.post(GROUP, &body).await.expect(200);
        let fetch = waiting(&service, &user, INSTANCE).await;
        if wait > 0 {
            service.clock.advance(Duration::from_millis(wait - 1));
            still(&fetch).await;
            service.clock.advance(Duration::from_millis(1));
        }
        assert_eq!(fetch.await.unwrap().expect(200).text(), "[]", "{written:.40}");
        user.delete(INSTANCE).await.expect(204);
    }
    let rule = "consumer.request.timeout.ms must be a whole number of at least 0";
    for written in NO_NUMBERS {
        let body = format!(r#"{{"name": "i", "consumer.request.timeout.ms": {written}}}"#);
        is_error(written, &user.post(GROUP, &body).await, 422, 42204, rule);
    }
}

/// The least bytes that the last fetch of the broker asked for.
pub(crate) fn last_min_bytes(service: &Service) -> i32 {
    let fetches = service.asked(ApiKey::Fetch);
    let Some(Request::Fetch(fetch)) = fetches.last().map(|received| &received.request) else {
        panic!("a fetch of the broker");
    };
    fetch.min_bytes
}
