//! *Instance lifecycle*: when an instance commits by itself, and what.

use std::time::Duration;

use octopus_core::Limits;
use octopus_kafka::broker::{ApiKey, always, first};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    client::Client,
    reader::{Reader, place},
    service::Service,
};

const MILLI: Duration = Duration::from_millis(1);
const INTERVAL: Duration = Duration::from_secs(5);

fn auto() -> Value {
    json!({"auto.commit.enable": true})
}

impl Service {
    /// A topic with many records, and an instance that commits by itself and is assigned it.
    async fn committing(&self, user: &Client) -> Reader {
        self.topic(user, "t");
        self.fill(user, "t", 100);
        let reader = self.reader(user, "g", "i", auto()).await;
        reader.assign(&["t"]).await;
        reader
    }

    fn commits(&self) -> usize {
        self.asked(ApiKey::OffsetCommit).len()
    }

    /// Where the first request of an API is among those that the broker had, counted from one of them on.
    fn place_of(&self, api: ApiKey, from: usize) -> usize {
        let requests = self.broker.requests();
        let place = requests[from..].iter().position(|received| received.api == api);
        place.unwrap_or_else(|| panic!("no {api:?}"))
    }
}

/// [AK-01] [D-38] in a fetch, 5 s after the last time or the create, what was held before its poll; and at no other
/// time.
#[tokio::test]
async fn a_fetch_commits_what_was_returned_before_it_every_five_seconds() {
    let service = Service::start().await;
    let user = service.user(1);
    let reader = service.committing(&user).await;
    let fetch_three = || reader.offsets(&service, "max_bytes=4");
    assert_eq!(fetch_three().await.len(), 3);
    service.clock.advance(INTERVAL - MILLI);
    assert_eq!(fetch_three().await.len(), 3);
    assert_eq!(service.commits(), 0);
    service.clock.advance(MILLI);
    assert_eq!(fetch_three().await.len(), 3);
    service
        .until(|| service.committed(&user, "g", "t") == Some(6))
        .await;

    // A client's commit does not count.
    service.clock.advance(INTERVAL - MILLI);
    reader.commit_of("t", 0).await.expect(200);
    assert_eq!(fetch_three().await.len(), 3);
    assert_eq!(
        (service.commits(), service.committed(&user, "g", "t")),
        (2, Some(1))
    );
    service.clock.advance(MILLI);
    assert_eq!(fetch_three().await.len(), 3);
    service
        .until(|| service.committed(&user, "g", "t") == Some(12))
        .await;
    assert_eq!(service.commits(), 3);

    // No time brings one without a fetch.
    for _ in 0..4 {
        service.clock.advance(INTERVAL);
        assert_eq!(reader.assigned().await, json!([{"topic": "t", "partition": 0}]));
    }
    assert_eq!(service.commits(), 3);
}

/// [AK-01] [D-38] [AK-05] one that failed counts as the last one, and fails nothing.
#[tokio::test]
async fn a_commit_that_failed_is_tried_again_five_seconds_later() {
    let service = Service::start().await;
    let user = service.user(1);
    let reader = service.committing(&user).await;
    reader.records(&service, "max_bytes=4").await;
    let faults = service.broker.faults();
    faults.on(ApiKey::OffsetCommit, first(1)).error(28);
    service.clock.advance(INTERVAL);
    assert_eq!(reader.records(&service, "max_bytes=4").await.len(), 3);
    service.was_asked(ApiKey::OffsetCommit, 1).await;
    service.clock.advance(INTERVAL - MILLI);
    assert_eq!(reader.records(&service, "max_bytes=4").await.len(), 3);
    assert_eq!((service.commits(), service.committed(&user, "g", "t")), (1, None));
    service.clock.advance(MILLI);
    reader.records(&service, "max_bytes=4").await;
    service
        .until(|| service.committed(&user, "g", "t") == Some(9))
        .await;
}

/// [AK-01] a long fetch commits when the time comes, with the poll that begins then.
#[tokio::test]
async fn a_long_fetch_commits_once_five_seconds_have_passed() {
    let service = Service::start().await;
    let user = service.user(1);
    let reader = service.committing(&user).await;
    reader.seek("t", 100).await.expect(204);
    let fetch = reader.fetch("?timeout=30000");
    service.was_asked(ApiKey::Fetch, 1).await;
    service.clock.advance(INTERVAL - MILLI);
    service.user(9).get("/").await.expect(404);
    assert_eq!(service.commits(), 0);
    // A turn of a slow machine may end before it asks anything; then it is the next one that commits.
    let is_committed = async {
        while service.committed(&user, "g", "t") != Some(100) {
            sleep(MILLI).await;
        }
    };
    service.soon(is_committed).await;
    service.clock.advance(Duration::from_millis(500));
    service.user(9).get("/").await.expect(404);
    assert_eq!(service.commits(), 1);
    assert!(!fetch.is_finished());
}

