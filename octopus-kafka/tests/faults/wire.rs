//! What comes over a connection, and how late.

use std::time::Duration;

use bytes::Bytes;
use octopus_core::{AutoOffsetReset, Bound, Effect, Error, Outcome};
use octopus_kafka::broker::{ApiKey, Broker, Request, Response, always, first, nth};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::{
    nodes::Nodes,
    read::read_on,
    support::{PATIENCE, TURN, World, eventually, join},
};

/// [KF-04] [ER-06] a fetch that is never answered costs its turns nothing but their time and nobody else anything; its
/// connection is given up, and the records come by another.
#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_that_is_never_answered_is_sent_again_on_another_connection() {
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    one.start(&["a"]).await.unwrap();
    world.broker().faults().on(ApiKey::Fetch, nth(1)).never();
    let start = Instant::now();
    let turn = one.turn(TURN).await.unwrap();
    assert_eq!((turn.values, turn.failed), (Vec::new(), Vec::new()));
    assert!(start.elapsed() < Duration::from_secs(5));
    let mut other = world.session("other", AutoOffsetReset::Earliest);
    other.assign(&["a"]);
    assert_eq!(other.read(1).await, ["a0"]);
    one.commit("a", 0, "").await.unwrap();
    assert_eq!(one.read(1).await, ["a0"]);
    let fetches = world.received(ApiKey::Fetch);
    let ours: Vec<_> = fetches
        .iter()
        .filter(|fetch| fetch.client_id.ends_with("one"))
        .collect();
    assert_ne!(ours[0].connection, ours[1].connection);
}

