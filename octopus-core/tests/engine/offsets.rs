//! Commits, committed offsets and seeks.

use octopus_core::{Command, Commit, Error, Event, Outcome, Position};

use crate::world::{
    assigned, auto_commit, commit, committed, created, fetch, fetched, joined, only, positions, seek,
    settings, topics,
};

/// [CO-01] [CO-02] [CO-03]
#[test]
fn a_commit_names_the_last_record_and_commits_the_next() {
    let mut world = assigned(settings(), &[("a", 5), ("b", 0)]);
    world
        .request(1, commit(&[("b", 3), ("a", 41)]))
        .done(0, Outcome::Done)
        .gives(["0: commit b@4/m a@42/m in 10000", "1 <- []"]);
}

/// [CO-02] [CO-03]
#[test]
fn a_commit_without_a_body_commits_every_position() {
    let mut world = assigned(settings(), &[("a", 41), ("b", 7)]);
    world.set_up(1, "a", fetch(500));
    world.set_up(1, "a", seek(&[("a", 41)]));
    world
        .request(1, fetch(500))
        .done(0, fetched(&[("a", 42)]))
        .delivered(1)
        .request(2, Command::Commit(None))
        .done(1, Outcome::Done)
        .gives([
            "0: fetch a@41 b@7 in 500",
            "1 <- records 0",
            "1: commit a@42 b@7 in 10000",
            "2 <- []",
        ]);
}

/// [D-39]
#[test]
fn a_commit_without_a_body_first_finds_where_reading_starts() {
    let mut world = created(settings());
    world.set_up(1, "a", crate::world::assign(&["a", "b"]));
    world.set_up(1, "a", seek(&[("b", 7)]));
    world
        .request(1, Command::Commit(None))
        .done(0, Outcome::Positions(positions(&[("a", 3)])))
        .done(1, Outcome::Done)
        .request(2, fetch(500))
        .gives([
            "0: start a in 10000",
            "1: commit a@3 b@7 in 10000",
            "1 <- []",
            "2: fetch a@3 b@7 in 500",
        ]);
}

/// [D-14] [D-13]
#[test]
fn a_commit_of_nothing_sends_nothing() {
    let mut world = created(settings());
    world
        .request(1, Command::Commit(None))
        .request(2, commit(&[]))
        .gives(["1 <- []", "2 <- []"]);
    world.set_up(1, "a", crate::world::assign(&["a"]));
    world
        .request(3, Command::Commit(None))
        .done(0, Outcome::Positions(vec![]))
        .gives(["0: start a in 10000", "3 <- []"]);
}

/// [CO-05] [D-17]
#[test]
fn a_commit_takes_only_assigned_partitions() {
    let mut world = assigned(settings(), &[("a", 5)]);
    world
        .request(1, commit(&[("a", 1), ("b", 2)]))
        .gives(["1 <- 40903"]);
}

/// [CO-06]
#[test]
fn a_commit_that_the_group_refuses_is_refused() {
    let mut world = joined(settings(), &[("a", 5)]);
    world
        .request(1, Command::Commit(None))
        .fails(0, Error::CommitFailed)
        .gives(["0: commit a@5 in 10000", "1 <- 40903"]);
}

/// [D-08]
#[test]
fn of_an_offset_named_twice_the_last_counts() {
    let mut world = assigned(settings(), &[("a", 5), ("b", 5)]);
    world
        .request(1, commit(&[("a", 1), ("b", 2), ("a", 3)]))
        .gives(["0: commit b@3/m a@4/m in 10000"]);
}

/// [CO-04] [D-16] also of partitions that are not assigned.
#[test]
fn committed_offsets_leave_out_what_was_never_committed() {
    let mut world = created(settings());
    let held = |topic: &str, offset, metadata: &str| Commit {
        partition: only(topic),
        position: Position::at(offset),
        metadata: metadata.into(),
    };
    world
        .request(1, committed(&["c", "b", "a"]))
        .done(0, topics(&["a", "b", "c"]))
        .done(1, Outcome::Committed(vec![held("a", 42, ""), held("c", 7, "m")]))
        .gives([
            "0: topics c b a in 10000",
            "1: committed c b a in 10000",
            "1 <- offsets c@7/m a@42",
        ]);
}

/// [CO-04] [D-13]
#[test]
fn committed_offsets_need_a_list() {
    let mut world = created(settings());
    world
        .request(1, Command::Committed(None))
        .request(2, committed(&[]))
        .gives(["1 <- 40402", "2 <- offsets "]);
}

