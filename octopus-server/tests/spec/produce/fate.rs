//! What becomes of records where Kafka is slow, silent or gone, or the service has too much in hand.

use super::*;

/// Little time for Kafka to take a record.
fn hurried() -> Limits {
    let mut limits = Limits::default();
    limits.produce_wait = Duration::from_secs(2);
    limits
}

/// The SDK sends a record again after 429 and 503, and only then: they come only where it was surely not written.
#[tokio::test]
async fn what_kafka_says_decides_whether_to_send_a_record_again() {
    for (what, code, status, error, words) in [
        ("too few replicas", 19, 503, 50302, "was not written; retry"),
        ("throttled", 89, 429, 42901, "throttled"),
        (
            "replicas lost behind the append",
            20,
            500,
            50002,
            "may have been written",
        ),
        ("not authorized", 29, 403, 40301, "not authorized"),
        (
            "a record that is refused",
            87,
            400,
            40002,
            "Kafka refused the record",
        ),
        ("failed", -1, 500, 50002, "may have been written"),
    ] {
        let service = Service::with(hurried(), |builder| builder).await;
        let user = service.user(1);
        service.topic(&user, "t");
        service.broker.faults().on(ApiKey::Produce, always()).error(code);
        let alone = produce(&user, "t", &text("a").to_string()).await;
        is_error(what, &alone, status, error, words);
        assert_eq!(
            alone.header("retry-after"),
            (status == 429).then_some("1"),
            "{what}"
        );
        let batch = produce_batch(&user, "t", &[entry("1", "a"), entry("2", "b")]).await;
        if matches!(status, 429 | 503) {
            // Nothing of it was written, so that all of it can be sent again.
            is_error(what, &batch, status, error, words);
        } else {
            assert_eq!(batch.status, 207, "{what}");
            for failure in batch.json()["failures"].as_array().unwrap() {
                assert_eq!(failure["error_code"], json!(error), "{what}");
            }
        }
        service.broker.faults().clear();
        produce(&user, "t", &text("b").to_string()).await.expect(200);
    }
}

/// A record whose answer is lost is sent again until Kafka says that it has it: once in the topic, and 200.
#[tokio::test]
async fn an_answer_that_is_lost_is_asked_for_again() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    service.broker.faults().on(ApiKey::Produce, first(1)).cut_after(0);
    let told = produce(&user, "t", &text("a").to_string())
        .await
        .expect(200)
        .json();
    assert_eq!(told["offset"], json!(0));
    assert_eq!(service.asked(ApiKey::Produce).len(), 2);
    assert_eq!(service.broker.end_offset(&on_kafka(&user, "t")), Some(1));
}

/// One whose answer never comes may be there: 500, which nobody sends again by itself.
#[tokio::test]
async fn a_record_of_unknown_fate_is_no_503() {
    let service = Service::with(hurried(), |builder| builder).await;
    let user = service.user(1);
    service.topic(&user, "t");
    service.broker.faults().on(ApiKey::Produce, always()).cut_after(0);
    let reply = produce(&user, "t", &text("a").to_string()).await;
    is_error(
        "unknown",
        &reply,
        500,
        50002,
        "read the topic before sending it again",
    );
}

/// [ER-07] nobody is there to take it.
#[tokio::test]
async fn without_a_cluster_nothing_is_sent() {
    let service = Service::with(hurried(), |_| {
        let mut limits = hurried();
        limits.call_wait = Duration::from_millis(500);
        let closed = octopus_kafka::testing::ClosedPort::new().unwrap();
        let cluster = octopus_kafka::Cluster::new(octopus_kafka::Config::new(vec![closed.address()]));
        Server::builder(std::sync::Arc::new(Open))
            .cluster(cluster)
            .limits(limits)
    })
    .await;
    let reply = produce(&service.user(1), "t", &text("a").to_string()).await;
    is_error(
        "unreachable",
        &reply,
        503,
        50302,
        "can't reach the Kafka cluster; retry",
    );
    let service = Service::with(Limits::default(), |_| Server::builder(std::sync::Arc::new(Open))).await;
    let reply = produce(&service.user(1), "t", &text("a").to_string()).await;
    is_error("none", &reply, 500, 50002, "no Kafka endpoint");
}

