//! What an instance commits by itself, and when.

use octopus_core::{Command, Error, Event, Outcome};

use crate::world::{
    assigned, auto_commit, commit, created, fetch, fetched, found_nothing, joined, joins, ms, secs, subscribe,
};

/// [AK-01] [D-38] the positions before the poll, alongside it, when five seconds have passed since the create.
#[test]
fn a_fetch_commits_what_was_read_before_it() {
    let mut world = assigned(auto_commit(), &[("t", 5)]);
    world
        .at(ms(4_999))
        .request(1, fetch(500))
        .done(0, fetched(&[("t", 8)]))
        .delivered(1)
        .gives(["0: fetch t@5 in 500", "1 <- records 0"])
        .at(secs(5))
        .request(2, fetch(500))
        .gives(["1: commit t@8 in 5000", "2: fetch t@8 in 500"])
        .done(2, fetched(&[("t", 9)]))
        .done(1, Outcome::Done)
        .delivered(2)
        .gives(["2 <- records 2"])
        .at(ms(9_999))
        .request(3, fetch(500))
        .done(3, fetched(&[("t", 10)]))
        .delivered(3)
        .gives(["3: fetch t@9 in 500", "3 <- records 3"])
        .at(secs(10))
        .request(4, fetch(500))
        .gives(["4: commit t@10 in 5000", "5: fetch t@10 in 500"]);
}

/// [AK-01] five seconds may pass during a fetch: the positions before its next poll are committed, once.
#[test]
fn a_long_poll_commits_when_five_seconds_have_passed() {
    let mut world = assigned(auto_commit(), &[("t", 5)]);
    world
        .at(ms(4_800))
        .request(1, fetch(10_000))
        .gives(["0: fetch t@5 in 500"])
        .at(ms(5_300))
        .done(0, found_nothing())
        .gives(["1: commit t@5 in 5000", "2: fetch t@5 in 500"])
        .done(1, Outcome::Done)
        .at(ms(5_800))
        .done(2, found_nothing())
        .gives(["3: fetch t@5 in 500"]);
}

/// [AK-04] records that did not reach the client are not committed.
#[test]
fn what_was_not_delivered_is_not_committed() {
    let mut world = assigned(auto_commit(), &[("t", 5)]);
    world
        .request(1, fetch(500))
        .done(0, fetched(&[("t", 8)]))
        .dropped(1)
        .at(secs(6))
        .request(2, Command::Delete)
        .gives(["0: fetch t@5 in 500", "1 <- records 0", "1: commit t@5 in 5000"]);
}

/// [D-38] one in flight, and five seconds from the last try whatever came of it.
#[test]
fn a_failed_auto_commit_is_tried_again_five_seconds_later() {
    let mut world = assigned(auto_commit(), &[("t", 5)]);
    world
        .at(secs(5))
        .request(1, fetch(500))
        .fails(0, Error::KafkaRetriable)
        .done(1, fetched(&[("t", 6)]))
        .delivered(1)
        .gives(["0: commit t@5 in 5000", "1: fetch t@5 in 500", "1 <- records 1"])
        .at(secs(9))
        .request(2, fetch(500))
        .done(2, fetched(&[("t", 7)]))
        .delivered(2)
        .gives(["2: fetch t@6 in 500", "2 <- records 2"])
        .at(secs(10))
        .request(3, fetch(500))
        .done(4, fetched(&[("t", 8)]))
        .delivered(3)
        .gives(["3: commit t@7 in 5000", "4: fetch t@7 in 500", "3 <- records 4"])
        .at(secs(16))
        .request(4, fetch(500))
        .gives(["5: fetch t@8 in 500"]);
}

/// [D-38]
#[test]
fn a_clients_commit_does_not_count() {
    let mut world = assigned(auto_commit(), &[("t", 5)]);
    world
        .at(secs(4))
        .request(1, commit(&[("t", 3)]))
        .done(0, Outcome::Done)
        .at(secs(5))
        .request(2, fetch(500))
        .gives([
            "0: commit t@4/m in 10000",
            "1 <- []",
            "1: commit t@5 in 5000",
            "2: fetch t@5 in 500",
        ]);
}

/// [AK-01] with nothing read there is nothing to commit.
#[test]
fn a_first_fetch_commits_nothing() {
    let mut world = created(auto_commit());
    world.set_up(1, "a", subscribe(&["t"]));
    world
        .at(secs(10))
        .request(1, fetch(500))
        .done(0, joins(&["t"]))
        .gives(["0: join t in 500", "1: fetch t@? in 500"]);
}

/// [AK-02] before its group rebalances during a fetch; that counts as its last commit.
#[test]
fn a_rebalance_during_a_fetch_commits_first() {
    let mut world = joined(auto_commit(), &[("t", 5)]);
    let instance = world.instance();
    world
        .at(secs(6))
        .event(Event::Rebalance(instance))
        .request(1, fetch(1000))
        .gives(["0: join t behind t@5 in 500"])
        .at(ms(6_200))
        .done(0, joins(&["t"]))
        .gives(["1: fetch t@5 in 300"]);
}

/// [AK-04] the commit of a poll, tried again behind that of a join, would set the group back: it is stopped first.
#[test]
fn a_join_stops_the_commit_of_the_poll_before_it() {
    let mut world = joined(auto_commit(), &[("t", 5)]);
    let instance = world.instance();
    world
        .at(secs(6))
        .request(1, fetch(2000))
        .gives(["0: commit t@5 in 5000", "1: fetch t@5 in 500"])
        .event(Event::Rebalance(instance))
        .at(ms(6_500))
        .done(1, found_nothing())
        .gives(["cancel 0", "2: join t behind t@5 in 500"]);
}

/// [AK-02] on unsubscribe.
#[test]
fn an_unsubscribe_commits_first() {
    let mut world = joined(auto_commit(), &[("t", 5)]);
    world
        .request(1, Command::Unsubscribe)
        .fails(0, Error::KafkaUnreachable)
        .done(1, Outcome::Done)
        .gives(["0: commit t@5 in 5000", "1: leave in 5000", "1 <- 204"]);
}

/// Nothing of an assignment that the group took away is committed: another member may have moved on.
#[test]
fn an_instance_that_was_put_out_commits_nothing_of_its_own() {
    let mut world = joined(auto_commit(), &[("t", 5)]);
    let instance = world.instance();
    world
        .event(Event::Lost(instance))
        .at(secs(6))
        .request(1, fetch(500))
        .done(0, joins(&["t"]))
        .gives(["0: join t in 500", "1: fetch t@? in 500"])
        .event(Event::Lost(instance))
        .done(1, fetched(&[("t", 3)]))
        .delivered(1)
        .request(2, Command::Delete)
        .gives(["1 <- records 1", "2: close in 5000"]);
}
