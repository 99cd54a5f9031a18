//! Who leads a partition, and what became of its log.

use std::{ops::RangeInclusive, time::Duration};

use octopus_core::{AutoOffsetReset, Commit, Effect, Error};
use octopus_kafka::{
    Cluster, Config,
    broker::{ApiKey, Request, always, first},
};
use tokio::time::timeout;

use super::{
    nodes::Nodes,
    support::{PATIENCE, Session, TURN, World, at, batch},
};

/// [KF-20] a leader of a new epoch that the answer names is taken at its word: nothing is looked up, no record comes twice
/// and none is left out.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_leader_that_an_answer_names_is_asked_at_once() {
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    assert_eq!(one.read(1).await, ["a0"]);
    let looked_up = world.received(ApiKey::Metadata).len();
    let name = world.name("a");
    for epoch in 1..4 {
        assert_eq!(world.broker().elect(&name, None), Some(epoch));
        let value = format!("a{epoch}");
        world.broker().append(&name, batch(&[&value])).unwrap();
        assert_eq!(one.read(1).await, [value]);
    }
    assert_eq!(world.received(ApiKey::Metadata).len(), looked_up);
    let last = world.received(ApiKey::Fetch).pop().unwrap();
    let Request::Fetch(fetch) = last.request else {
        panic!()
    };
    assert_eq!(fetch.topics[0].partitions[0].current_leader_epoch, 3);
}

/// [KF-20] [K14] a partition that moves to another broker is read on there, whatever the old one answers, and also where
/// for a while there is no leader, or the old one is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_moves_is_read_on_at_its_new_leader() {
    for code in [Some(6), Some(3), None] {
        let mut nodes = Nodes::start().await;
        nodes.topic("a", &["a0", "a1"]);
        let name = nodes.world.name("a");
        nodes.world.broker().append(&name, batch(&["a0"])).unwrap();
        let servers = [nodes.world.broker().addr(), nodes.second.addr()];
        let servers = servers.map(|server| server.to_string()).to_vec();
        nodes.world.cluster = Cluster::new(Config::new(servers));
        let mut one = nodes.world.session("one", AutoOffsetReset::Earliest);
        one.assign(&["a"]);
        assert_eq!(one.read(1).await, ["a0"], "from the first");
        nodes.lead("a", -1, 0);
        match code {
            Some(code) => nodes
                .world
                .broker()
                .faults()
                .on(ApiKey::Fetch, always())
                .error(code),
            None => nodes.world.broker.take().unwrap().shutdown().await,
        }
        let turn = one.turn(TURN).await.unwrap();
        assert_eq!((turn.values, turn.failed), (Vec::new(), Vec::new()), "{code:?}");
        assert_eq!(nodes.second.elect(&name, None), Some(1));
        nodes.lead("a", 2, 1);
        reads(&mut one, &["a1"]).await;
    }
}

/// Reads until these have come and nothing else.
async fn reads(one: &mut Session, values: &[&str]) {
    let read = timeout(PATIENCE, one.read(values.len()));
    assert_eq!(read.await.unwrap(), values);
    assert_eq!(one.turn(Duration::from_millis(50)).await.unwrap().values, [""; 0]);
}

/// A world whose log of `a` had five records of epoch 0, all read; then a leader was elected that has the first two and
/// took five others.
async fn truncated(reset: AutoOffsetReset) -> (World, Session) {
    let world = World::embedded().await;
    world.topic("a", &["a0", "a1", "a2", "a3", "a4"]).await;
    let mut one = world.session("one", reset);
    one.assign(&["a"]);
    one.seek("a", 0);
    reads(&mut one, &["a0", "a1", "a2", "a3", "a4"]).await;
    let name = world.name("a");
    assert_eq!(world.broker().elect(&name, Some(2)), Some(1));
    for value in ["b2", "b3", "b4", "b5", "b6"] {
        world.broker().append(&name, batch(&[value])).unwrap();
    }
    (world, one)
}

/// [KF-21] [K18] a log that an unclean election cut off below the position, and that grew past it again, is read on from
/// where it parts from what was read: no record of the new leader is left out.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_was_cut_off_is_read_on_from_where_it_parts() {
    for reset in [AutoOffsetReset::Earliest, AutoOffsetReset::Latest] {
        let (world, mut one) = truncated(reset).await;
        reads(&mut one, &["b2", "b3", "b4", "b5", "b6"]).await;
        let asked = world.received(ApiKey::OffsetForLeaderEpoch);
        assert_eq!(asked.len(), 1, "once for each new leader");
        let Request::OffsetForLeaderEpoch(asked) = &asked[0].request else {
            panic!()
        };
        let partition = &asked.topics[0].partitions[0];
        assert_eq!((partition.current_leader_epoch, partition.leader_epoch), (1, 0));
    }
}

