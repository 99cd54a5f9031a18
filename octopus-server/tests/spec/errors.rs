//! *Errors*: the table of the specification, each row brought about in each way that it names.

use std::{sync::Arc, time::Duration};

use octopus_auth::{Checked, Credentials, TokenCheck};
use octopus_core::Limits;
use octopus_kafka::{
    Cluster, Config,
    broker::{ApiKey, Response as Answer, always},
    testing::ClosedPort,
};
use octopus_server::Server;
use serde_json::{Value, json};

use crate::{
    client::{BINARY, JSON, Response},
    create,
    raw::{GROUP, INSTANCE, Raw, is_error},
    reader::{Reader, partitions},
    service::Service,
};

/// A row: its code, its status, and what brings it about, with the words by which the message names the cause, and those
/// that say what to do.
type Row = (u64, u16, &'static [(&'static str, &'static str, &'static str)]);

/// The table, row by row.
#[rustfmt::skip]
const ERRORS: [Row; 23] = [
    (40002, 400, &[
        ("Kafka refuses a topic's name", "topic name", "check the names"),
        ("Kafka refuses a request as invalid", "request", "check the names"),
        ("Kafka refuses a commit's metadata", "metadata", "check the names"),
        ("the cluster does not support a request", "request", "check"),
    ]),
    (40003, 400, &[("a body is not JSON", "body", "valid JSON")]),
    (40101, 401, &[
        ("a subject is no UUID", "subject is not a UUID", "send authorization"),
        ("a token is another user's", "token", "send authorization: Bearer TOKEN"),
    ]),
    (40301, 403, &[
        ("the service is not authorized for a topic", "topic", "ask its operator"),
        ("the service is not authorized for a group", "group", "ask its operator"),
    ]),
    (40401, 404, &[
        ("the namespace does not hold a topic", "Topic missing not found", "create it"),
        ("the cluster does not know a topic", "topic", "deleted"),
    ]),
    (40402, 404, &[
        ("a partition is not 0", "Partition 3 of topic t", "one partition, 0"),
        ("committed offsets are asked for without a body", "Partition", "name the partitions in the request body"),
    ]),
    (40403, 404, &[("there is no such instance", "instance not found", "create it")]),
    (406, 406, &[("an Accept names no v2 type", "Accept", "use application/vnd.kafka.binary.v2+json")]),
    (40601, 406, &[
        ("an Accept names json for a binary instance", "format is binary", "Accept: application/vnd.kafka.binary.v2+json"),
        ("an Accept names binary for a json instance", "format is json", "Accept: application/vnd.kafka.json.v2+json"),
    ]),
    (40801, 408, &[("a json instance's next record is not UTF-8", "topic t", "seek past it")]),
    (40902, 409, &[("the group has an instance of that name", "of that name", "another name")]),
    (40903, 409, &[
        ("a seek is on a partition that is not assigned", "Partition 0 of topic t is not assigned", "first fetch"),
        ("a commit is on a partition that is not assigned", "Partition 0 of topic t is not assigned", "first fetch"),
        ("a seek of all has none assigned", "No partition is assigned", "assign some, or subscribe"),
        ("a subscribe comes while partitions are assigned", "Partitions are assigned", "unsubscribe first"),
        ("an assign comes while subscribed", "is subscribed to topics", "unsubscribe first"),
        ("the group refuses a commit since it rebalanced", "group rebalanced", "fetch again, then commit"),
    ]),
    (40904, 409, &[
        ("another request holds the instance for 10 s", "Another request", "retry"),
        ("another request holds a fetch's instance", "Another request", "retry"),
    ]),
    (41301, 413, &[("a body is over 64 KiB", "64 KiB", "send less")]),
    (415, 415, &[("a content type is none of those", "content type", "use application/vnd.kafka.v2+json or application/json")]),
    (422, 422, &[
        ("a header is missing", "Header subject is missing", "every request needs subject and authorization"),
        ("a field is missing", "topics is missing", "must be a list of topic names"),
        ("a field is invalid", "offset is missing or invalid", "must be a whole number"),
        ("a field is unknown", "Unknown field surprise", "leave it out"),
        ("a parameter is invalid", "timeout is missing or invalid", "must be a whole number of milliseconds"),
        ("a list is too long", "topics lists more than 50 items", "in parts"),
        ("a format is neither binary nor json", "format", "must be binary or json"),
    ]),
    (42204, 422, &[
        ("a name breaks its rule", "The name", "must be 1 to 128 letters"),
        ("a group breaks its rule", "The group", "must be 1 to 128 letters"),
        ("auto.offset.reset breaks its rule", "auto.offset.reset", "must be earliest, latest or none"),
        ("auto.commit.enable breaks its rule", "auto.commit.enable", "must be true or false"),
        ("fetch.min.bytes breaks its rule", "fetch.min.bytes", "must be a whole number of at least 0"),
        ("consumer.request.timeout.ms breaks its rule", "consumer.request.timeout.ms", "must be a whole number of at least 0"),
        ("the list of topics is empty", "topics", "must name at least one"),
        ("topic_pattern is set", "topic_pattern", "list the topics"),
    ]),
    (42901, 429, &[
        ("the user holds 4 instances", "The user holds 4 consumer instances", "delete one first"),
        ("the service holds 12 instances", "The service holds 12 consumer instances", "retry later"),
        ("the user has 2 fetches in progress", "2 fetches in progress", "retry"),
        ("the fetch got no turn within its wait", "no turn", "retry"),
        ("the cluster throttled the request", "throttled", "retry"),
    ]),
    (500, 500, &[("the service fails inside", "Internal error", "retry")]),
    (50002, 500, &[
        ("Kafka fails a request", "Kafka failed", "ask the operator"),
        ("the service fails to authenticate to Kafka", "Kafka failed", "ask the operator"),
        ("there is no Kafka endpoint", "no Kafka endpoint", "ask its operator"),
        ("there is no offset to start from", "Topic t has no offset", "seek to one"),
    ]),
    (50003, 500, &[
        ("Kafka answers a retriable error", "Kafka", "retry"),
        ("Kafka does not answer in time", "Kafka", "retry"),
    ]),
    (503, 503, &[("a create comes while the service shuts down", "shutting down", "retry once it is back")]),
    (50302, 503, &[("the cluster can't be reached", "can't reach the Kafka cluster", "retry")]),
];