/// [KF-05] [RP-04] an answer that ends early is none, wherever it ends: nothing of it is given out, and the records come
/// once.
#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_that_is_cut_off_anywhere_is_sent_again() {
    let world = World::embedded().await;
    world.topic("a", &["a0", "a1"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    let whole = 250;
    for cut in (0..10).chain((10..whole).step_by(9)) {
        one.seek("a", 0);
        world.broker().faults().clear();
        world.broker().faults().on(ApiKey::Fetch, nth(1)).cut_after(cut);
        assert_eq!(one.read(2).await, ["a0", "a1"], "{cut}");
        assert_eq!(one.position("a"), Some(2));
    }
    // It was longer than each of these but the last ones.
    assert!(world.received(ApiKey::Fetch).len() > 2 * 25);
}

/// [KF-05] the same of every other request that a consumer sends.
#[tokio::test(flavor = "multi_thread")]
async fn any_answer_that_is_cut_off_is_asked_for_again() {
    for api in [
        ApiKey::ApiVersions,
        ApiKey::Metadata,
        ApiKey::FindCoordinator,
        ApiKey::JoinGroup,
        ApiKey::SyncGroup,
        ApiKey::OffsetFetch,
        ApiKey::ListOffsets,
        ApiKey::OffsetCommit,
        ApiKey::Heartbeat,
    ] {
        let world = World::embedded().await;
        world.topic("a", &["a0"]).await;
        for cut in [0, 3, 4, 7, 9, 20] {
            let mut one = world.session(&format!("one{cut}"), AutoOffsetReset::Earliest);
            world.broker().faults().on(api, nth(1)).cut_after(cut);
            assert_eq!(one.join(&["a"]).await, ["a"], "{api:?} {cut}");
            assert_eq!(one.read(1).await, ["a0"], "{api:?} {cut}");
            one.commit("a", 0, "").await.unwrap();
            assert!(!one.has_signal(), "{api:?} {cut}");
            one.leave().await;
        }
    }
}

/// [KF-08] [KF-09] [KF-10] [K19] whatever else a broker says in place of an answer, nothing of it is taken for one, and
/// the records come by another connection.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_answer_is_not_taken_for_one() {
    let world = World::embedded().await;
    world.topic("a", &["a0", "a1"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    one.start(&["a"]).await.unwrap();
    let others: [&'static [u8]; 9] = [
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        &[0x15, 3, 3, 0, 2, 2, 40],
        &[0xff, 0xff, 0xff, 0xff],
        &[0x80, 0, 0, 0],
        &[0, 0, 0, 0],
        &[0, 0, 0, 3, 0, 0, 0],
        &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 2],
        &[0, 0, 0, 4, 0x7f, 0xff, 0xff, 0xff],
        &[0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ];
    for bytes in others {
        one.seek("a", 0);
        world.broker().faults().on(ApiKey::Fetch, nth(1)).garbage(bytes);
        assert_eq!(one.read(2).await, ["a0", "a1"], "{bytes:?}");
    }
}

/// [KF-07] an answer that dribbles in has a fetch's time in all, not between its bytes.
#[tokio::test(flavor = "multi_thread")]
async fn the_answers_of_others_do_not_wait_for_one_that_is_late() {
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    one.start(&["a"]).await.unwrap();
    let late = world.broker().faults().on(ApiKey::Fetch, nth(1));
    late.delay(Duration::from_secs(2));
    let start = Instant::now();
    assert_eq!(one.turn(TURN).await.unwrap().values, [""; 0]);
    assert!(start.elapsed() < Duration::from_secs(2));
    assert_eq!(one.read(1).await, ["a0"], "and it is used when it comes");
    assert_eq!(world.received(ApiKey::Fetch).len(), 1);
}

/// [KF-37] [K21] while a consumer's fetches are throttled, its heartbeats and commits go on and its turns end in time.
#[tokio::test(flavor = "multi_thread")]
async fn a_throttled_fetch_leaves_heartbeats_and_commits_alone() {
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.join(&["a"]).await;
    one.start(&["a"]).await.unwrap();
    let throttle = world.broker().faults().on(ApiKey::Fetch, nth(1));
    throttle.throttle(Duration::from_secs(3600));
    assert_eq!(one.read(1).await, ["a0"]);
    let beats = world.received(ApiKey::Heartbeat).len();
    let start = Instant::now();
    assert_eq!(one.turn(TURN).await.unwrap().values, [""; 0]);
    assert!(start.elapsed() < Duration::from_secs(4));
    eventually("heartbeats", || {
        world.received(ApiKey::Heartbeat).len() > beats + 3
    })
    .await;
    one.commit("a", 1, "").await.unwrap();
    assert!(!one.has_signal());
    assert_eq!(world.received(ApiKey::Fetch).len(), 1);
}

/// [KF-38] [K21] [ER-04] a commit that is throttled without an error is no error; the next one waits for the throttle's
/// end on the same connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_throttled_commit_succeeds_and_the_next_one_waits() {
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    let one = world.session("one", AutoOffsetReset::Earliest);
    one.commit("a", 0, "").await.unwrap();
    let throttle = Duration::from_secs(4);
    world
        .broker()
        .faults()
        .on(ApiKey::OffsetCommit, nth(1))
        .throttle(throttle);
    let start = Instant::now();
    one.commit("a", 1, "").await.unwrap();
    assert!(start.elapsed() < throttle, "the broker has answered");
    let commit = octopus_core::Commit {
        partition: super::support::at("a"),
        position: octopus_core::Position::at(1),
        metadata: "".into(),
    };
    let short = one
        .consumer
        .run(Effect::Commit(vec![commit]), Duration::from_millis(300))
        .await;
    assert_eq!(short, Err(Error::KafkaRetriable));
    assert_eq!(world.received(ApiKey::OffsetCommit).len(), 2, "it was not sent");
    one.commit("a", 1, "").await.unwrap();
    assert!(start.elapsed() >= throttle);
    let commits = world.received(ApiKey::OffsetCommit);
    assert_eq!(commits.len(), 3);
    assert!(
        commits
            .iter()
            .all(|commit| commit.connection == commits[0].connection)
    );
}

/// The versions of the requests of an API, in their order.
fn versions(broker: &Broker, api: ApiKey) -> Vec<i16> {
    let requests = broker.requests().into_iter();
    requests
        .filter(|received| received.api == api)
        .map(|received| received.version)
        .collect()
}

/// [KF-42] [ER-01] a version that the broker told of and then refuses is followed by the one below, once.
#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_is_taken_back_is_followed_by_the_one_below() {
    for api in [
        ApiKey::Metadata,
        ApiKey::FindCoordinator,
        ApiKey::JoinGroup,
        ApiKey::SyncGroup,
        ApiKey::OffsetFetch,
        ApiKey::ListOffsets,
        ApiKey::Fetch,
        ApiKey::OffsetCommit,
    ] {
        let world = World::embedded().await;
        assert!(world.broker().create_topic(&world.name("a")));
        world
            .broker()
            .append(&world.name("a"), super::support::batch(&["a0"]));
        world.broker().faults().on(api, nth(1)).error(35);
        let mut one = world.session("one", AutoOffsetReset::Earliest);
        assert_eq!(one.join(&["a"]).await, ["a"], "{api:?}");
        assert_eq!(one.read(1).await, ["a0"], "{api:?}");
        one.commit("a", 1, "").await.unwrap();
        let asked = world.received(api);
        assert!(asked.len() >= 2, "{api:?}");
        // Another connection is not told of it.
        let is_same = asked[1].connection == asked[0].connection;
        assert_eq!(asked[1].version, asked[0].version - i16::from(is_same), "{api:?}");
    }
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    world
        .broker()
        .faults()
        .on(ApiKey::OffsetCommit, always())
        .error(35);
    let one = world.session("one", AutoOffsetReset::Earliest);
    assert_eq!(one.commit("a", 1, "").await, Err(Error::KafkaInvalid));
    assert_eq!(versions(world.broker(), ApiKey::OffsetCommit), [9, 8]);
}

