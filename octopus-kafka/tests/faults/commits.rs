//! Commits, and what the group has committed.

use std::time::Duration;

use octopus_core::{AutoOffsetReset, Commit, Effect, Error, Outcome, Position};
use octopus_kafka::{
    Cluster, Config,
    broker::{self, ApiKey, Response, always, first, nth},
};
use tokio::time::timeout;

use super::{
    link::Link,
    support::{PATIENCE, World, at, eventually},
};

fn commit(topics: &[(&str, i64)]) -> Effect {
    let commits = topics.iter().map(|(topic, offset)| Commit {
        partition: at(topic),
        position: Position::at(*offset),
        metadata: "".into(),
    });
    Effect::Commit(commits.collect())
}

/// [KF-33] [ER-06] [D-38] a commit that is not answered in its time may still be on its way: a later one waits until it is
/// known what came of it, so that the group does not fall back when it comes.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_does_not_overtake_one_that_was_not_answered() {
    let link = Link::open().await;
    let world = World::of(link.broker(broker::Config::default()).await);
    let world = World {
        cluster: Cluster::new(Config::new(vec![link.address.to_string()])),
        ..world
    };
    world.topic("a", &["a0"]).await;
    let one = world.session("one", AutoOffsetReset::Earliest);
    one.run(commit(&[("a", 1)])).await.unwrap();
    let committed = || world.broker().committed(&world.name("group"), &world.name("a"));

    link.freeze();
    let early = one
        .consumer
        .run(commit(&[("a", 5)]), Duration::from_millis(500))
        .await;
    assert_eq!(early, Err(Error::KafkaRetriable));
    let hurried = one
        .consumer
        .run(commit(&[("a", 7)]), Duration::from_millis(500))
        .await;
    assert_eq!(hurried, Err(Error::KafkaRetriable), "one before it is on its way");
    let consumer = one.consumer.clone();
    let late = tokio::spawn(async move { consumer.run(commit(&[("a", 9)]), PATIENCE).await });
    // A connection that is opened from here on is not frozen: by that the late one could come first.
    assert!(
        timeout(
            Duration::from_millis(500),
            eventually("a commit", || committed() != Some(1))
        )
        .await
        .is_err()
    );
    link.thaw();
    let late = timeout(PATIENCE, late).await.unwrap().unwrap();
    assert_eq!(late, Ok(Outcome::Done));
    assert_eq!(committed(), Some(9));
    let received = world.received(ApiKey::OffsetCommit).len();
    assert_eq!(received, 3, "one, the early and the late one");
}

/// [KF-33] a commit that the broker takes, but answers too late, is told as not answered, and the next one is taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_answered_late_is_not_known_to_be_taken() {
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    let one = world.session("one", AutoOffsetReset::Earliest);
    world
        .broker()
        .faults()
        .on(ApiKey::OffsetCommit, nth(1))
        .delay(Duration::from_secs(2));
    let late = one
        .consumer
        .run(commit(&[("a", 1)]), Duration::from_millis(300))
        .await;
    assert_eq!(late, Err(Error::KafkaRetriable));
    one.run(commit(&[("a", 2)])).await.unwrap();
    let committed = world.broker().committed(&world.name("group"), &world.name("a"));
    assert_eq!(committed, Some(2));
}

/// [KF-34] [A28] of a commit that is refused in part the rest stands; it is told as refused.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_refused_of_a_commit_stands() {
    for (code, error) in [
        (29, Error::KafkaUnauthorized),
        (12, Error::KafkaInvalid),
        (-1, Error::KafkaFailed),
    ] {
        let world = World::embedded().await;
        for topic in ["a", "b", "c"] {
            world.topic(topic, &["0"]).await;
        }
        let one = world.session("one", AutoOffsetReset::Earliest);
        let refused = world.broker().faults().on(ApiKey::OffsetCommit, always());
        refused.topic(world.name("b")).error(code);
        let outcome = one.run(commit(&[("a", 1), ("b", 1), ("c", 1)])).await;
        assert_eq!(outcome, Err(error));
        let committed = |topic| world.broker().committed(&world.name("group"), &world.name(topic));
        assert_eq!(
            (committed("a"), committed("b"), committed("c")),
            (Some(1), None, Some(1))
        );
    }
}

/// Changes the topics of the answers to these OffsetFetches.
fn committed_are(
    world: &World,
    when: broker::When,
    change: impl Fn(&mut Vec<kafka_protocol::messages::offset_fetch_response::OffsetFetchResponseTopics>)
    + Send
    + Sync
    + 'static,
) {
    world
        .broker()
        .faults()
        .on(ApiKey::OffsetFetch, when)
        .edit(move |response| {
            if let Response::OffsetFetch(response) = response {
                response
                    .groups
                    .iter_mut()
                    .for_each(|group| change(&mut group.topics));
            }
        });
}

/// [KF-35] [CO-04] a partition that an answer leaves out is asked for once more, and then was never committed; one that it
/// names twice counts as it was named first, and one that was not asked for does not count.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_answer_leaves_out_or_repeats_is_not_guessed_at() {
    let world = World::embedded().await;
    for topic in ["a", "b"] {
        world.topic(topic, &["0", "1"]).await;
    }
    let one = world.session("one", AutoOffsetReset::Earliest);
    one.run(commit(&[("a", 1), ("b", 2)])).await.unwrap();
    let both = [
        ("a".to_owned(), 1, String::new()),
        ("b".to_owned(), 2, String::new()),
    ];
    let asked = || world.received(ApiKey::OffsetFetch).len();

    committed_are(&world, nth(1), |topics| _ = topics.remove(0));
    assert_eq!(one.committed(&["a", "b"]).await, both, "the second answer has it");
    world.broker().faults().clear();
    let before = asked();
    committed_are(&world, always(), |topics| _ = topics.remove(0));
    assert_eq!(one.committed(&["a", "b"]).await, both[1..]);
    assert_eq!(asked() - before, 2);
    world.broker().faults().clear();

    committed_are(&world, always(), |topics| {
        let mut again = topics[0].clone();
        again.partitions[0].committed_offset = 77;
        let mut other = topics[0].clone();
        other.name = kafka_protocol::messages::TopicName("other".to_owned().into());
        let mut second = topics[0].clone();
        second.partitions[0].partition_index = 1;
        second.partitions[0].committed_offset = 88;
        topics.insert(0, second);
        topics.push(again);
        topics.push(other);
    });
    assert_eq!(one.committed(&["a", "b"]).await, both);
}

/// [KF-35] a transaction that is about to commit is waited for, within the caller's time.
#[tokio::test(flavor = "multi_thread")]
async fn an_unstable_commit_is_waited_for() {
    let world = World::embedded().await;
    world.topic("a", &["0", "1"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.run(commit(&[("a", 1)])).await.unwrap();
    world
        .broker()
        .faults()
        .on(ApiKey::OffsetFetch, first(3))
        .error(88);
    one.assign(&["a"]);
    assert_eq!(one.read(1).await, ["1"], "reading starts where it was committed");
    world
        .broker()
        .faults()
        .on(ApiKey::OffsetFetch, always())
        .error(88);
    let partitions = vec![at("a")];
    let outcome = one
        .consumer
        .run(Effect::Committed(partitions), Duration::from_millis(400));
    assert_eq!(outcome.await, Err(Error::KafkaRetriable));
}