/// Lets everyone in.
struct Open;

impl octopus_auth::TokenCheck for Open {
    fn check<'a>(&'a self, credentials: &'a octopus_auth::Credentials) -> octopus_auth::Checked<'a> {
        Box::pin(async { Ok(octopus_auth::Caller::of(credentials.subject()?)) })
    }
}

/// Who has too much on its way is told to come again, before anything is sent, and others are not.
#[tokio::test]
async fn what_would_be_too_much_is_refused_before_it_is_sent() {
    let mut limits = Limits::default();
    limits.produce_bytes = 3000;
    limits.produce_bytes_per_user = 2000;
    let service = Service::with(limits, |builder| builder).await;
    let (ann, ben) = (service.user(1), service.user(2));
    service.topic(&ann, "t");
    service.topic(&ben, "t");
    service
        .broker
        .faults()
        .on(ApiKey::Produce, first(1))
        .delay(Duration::from_secs(600));
    let body = text(&"x".repeat(1500)).to_string();
    let held = producing(&ann, "t", body.clone());
    service.was_asked(ApiKey::Produce, 1).await;
    let full = produce(&ann, "t", &body).await;
    is_error("her own", &full, 429, 42901, "nothing of this request was; retry");
    assert_eq!(full.header("retry-after"), Some("1"));
    let chunked = Raw::of(&ann, "POST", &records(&ann, "t")).body(&body);
    is_error(
        "in chunks",
        &chunked.send_chunked(100, true).await,
        429,
        42901,
        "retry",
    );
    is_error(
        "everyone's",
        &produce(&ben, "t", &body).await,
        429,
        42901,
        "retry",
    );
    let small = text("x").to_string();
    produce(&ben, "t", &small).await.expect(200);
    held.abort();
    let _ = held.await;
    // Her connection's end gives back what she held.
    let goes = async { while produce(&ben, "t", &body).await.status == 429 {} };
    service.soon(goes).await;
}

/// At the shutdown what is on its way is written and answered, and nothing more is taken.
#[tokio::test]
async fn records_on_their_way_outlive_the_shutdown() {
    let mut service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    let sent = producing(&user, "t", text("warm").to_string()).await;
    sent.unwrap().expect(200);
    service
        .broker
        .faults()
        .on(ApiKey::Produce, first(1))
        .delay(Duration::from_millis(700));
    let held = producing(&user, "t", text("a").to_string());
    service.was_asked(ApiKey::Produce, 2).await;
    let mut late = user.connect().await;
    late.send(&user.head("GET", "/", &[], "")).await;
    late.receive().await.expect(404);
    service.stop();
    tokio::task::yield_now().await;
    late.send(&user.head("POST", &records(&user, "t"), &[], &text("late").to_string()))
        .await;
    is_error("late", &late.receive().await, 503, 503, "shutting down; retry");
    held.await.unwrap().expect(200);
    service.ended().await;
    assert_eq!(service.broker.end_offset(&on_kafka(&user, "t")), Some(2));
}

/// Free of any order among requests: many at once, each once in the topic.
#[tokio::test]
async fn many_requests_at_once_write_each_record_once() {
    let mut limits = Limits::default();
    limits.max_requests_per_user = 200;
    let service = Service::with(limits, |builder| builder).await;
    let user = service.user(1);
    service.topic(&user, "t");
    let all: Vec<_> = (0..200)
        .map(|n| producing(&user, "t", text(&n.to_string()).to_string()))
        .collect();
    let mut offsets = Vec::new();
    for one in all {
        offsets.push(one.await.unwrap().expect(200).json()["offset"].as_i64().unwrap());
    }
    offsets.sort_unstable();
    assert_eq!(offsets, Vec::from_iter(0..200));
}
