//! Topics that are not there, not there any more, made anew, or not for everyone.

use std::time::Duration;

use octopus_core::{AutoOffsetReset, Error, Position};
use octopus_kafka::broker::{ApiKey, Request, always};
use tokio::time::Instant;

use super::support::{Session, TURN, World, at, batch};

/// [KF-24] [NS-05]
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_the_cluster_does_not_list_is_not_fetched_and_not_made() {
    let world = World::new().await;
    world.topic("a", &["a0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["missing", "a"]);
    assert_eq!(one.read(1).await, ["a0"]);
    let looked_up = world
        .broker
        .as_ref()
        .map(|_| world.received(ApiKey::Metadata).len());
    let start = Instant::now();
    assert_eq!(one.turn(TURN).await.unwrap().values, [""; 0]);
    assert_eq!(one.turn(TURN).await.unwrap().values, [""; 0]);
    assert!(start.elapsed() >= TURN);
    if let Some(before) = looked_up {
        let asked = world.received(ApiKey::Metadata);
        assert!(asked.len() - before <= 3, "{} in a second", asked.len() - before);
        assert!(asked.iter().all(|received| match &received.request {
            Request::Metadata(metadata) => !metadata.allow_auto_topic_creation,
            request => panic!("{request:?}"),
        }));
    }
    world.topic("missing", &["m0"]).await;
    assert_eq!(one.read(1).await, ["m0"]);
}

/// [KF-23] [D-22]
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_made_anew_is_read_from_its_start() {
    let world = World::embedded().await;
    world.topic("a", &["old0", "old1", "old2"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    assert_eq!(one.read(3).await, ["old0", "old1", "old2"]);
    assert!(world.broker().delete_topic(&world.name("a")));
    assert_eq!(one.turn(TURN).await.unwrap().values, [""; 0]);
    world.topic("a", &["new0", "new1", "new2", "new3"]).await;
    assert_eq!(one.read(4).await, ["new0", "new1", "new2", "new3"]);
}

/// [KF-23] [D-22] what is read ahead is for the topic that it was read of, and no other of its name.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_is_current_until_its_topic_is_gone() {
    let world = World::embedded().await;
    world.topic("a", &["old0", "old1"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    let is_current = |one: &Session, offset| one.consumer.is_current(&at("a"), Position::at(offset));
    one.assign(&["a"]);
    assert!(!is_current(&one, 0), "nothing was");
    assert_eq!(one.read(2).await, ["old0", "old1"]);
    assert!(!is_current(&one, 0), "it was its start");
    assert_eq!(one.turn(TURN).await.unwrap().values, [""; 0]);
    assert!(is_current(&one, 0) && is_current(&one, 2));
    assert!(world.broker().delete_topic(&world.name("a")));
    assert_eq!(one.turn(TURN).await.unwrap().values, [""; 0]);
    assert!(!is_current(&one, 0));
    world.topic("a", &["new0"]).await;
    let mut other = world.session("other", AutoOffsetReset::Earliest);
    other.assign(&["a"]);
    assert_eq!(other.read(1).await, ["new0"]);
    assert!(!is_current(&one, 0), "the cluster knows the new one by now");
    assert_eq!(other.turn(TURN).await.unwrap().values, [""; 0]);
    assert!(is_current(&other, 0));
}

/// [KF-23] [D-20] [D-22] with `none` it fails until a seek.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_made_anew_waits_for_a_seek_without_a_policy() {
    let world = World::embedded().await;
    world.topic("a", &["old0", "old1", "old2"]).await;
    let mut one = world.session("one", AutoOffsetReset::None);
    one.assign(&["a"]);
    one.seek("a", 1);
    assert_eq!(one.read(2).await, ["old1", "old2"]);
    assert!(world.broker().delete_topic(&world.name("a")));
    assert_eq!(one.turn(TURN).await.unwrap().values, [""; 0]);
    world.topic("a", &["new0", "new1", "new2", "new3"]).await;
    for _ in 0..2 {
        let turn = one.turn(Duration::from_secs(20)).await.unwrap();
        assert_eq!(turn.failed, [(at("a"), Error::NoOffset(at("a")))]);
    }
    one.seek("a", 2);
    assert_eq!(one.read(2).await, ["new2", "new3"]);
}

/// [KF-23] [D-22] a position in the topic that is gone, committed after the topic was made anew, passes for none in it:
/// where the consumer has seen that the first one is gone, it is not committed, and where it has not, it is not read.
#[tokio::test(flavor = "multi_thread")]
async fn a_position_of_a_topic_that_is_gone_is_no_commit_of_the_one_made_anew() {
    for was_seen in [true, false] {
        let world = World::embedded().await;
        world.topic("a", &["old0", "old1", "old2"]).await;
        world.topic("b", &["b0"]).await;
        let mut one = world.session("one", AutoOffsetReset::Earliest);
        one.assign(&["a", "b"]);
        one.read(4).await;
        assert!(world.broker().delete_topic(&world.name("a")));
        if was_seen {
            assert_eq!(one.turn(TURN).await.unwrap().values, [""; 0]);
            one.commit("a", 3, "").await.unwrap_err();
        }
        // Not by the consumer's own cluster, which would see it.
        let name = world.name("a");
        assert!(world.broker().create_topic(&name));
        let new = batch(&["new0", "new1", "new2", "new3"]);
        world.broker().append(&name, new).unwrap();
        one.commit("b", 1, "").await.unwrap();
        one.commit("a", 3, "").await.unwrap();
        let mut committed = vec![("b".to_owned(), 1, String::new())];
        if !was_seen {
            committed.insert(0, ("a".to_owned(), 3, String::new()));
        }
        assert_eq!(one.committed(&["a", "b"]).await, committed, "{was_seen}");
        assert_eq!(one.read(4).await, ["new0", "new1", "new2", "new3"], "{was_seen}");
        one.commit("a", 4, "").await.unwrap();
        committed.retain(|(topic, ..)| topic == "b");
        committed.insert(0, ("a".to_owned(), 4, String::new()));
        assert_eq!(one.committed(&["a", "b"]).await, committed, "{was_seen}");
    }
}

/// [KF-25] [ER-02]
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_may_not_be_read_fails_alone_and_recovers() {
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    world.topic("b", &["b0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a", "b"]);
    world
        .broker()
        .faults()
        .on(ApiKey::Fetch, always())
        .topic(world.name("a"))
        .error(29);
    let mut turn = one.turn(TURN).await.unwrap();
    while turn.values.is_empty() {
        turn = one.turn(TURN).await.unwrap();
    }
    assert_eq!(turn.values, ["b0"]);
    assert_eq!(turn.failed, [(at("a"), Error::KafkaUnauthorized)]);
    world.broker().faults().clear();
    assert_eq!(one.read(1).await, ["a0"]);
}