/// [AK-04] what was polled and not returned is not committed: what `max_bytes` left out, and what a delete finds.
#[tokio::test]
async fn what_a_reply_left_out_is_not_committed() {
    let service = Service::start().await;
    let user = service.user(1);
    let reader = service.committing(&user).await;
    assert_eq!(reader.records(&service, "max_bytes=42").await.len(), 41);
    reader.delete().await.expect(204);
    assert_eq!(service.committed(&user, "g", "t"), Some(41));
}

/// [AK-02] before an assign and an unsubscribe; what is sought and not read counts too, as a position.
#[tokio::test]
async fn an_assign_and_an_unsubscribe_commit_first() {
    let service = Service::start().await;
    let user = service.user(1);
    let reader = service.committing(&user).await;
    service.topic(&user, "u");
    service.fill(&user, "u", 5);
    assert_eq!(service.commits(), 0, "there was nothing to commit");
    reader.records(&service, "max_bytes=4").await;
    reader.assign(&["u"]).await;
    assert_eq!(
        (service.commits(), service.committed(&user, "g", "t")),
        (1, Some(3))
    );
    reader.seek("u", 2).await.expect(204);
    let subscription = format!("{}/subscription", reader.path);
    user.delete(&subscription).await.expect(204);
    assert_eq!(
        (service.commits(), service.committed(&user, "g", "u")),
        (2, Some(2))
    );
    user.delete(&subscription).await.expect(204);
    assert_eq!(service.commits(), 2);
}

/// [AK-02] [D-46] while subscribed: before the leave, as the member that it is.
#[tokio::test]
async fn a_member_commits_before_it_leaves() {
    let service = Service::start().await;
    let user = service.user(1);
    service.topic(&user, "t");
    service.fill(&user, "t", 9);
    for end in ["unsubscribe", "delete"] {
        let reader = service.reader(&user, end, "i", auto()).await;
        reader.subscribe(&["t"]).await;
        reader.records(&service, "max_bytes=4").await;
        let from = service.broker.requests().len();
        if end == "delete" {
            reader.delete().await.expect(204);
        } else {
            let subscription = format!("{}/subscription", reader.path);
            user.delete(&subscription).await.expect(204);
        }
        assert_eq!(service.committed(&user, end, "t"), Some(3), "{end}");
        let (commit, leave) = (
            service.place_of(ApiKey::OffsetCommit, from),
            service.place_of(ApiKey::LeaveGroup, from),
        );
        assert!(commit < leave, "{end}");
    }
}

/// [AK-02] [SU-04] before the group rebalances in a fetch: the member that takes over starts behind what was returned.
#[tokio::test]
async fn a_member_commits_before_it_joins_again() {
    let service = Service::start().await;
    let user = service.user(1);
    for topic in ["t", "u"] {
        service.topic(&user, topic);
        service.fill(&user, topic, 4);
    }
    let one = service.reader(&user, "g", "one", auto()).await;
    one.subscribe(&["t", "u"]).await;
    let mut read = Vec::new();
    while read.len() < 8 {
        read.extend(one.offsets(&service, "").await);
    }
    assert_eq!(service.commits(), 0);
    let from = service.broker.requests().len();
    let two = service.reader(&user, "g", "two", auto()).await;
    two.subscribe(&["t", "u"]).await;
    let second = two.fetch("?timeout=30000");
    let first = one.fetch("?timeout=30000");
    let both = async {
        loop {
            let committed = ["t", "u"].map(|topic| service.committed(&user, "g", topic));
            if committed == [Some(4), Some(4)] {
                break;
            }
            sleep(MILLI).await;
        }
    };
    service.soon(both).await;
    let requests = service.broker.requests();
    let of_one = |api| {
        requests[from..]
            .iter()
            .position(|received| received.api == api && received.client_id.ends_with("-one"))
    };
    let commit = of_one(ApiKey::OffsetCommit).expect("a commit");
    assert!(of_one(ApiKey::JoinGroup).is_none_or(|join| commit < join));

    // One topic each, and each record once.
    service.fill(&user, "t", 1);
    service.fill(&user, "u", 1);
    let mut rest = Vec::new();
    for fetch in [first, second] {
        let reply = service.soon(fetch).await.unwrap().expect(200).json();
        rest.extend(reply.as_array().unwrap().iter().map(place));
    }
    rest.sort();
    assert_eq!(rest, [("t".to_owned(), 4), ("u".to_owned(), 4)]);
}