/// [KF-43] [K24] each broker of a cluster that is being upgraded is spoken to in its own versions.
#[tokio::test(flavor = "multi_thread")]
async fn brokers_of_one_cluster_may_speak_different_versions() {
    let nodes = Nodes::start().await;
    nodes.topic("old", &[]);
    nodes.world.produce("old", &["o0"]).await;
    nodes.topic("new", &["n0"]);
    nodes.lead("new", 2, 0);
    // As brokers of 2.1 do, and as those of 4.0 do no more.
    nodes.world.broker().set_versions(ApiKey::Fetch, 0..=10);
    nodes.world.broker().set_versions(ApiKey::ListOffsets, 0..=4);
    nodes.second.set_versions(ApiKey::Fetch, 4..=12);
    nodes.second.set_versions(ApiKey::ListOffsets, 5..=8);
    let world = World {
        cluster: octopus_kafka::Cluster::new(octopus_kafka::Config::new(vec![
            nodes.world.broker().addr().to_string(),
        ])),
        ..nodes.world
    };
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["old", "new"]);
    let mut values = one.read(2).await;
    values.sort();
    assert_eq!(values, ["n0", "o0"]);
    for (broker, fetch, list) in [(world.broker(), 10, 4), (&nodes.second, 12, 8)] {
        assert!(
            versions(broker, ApiKey::Fetch)
                .iter()
                .all(|version| *version == fetch)
        );
        assert!(
            versions(broker, ApiKey::ListOffsets)
                .iter()
                .all(|version| *version == list)
        );
    }
}

/// [KF-48] an answer that gives a topic the id of none says nothing of it: it is looked up again, and read.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_with_an_id_of_zeros_has_the_topic_looked_up() {
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    one.start(&["a"]).await.unwrap();
    let looked_up = world.received(ApiKey::Metadata).len();
    world
        .broker()
        .faults()
        .on(ApiKey::Fetch, nth(1))
        .edit(|response| {
            if let Response::Fetch(response) = response {
                for topic in &mut response.responses {
                    topic.topic_id = Uuid::nil();
                }
            }
        });
    let turn = one.turn(Duration::from_secs(20)).await.unwrap();
    assert_eq!(turn.values, ["a0"]);
    assert!(world.received(ApiKey::Metadata).len() > looked_up);
}

