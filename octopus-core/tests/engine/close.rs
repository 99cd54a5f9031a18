//! Delete, and the close of idle instances.

use octopus_core::{Command, Error, Event, Outcome};

use crate::world::{
    World, assigned, auto_commit, commit, create, created, fetch, fetched, joined, ms, secs, settings,
};

/// [LC-02] [D-31] the name is free when the answer goes out, and not before.
#[test]
fn a_delete_frees_the_name() {
    let mut world = created(settings());
    world
        .request(1, Command::Delete)
        .request(2, create())
        .request(3, Command::Subscription)
        .gives(["0: close in 5000", "2 <- 40902", "3 <- 40403"])
        .done(0, Outcome::Done)
        .request(4, create())
        .request(5, Command::Delete)
        .gives(["1 <- 204", "1: open in 9000", "5 <- 40403"]);
}

/// [AK-03] [D-46] the commit and the leave share five seconds.
#[test]
fn a_delete_commits_first() {
    let mut world = joined(auto_commit(), &[("t", 5)]);
    world
        .request(1, Command::Delete)
        .at(secs(2))
        .done(0, Outcome::Done)
        .done(1, Outcome::Done)
        .gives(["0: commit t@5 in 5000", "1: close in 3000", "1 <- 204"]);
}

/// [AK-05]
#[test]
fn a_delete_goes_on_when_its_commit_fails() {
    let mut world = joined(auto_commit(), &[("t", 5)]);
    world
        .request(1, Command::Delete)
        .at(secs(5))
        .fails(0, Error::KafkaRetriable)
        .fails(1, Error::KafkaUnreachable)
        .gives(["0: commit t@5 in 5000", "1: close in 0", "1 <- 204"]);
}

/// [AK-04] the last commit is not passed by an earlier one.
#[test]
fn a_close_waits_for_the_auto_commit_before_it() {
    let mut world = assigned(auto_commit(), &[("t", 5)]);
    world
        .at(secs(6))
        .request(1, fetch(500))
        .done(1, fetched(&[("t", 8)]))
        .delivered(1)
        .request(2, Command::Delete)
        .gives(["0: commit t@5 in 5000", "1: fetch t@5 in 500", "1 <- records 1"])
        .at(secs(8))
        .done(0, Outcome::Done)
        .gives(["2: commit t@8 in 3000"]);
}

/// [D-31] it waits its ten seconds like any other, and what waits behind it is told at once.
#[test]
fn a_delete_waits_for_a_fetch() {
    let mut world = assigned(settings(), &[("t", 5)]);
    world
        .request(1, fetch(30_000))
        .done(0, fetched(&[("t", 6)]))
        .request(2, Command::Delete)
        .request(3, Command::Subscription)
        .at(ms(9_999))
        .gives(["0: fetch t@5 in 500", "1 <- records 0"])
        .delivered(1)
        .gives(["3 <- 40403", "1: close in 5000"]);
}

/// [D-31] [LK-01]
#[test]
fn a_delete_that_waits_too_long_is_refused() {
    let mut world = assigned(settings(), &[("t", 5)]);
    world
        .request(1, fetch(30_000))
        .done(0, fetched(&[("t", 6)]))
        .request(2, Command::Delete)
        .at(secs(10))
        .delivered(1)
        .request(3, Command::Assignments)
        .gives([
            "0: fetch t@5 in 500",
            "1 <- records 0",
            "2 <- 40904",
            "3 <- partitions t",
        ]);
}

/// [LC-01] five minutes, looked at every thirty seconds, from the end of the last reply.
#[test]
fn an_idle_instance_is_closed() {
    let mut world = created(settings());
    world
        .at(secs(10))
        .request(1, Command::Subscription)
        .at(secs(20))
        .delivered(1)
        .gives(["1 <- topics "])
        .at(ms(329_999))
        .gives([])
        .at(secs(330))
        .gives(["0: close in 5000"])
        .request(2, Command::Subscription)
        .request(3, create())
        .gives(["2 <- 40403", "1: open in 9000"]);
}

/// [AK-03] [LC-03] with its last commit, as a member of its group up to then.
#[test]
fn an_idle_instance_commits_before_it_is_closed() {
    let mut world = joined(auto_commit(), &[("t", 5)]);
    world
        .at(secs(299))
        .gives([])
        .at(secs(300))
        .gives(["0: commit t@5 in 5000"])
        .done(0, Outcome::Done)
        .gives(["1: close in 5000"]);
}

/// [D-30]
#[test]
fn a_request_in_hand_is_not_idleness() {
    let mut world = assigned(settings(), &[("t", 5)]);
    world
        .at(secs(290))
        .request(1, fetch(500))
        .done(0, fetched(&[("t", 6)]))
        .at(secs(310))
        .gives(["0: fetch t@5 in 500", "1 <- records 0"])
        .delivered(1)
        .at(ms(629_999))
        .gives([])
        .at(secs(630))
        .gives(["1: close in 5000"]);
}

/// [D-30] also one whose caller left while its call runs.
#[test]
fn what_runs_for_a_caller_that_left_is_not_idleness() {
    let mut world = assigned(settings(), &[("t", 5)]);
    world
        .at(secs(295))
        .request(1, commit(&[("t", 6)]))
        .dropped(1)
        .at(secs(300))
        .gives(["0: commit t@7/m in 10000"]);
}

/// [LC-02] a close that the driver never ends is given up.
#[test]
fn a_close_that_never_ends_is_given_up() {
    let mut world = created(settings());
    world
        .request(1, Command::Delete)
        .at(secs(7))
        .gives(["0: close in 5000", "cancel 0", "1 <- 204"]);
}

/// [D-30] with two in hand, the end of one is not the beginning of idleness.
#[test]
fn an_instance_is_idle_when_its_last_request_ends() {
    let mut world = World::limited(|limits| {
        limits.idle_timeout = secs(5);
        limits.reap_interval = secs(1);
    });
    world.set_up_create(1, "a", settings());
    world.set_up_assign(1, "a", &[("t", 5)]);
    world
        .request(1, fetch(500))
        .done(0, fetched(&[("t", 6)]))
        .request(2, fetch(500))
        .at(ms(200))
        .delivered(2)
        .at(secs(20))
        .gives(["0: fetch t@5 in 500", "1 <- records 0", "2 <- 40904"])
        .delivered(1)
        .at(ms(24_999))
        .gives([])
        .at(secs(25))
        .gives(["1: close in 5000"]);
}

/// A join without a fetch does not go on behind a close.
#[test]
fn a_close_stops_a_join_without_a_fetch() {
    let mut world = joined(settings(), &[("t", 5)]);
    let instance = world.instance();
    world
        .event(Event::Rebalance(instance))
        .at(secs(10))
        .request(1, Command::Delete)
        .gives(["0: join t in 10000", "cancel 0", "1: close in 5000"]);
}