/// [AK-03] [LC-01] at the close for being idle.
#[tokio::test]
async fn an_idle_close_commits_first() {
    let service = Service::start().await;
    let user = service.user(1);
    let reader = service.committing(&user).await;
    reader.records(&service, "max_bytes=4").await;
    for _ in 0..10 {
        assert_eq!(service.commits(), 0);
        service.clock.advance(Duration::from_secs(30));
        service.user(9).get("/").await.expect(404);
    }
    service
        .until(|| service.committed(&user, "g", "t") == Some(3))
        .await;
    assert_eq!(reader.delete().await.error(), (404, 40403));
}

/// [AK-03] [AK-04] at shutdown, of all instances; what a fetch that is ended then had polled is not in it.
#[tokio::test]
async fn a_shutdown_commits_what_was_returned() {
    let mut service = Service::start().await;
    let user = service.user(1);
    let reader = service.committing(&user).await;
    reader.records(&service, "max_bytes=4").await;
    let other = service.reader(&user, "h", "i", auto()).await;
    other.assign(&["t"]).await;
    other.seek("t", 100).await.expect(204);
    let polls = service.asked(ApiKey::Fetch).len();
    let fetch = other.fetch("?timeout=30000");
    service.was_asked(ApiKey::Fetch, polls + 1).await;
    let idle = service.reader(&user, "k", "i", json!({})).await;
    idle.assign(&["t"]).await;
    idle.records(&service, "max_bytes=4").await;
    service.stop();
    assert_eq!(fetch.await.unwrap().expect(200).text(), "[]", "it ends at once");
    service.ended().await;
    assert_eq!(service.committed(&user, "g", "t"), Some(3));
    assert_eq!(service.committed(&user, "h", "t"), Some(100));
    assert_eq!(
        service.committed(&user, "k", "t"),
        None,
        "it does not commit by itself"
    );
}

/// [AK-05] [AK-03] a commit that fails or gets no answer in its time is given up, and the instance closes.
#[tokio::test]
async fn an_instance_closes_whatever_becomes_of_its_commit() {
    let mut limits = Limits::default();
    limits.close_wait = Duration::from_millis(300);
    let service = Service::with(limits, |builder| builder).await;
    let user = service.user(1);
    service.topic(&user, "t");
    service.fill(&user, "t", 9);
    for fault in ["refused", "silent"] {
        let reader = service.reader(&user, "g", "i", auto()).await;
        reader.assign(&["t"]).await;
        reader.records(&service, "max_bytes=4").await;
        let commit = service.broker.faults().on(ApiKey::OffsetCommit, always());
        if fault == "silent" {
            commit.never();
        } else {
            commit.error(28);
        }
        reader.delete().await.expect(204);
        assert_eq!(reader.delete().await.error(), (404, 40403), "{fault}");
        assert_eq!(service.committed(&user, "g", "t"), None, "{fault}");
        service.broker.faults().clear();
    }
}

/// [A26] [AK-06] at each of these times, an instance without auto-commit commits nothing.
#[tokio::test]
async fn without_auto_commit_only_the_client_commits() {
    let mut service = Service::start().await;
    let user = service.user(1);
    for topic in ["t", "u"] {
        service.topic(&user, topic);
        service.fill(&user, topic, 9);
    }
    let off = json!({"auto.commit.enable": false});
    let reader = service.reader(&user, "g", "i", off.clone()).await;
    reader.assign(&["t"]).await;
    reader.records(&service, "max_bytes=4").await;
    service.clock.advance(INTERVAL);
    reader.records(&service, "max_bytes=4").await;
    reader.assign(&["u"]).await;
    reader.records(&service, "max_bytes=4").await;
    user.delete(&format!("{}/subscription", reader.path))
        .await
        .expect(204);
    reader.subscribe(&["t"]).await;
    reader.records(&service, "max_bytes=4").await;
    reader.subscribe(&["u"]).await;
    reader.records(&service, "max_bytes=4").await;
    user.delete(&format!("{}/subscription", reader.path))
        .await
        .expect(204);
    reader.assign(&["t"]).await;
    reader.records(&service, "max_bytes=4").await;
    reader.delete().await.expect(204);
    let idle = service.reader(&user, "g", "idle", off.clone()).await;
    idle.assign(&["t"]).await;
    idle.records(&service, "max_bytes=4").await;
    for _ in 0..11 {
        service.clock.advance(Duration::from_secs(30));
        service.user(9).get("/").await.expect(404);
    }
    assert_eq!(idle.delete().await.error(), (404, 40403));
    let last = service.reader(&user, "g", "last", off).await;
    last.assign(&["t"]).await;
    last.records(&service, "max_bytes=4").await;
    service.stop();
    service.ended().await;
    assert_eq!(service.commits(), 0);
    assert_eq!(service.committed(&user, "g", "t"), None);
}