/// [RT-04] [ER-01] [ER-02] [ER-03] [ER-04] [ER-05] [ER-06] [ER-07] [ER-08] [AU-01] [AU-02] [NS-04] [AS-02] [CO-04] [CO-05]
/// [CO-06] [SK-01] [SK-02] [SU-02] [SU-03] [AC-03] [AC-04] [FE-06] [CR-02] [CR-04] [CR-05] [CR-06] [CR-09] [CR-10] [CR-11]
/// [CT-02] [CT-03] [CT-04] [CT-05] [CT-06] [LK-01] [LK-02] [LI-01] [LI-05] [D-20] every row of the table, in each way that
/// it may come about, with a message that names the cause and says what to do next.
#[tokio::test]
async fn every_error_has_its_code_its_status_and_a_message_that_helps() {
    for (code, status, causes) in ERRORS {
        for (cause, names, next) in causes {
            let reply = brought_about(cause).await;
            let what = format!("{code}: {cause}");
            is_error(&what, &reply, status, code, names);
            is_error(&what, &reply, status, code, next);
            // What a wait of a second cures says so.
            let waits = [
                "the user has 2 fetches",
                "the fetch got no turn",
                "the cluster throttled",
            ];
            let waits = waits.iter().any(|wait| cause.starts_with(wait));
            assert_eq!(reply.header("retry-after"), waits.then_some("1"), "{what}");
        }
    }
}

/// [RT-04] Kafka's own text stays with the service.
#[tokio::test]
async fn no_message_has_a_word_of_kafkas() {
    let (service, reader) = assigned().await;
    service
        .broker
        .faults()
        .on(ApiKey::FindCoordinator, always())
        .edit(|answer| {
            if let Answer::FindCoordinator(found) = answer {
                for coordinator in &mut found.coordinators {
                    coordinator.error_code = 30;
                    coordinator.error_message = Some("zookeeper".to_owned().into());
                }
            }
        });
    let reply = reader.commit_of("t", 0).await;
    is_error("a commit", &reply, 403, 40301, "group");
    assert!(!reply.text().contains("zookeeper"), "{}", reply.text());
}

