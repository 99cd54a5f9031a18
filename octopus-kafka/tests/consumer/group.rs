//! Joining, sharing, rebalancing, staying and leaving.

use std::{collections::BTreeSet, time::Duration};

use octopus_core::{AutoOffsetReset, Commit, Effect, Error, Outcome, Position};
use octopus_kafka::{
    Config,
    GroupProtocol::{self, Classic, Consumer},
    Signal,
    broker::{ApiKey, Request, always, first, nth},
    testing::ClosedPort,
};
use rstest::rstest;

use super::support::{PATIENCE, TURN, World, at, eventually, join, set};

/// The heartbeats of a protocol.
fn heartbeat(protocol: GroupProtocol) -> ApiKey {
    match protocol {
        Classic => ApiKey::Heartbeat,
        Consumer => ApiKey::ConsumerGroupHeartbeat,
    }
}

/// What a member sends first.
fn first_of_a_join(protocol: GroupProtocol) -> ApiKey {
    match protocol {
        Classic => ApiKey::JoinGroup,
        Consumer => ApiKey::ConsumerGroupHeartbeat,
    }
}

/// [KF-50] [NS-03] [D-24] [LC-04]
#[rstest]
#[case::classic(Classic)]
#[case::consumer(Consumer)]
#[tokio::test(flavor = "multi_thread")]
async fn two_members_share_two_topics_and_one_takes_over(#[case] protocol: GroupProtocol) {
    let world = World::new().await.speaking(protocol);
    world.topic("a", &["a0", "a1"]).await;
    world.topic("b", &["b0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.come_to(&["a", "b"], &["a", "b"]).await;
    assert_eq!(
        one.read(3).await.into_iter().collect::<BTreeSet<_>>(),
        set(&["a0", "a1", "b0"])
    );
    one.commit("a", 2, "").await.unwrap();
    one.commit("b", 1, "").await.unwrap();

    let mut two = world.session("two", AutoOffsetReset::Earliest);
    two.try_join(&["a", "b"], Duration::from_millis(1)).await;
    assert_eq!(one.signal().await, Signal::Rebalance);
    let (ones, mut twos) = tokio::join!(one.join(&["a", "b"]), two.join(&["a", "b"]));
    if protocol == Consumer && twos.is_empty() {
        // The other one gave its topic up a moment later.
        assert_eq!(two.signal().await, Signal::Rebalance);
        twos = two.join(&["a", "b"]).await;
    }
    let all: Vec<String> = ones.iter().chain(&twos).cloned().collect();
    assert_eq!((ones.len(), twos.len()), (1, 1));
    assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), set(&["a", "b"]));

    world.produce("a", &["a2"]).await;
    world.produce("b", &["b1"]).await;
    let read = [one.read(1).await.remove(0), two.read(1).await.remove(0)];
    assert_eq!(read.into_iter().collect::<BTreeSet<_>>(), set(&["a2", "b1"]));
    assert!(!one.has_signal(), "nothing was lost on the way");

    two.leave().await;
    assert_eq!(one.signal().await, Signal::Rebalance);
    assert_eq!(one.join(&["a", "b"]).await, ["a", "b"]);
    assert_eq!(
        one.read(1).await.len(),
        1,
        "two left without a commit, so its record comes again"
    );
    one.leave().await;
}