/// [KF-21] [D-20] with a reset of none nothing is read until a seek.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_was_cut_off_fails_without_a_reset() {
    let (_world, mut one) = truncated(AutoOffsetReset::None).await;
    for _ in 0..2 {
        let mut failed = Vec::new();
        while failed.is_empty() {
            let turn = one.turn(TURN).await.unwrap();
            assert_eq!(turn.values, [""; 0]);
            failed = turn.failed;
        }
        assert_eq!(failed, [(at("a"), Error::NoOffset(at("a")))]);
    }
    one.seek("a", 3);
    reads(&mut one, &["b3", "b4", "b5", "b6"]).await;
}

/// [KF-21] [K18] a commit that says its epoch is checked where reading starts from it; one that does not is taken as it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_past_where_the_log_parts_starts_there() {
    let (world, one) = truncated(AutoOffsetReset::Earliest).await;
    let position = one.positions[0].1.unwrap();
    assert_eq!((position.offset, position.leader_epoch), (5, Some(0)));
    let commit = |position| {
        Effect::Commit(vec![Commit {
            partition: at("a"),
            position,
            metadata: "".into(),
        }])
    };
    one.run(commit(position)).await.unwrap();
    let mut again = world.session("again", AutoOffsetReset::Earliest);
    again.assign(&["a"]);
    reads(&mut again, &["b2", "b3", "b4", "b5", "b6"]).await;
    one.run(commit(octopus_core::Position::at(5))).await.unwrap();
    let mut plain = world.session("plain", AutoOffsetReset::Earliest);
    plain.assign(&["a"]);
    reads(&mut plain, &["b5", "b6"]).await;
}

/// [KF-21] a check that fails in passing is made again, and nothing is read before it.
#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_fails_is_made_again() {
    for code in [6, 74, 75, 3] {
        let (world, mut one) = truncated(AutoOffsetReset::Earliest).await;
        world
            .broker()
            .faults()
            .on(ApiKey::OffsetForLeaderEpoch, first(2))
            .error(code);
        reads(&mut one, &["b2", "b3", "b4", "b5", "b6"]).await;
    }
    // A broker that can't tell is believed.
    let world = World::embedded().await;
    world
        .broker()
        .set_versions(ApiKey::OffsetForLeaderEpoch, RangeInclusive::new(1, 0));
    world.topic("a", &["a0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    one.read(1).await;
    world.broker().elect(&world.name("a"), None);
    world.broker().append(&world.name("a"), batch(&["a1"])).unwrap();
    reads(&mut one, &["a1"]).await;
}

/// [KF-22] [K17] [D-20] records that retention deletes ahead of the position: it goes where the reset says, by the broker's
/// own word and not by the fields of the error; with none, nothing is read until a seek.
#[tokio::test(flavor = "multi_thread")]
async fn a_position_that_retention_passed_goes_where_the_reset_says() {
    for (reset, expected) in [
        (AutoOffsetReset::Earliest, Some("a4")),
        (AutoOffsetReset::Latest, None),
        (AutoOffsetReset::None, None),
    ] {
        let world = World::embedded().await;
        world.topic("a", &["a0", "a1", "a2", "a3", "a4"]).await;
        let mut one = world.session("one", reset);
        one.assign(&["a"]);
        one.seek("a", 1);
        assert_eq!(world.broker().delete_records_before(&world.name("a"), 4), Some(4));
        let mut turn = one.turn(TURN).await.unwrap();
        while turn.values.is_empty() && turn.started.is_empty() && turn.failed.is_empty() {
            turn = one.turn(TURN).await.unwrap();
        }
        match (reset, expected) {
            (AutoOffsetReset::None, _) => {
                assert_eq!(turn.failed, [(at("a"), Error::NoOffset(at("a")))]);
                one.seek("a", 4);
                assert_eq!(one.read(1).await, ["a4"]);
            }
            (_, Some(value)) => {
                if turn.values.is_empty() {
                    turn.values = one.read(1).await;
                }
                assert_eq!(turn.values, [value]);
            }
            (_, None) => {
                assert_eq!(one.position("a"), Some(5), "the end");
                world.produce("a", &["a5"]).await;
                assert_eq!(one.read(1).await, ["a5"]);
            }
        }
    }
}