/// [KF-36] a start that is no offset is refused, for a bound, and for a fetch that would read from it.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_is_no_offset_is_refused() {
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    for offset in [-1, -2, i64::MIN] {
        let mut one = world.session("one", AutoOffsetReset::Earliest);
        one.assign(&["a"]);
        world
            .broker()
            .faults()
            .on(ApiKey::ListOffsets, first(2))
            .edit(move |response| {
                if let Response::ListOffsets(response) = response {
                    response.topics[0].partitions[0].offset = offset;
                }
            });
        assert_eq!(one.bounds(&["a"], Bound::End).await, Err(Error::KafkaFailed));
        let mut failed = Vec::new();
        let found = timeout(PATIENCE, async {
            while failed.is_empty() {
                failed = one.turn(TURN).await.unwrap().failed;
            }
        });
        found.await.unwrap();
        assert_eq!(failed[0].1, Error::KafkaFailed);
        assert_eq!(one.position("a"), None, "nothing was read from there");
        assert_eq!(read_on(&mut one, 1).await, ["a0"]);
    }
    assert!(
        world
            .received(ApiKey::Fetch)
            .iter()
            .all(|fetch| match &fetch.request {
                Request::Fetch(fetch) => fetch.topics[0].partitions[0].fetch_offset >= 0,
                request => panic!("{request:?}"),
            })
    );
}

/// [KF-27] [ER-06] a join that waits does not keep this consumer's other requests, nor another's.
#[tokio::test(flavor = "multi_thread")]
async fn a_join_that_is_never_answered_holds_nobody_up() {
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    let stuck = world.session_of("stuck", "one", AutoOffsetReset::Earliest);
    world
        .broker()
        .faults()
        .on(ApiKey::JoinGroup, always())
        .client("octopus-stuck-one")
        .never();
    let start = Instant::now();
    let outcome = stuck.consumer.run(Effect::Join(join(&["a"])), TURN).await;
    assert_eq!(outcome, Ok(Outcome::Joining));
    assert_eq!(
        stuck.bounds(&["a"], Bound::End).await,
        Ok(vec![("a".to_owned(), 1)])
    );
    let mut other = world.session("other", AutoOffsetReset::Earliest);
    assert_eq!(other.join(&["a"]).await, ["a"]);
    assert_eq!(other.read(1).await, ["a0"]);
    other.commit("a", 1, "").await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
}

/// [KF-19] [K24] records of a partition that was not asked for, of one that comes twice and of offsets below the position
/// are not given out.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_asked_for_is_not_given_out() {
    let world = World::embedded().await;
    world.topic("a", &["a0", "a1", "a2"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    one.read(3).await;
    one.seek("a", 2);
    let whole = super::support::batch(&["a0", "a1", "a2"]);
    world
        .broker()
        .faults()
        .on(ApiKey::Fetch, always())
        .edit(move |response| {
            let Response::Fetch(response) = response else {
                return;
            };
            // The answer about `a`, whichever comes first, and whether the other one is asked for at all.
            let mut topics = response.responses.iter();
            let Some(at) = topics.position(|topic| topic.partitions[0].high_watermark == 3) else {
                return;
            };
            let asked = response.responses[at].clone();
            let mut stray = asked.clone();
            stray.topic_id = Uuid::from_u128(7);
            stray.topic = Default::default();
            stray.partitions[0].error_code = 0;
            stray.partitions[0].records = Some(Bytes::from_static(b"records"));
            let mut other = asked.clone();
            other.partitions[0].partition_index = 1;
            let mut again = asked;
            again.partitions[0].records = Some(whole.clone());
            response.responses[at].partitions[0].records = Some(whole.clone());
            response.responses.insert(0, stray);
            response.responses.insert(1, other);
            response.responses.push(again);
        });
    let turn = one.turn(Duration::from_secs(20)).await.unwrap();
    assert_eq!((turn.values, turn.failed), (vec!["a2".to_owned()], Vec::new()));
    assert_eq!(one.position("a"), Some(3));
}