/// [SK-01]
#[test]
fn the_next_fetch_starts_where_a_seek_went() {
    let mut world = assigned(settings(), &[("a", 5), ("b", 6)]);
    world
        .request(1, seek(&[("b", 2)]))
        .request(2, fetch(500))
        .gives(["1 <- 204", "0: fetch a@5 b@2 in 500"]);
}

/// [SK-01] [D-17] all or nothing.
#[test]
fn a_seek_takes_only_assigned_partitions() {
    let mut world = assigned(settings(), &[("a", 5)]);
    world
        .request(1, seek(&[("a", 2), ("b", 2)]))
        .request(2, Command::SeekToEnd(vec![only("a"), only("b")]))
        .request(3, fetch(500))
        .gives(["1 <- 40903", "2 <- 40903", "0: fetch a@5 in 500"]);
}

/// [D-13]
#[test]
fn a_seek_of_nothing_is_done_at_once() {
    created(settings()).request(1, seek(&[])).gives(["1 <- 204"]);
}

/// [SK-02] [D-39] known before the answer.
#[test]
fn an_empty_list_seeks_every_assigned_partition() {
    let mut world = assigned(settings(), &[("a", 5), ("b", 6)]);
    world
        .request(1, Command::SeekToBeginning(vec![]))
        .gives(["0: beginning a b in 10000"])
        .done(0, Outcome::Positions(positions(&[("a", 0), ("b", 1)])))
        .request(2, Command::SeekToEnd(vec![only("b")]))
        .done(1, Outcome::Positions(positions(&[("b", 9)])))
        .request(3, fetch(500))
        .gives([
            "1 <- 204",
            "1: end b in 10000",
            "2 <- 204",
            "2: fetch a@0 b@9 in 500",
        ]);
}

/// [SK-02]
#[test]
fn a_seek_of_every_partition_needs_one() {
    let mut world = created(settings());
    world.set_up(1, "a", crate::world::subscribe(&["t"]));
    world
        .request(1, Command::SeekToBeginning(vec![]))
        .request(2, Command::SeekToEnd(vec![]))
        .gives(["1 <- 40903", "2 <- 40903"]);
}

/// [NS-05] a topic that the cluster does not list has no end; reading starts when it is there.
#[test]
fn a_seek_in_a_missing_topic_leaves_its_position_open() {
    let mut world = assigned(settings(), &[("a", 5), ("b", 6)]);
    world
        .request(1, Command::SeekToEnd(vec![]))
        .done(0, Outcome::Positions(positions(&[("a", 9)])))
        .request(2, fetch(500))
        .gives(["0: end a b in 10000", "1 <- 204", "1: fetch a@9 b@? in 500"]);
}

/// [D-17]
#[test]
fn a_seek_that_fails_moves_nothing() {
    let mut world = assigned(settings(), &[("a", 5)]);
    world
        .request(1, Command::SeekToEnd(vec![]))
        .fails(0, Error::KafkaRetriable)
        .request(2, fetch(500))
        .gives(["0: end a in 10000", "1 <- 50003", "1: fetch a@5 in 500"]);
}

/// An earlier commit can't land behind a later one.
#[test]
fn a_clients_commit_waits_for_the_auto_commit_before_it() {
    let mut world = assigned(auto_commit(), &[("a", 5)]);
    world.at(crate::world::secs(6));
    world
        .request(1, fetch(500))
        .done(1, fetched(&[("a", 8)]))
        .delivered(1)
        .request(2, commit(&[("a", 7)]))
        .gives(["0: commit a@5 in 5000", "1: fetch a@5 in 500", "1 <- records 1"])
        .done(0, Outcome::Done)
        .gives(["2: commit a@8/m in 10000"]);
}

#[test]
fn a_caller_that_leaves_while_it_waits_for_an_auto_commit_commits_nothing() {
    let mut world = assigned(auto_commit(), &[("a", 5)]);
    world.at(crate::world::secs(6));
    world
        .request(1, fetch(500))
        .done(1, fetched(&[("a", 8)]))
        .delivered(1)
        .request(2, commit(&[("a", 7)]))
        .dropped(2)
        .done(0, Outcome::Done)
        .request(3, Command::Assignments)
        .gives([
            "0: commit a@5 in 5000",
            "1: fetch a@5 in 500",
            "1 <- records 1",
            "3 <- partitions a",
        ]);
}

/// What the group gave to another member is for Kafka to refuse, not for the engine to guess.
#[test]
fn a_clients_commit_after_the_group_put_it_out_goes_to_kafka() {
    let mut world = joined(settings(), &[("a", 5)]);
    let instance = world.instance();
    world
        .event(Event::Lost(instance))
        .request(1, Command::Commit(None))
        .fails(0, Error::CommitFailed)
        .gives(["0: commit a@5 in 10000", "1 <- 40903"]);
}
