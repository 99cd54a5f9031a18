//! Commits, committed offsets, starts and bounds.

use std::time::Duration;

use octopus_core::{AutoOffsetReset, Bound, Effect, Error, Outcome};
use octopus_kafka::broker::ApiKey;
use octopus_kafka::{
    Signal,
    broker::{Request, Response, always, first, nth},
};

use super::support::{World, at};

/// [NS-02] [NS-03] [FE-15] [LC-04]
#[tokio::test(flavor = "multi_thread")]
async fn an_assigned_consumer_reads_commits_and_starts_from_its_commit() {
    let world = World::new().await;
    world.topic("a", &["a0", "a1", "a2"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    assert_eq!(one.read(3).await, ["a0", "a1", "a2"]);
    assert_eq!(one.committed(&["a"]).await, []);
    one.commit("a", 2, "so far").await.unwrap();
    assert_eq!(
        one.committed(&["a"]).await,
        [("a".to_owned(), 2, "so far".to_owned())]
    );
    one.leave().await;
    drop(one);

    let mut again = world.session("one", AutoOffsetReset::Earliest);
    again.assign(&["a"]);
    assert_eq!(again.start(&["a"]).await, Ok(vec![("a".to_owned(), 2)]));
    assert_eq!(again.read(1).await, ["a2"]);
    let mut other = world.session_of("other", "one", AutoOffsetReset::Earliest);
    other.assign(&["a"]);
    assert_eq!(
        other.read(3).await,
        ["a0", "a1", "a2"],
        "another group has its own commits"
    );
    if let Some(broker) = &world.broker {
        assert_eq!(broker.committed(&world.name("group"), &world.name("a")), Some(2));
    }
}

/// [CO-04] [NS-05]
#[tokio::test(flavor = "multi_thread")]
async fn bounds_starts_and_commits_leave_out_what_is_not_there() {
    let world = World::new().await;
    world.topic("a", &["a0", "a1"]).await;
    world.topic("empty", &[]).await;
    let one = world.session("one", AutoOffsetReset::Latest);
    let topics = ["a", "empty", "missing"];
    let both = |a, empty| Ok(vec![("a".to_owned(), a), ("empty".to_owned(), empty)]);
    assert_eq!(one.bounds(&topics, Bound::Beginning).await, both(0, 0));
    assert_eq!(one.bounds(&topics, Bound::End).await, both(2, 0));
    assert_eq!(one.start(&topics).await, both(2, 0));
    one.commit("a", 1, "").await.unwrap();
    assert_eq!(one.committed(&topics).await, [("a".to_owned(), 1, String::new())]);
    let found = one
        .run(Effect::Topics(
            topics.iter().map(|topic| (*topic).into()).collect(),
        ))
        .await;
    let listed = ["a", "empty"].into_iter().map(Into::into).collect();
    assert_eq!(found, Ok(Outcome::Topics(listed)));
}

/// [D-20]
#[tokio::test(flavor = "multi_thread")]
async fn without_a_reset_a_start_needs_a_commit() {
    let world = World::new().await;
    world.topic("a", &["a0", "a1"]).await;
    let one = world.session("one", AutoOffsetReset::None);
    assert_eq!(one.start(&["a"]).await, Err(Error::NoOffset(at("a"))));
    one.commit("a", 1, "").await.unwrap();
    let started = tokio::time::timeout(Duration::from_secs(20), async {
        loop {
            match one.start(&["a"]).await {
                Err(Error::NoOffset(_)) => tokio::task::yield_now().await,
                started => return started,
            }
        }
    });
    assert_eq!(started.await.unwrap(), Ok(vec![("a".to_owned(), 1)]));
}

/// [KF-31] [A13] [CO-06]
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_the_group_refuses_says_so_and_is_signalled() {
    for (code, signal) in [
        (22, Signal::Lost),
        (25, Signal::Lost),
        (27, Signal::Rebalance),
        (82, Signal::Lost),
    ] {
        let world = World::forgetful().await;
        world.topic("a", &["a0"]).await;
        let mut one = world.session("one", AutoOffsetReset::Earliest);
        one.join(&["a"]).await;
        world
            .broker()
            .faults()
            .on(ApiKey::OffsetCommit, nth(1))
            .error(code);
        assert_eq!(one.commit("a", 1, "").await, Err(Error::CommitFailed), "{code}");
        assert_eq!(one.signal().await, signal, "{code}");
        assert_eq!(one.join(&["a"]).await, ["a"]);
        one.commit("a", 1, "").await.unwrap();
    }
}

/// [D-34]
#[tokio::test(flavor = "multi_thread")]
async fn a_manual_commit_into_a_group_with_members_is_refused() {
    let world = World::new().await;
    world.topic("a", &["a0"]).await;
    let mut member = world.session("member", AutoOffsetReset::Earliest);
    member.join(&["a"]).await;
    let mut manual = world.session("manual", AutoOffsetReset::Earliest);
    manual.assign(&["a"]);
    assert_eq!(manual.commit("a", 1, "").await, Err(Error::CommitFailed));
    assert!(!manual.has_signal() && !member.has_signal());
    member.leave().await;
    manual.commit("a", 1, "").await.unwrap();
}

/// [ER-03] [D-34]
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_for_a_topic_that_is_gone_says_so() {
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    one.read(1).await;
    assert!(world.broker().delete_topic(&world.name("a")));
    assert_eq!(one.commit("a", 1, "").await, Err(Error::KafkaTopicUnknown));
}

/// [KF-26]
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_is_tried_again_after_what_passes() {
    for code in [3, 7, 14, 15, 16] {
        let world = World::embedded().await;
        world.topic("a", &["a0"]).await;
        let one = world.session("one", AutoOffsetReset::Earliest);
        world
            .broker()
            .faults()
            .on(ApiKey::OffsetCommit, first(2))
            .error(code);
        assert_eq!(one.commit("a", 1, "").await, Ok(()), "{code}");
        assert_eq!(world.received(ApiKey::OffsetCommit).len(), 3);
    }
}

/// [KF-04] [KF-33] [ER-06]
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_stays_unanswered_or_refused_ends_in_its_time() {
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    let one = world.session("one", AutoOffsetReset::Earliest);
    let commit = octopus_core::Commit {
        partition: at("a"),
        position: octopus_core::Position::at(1),
        metadata: "".into(),
    };
    let within = Duration::from_millis(700);
    world
        .broker()
        .faults()
        .on(ApiKey::OffsetCommit, always())
        .error(15);
    let start = tokio::time::Instant::now();
    let outcome = one
        .consumer
        .run(Effect::Commit(vec![commit.clone()]), within)
        .await;
    assert_eq!(outcome, Err(Error::KafkaRetriable));
    world.broker().faults().clear();
    world.broker().faults().on(ApiKey::OffsetCommit, always()).never();
    let outcome = one
        .consumer
        .run(Effect::Commit(vec![commit.clone()]), within)
        .await;
    assert_eq!(outcome, Err(Error::KafkaRetriable));
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    world.broker().faults().clear();
    one.commit("a", 1, "").await.unwrap();
}

/// [KF-34] [A28] [ER-02] [ER-05]
#[tokio::test(flavor = "multi_thread")]
async fn of_several_refusals_the_first_of_the_table_counts() {
    for (codes, error) in [
        ([("a", 29), ("b", -1)], Error::KafkaUnauthorized),
        ([("a", -1), ("b", 27)], Error::CommitFailed),
        ([("a", -1), ("b", 15)], Error::KafkaFailed),
        ([("a", 28), ("b", 12)], Error::KafkaInvalid),
    ] {
        let world = World::embedded().await;
        world.topic("a", &[]).await;
        world.topic("b", &[]).await;
        let mut one = world.session("one", AutoOffsetReset::Earliest);
        one.join(&["a", "b"]).await;
        let codes = codes.map(|(topic, code)| (world.name(topic), code));
        world
            .broker()
            .faults()
            .on(ApiKey::OffsetCommit, always())
            .edit(move |response| {
                let Response::OffsetCommit(response) = response else {
                    return;
                };
                for topic in &mut response.topics {
                    let code = codes.iter().find(|(name, _)| **name == **topic.name).unwrap().1;
                    topic.partitions[0].error_code = code;
                }
            });
        let commits = ["a", "b"].map(|topic| octopus_core::Commit {
            partition: at(topic),
            position: octopus_core::Position::at(0),
            metadata: "".into(),
        });
        assert_eq!(one.run(Effect::Commit(commits.to_vec())).await, Err(error));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_says_who_commits_and_the_leader_epoch() {
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    let commit = |leader_epoch| octopus_core::Commit {
        partition: at("a"),
        position: octopus_core::Position {
            offset: 1,
            leader_epoch,
        },
        metadata: "m".into(),
    };
    one.run(Effect::Commit(vec![commit(None)])).await.unwrap();
    one.join(&["a"]).await;
    one.run(Effect::Commit(vec![commit(Some(4))])).await.unwrap();
    let member_id = world
        .broker()
        .group_members(&world.name("group"))
        .remove(0)
        .member_id;
    let sent: Vec<_> = world
        .received(ApiKey::OffsetCommit)
        .into_iter()
        .map(|received| {
            let Request::OffsetCommit(commit) = received.request else {
                panic!()
            };
            let partition = commit.topics[0].partitions[0].clone();
            let member_id = commit.member_id.to_string();
            let generation = commit.generation_id_or_member_epoch;
            (
                member_id,
                generation,
                partition.committed_leader_epoch,
                partition.committed_metadata.unwrap().to_string(),
            )
        })
        .collect();
    let m = "m".to_owned();
    assert_eq!(sent, [(String::new(), -1, -1, m.clone()), (member_id, 1, 4, m)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_waits_for_a_join_of_its_own_until_its_time_ends() {
    let world = World::with_delay(Duration::from_secs(2)).await;
    world.topic("a", &["a0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    assert_eq!(
        one.try_join(&["a"], Duration::from_millis(50)).await,
        Outcome::Joining
    );
    let commit = octopus_core::Commit {
        partition: at("a"),
        position: octopus_core::Position::at(1),
        metadata: "".into(),
    };
    let short = one
        .consumer
        .run(Effect::Commit(vec![commit]), Duration::from_millis(100))
        .await;
    assert_eq!(short, Err(Error::CommitFailed));
    assert_eq!(world.received(ApiKey::OffsetCommit).len(), 0);
    one.commit("a", 1, "").await.unwrap();
    one.join(&["a"]).await;
    let Request::OffsetCommit(sent) = &world.received(ApiKey::OffsetCommit)[0].request else {
        panic!()
    };
    assert_eq!(
        sent.generation_id_or_member_epoch, 1,
        "as the member that it became"
    );
}

/// [KF-35]
#[tokio::test(flavor = "multi_thread")]
async fn committed_offsets_are_asked_for_again_while_they_are_unstable() {
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    let one = world.session("one", AutoOffsetReset::Earliest);
    one.commit("a", 1, "").await.unwrap();
    for code in [88, 14, 16] {
        world
            .broker()
            .faults()
            .on(ApiKey::OffsetFetch, first(2))
            .error(code);
        assert_eq!(
            one.committed(&["a"]).await,
            [("a".to_owned(), 1, String::new())],
            "{code}"
        );
    }
    let Request::OffsetFetch(sent) = &world.received(ApiKey::OffsetFetch)[0].request else {
        panic!()
    };
    assert!(sent.require_stable);
    world
        .broker()
        .faults()
        .on(ApiKey::OffsetFetch, always())
        .error(30);
    let refused = one.run(Effect::Committed(vec![at("a")])).await;
    assert_eq!(refused, Err(Error::KafkaUnauthorized));
}

/// [KF-36]
#[tokio::test(flavor = "multi_thread")]
async fn bounds_are_asked_for_again_and_a_negative_one_is_refused() {
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    let one = world.session("one", AutoOffsetReset::Earliest);
    for code in [3, 5, 6, 74, 75, 78] {
        world
            .broker()
            .faults()
            .on(ApiKey::ListOffsets, first(2))
            .error(code);
        assert_eq!(
            one.bounds(&["a"], Bound::End).await,
            Ok(vec![("a".to_owned(), 1)]),
            "{code}"
        );
    }
    world
        .broker()
        .faults()
        .on(ApiKey::ListOffsets, nth(1))
        .edit(|response| {
            let Response::ListOffsets(response) = response else {
                return;
            };
            response.topics[0].partitions[0].offset = -1;
        });
    assert_eq!(one.bounds(&["a"], Bound::End).await, Err(Error::KafkaFailed));
    world.broker().faults().on(ApiKey::ListOffsets, nth(1)).error(29);
    assert_eq!(
        one.bounds(&["a"], Bound::End).await,
        Err(Error::KafkaUnauthorized)
    );
}
