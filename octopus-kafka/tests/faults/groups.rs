//! A group that rebalances, stalls, or puts its members out.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use octopus_core::{AutoOffsetReset, Commit, Effect, Outcome, Position};
use octopus_kafka::{
    Cluster, Config, GroupProtocol, Signal,
    broker::{self, ApiKey, Broker},
};
use rstest::rstest;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{
    link::Link,
    support::{PATIENCE, TURN, World, at, eventually, join},
};

/// [KF-27] [ER-06] a member that does not rejoin holds its group up, and nobody else: not the members' other requests, and
/// no other group.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_waits_for_a_stuck_member_holds_up_nobody_else() {
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    let mut stuck = world.session("stuck", AutoOffsetReset::Earliest);
    stuck.join(&["a"]).await;
    let waiting = world.session("waiting", AutoOffsetReset::Earliest);
    for _ in 0..3 {
        let start = Instant::now();
        assert_eq!(waiting.try_join(&["a"], TURN).await, Outcome::Joining);
        assert!(start.elapsed() < Duration::from_secs(5), "in its time");
    }
    assert_eq!(stuck.read(1).await, ["a0"], "it reads on meanwhile");
    stuck.commit("a", 1, "").await.unwrap();
    let mut other = world.session_of("other", "one", AutoOffsetReset::Earliest);
    let start = Instant::now();
    assert_eq!(other.join(&["a"]).await, ["a"]);
    assert_eq!(other.read(1).await, ["a0"]);
    other.commit("a", 1, "").await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert_eq!(waiting.try_join(&["a"], TURN).await, Outcome::Joining);
}

/// [KF-50] all members of one group join at once, however many they are: the first of them wait for the last.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_group_joins_whole() {
    const MEMBERS: usize = 80;
    let world = World::with_delay(Duration::from_secs(60)).await;
    world.topic("a", &[]).await;
    let mut joins = JoinSet::new();
    for i in 0..MEMBERS {
        let one = world.session(&format!("one{i}"), AutoOffsetReset::Earliest);
        joins.spawn(async move {
            let outcome = one.try_join(&["a"], Duration::from_millis(1)).await;
            assert_eq!(outcome, Outcome::Joining);
            one
        });
    }
    let _sessions = joins.join_all().await;
    let members = || world.broker().group_members(&world.name("group")).len();
    eventually("each has come to the group", || members() == MEMBERS).await;
}

