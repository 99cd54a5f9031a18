//! One request at a time.

use octopus_core::{Command, Outcome};

use crate::world::{assigned, commit, fetch, fetched, ms, secs, seek, settings};

/// [LK-01]
#[test]
fn a_request_waits_ten_seconds_for_another() {
    let mut world = assigned(settings(), &[("t", 5)]);
    world
        .request(1, fetch(5000))
        .done(0, fetched(&[("t", 8)]))
        .at(secs(1))
        .request(2, Command::Subscription)
        .gives(["0: fetch t@5 in 500", "1 <- records 0"])
        .at(ms(10_999))
        .gives([])
        .at(secs(11))
        .gives(["2 <- 40904"])
        .delivered(1)
        .gives([]);
}

/// [LK-01] in the order in which they came.
#[test]
fn the_line_goes_on_when_the_request_before_ends() {
    let mut world = assigned(settings(), &[("t", 5)]);
    world
        .request(1, commit(&[("t", 6)]))
        .request(2, Command::Assignments)
        .request(3, seek(&[("t", 9)]))
        .request(4, Command::Commit(None))
        .gives(["0: commit t@7/m in 10000"])
        .at(secs(3))
        .done(0, Outcome::Done)
        .gives([
            "1 <- []",
            "2 <- partitions t",
            "3 <- 204",
            "1: commit t@9 in 10000",
        ]);
}

/// [LK-02]
#[test]
fn a_fetch_does_not_wait_for_the_instance() {
    let mut world = assigned(settings(), &[("t", 5)]);
    world
        .request(1, commit(&[("t", 6)]))
        .request(2, fetch(5000))
        .gives(["0: commit t@7/m in 10000", "2 <- 40904"]);
}

/// [LK-02] [LI-03] a reply with records holds the instance until its fate is known.
#[test]
fn a_reply_with_records_holds_the_instance() {
    let mut world = assigned(settings(), &[("t", 5)]);
    world
        .request(1, fetch(5000))
        .done(0, fetched(&[("t", 8)]))
        .request(2, fetch(5000))
        .request(3, Command::Commit(None))
        .gives(["0: fetch t@5 in 500", "1 <- records 0"])
        .request(4, fetch(5000))
        .gives(["4 <- 40904"])
        .at(ms(200))
        .gives(["2 <- 40904"])
        .delivered(1)
        .gives(["1: commit t@8 in 10000"]);
}

/// [LK-02] [RP-05] a client that has its reply whole may fetch on another connection before the reply is known as
/// delivered.
#[test]
fn a_fetch_right_behind_a_reply_waits_for_its_fate() {
    let mut world = assigned(settings(), &[("t", 5)]);
    world
        .request(1, fetch(5000))
        .done(0, fetched(&[("t", 8)]))
        .request(2, fetch(5000))
        .gives(["0: fetch t@5 in 500", "1 <- records 0"])
        .at(ms(100))
        .delivered(1)
        .gives(["1: fetch t@8 in 500"]);
}

#[test]
fn a_request_whose_caller_left_leaves_the_line() {
    let mut world = assigned(settings(), &[("t", 5)]);
    world
        .request(1, commit(&[("t", 6)]))
        .request(2, commit(&[("t", 7)]))
        .request(3, commit(&[("t", 8)]))
        .dropped(2)
        .done(0, Outcome::Done)
        .gives(["0: commit t@7/m in 10000", "1 <- []", "1: commit t@9/m in 10000"]);
}

/// What was begun for a caller that left goes on, and holds the instance to its end.
#[test]
fn what_runs_for_a_caller_that_left_holds_the_instance() {
    let mut world = assigned(settings(), &[("t", 5)]);
    world
        .request(1, commit(&[("t", 6)]))
        .dropped(1)
        .request(2, commit(&[("t", 7)]))
        .gives(["0: commit t@7/m in 10000"])
        .done(0, Outcome::Done)
        .gives(["1: commit t@8/m in 10000"]);
}

/// A call that the driver never ends is given up, and the instance goes on.
#[test]
fn a_call_that_never_ends_is_given_up() {
    let mut world = assigned(settings(), &[("t", 5)]);
    world
        .request(1, commit(&[("t", 6)]))
        .at(secs(11))
        .request(2, commit(&[("t", 7)]))
        .at(secs(12))
        .gives([
            "0: commit t@7/m in 10000",
            "cancel 0",
            "1 <- 50003",
            "1: commit t@8/m in 10000",
        ])
        .done(0, Outcome::Done)
        .gives([]);
}