#[expect(clippy::too_many_lines, reason = "one arm a cause of the table")]
async fn brought_about(cause: &str) -> Response {
    match cause {
        "Kafka refuses a topic's name" => {
            let (service, reader) = alone().await;
            service.broker.faults().on(ApiKey::Metadata, always()).error(17);
            reader.post("subscription", json!({"topics": ["t"]})).await
        }
        "Kafka refuses a request as invalid" => commit_answered(42).await,
        "Kafka refuses a commit's metadata" => {
            let (_service, reader) = assigned().await;
            let item = json!({"topic": "t", "partition": 0, "offset": 0, "metadata": "m".repeat(5000)});
            reader.post("offsets", json!({"offsets": [item]})).await
        }
        "the cluster does not support a request" => {
            let service = Service::start().await;
            service.broker.set_versions(ApiKey::OffsetCommit, 1..=1);
            let reader = instance(&service, json!({})).await;
            reader.assign(&["t"]).await;
            reader.commit_of("t", 0).await
        }
        "a body is not JSON" => created("{\"name\": ").await,
        "a subject is no UUID" => {
            let (_service, reader) = alone().await;
            Raw::of(&reader.user, "DELETE", INSTANCE)
                .set("subject", "nobody")
                .send()
                .await
        }
        "a token is another user's" => {
            let (service, reader) = alone().await;
            let token = format!("Bearer {}", service.user(2).token);
            Raw::of(&reader.user, "DELETE", INSTANCE)
                .set("authorization", token)
                .send()
                .await
        }
        "the service is not authorized for a topic" => commit_answered(29).await,
        "the service is not authorized for a group" => commit_answered(30).await,
        "the namespace does not hold a topic" => {
            let (_service, reader) = alone().await;
            reader
                .post("subscription", json!({"topics": ["t", "missing"]}))
                .await
        }
        "the cluster does not know a topic" => commit_answered(3).await,
        "a partition is not 0" => {
            let (_service, reader) = alone().await;
            let one = json!({"partitions": [{"topic": "t", "partition": 3}]});
            reader.post("assignments", one).await
        }
        "committed offsets are asked for without a body" => alone().await.1.committed("").await,
        "there is no such instance" => {
            let (_service, reader) = alone().await;
            reader.user.delete(&format!("{GROUP}/instances/other")).await
        }
        "an Accept names no v2 type" => fetched(json!({}), "application/json").await,
        "an Accept names json for a binary instance" => fetched(json!({}), JSON).await,
        "an Accept names binary for a json instance" => fetched(json!({"format": "json"}), BINARY).await,
        "a json instance's next record is not UTF-8" => {
            let service = Service::start().await;
            let reader = instance(&service, json!({"format": "json"})).await;
            service.write(&reader.user, "t", &[b"\xff"]);
            reader.assign(&["t"]).await;
            reader.reply(&service, "").await
        }
        "the group has an instance of that name" => {
            alone().await.1.user.post(GROUP, r#"{"name": "i"}"#).await
        }
        "a seek is on a partition that is not assigned" => alone().await.1.seek("t", 0).await,
        "a commit is on a partition that is not assigned" => alone().await.1.commit_of("t", 0).await,
        "a seek of all has none assigned" => alone().await.1.post("positions/end", partitions(&[])).await,
        "a subscribe comes while partitions are assigned" => {
            let (_service, reader) = assigned().await;
            reader.post("subscription", json!({"topics": ["t"]})).await
        }
        "an assign comes while subscribed" => {
            let (_service, reader) = alone().await;
            reader.subscribe(&["t"]).await;
            reader.post("assignments", partitions(&["t"])).await
        }
        "the group refuses a commit since it rebalanced" => commit_answered(22).await,
        "another request holds the instance for 10 s" => {
            let (service, reader) = assigned().await;
            let came = service.arrivals();
            let _fetch = reader.fetch("?timeout=30000");
            service.arrived(came + 1).await;
            let user = reader.user.clone();
            let waiting = tokio::spawn(async move { user.delete(INSTANCE).await });
            service.arrived(came + 2).await;
            service.clock.advance(Duration::from_secs(10));
            waiting.await.unwrap()
        }
        "another request holds a fetch's instance" => {
            let (service, reader) = assigned().await;
            let came = service.arrivals();
            let _fetch = reader.fetch("?timeout=30000");
            service.arrived(came + 1).await;
            reader.user.fetch(INSTANCE, "", BINARY).await
        }
        "a body is over 64 KiB" => created(&" ".repeat(64 * 1024 + 1)).await,
        "a content type is none of those" => {
            let (_service, reader) = alone().await;
            Raw::of(&reader.user, "POST", GROUP)
                .add("Content-Type", "text/plain")
                .body("{}")
                .send()
                .await
        }
        "a header is missing" => {
            let (_service, reader) = alone().await;
            Raw::of(&reader.user, "DELETE", INSTANCE)
                .without("subject")
                .send()
                .await
        }
        "a field is missing" => alone().await.1.post("subscription", json!({})).await,
        "a field is invalid" => assigned().await.1.commit_of("t", -1).await,
        "a field is unknown" => created(r#"{"surprise": 1}"#).await,
        "a parameter is invalid" => {
            alone()
                .await
                .1
                .user
                .fetch(INSTANCE, "?timeout=soon", BINARY)
                .await
        }
        "a list is too long" => {
            let (_service, reader) = alone().await;
            reader
                .post("subscription", json!({"topics": vec!["t"; 51]}))
                .await
        }
        "a format is neither binary nor json" => created(r#"{"format": "avro"}"#).await,
        "a name breaks its rule" => created(r#"{"name": "a b"}"#).await,
        "a group breaks its rule" => alone().await.1.user.post("/api/v2/consumers/-g", "").await,
        "auto.offset.reset breaks its rule" => created(r#"{"auto.offset.reset": "first"}"#).await,
        "auto.commit.enable breaks its rule" => created(r#"{"auto.commit.enable": "yes"}"#).await,
        "fetch.min.bytes breaks its rule" => created(r#"{"fetch.min.bytes": -1}"#).await,
        "consumer.request.timeout.ms breaks its rule" => {
            created(r#"{"consumer.request.timeout.ms": 0.5}"#).await
        }
        "the list of topics is empty" => alone().await.1.post("subscription", json!({"topics": []})).await,
        "topic_pattern is set" => {
            let (_service, reader) = alone().await;
            reader.post("subscription", json!({"topic_pattern": "t.*"})).await
        }
        "the user holds 4 instances" => {
            let (_service, reader) = alone().await;
            for _ in 0..3 {
                reader.user.post(GROUP, "").await.expect(200);
            }
            reader.user.post(GROUP, "").await
        }
        "the service holds 12 instances" => {
            let service = Service::start().await;
            for held in 0..12 {
                service.user(1 + held / 4).post(GROUP, "").await.expect(200);
            }
            service.user(9).post(GROUP, "").await
        }
        "the user has 2 fetches in progress" => {
            let (service, reader) = alone().await;
            let mut fetches = Vec::new();
            for name in ["j", "k"] {
                let came = service.arrivals();
                let other = service.reader(&reader.user, "g", name, json!({})).await;
                fetches.push(other.fetch("?timeout=30000"));
                service.arrived(came + 2).await;
            }
            reader.user.fetch(INSTANCE, "", BINARY).await
        }
        "the fetch got no turn within its wait" => {
            let mut limits = Limits::default();
            limits.max_polls = 1;
            let service = Service::with(limits, |builder| builder).await;
            let reader = instance(&service, json!({})).await;
            let other = service.reader(&reader.user, "g", "j", json!({})).await;
            reader.assign(&["t"]).await;
            other.assign(&["t"]).await;
            let came = service.arrivals();
            let _polling = other.fetch("?timeout=30000");
            service.arrived(came + 1).await;
            let fetch = reader.fetch("?timeout=1");
            service.arrived(came + 2).await;
            service.clock.advance(Duration::from_millis(1));
            fetch.await.unwrap()
        }
        "the cluster throttled the request" => commit_answered(89).await,
        "the service fails inside" => {
            let tokens: Arc<dyn TokenCheck> = Arc::new(Fails);
            let service = Service::behind(Some(tokens), Limits::default(), |builder| builder).await;
            service.user(1).post(GROUP, "").await
        }
        "Kafka fails a request" => commit_answered(-1).await,
        "the service fails to authenticate to Kafka" => commit_answered(58).await,
        "there is no Kafka endpoint" => {
            let nowhere = |_| Server::builder(Arc::new(create::Anyone));
            let service = Service::with(Limits::default(), nowhere).await;
            service.user(1).post(GROUP, "").await
        }
        "there is no offset to start from" => {
            let service = Service::start().await;
            let reader = instance(&service, json!({"auto.offset.reset": "none"})).await;
            reader.assign(&["t"]).await;
            reader.reply(&service, "").await
        }
        "Kafka answers a retriable error" => {
            let (service, reader) = hurried().await;
            service
                .broker
                .faults()
                .on(ApiKey::OffsetCommit, always())
                .error(15);
            reader.commit_of("t", 0).await
        }
        "Kafka does not answer in time" => {
            let (service, reader) = hurried().await;
            service.broker.faults().on(ApiKey::OffsetCommit, always()).never();
            reader.commit_of("t", 0).await
        }
        "a create comes while the service shuts down" => {
            let (_service, user) = create::stopping().await;
            user.post(GROUP, "").await
        }
        "the cluster can't be reached" => {
            let closed = ClosedPort::new().unwrap();
            let mut limits = Limits::default();
            limits.open_wait = Duration::from_millis(100);
            let cluster = Cluster::new(Config::new(vec![closed.address()]));
            let service = Service::with(limits, |builder| builder.cluster(cluster)).await;
            service.user(1).post(GROUP, "").await
        }
        other => panic!("no way to bring about: {other}"),
    }
}

/// An instance `i` of the group `g`, and the empty topic `t`.
async fn alone() -> (Service, Reader) {
    let service = Service::start().await;
    let reader = instance(&service, json!({})).await;
    (service, reader)
}

/// One that has the topic assigned.
async fn assigned() -> (Service, Reader) {
    let (service, reader) = alone().await;
    reader.assign(&["t"]).await;
    (service, reader)
}

/// One whose service gives Kafka little time.
async fn hurried() -> (Service, Reader) {
    let mut limits = Limits::default();
    limits.call_wait = Duration::from_secs(2);
    let service = Service::with(limits, |builder| builder).await;
    let reader = instance(&service, json!({})).await;
    reader.assign(&["t"]).await;
    (service, reader)
}

async fn instance(service: &Service, settings: Value) -> Reader {
    let user = service.user(1);
    service.topic(&user, "t");
    service.reader(&user, "g", "i", settings).await
}

/// The reply to a create with this body.
async fn created(body: &str) -> Response {
    let (_service, reader) = alone().await;
    reader.user.post(GROUP, body).await
}

/// The reply to a fetch with this `Accept`, of an instance with these settings.
async fn fetched(settings: Value, accept: &str) -> Response {
    let service = Service::start().await;
    let reader = instance(&service, settings).await;
    reader.user.fetch(INSTANCE, "", accept).await
}

/// The reply to a commit that Kafka answers with this code.
async fn commit_answered(code: i16) -> Response {
    let (service, reader) = hurried().await;
    service
        .broker
        .faults()
        .on(ApiKey::OffsetCommit, always())
        .error(code);
    reader.commit_of("t", 0).await
}

/// A check that is broken.
struct Fails;

impl TokenCheck for Fails {
    fn check<'a>(&'a self, _: &'a Credentials) -> Checked<'a> {
        Box::pin(async { panic!("a check that is broken") })
    }
}