/// [LC-03]
#[rstest]
#[case::classic(Classic)]
#[case::consumer(Consumer)]
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_member_stays_in_its_group(#[case] protocol: GroupProtocol) {
    let world = World::embedded().await.speaking(protocol);
    world.topic("a", &["a0"]).await;
    let mut idle = world.session("idle", AutoOffsetReset::Earliest);
    idle.join(&["a"]).await;
    let beats = || world.received(heartbeat(protocol)).len();
    // More than a session's worth of heartbeats, with no request of its owner.
    eventually("25 heartbeats", || beats() >= 25).await;
    idle.commit("a", 1, "kept").await.unwrap();
    assert_eq!(
        idle.committed(&["a"]).await,
        [("a".to_owned(), 1, "kept".to_owned())]
    );
    assert!(!idle.has_signal());
    let others = world
        .received(heartbeat(protocol))
        .into_iter()
        .all(|beat| beat.client_id == "octopus-group-idle");
    assert!(others, "requests say whose they are");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_goes_on_over_turns_shorter_than_the_groups_delay() {
    let world = World::with_delay(Duration::from_secs(3)).await;
    world.topic("a", &[]).await;
    let one = world.session("one", AutoOffsetReset::Earliest);
    let mut turns = 0;
    let joined = loop {
        match one.try_join(&["a"], Duration::from_millis(50)).await {
            Outcome::Joining => turns += 1,
            outcome => break outcome,
        }
        assert!(turns < 600, "it ends");
    };
    assert_eq!(joined, Outcome::Joined(vec![at("a")]));
    assert!(turns > 10, "only {turns} turns in 3 s");
    let joins = world.received(ApiKey::JoinGroup);
    assert_eq!(joins.len(), 2, "once without and once with its member id");
}

/// [KF-30]
#[tokio::test(flavor = "multi_thread")]
async fn a_join_that_is_dropped_goes_on() {
    let world = World::with_delay(Duration::from_secs(1)).await;
    world.topic("a", &[]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    for wait in [0, 1, 5, 20] {
        let run = one.consumer.run(Effect::Join(join(&["a"])), TURN);
        _ = tokio::time::timeout(Duration::from_millis(wait), run).await;
    }
    assert_eq!(one.join(&["a"]).await, ["a"]);
    assert_eq!(world.received(ApiKey::JoinGroup).len(), 2);
}

#[rstest]
#[case::classic(Classic)]
#[case::consumer(Consumer)]
#[tokio::test(flavor = "multi_thread")]
async fn other_topics_start_a_join_again(#[case] protocol: GroupProtocol) {
    let world = World::new().await.speaking(protocol);
    world.topic("a", &[]).await;
    world.topic("b", &[]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.try_join(&["a"], Duration::ZERO).await;
    one.come_to(&["b"], &["b"]).await;
    one.leave().await;
}

/// [NS-05] The cluster lists a topic later than the member wants it.
#[rstest]
#[case::classic(Classic)]
#[case::consumer(Consumer)]
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_made_later_comes_with_a_rebalance(#[case] protocol: GroupProtocol) {
    let world = World::new().await.speaking(protocol);
    world.topic("a", &[]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.come_to(&["a", "late"], &["a"]).await;
    world.topic("late", &["x"]).await;
    assert_eq!(one.signal().await, Signal::Rebalance);
    one.come_to(&["a", "late"], &["a", "late"]).await;
    assert_eq!(one.read(1).await, ["x"]);
    one.leave().await;
}

/// [KF-28] [AK-02]
#[rstest]
#[case::classic(Classic)]
#[case::consumer(Consumer)]
#[tokio::test(flavor = "multi_thread")]
async fn positions_are_committed_before_a_join_and_a_failure_does_not_stop_it(
    #[case] protocol: GroupProtocol,
) {
    let world = World::embedded().await.speaking(protocol);
    world.topic("a", &["a0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.join(&["a"]).await;
    let commit = Commit {
        partition: at("a"),
        position: Position::at(1),
        metadata: "".into(),
    };
    for (refused, committed) in [(false, 1), (true, 1)] {
        if refused {
            world.broker().faults().on(ApiKey::OffsetCommit, nth(1)).error(30);
        }
        let mut join = join(&["a"]);
        join.commit = vec![Commit {
            position: Position::at(1 + i64::from(refused)),
            ..commit.clone()
        }];
        let outcome = one
            .consumer
            .run(Effect::Join(join), Duration::from_secs(20))
            .await;
        assert_eq!(outcome, Ok(Outcome::Joined(vec![at("a")])));
        assert_eq!(
            world.broker().committed(&world.name("group"), &world.name("a")),
            Some(committed)
        );
    }
}

#[rstest]
#[case::classic(Classic)]
#[case::consumer(Consumer)]
#[tokio::test(flavor = "multi_thread")]
async fn closing_and_dropping_leave_the_group(#[case] protocol: GroupProtocol) {
    let world = World::embedded().await.speaking(protocol);
    world.topic("a", &[]).await;
    let mut closed = world.session("closed", AutoOffsetReset::Earliest);
    closed.join(&["a"]).await;
    assert_eq!(world.members(), 1);
    assert_eq!(closed.run(Effect::Close).await, Ok(Outcome::Done));
    assert_eq!(world.members(), 0, "the close waited for it");

    let mut dropped = world.session("dropped", AutoOffsetReset::Earliest);
    dropped.join(&["a"]).await;
    drop(dropped);
    eventually("the member is gone", || world.members() == 0).await;
}

/// [KF-28] [KF-49]
#[tokio::test(flavor = "multi_thread")]
async fn a_close_in_the_middle_of_a_join_leaves_no_member_behind() {
    let world = World::with_delay(Duration::from_secs(30)).await;
    world.topic("a", &[]).await;
    let one = world.session("one", AutoOffsetReset::Earliest);
    assert_eq!(
        one.try_join(&["a"], Duration::from_millis(300)).await,
        Outcome::Joining
    );
    eventually("it joins", || {
        world.broker().group_members(&world.name("group")).len() == 1
    })
    .await;
    assert_eq!(one.run(Effect::Close).await, Ok(Outcome::Done));
    assert_eq!(world.broker().group_members(&world.name("group")).len(), 0);
}

/// [KF-31] [K25]
#[rstest]
#[case::classic(Classic)]
#[case::consumer(Consumer)]
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_was_put_out_is_lost_and_joins_anew(#[case] protocol: GroupProtocol) {
    let codes: &[i16] = match protocol {
        Classic => &[22, 25, 82],
        Consumer => &[25, 110],
    };
    for &code in codes {
        let world = World::forgetful().await.speaking(protocol);
        world.topic("a", &["a0"]).await;
        let mut one = world.session("one", AutoOffsetReset::Earliest);
        one.join(&["a"]).await;
        assert_eq!(one.read(1).await, ["a0"]);
        assert_eq!(one.turn(TURN).await.unwrap().values, [""; 0]);
        assert!(one.consumer.is_current(&at("a"), Position::at(0)));
        world
            .broker()
            .faults()
            .on(heartbeat(protocol), nth(1))
            .error(code);
        assert_eq!(one.signal().await, Signal::Lost, "{code}");
        assert!(!one.consumer.is_current(&at("a"), Position::at(0)), "{code}");
        assert_eq!(
            one.commit("a", 1, "").await,
            Err(Error::CommitFailed),
            "nothing of the old assignment"
        );
        assert_eq!(one.join(&["a"]).await, ["a"]);
        one.commit("a", 1, "").await.unwrap();
    }
}

/// [KF-28]
#[tokio::test(flavor = "multi_thread")]
async fn a_rebalance_is_signalled_once() {
    let world = World::embedded().await;
    world.topic("a", &[]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.join(&["a"]).await;
    world.broker().faults().on(ApiKey::Heartbeat, first(4)).error(27);
    assert_eq!(one.signal().await, Signal::Rebalance);
    let beats = world.received(ApiKey::Heartbeat).len();
    eventually("more heartbeats", || {
        world.received(ApiKey::Heartbeat).len() >= beats + 4
    })
    .await;
    assert!(!one.has_signal());
}

/// [KF-26] [K25]
#[rstest]
#[case::classic(Classic)]
#[case::consumer(Consumer)]
#[tokio::test(flavor = "multi_thread")]
async fn joins_survive_what_a_coordinator_answers_in_passing(#[case] protocol: GroupProtocol) {
    let mut cases = tokio::task::JoinSet::new();
    let (codes, apis): (&[i16], &[ApiKey]) = match protocol {
        Classic => (
            &[14, 15, 16, 25, 22, 27, 7],
            &[ApiKey::JoinGroup, ApiKey::SyncGroup],
        ),
        Consumer => (&[14, 15, 16, 25, 110, 7], &[ApiKey::ConsumerGroupHeartbeat]),
    };
    for &code in codes {
        for &api in apis {
            cases.spawn(async move {
                let world = World::forgetful().await.speaking(protocol);
                world.topic("a", &[]).await;
                world.broker().faults().on(api, first(2)).error(code);
                let mut one = world.session("one", AutoOffsetReset::Earliest);
                assert_eq!(one.join(&["a"]).await, ["a"], "{code} of {api:?}");
            });
        }
    }
    cases.join_all().await;
}

/// [KF-26]
#[rstest]
#[case::classic(Classic)]
#[case::consumer(Consumer)]
#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_follow_a_coordinator_that_moved(#[case] protocol: GroupProtocol) {
    let world = World::embedded().await.speaking(protocol);
    world.topic("a", &[]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.join(&["a"]).await;
    let looked_up = world.received(ApiKey::FindCoordinator).len();
    world.broker().faults().on(heartbeat(protocol), nth(1)).error(16);
    eventually("a new look-up", || {
        world.received(ApiKey::FindCoordinator).len() > looked_up
    })
    .await;
    let beats = world.received(heartbeat(protocol)).len();
    eventually("more heartbeats", || {
        world.received(heartbeat(protocol)).len() > beats
    })
    .await;
    one.commit("a", 1, "").await.unwrap();
    assert!(!one.has_signal(), "the member is kept");
}

/// [KF-25] [ER-02]
#[rstest]
#[case::classic(Classic)]
#[case::consumer(Consumer)]
#[tokio::test(flavor = "multi_thread")]
async fn a_join_that_is_not_authorized_says_so(#[case] protocol: GroupProtocol) {
    let world = World::embedded().await.speaking(protocol);
    world.topic("a", &[]).await;
    world
        .broker()
        .faults()
        .on(first_of_a_join(protocol), always())
        .error(30);
    let one = world.session("one", AutoOffsetReset::Earliest);
    let outcome = one.run(Effect::Join(join(&["a"]))).await;
    assert_eq!(outcome, Err(Error::KafkaUnauthorized));
    world.broker().faults().clear();
    assert_eq!(
        one.run(Effect::Join(join(&["a"]))).await,
        Ok(Outcome::Joined(vec![at("a")]))
    );
}

/// [ER-07]
#[rstest]
#[case::classic(Classic)]
#[case::consumer(Consumer)]
#[tokio::test(flavor = "multi_thread")]
async fn a_join_without_a_broker_waits_its_time_out(#[case] protocol: GroupProtocol) {
    let world = World::embedded().await.speaking(protocol);
    let closed = ClosedPort::new().unwrap();
    let config = Config::new(vec![closed.address()]);
    let world = World { config, ..world }.speaking(protocol);
    let one = world.session("one", AutoOffsetReset::Earliest);
    let start = tokio::time::Instant::now();
    let outcome = one.consumer.run(Effect::Join(join(&["a"])), TURN).await;
    assert_eq!(outcome, Err(Error::KafkaUnreachable));
    assert!(start.elapsed() >= TURN);
}

#[rstest]
#[case::classic(Classic)]
#[case::consumer(Consumer)]
#[tokio::test(flavor = "multi_thread")]
async fn a_leave_is_sent_once_with_the_members_id(#[case] protocol: GroupProtocol) {
    let world = World::embedded().await.speaking(protocol);
    world.topic("a", &[]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.join(&["a"]).await;
    let (broker, group) = (world.broker(), world.name("group"));
    let member_id = match protocol {
        Classic => broker.group_members(&group).remove(0).member_id,
        Consumer => broker.consumer_members(&group).remove(0).member_id,
    };
    one.leave().await;
    one.leave().await;
    assert_eq!(one.run(Effect::Close).await, Ok(Outcome::Done));
    drop(one);
    let leaves = world.received(match protocol {
        Classic => ApiKey::LeaveGroup,
        Consumer => ApiKey::ConsumerGroupHeartbeat,
    });
    let leaves: Vec<_> = leaves
        .iter()
        .filter_map(|leave| match &leave.request {
            Request::LeaveGroup(leave) => Some((&leave.group_id, &leave.members[0].member_id)),
            Request::ConsumerGroupHeartbeat(beat) if beat.member_epoch == -1 => {
                Some((&beat.group_id, &beat.member_id))
            }
            _ => None,
        })
        .collect();
    assert_eq!(leaves.len(), 1);
    assert_eq!((&*leaves[0].0.0, &**leaves[0].1), (&*group, &*member_id));
}

/// A group goes from one protocol to the other member by member. The embedded broker does not, as Kafka did not at first.
#[tokio::test(flavor = "multi_thread")]
async fn members_of_both_protocols_share_a_group_of_kafka() {
    let world = World::new().await;
    if world.broker.is_some() {
        return;
    }
    let both = ["a", "b"];
    world.topic("a", &["a0"]).await;
    world.topic("b", &["b0"]).await;
    let mut old = world.session("old", AutoOffsetReset::Earliest);
    old.come_to(&both, &both).await;
    assert_eq!(old.read(2).await.len(), 2);
    old.commit("a", 1, "").await.unwrap();
    old.commit("b", 1, "").await.unwrap();
    let world = world.speaking(Consumer);
    let mut new = world.session("new", AutoOffsetReset::Earliest);
    new.join(&both).await;
    let settled = async {
        while (old.positions.len(), new.positions.len()) != (1, 1) {
            tokio::select! {
                Some(_) = old.signals.recv() => { old.join(&both).await; }
                Some(_) = new.signals.recv() => { new.join(&both).await; }
            }
        }
    };
    tokio::time::timeout(PATIENCE, settled)
        .await
        .expect("each has one");
    world.produce("a", &["a1"]).await;
    world.produce("b", &["b1"]).await;
    let read = [old.read(1).await.remove(0), new.read(1).await.remove(0)];
    assert_eq!(read.into_iter().collect::<BTreeSet<_>>(), set(&["a1", "b1"]));
    old.leave().await;
    new.come_to(&both, &both).await;
    assert_eq!(
        new.read(1).await.len(),
        1,
        "of what the old one read and did not commit"
    );
    new.leave().await;
}
