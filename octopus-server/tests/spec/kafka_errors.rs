//! *Errors*: what a caller hears of what Kafka says, on each route that asks it.

use std::time::Duration;

use octopus_core::{Error, Limits};
use octopus_kafka::{
    Cluster, Config,
    broker::{ApiKey, Broker, always, first},
};
use serde_json::{Value, json};

use crate::{
    client::Response,
    reader::{Reader, partitions},
    service::{Service, on_kafka},
};

/// A reply's status and error code, and whose words its whole message is: there is nothing of Kafka's in it [RT-04].
type Row = (u16, u64, Error);

const INVALID: Row = (400, 40002, Error::KafkaInvalid);
const UNAUTHORIZED: Row = (403, 40301, Error::KafkaUnauthorized);
const GONE: Row = (404, 40401, Error::KafkaTopicUnknown);
const THROTTLED: Row = (429, 42901, Error::Throttled);
const FAILED: Row = (500, 50002, Error::KafkaFailed);
const RETRIABLE: Row = (500, 50003, Error::KafkaRetriable);
const UNREACHABLE: Row = (503, 50302, Error::KafkaUnreachable);

#[derive(Debug, Clone, Copy)]
enum Ask {
    Assign,
    Subscribe,
    Committed,
    Commit,
    SeekToEnd,
    Fetch,
    /// The first fetch of a subscribed instance.
    Join,
}

impl Ask {
    /// Asks it of an instance that is made for it.
    async fn of(self, service: &Service, fault: impl FnOnce(&Service)) -> Response {
        let user = service.user(1);
        for topic in ["t", "u"] {
            service.topic(&user, topic);
            service.fill(&user, topic, 3);
        }
        let reader = service.reader(&user, "g", "i", json!({})).await;
        match self {
            Self::Join => reader.subscribe(&["t"]).await,
            Self::Subscribe => {}
            Self::Assign | Self::Committed | Self::Commit | Self::SeekToEnd | Self::Fetch => {
                reader.assign(&["t"]).await;
                // A topic that was asked about is remembered for a while.
                reader.seek("t", 0).await.expect(204);
            }
        }
        fault(service);
        self.ask(service, &reader).await
    }

    async fn ask(self, service: &Service, reader: &Reader) -> Response {
        match self {
            Self::Assign => reader.post("assignments", partitions(&["u"])).await,
            Self::Subscribe => reader.post("subscription", json!({"topics": ["u"]})).await,
            Self::Committed => reader.committed(&partitions(&["t"]).to_string()).await,
            Self::Commit => reader.commit_of("t", 1).await,
            Self::SeekToEnd => reader.post("positions/end", partitions(&["t"])).await,
            Self::Fetch | Self::Join => {
                let fetch = reader.fetch("?timeout=900");
                service.soon(fetch).await.unwrap()
            }
        }
    }
}

/// Kafka has little time to come to itself.
fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.call_wait = Duration::from_millis(300);
    limits
}

/// What is wrong with a reply that should be of this row.
fn fault(reply: &Response, row: &Row, what: &str) -> Option<String> {
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let retry_after = (row.1 == 42901).then_some("1");
    let is_right = reply.status == row.0
        && body["error_code"] == row.1
        && body["message"] == row.2.to_string()
        && reply.header("retry-after") == retry_after;
    (!is_right).then(|| format!("{what}: {} {body}", reply.status))
}

#[track_caller]
fn is(reply: &Response, row: &Row, what: &str) {
    assert_eq!(fault(reply, row, what), None);
}

