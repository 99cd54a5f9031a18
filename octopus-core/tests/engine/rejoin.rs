//! Rebalances while no fetch comes.

use octopus_core::{Command, Error, Event, Fetched, Outcome};

use crate::world::{
    World, auto_commit, created, fetch, fetched, found_nothing, joined, joins, ms, positions, secs, settings,
    subscribe,
};

/// [KF-28] [D-23] after ten seconds, without a commit; partitions that stay keep their positions.
#[test]
fn an_idle_instance_joins_again_after_ten_seconds() {
    let mut world = joined(auto_commit(), &[("a", 5), ("b", 7)]);
    let instance = world.instance();
    world
        .at(secs(1))
        .event(Event::Rebalance(instance))
        .at(secs(4))
        .event(Event::Rebalance(instance))
        .at(ms(10_999))
        .gives([])
        .at(secs(11))
        .gives(["0: join a b in 10000"])
        .at(secs(12))
        .done(0, Outcome::Joining)
        .at(secs(20))
        .gives([])
        .at(secs(21))
        .gives(["1: join a b in 10000"])
        .done(1, joins(&["b"]))
        .request(1, Command::Assignments)
        .gives(["1 <- partitions b"])
        .request(2, fetch(500))
        .gives(["2: commit b@7 in 5000", "3: fetch b@7 in 500"]);
}

/// [D-23]
#[test]
fn an_instance_never_joins_by_itself_where_that_is_set() {
    let mut world = World::limited(|limits| limits.idle_rejoin = ms(0));
    world.set_up_create(1, "a", settings());
    world.set_up(1, "a", subscribe(&["t"]));
    world.set_up(1, "a", fetch(500));
    let instance = world.instance();
    world
        .event(Event::Rebalance(instance))
        .at(secs(120))
        .gives([])
        .request(1, fetch(500))
        .gives(["0: join t in 500"]);
}

/// [KF-28] [D-23] a fetch in progress joins in its next turn.
#[test]
fn a_rebalance_during_a_fetch_is_for_its_next_turn() {
    let mut world = joined(settings(), &[("t", 5)]);
    let instance = world.instance();
    world
        .request(1, fetch(5000))
        .event(Event::Rebalance(instance))
        .at(ms(500))
        .done(0, found_nothing())
        .done(1, joins(&["t"]))
        .gives(["0: fetch t@5 in 500", "1: join t in 500", "2: fetch t@5 in 500"]);
}

/// [KF-28] [D-23] while a reply is sent the join waits: for the next fetch, or ten seconds.
#[test]
fn a_rebalance_while_a_reply_is_sent_waits_for_its_end() {
    let mut world = joined(settings(), &[("t", 5)]);
    let instance = world.instance();
    world
        .request(1, fetch(5000))
        .done(0, fetched(&[("t", 9)]))
        .event(Event::Rebalance(instance))
        .at(secs(20))
        .delivered(1)
        .gives(["0: fetch t@5 in 500", "1 <- records 0"])
        .at(ms(29_999))
        .gives([])
        .at(secs(30))
        .gives(["1: join t in 10000"])
        .done(1, joins(&["t"]))
        .request(2, fetch(500))
        .gives(["2: fetch t@9 in 500"]);
}

/// A fetch takes a join without a fetch over; where that is over already, it has nothing to join.
#[test]
fn a_fetch_takes_the_join_over() {
    let mut world = joined(auto_commit(), &[("t", 5)]);
    let instance = world.instance();
    world
        .event(Event::Rebalance(instance))
        .at(secs(10))
        .request(1, fetch(500))
        .gives(["0: join t in 10000", "cancel 0", "1: join t behind t@5 in 500"])
        .done(0, joins(&[]))
        .done(1, joins(&["t"]))
        .gives(["2: fetch t@5 in 500"]);
}

/// [D-23]
#[test]
fn a_join_without_a_fetch_that_fails_is_tried_again() {
    let mut world = joined(settings(), &[("t", 5)]);
    let instance = world.instance();
    world
        .event(Event::Rebalance(instance))
        .at(secs(10))
        .fails(0, Error::KafkaUnreachable)
        .at(secs(20))
        .gives(["0: join t in 10000", "1: join t in 10000"]);
}

/// A group that rebalances once more meanwhile is joined once more.
#[test]
fn a_rebalance_during_a_join_asks_for_another() {
    let mut world = joined(settings(), &[("t", 5)]);
    let instance = world.instance();
    world
        .event(Event::Rebalance(instance))
        .at(secs(10))
        .event(Event::Rebalance(instance))
        .done(0, joins(&["t"]))
        .gives(["0: join t in 10000"])
        .request(1, fetch(500))
        .gives(["1: join t in 500"]);
}

/// [KF-31] [KF-32] Another member may have read on: positions of an assignment that was taken away are not kept.
#[test]
fn an_instance_that_was_put_out_starts_where_the_group_is() {
    let mut world = joined(settings(), &[("t", 5)]);
    let instance = world.instance();
    world
        .event(Event::Lost(instance))
        .request(1, fetch(500))
        .done(0, joins(&["t"]))
        .gives(["0: join t in 500", "1: fetch t@? in 500"]);
}

/// What subscribes to something else, or to nothing, does not go on with the old join.
#[test]
fn a_join_without_a_fetch_stops_when_the_subscription_changes() {
    let mut world = joined(settings(), &[("t", 5)]);
    let instance = world.instance();
    world
        .event(Event::Rebalance(instance))
        .at(secs(10))
        .request(1, subscribe(&["u"]))
        .done(1, crate::world::topics(&["u"]))
        .gives([
            "0: join t in 10000",
            "1: topics u in 10000",
            "cancel 0",
            "1 <- 204",
        ])
        .request(2, Command::Unsubscribe)
        .done(2, Outcome::Done)
        .delivered(1)
        .delivered(2)
        .at(secs(60))
        .gives(["2: leave in 5000", "2 <- 204"]);
}

#[test]
fn a_signal_for_an_instance_that_reads_no_group_is_ignored() {
    let mut world = created(settings());
    let instance = world.instance();
    world
        .event(Event::Rebalance(instance))
        .event(Event::Lost(instance))
        .at(secs(20))
        .gives([]);
}

/// A turn that only found where to start does not poll on for a group that put the instance out.
#[test]
fn a_turn_does_not_poll_on_past_a_signal() {
    let mut world = created(settings());
    world.set_up(1, "a", subscribe(&["t"]));
    let instance = world.instance();
    let started = Fetched {
        started: positions(&[("t", 3)]),
        ..Fetched::default()
    };
    world
        .request(1, fetch(5000))
        .done(0, joins(&["t"]))
        .event(Event::Lost(instance))
        .done(1, Outcome::Fetched(started))
        .gives(["0: join t in 500", "1: fetch t@? in 500"])
        .at(ms(500))
        .gives(["2: join t in 500"]);
}

/// [D-23] a join that says at its end that it still goes on is taken up again at once.
#[test]
fn a_join_without_a_fetch_goes_on_when_its_time_has_ended() {
    let mut world = joined(settings(), &[("t", 5)]);
    let instance = world.instance();
    world
        .event(Event::Rebalance(instance))
        .at(secs(10))
        .unnoticed(secs(20))
        .done(0, Outcome::Joining)
        .gives(["0: join t in 10000", "1: join t in 10000"]);
}