/// [KF-50] [NS-03] two instances of one group in one process share its topics.
#[tokio::test(flavor = "multi_thread")]
async fn two_members_of_one_process_join_at_once() {
    let world = World::with_delay(Duration::from_secs(1)).await;
    world.topic("a", &["a0"]).await;
    world.topic("b", &["b0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    let mut two = world.session("two", AutoOffsetReset::Earliest);
    let topics = ["a", "b"];
    let (ones, twos) = tokio::join!(one.join(&topics), two.join(&topics));
    assert_eq!((ones.len(), twos.len()), (1, 1));
    let state = world.broker().group_state(&world.name("group")).unwrap();
    assert_eq!(state.1, 1, "one generation");
}

/// [KF-32] [D-23] a member that hears nothing for a session gives its partitions up by itself; it comes back as soon as
/// the group is there, and nothing of the old assignment is committed.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_hears_nothing_for_a_session_gives_up() {
    let link = Link::open().await;
    let mut config = broker::Config::default();
    config.initial_rebalance_delay = Duration::ZERO;
    config.min_session_timeout = Duration::from_secs(1);
    let world = World::of(link.broker(config).await);
    let mut config = Config::new(vec![link.address.to_string()]);
    config.session_timeout = Duration::from_secs(3);
    config.heartbeat_interval = Duration::from_millis(300);
    let world = World {
        cluster: Cluster::new(config),
        ..world
    };
    world.topic("a", &["a0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.join(&["a"]).await;
    link.lead_to(None);
    link.freeze();
    let start = Instant::now();
    assert_eq!(one.signal().await, Signal::Lost);
    let waited = start.elapsed();
    assert!(waited >= Duration::from_secs(1), "{waited:?}");
    assert!(one.commit("a", 1, "").await.is_err());
    link.lead_to(Some(world.broker().addr()));
    link.cut();
    assert_eq!(one.join(&["a"]).await, ["a"]);
    assert!(world.received(ApiKey::OffsetCommit).is_empty());
    one.commit("a", 1, "").await.unwrap();
}

/// [KF-32] a process that stood still for a session reads nothing more of what it was given, and hears that before any
/// timer of its own ran.
#[tokio::test]
async fn a_process_that_stood_still_reads_nothing_of_what_it_had() {
    let mut config = broker::Config::default();
    config.initial_rebalance_delay = Duration::ZERO;
    config.min_session_timeout = Duration::from_millis(100);
    let world = World::of(Broker::start(config).await.unwrap());
    let mut config = Config::new(vec![world.broker().addr().to_string()]);
    config.session_timeout = Duration::from_secs(2);
    config.heartbeat_interval = Duration::from_millis(500);
    let world = World {
        cluster: Cluster::new(config),
        ..world
    };
    world.topic("a", &["a0", "a1"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.join(&["a"]).await;
    one.read(2).await;
    one.seek("a", 0);
    // Nothing else of this process runs meanwhile: its runtime has one thread.
    std::thread::sleep(Duration::from_secs(3));
    let turn = one.turn(TURN).await.unwrap();
    assert_eq!(turn.values, [""; 0]);
    assert_eq!(one.signal().await, Signal::Lost);
    assert_eq!(one.join(&["a"]).await, ["a"]);
    assert_eq!(one.read(2).await, ["a0", "a1"]);
}

/// [KF-29] [K25] members that come and go for a while leave a group that settles: each topic has one reader, every record
/// was read by one who had committed all before it, and no commit of a member that was put out counts.
#[rstest]
#[case::classic(GroupProtocol::Classic)]
#[case::consumer(GroupProtocol::Consumer)]
#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_rebalances_settles_and_loses_nothing(#[case] protocol: GroupProtocol) {
    const TOPICS: [&str; 3] = ["a", "b", "c"];
    const MEMBERS: usize = 12;
    let world = World::embedded().await.speaking(protocol);
    for topic in TOPICS {
        world.topic(topic, &[]).await;
    }
    let mut sessions: Vec<_> = (0..MEMBERS)
        .map(|i| Some(world.session(&format!("one{i}"), AutoOffsetReset::Earliest)))
        .collect();
    let mut written = 0u32;
    let mut read: BTreeMap<String, usize> = BTreeMap::new();
    // Each round another half of them is in the group; those in it read and commit, and write goes on.
    for round in 0..10 {
        for topic in TOPICS {
            world.produce(topic, &[&format!("{topic}{round}")]).await;
            written += 1;
        }
        let mut rounds = JoinSet::new();
        for (i, session) in sessions.iter_mut().enumerate() {
            let mut session = session.take().unwrap();
            let stays = (i * 7 + round * 5) % 3 > 0;
            rounds.spawn(async move {
                let mut values = Vec::new();
                if !stays {
                    session.leave().await;
                    session.positions.clear();
                    return (i, session, values);
                }
                let outcome = session
                    .consumer
                    .run(Effect::Join(join(&TOPICS)), TURN)
                    .await
                    .unwrap();
                if let Outcome::Joined(partitions) = outcome {
                    session.positions = partitions.into_iter().map(|at| (at, None)).collect();
                    let turn = session.turn(TURN).await.unwrap();
                    let commits = session.positions.iter().filter_map(|(at, position)| {
                        Some(Commit {
                            partition: at.clone(),
                            position: (*position)?,
                            metadata: "".into(),
                        })
                    });
                    // What was not committed is read again by the next one.
                    if session.run(Effect::Commit(commits.collect())).await.is_ok() {
                        values = turn.values;
                    }
                }
                (i, session, values)
            });
        }
        for (i, session, values) in rounds.join_all().await {
            sessions[i] = Some(session);
            for value in values {
                *read.entry(value).or_default() += 1;
            }
        }
    }
    // The storm is over: two stay, and all that was written is read by them or was before.
    let mut left = sessions.split_off(2);
    for session in &mut left {
        session.take().unwrap().leave().await;
    }
    let mut settled = JoinSet::new();
    for session in &mut sessions {
        let mut session = session.take().unwrap();
        settled.spawn(async move {
            session.positions.clear();
            let mut topics = session.join(&TOPICS).await;
            while protocol == GroupProtocol::Classic && session.has_signal() {}
            // Those who left, and the other one, bring some more rebalances.
            let quiet = async {
                loop {
                    match timeout(Duration::from_secs(2), session.signals.recv()).await {
                        Ok(_) => {
                            session.positions.clear();
                            topics = session.join(&TOPICS).await;
                            // What was said before it is answered by it.
                            while protocol == GroupProtocol::Classic && session.has_signal() {}
                        }
                        Err(_) => return topics,
                    }
                }
            };
            let topics = timeout(PATIENCE, quiet).await.expect("it settles");
            (topics, session)
        });
    }
    let mut settled = settled.join_all().await;
    let held: Vec<&String> = settled.iter().flat_map(|(topics, _)| topics).collect();
    assert_eq!(held.len(), TOPICS.len(), "{held:?}");
    assert_eq!(held.iter().collect::<BTreeSet<_>>().len(), TOPICS.len());
    for (_, session) in &mut settled {
        let end = timeout(PATIENCE, async {
            for _ in 0..4 {
                for value in session.turn(TURN).await.unwrap().values {
                    *read.entry(value).or_default() += 1;
                }
            }
        });
        end.await.unwrap();
    }
    assert_eq!(read.len(), written as usize, "each was read: {read:?}");
    assert!(read.values().all(|times| *times == 1), "once: {read:?}");
}

/// Polls a future so often at most, and drops it.
async fn dropped_after<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    for _ in 0..polls {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Some(done);
        }
        sleep(Duration::from_millis(3)).await;
    }
    None
}

/// [KF-30] [K19] [RP-04] whatever a caller leaves behind, and wherever: the next one finds the same records, the group and
/// the commits as they were, and no connection is lost with it.
#[rstest]
#[case::classic(GroupProtocol::Classic)]
#[case::consumer(GroupProtocol::Consumer)]
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_leaves_anywhere_leaves_nothing_behind(#[case] protocol: GroupProtocol) {
    let world = World::embedded().await.speaking(protocol);
    world.topic("a", &["a0", "a1"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    let commit = || {
        Effect::Commit(vec![Commit {
            partition: at("a"),
            position: Position::at(1),
            metadata: "".into(),
        }])
    };
    for polls in 1..12 {
        dropped_after(polls, one.consumer.run(Effect::Join(join(&["a"])), TURN)).await;
        assert_eq!(one.join(&["a"]).await, ["a"], "{polls}");
        one.positions = vec![(at("a"), Some(Position::at(0)))];
        dropped_after(polls, one.consumer.poll(&one.plan(), TURN)).await;
        assert_eq!(one.read(2).await, ["a0", "a1"], "{polls}");
        dropped_after(polls, one.consumer.run(commit(), TURN)).await;
        one.commit("a", 2, "").await.unwrap();
        dropped_after(polls, one.consumer.run(Effect::Committed(vec![at("a")]), TURN)).await;
        assert_eq!(one.committed(&["a"]).await, [("a".to_owned(), 2, String::new())]);
        dropped_after(polls, one.consumer.run(Effect::Leave, TURN)).await;
        one.leave().await;
        assert!(
            world.broker().group_members(&world.name("group")).is_empty(),
            "{polls}"
        );
    }
    let requests = world.broker().requests();
    let connections: BTreeSet<_> = requests.iter().map(|received| received.connection).collect();
    assert!(connections.len() < 24, "{} connections", connections.len());
}