/// [ER-01] [ER-02] [ER-04] [ER-05] [ER-06] [RT-04] for each API that a route asks, each class of Kafka's errors.
#[tokio::test]
async fn each_error_of_kafka_has_its_row() {
    use ApiKey::{
        Fetch, FindCoordinator, JoinGroup, ListOffsets, Metadata, OffsetCommit, OffsetFetch, SyncGroup,
    };
    let rows: [(Ask, ApiKey, i16, Row); 38] = [
        (Ask::Assign, Metadata, 17, INVALID),
        (Ask::Assign, Metadata, 35, INVALID),
        (Ask::Assign, Metadata, 29, UNAUTHORIZED),
        (Ask::Assign, Metadata, -1, FAILED),
        (Ask::Subscribe, Metadata, 7, RETRIABLE),
        (Ask::Subscribe, Metadata, 29, UNAUTHORIZED),
        (Ask::Committed, FindCoordinator, 30, UNAUTHORIZED),
        (Ask::Committed, FindCoordinator, 15, RETRIABLE),
        (Ask::Committed, FindCoordinator, -1, FAILED),
        (Ask::Committed, OffsetFetch, 30, UNAUTHORIZED),
        (Ask::Committed, OffsetFetch, 29, UNAUTHORIZED),
        (Ask::Committed, OffsetFetch, 14, RETRIABLE),
        (Ask::Committed, OffsetFetch, 16, RETRIABLE),
        (Ask::Committed, OffsetFetch, 24, FAILED),
        (Ask::Committed, OffsetFetch, 35, INVALID),
        (Ask::Committed, OffsetFetch, 89, THROTTLED),
        (Ask::Commit, FindCoordinator, 30, UNAUTHORIZED),
        (Ask::Commit, FindCoordinator, 15, RETRIABLE),
        (Ask::Commit, OffsetCommit, 30, UNAUTHORIZED),
        (Ask::Commit, OffsetCommit, 12, INVALID),
        (Ask::Commit, OffsetCommit, 42, INVALID),
        (Ask::Commit, OffsetCommit, 7, RETRIABLE),
        (Ask::Commit, OffsetCommit, 89, THROTTLED),
        (Ask::Commit, OffsetCommit, 58, FAILED),
        (Ask::Commit, OffsetCommit, 9999, FAILED),
        (Ask::SeekToEnd, ListOffsets, 29, UNAUTHORIZED),
        (Ask::SeekToEnd, ListOffsets, 6, RETRIABLE),
        (Ask::SeekToEnd, ListOffsets, 43, FAILED),
        (Ask::SeekToEnd, ListOffsets, 42, INVALID),
        (Ask::Fetch, Fetch, 29, UNAUTHORIZED),
        (Ask::Fetch, Fetch, -1, FAILED),
        (Ask::Fetch, Fetch, 42, INVALID),
        (Ask::Join, FindCoordinator, 30, UNAUTHORIZED),
        (Ask::Join, JoinGroup, 30, UNAUTHORIZED),
        (Ask::Join, JoinGroup, 23, FAILED),
        (Ask::Join, JoinGroup, 26, FAILED),
        (Ask::Join, SyncGroup, 30, UNAUTHORIZED),
        (Ask::Join, OffsetFetch, 30, UNAUTHORIZED),
    ];
    let mut faults = Vec::new();
    for (ask, api, code, row) in rows {
        let service = Service::with(limits(), |builder| builder).await;
        let strike = |service: &Service| service.broker.faults().on(api, always()).error(code);
        let reply = ask.of(&service, strike).await;
        faults.extend(fault(&reply, &row, &format!("{ask:?} {api:?} {code}")));
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// [FE-09] [ER-06] what may be gone with the next turn ends no fetch.
#[tokio::test]
async fn a_fetch_goes_on_behind_a_retriable_error() {
    for (ask, api, code) in [
        (Ask::Fetch, ApiKey::Fetch, 6),
        (Ask::Fetch, ApiKey::Fetch, 56),
        (Ask::Join, ApiKey::JoinGroup, 15),
        (Ask::Join, ApiKey::SyncGroup, 16),
        (Ask::Join, ApiKey::OffsetFetch, 14),
    ] {
        let service = Service::with(limits(), |builder| builder).await;
        let user = service.user(1);
        let is_struck = |service: &Service| service.broker.faults().on(api, first(1)).error(code);
        let reply = ask.of(&service, is_struck).await.expect(200);
        let records = reply.json().as_array().unwrap().len();
        if records == 0 {
            let reader = Reader {
                user,
                path: "/api/v2/consumers/g/instances/i".to_owned(),
                accept: crate::client::BINARY,
            };
            assert_eq!(
                reader.records(&service, "").await.len(),
                3,
                "{ask:?} {api:?} {code}"
            );
        }
    }
}

/// [ER-05] [ER-06] a Kafka that answers with rubbish has failed; one that is silent or hangs up did not answer.
#[tokio::test]
async fn a_kafka_that_does_not_keep_to_its_protocol_is_told_apart_from_a_silent_one() {
    for (ask, api) in [
        (Ask::Commit, ApiKey::OffsetCommit),
        (Ask::Committed, ApiKey::OffsetFetch),
        (Ask::SeekToEnd, ApiKey::ListOffsets),
    ] {
        for (fault, row) in [("silent", RETRIABLE), ("closed", RETRIABLE), ("cut", RETRIABLE)] {
            let service = Service::with(limits(), |builder| builder).await;
            let strike = |service: &Service| {
                let struck = service.broker.faults().on(api, always());
                match fault {
                    "silent" => struck.never(),
                    "closed" => struck.close(),
                    _ => struck.cut_after(6),
                }
            };
            let reply = ask.of(&service, strike).await;
            is(&reply, &row, &format!("{ask:?} {api:?} {fault}"));
        }
        let service = Service::with(limits(), |builder| builder).await;
        let strike = |service: &Service| {
            let garbage = [0, 0, 0, 6, 255, 255, 255, 255, 1, 2];
            service
                .broker
                .faults()
                .on(api, always())
                .garbage(garbage.to_vec());
        };
        let reply = ask.of(&service, strike).await;
        assert_eq!(reply.status, 500, "{ask:?} {api:?}: {}", reply.text());
    }
}

/// [ER-03] a topic that is gone from the cluster.
#[tokio::test]
async fn a_topic_that_is_gone_is_40401() {
    let service = Service::with(limits(), |builder| builder).await;
    let gone = |service: &Service| {
        let user = service.user(1);
        assert!(service.broker.delete_topic(&on_kafka(&user, "t")));
    };
    let reply = Ask::Commit.of(&service, gone).await;
    is(&reply, &GONE, "a commit");
}

/// [ER-07] a cluster that can't be reached any more.
#[tokio::test]
async fn a_cluster_that_is_gone_is_50302() {
    let kafka = Broker::start(octopus_kafka::broker::Config::default())
        .await
        .unwrap();
    let cluster = Cluster::new(Config::new(vec![kafka.addr().to_string()]));
    let service = Service::with(limits(), |builder| builder.cluster(cluster)).await;
    let user = service.user(1);
    for topic in ["t", "u"] {
        assert!(kafka.create_topic(&on_kafka(&user, topic)));
    }
    let reader = service.reader(&user, "g", "i", json!({})).await;
    reader.assign(&["t"]).await;
    reader.commit_of("t", 0).await.expect(200);
    kafka.shutdown().await;
    for ask in [
        Ask::Commit,
        Ask::Committed,
        Ask::SeekToEnd,
        Ask::Assign,
        Ask::Fetch,
    ] {
        let reply = ask.ask(&service, &reader).await;
        is(&reply, &UNREACHABLE, &format!("{ask:?}"));
    }
    let reply = user.post("/api/v2/consumers/g", r#"{"name": "new"}"#).await;
    is(&reply, &UNREACHABLE, "a create");
}
