//! Who polls when.

use octopus_core::{Command, Error, Outcome};

use crate::world::{
    World, created, fetch, fetched, found_nothing, joins, ms, secs, settings, subscribe, world,
};

/// Twelve instances of six users, `a` and `b` of each, that read `t` from 0.
fn twelve() -> World {
    let mut world = world();
    for user in 1..=6 {
        for name in ["a", "b"] {
            world.set_up_create(user, name, settings());
            world.set_up_assign(user, name, &[("t", 0)]);
        }
    }
    world
}

fn all() -> impl Iterator<Item = (u128, &'static str)> {
    (1..=6).flat_map(|user| ["a", "b"].map(|name| (user, name)))
}

/// [LI-01]
#[test]
fn a_users_third_fetch_is_refused_at_once() {
    let mut world = world();
    for name in ["a", "b", "c"] {
        world.set_up_create(1, name, settings());
    }
    world
        .request_of(1, "a", 1, fetch(5000))
        .request_of(1, "b", 2, fetch(5000))
        .request_of(1, "c", 3, fetch(5000))
        .gives(["3 <- 42901"])
        .request_of(1, "c", 4, Command::Subscription)
        .gives(["4 <- topics "])
        .dropped(1)
        .request_of(1, "c", 5, fetch(4000))
        .at(secs(4))
        .gives(["5 <- []"]);
}

/// [LI-01] a reply with records that is still being sent is a fetch in progress.
#[test]
fn a_reply_being_sent_is_a_fetch_in_progress() {
    let mut world = world();
    for name in ["a", "b", "c"] {
        world.set_up_create(1, name, settings());
        world.set_up_assign(1, name, &[("t", 0)]);
    }
    world
        .request_of(1, "a", 1, fetch(5000))
        .request_of(1, "b", 2, fetch(5000))
        .done(0, fetched(&[("t", 1)]))
        .request_of(1, "c", 3, fetch(5000))
        .delivered(1)
        .request_of(1, "c", 4, fetch(5000))
        .gives([
            "0: fetch t@0 in 500",
            "1: fetch t@0 in 500",
            "1 <- records 0",
            "3 <- 42901",
            "2: fetch t@0 in 500",
        ]);
}

/// [LI-02] three at once, half a second at most, in the order asked.
#[test]
fn three_fetches_poll_at_once() {
    let mut world = twelve();
    for (id, (user, name)) in (1..).zip(all()).take(5) {
        world.request_of(user, name, id, fetch(5000));
    }
    world
        .gives([
            "0: fetch t@0 in 500",
            "1: fetch t@0 in 500",
            "2: fetch t@0 in 500",
        ])
        .at(ms(39))
        .done(1, fetched(&[("t", 3)]))
        .gives(["2 <- records 1"])
        .delivered(2)
        .gives(["3: fetch t@0 in 40"])
        .done(0, fetched(&[("t", 4)]))
        .delivered(1)
        .gives(["1 <- records 0", "4: fetch t@0 in 500"]);
}

/// [LI-03] a turn that finds nothing goes to the back of the line.
#[test]
fn a_turn_that_finds_nothing_goes_to_the_back_of_the_line() {
    let mut world = World::limited(|limits| limits.max_polls = 1);
    for name in ["a", "b"] {
        world.set_up_create(1, name, settings());
    }
    world.set_up_create(2, "c", settings());
    world.set_up_assign(1, "a", &[("a", 0)]);
    world.set_up_assign(1, "b", &[("b", 0)]);
    world.set_up_assign(2, "c", &[("c", 0)]);
    world
        .request_of(1, "a", 1, fetch(5000))
        .request_of(1, "b", 2, fetch(5000))
        .request_of(2, "c", 3, fetch(5000))
        .at(ms(40))
        .done(0, found_nothing())
        .at(ms(80))
        .done(1, found_nothing())
        .at(ms(120))
        .done(2, found_nothing())
        .gives([
            "0: fetch a@0 in 500",
            "hurry 0",
            "1: fetch b@0 in 40",
            "2: fetch c@0 in 40",
            "3: fetch a@0 in 40",
        ]);
}

/// [LI-03] a turn that finds records keeps its place until its reply is sent.
#[test]
fn a_turn_that_finds_records_is_kept_until_they_are_sent() {
    let mut world = World::limited(|limits| limits.max_polls = 1);
    for name in ["a", "b"] {
        world.set_up_create(1, name, settings());
        world.set_up_assign(1, name, &[("t", 0)]);
    }
    world
        .request_of(1, "a", 1, fetch(5000))
        .request_of(1, "b", 2, fetch(5000))
        .done(0, fetched(&[("t", 3)]))
        .at(secs(4))
        .gives(["0: fetch t@0 in 500", "1 <- records 0"])
        .delivered(1)
        .gives(["1: fetch t@0 in 500"]);
}

/// [LI-04] behind eleven quiet long polls, in far less than the 1.5 s that there may be.
#[test]
fn a_fetch_behind_eleven_quiet_ones_gets_through() {
    let mut world = twelve();
    for (id, (user, name)) in (1..).zip(all()) {
        world.request_of(user, name, id, fetch(5000));
    }
    // Each call that runs finds nothing when its time ends; the twelfth fetch's is the call of this number.
    world
        .gives([
            "0: fetch t@0 in 500",
            "1: fetch t@0 in 500",
            "2: fetch t@0 in 500",
        ])
        .at(ms(40))
        .gives(["hurry 0", "hurry 1", "hurry 2"]);
    for call in 0..3 {
        world.done(call, found_nothing());
    }
    world
        .gives(["3: fetch t@0 in 40", "4: fetch t@0 in 40", "5: fetch t@0 in 40"])
        .at(ms(80));
    for call in 3..6 {
        world.done(call, found_nothing());
    }
    world
        .gives(["6: fetch t@0 in 40", "7: fetch t@0 in 40", "8: fetch t@0 in 40"])
        .at(ms(120));
    for call in 6..9 {
        world.done(call, found_nothing());
    }
    world
        .gives(["9: fetch t@0 in 40", "10: fetch t@0 in 40", "11: fetch t@0 in 40"])
        .done(11, fetched(&[("t", 1)]))
        .gives(["12 <- records 11"]);
}

/// [LI-04] a turn that began when nobody waited is ended for one who comes, once it was as long as a short one.
#[test]
fn a_long_turn_is_ended_for_one_who_comes_to_wait() {
    let mut world = World::limited(|limits| limits.max_polls = 1);
    for name in ["a", "b"] {
        world.set_up_create(1, name, settings());
        world.set_up_assign(1, name, &[(name, 0)]);
    }
    world
        .request_of(1, "a", 1, fetch(5000))
        .at(ms(300))
        .gives(["0: fetch a@0 in 500"])
        .request_of(1, "b", 2, fetch(5000))
        .gives(["hurry 0"])
        .done(0, found_nothing())
        .gives(["1: fetch b@0 in 40"])
        .done(1, fetched(&[("b", 1)]))
        .gives(["2 <- records 1"])
        .delivered(2)
        // Nobody waits behind it, so that this is a long one again.
        .gives(["2: fetch a@0 in 500"])
        .at(ms(320))
        .request_of(1, "b", 3, fetch(5000))
        .at(ms(339))
        .gives([])
        .at(ms(340))
        .gives(["hurry 2"])
        .done(2, fetched(&[("a", 5)]))
        .gives(["1 <- records 2"]);
}

/// [LI-03] [FE-11] records that a turn has when it is ended are sent, and the turn is kept until they are.
#[test]
fn a_turn_that_has_records_when_it_is_ended_sends_them() {
    let mut world = World::limited(|limits| limits.max_polls = 1);
    for name in ["a", "b"] {
        world.set_up_create(1, name, settings());
        world.set_up_assign(1, name, &[(name, 0)]);
    }
    world
        .request_of(1, "a", 1, fetch(5000))
        .at(ms(10))
        .done(0, fetched(&[("a", 3)]))
        .request_of(1, "b", 2, fetch(5000))
        .at(ms(400))
        .gives(["0: fetch a@0 in 500", "1 <- records 0"])
        .delivered(1)
        .request_of(1, "a", 3, fetch(5000))
        .at(ms(440))
        .gives(["1: fetch b@0 in 500", "hurry 1"]);
}

/// A turn is not ended for one who has left by then.
#[test]
fn a_long_turn_goes_on_where_nobody_waits_any_more() {
    let mut world = World::limited(|limits| limits.max_polls = 1);
    for name in ["a", "b"] {
        world.set_up_create(1, name, settings());
        world.set_up_assign(1, name, &[(name, 0)]);
    }
    world
        .request_of(1, "a", 1, fetch(5000))
        .request_of(1, "b", 2, fetch(5000))
        .dropped(2)
        .at(ms(100))
        .gives(["0: fetch a@0 in 500"])
        .request_of(1, "b", 3, fetch(5000))
        .gives(["hurry 0"])
        .request_of(1, "b", 4, fetch(5000))
        .gives(["4 <- 40904"]);
}

/// A turn that its fetch's wait cuts short ends by itself, also where its driver is late.
#[test]
fn a_turn_that_is_short_anyway_is_not_ended_for_others() {
    let mut world = World::limited(|limits| limits.max_polls = 1);
    for name in ["a", "b"] {
        world.set_up_create(1, name, settings());
        world.set_up_assign(1, name, &[(name, 0)]);
    }
    world
        .request_of(1, "a", 1, fetch(20))
        .at(ms(60))
        .request_of(1, "b", 2, fetch(5000))
        .done(0, found_nothing())
        .gives(["0: fetch a@0 in 20", "1 <- []", "1: fetch b@0 in 500"]);
}

/// A join in a turn goes on when the turn is ended for others.
#[test]
fn a_join_is_hurried_like_a_poll() {
    let mut world = World::limited(|limits| limits.max_polls = 1);
    for name in ["a", "b"] {
        world.set_up_create(1, name, settings());
    }
    world.set_up_assign(1, "b", &[("b", 0)]);
    world.set_up(1, "a", subscribe(&["t"]));
    world
        .request_of(1, "a", 1, fetch(5000))
        .at(ms(10))
        .request_of(1, "b", 2, fetch(5000))
        .at(ms(40))
        .gives(["0: join t in 500", "hurry 0"])
        .done(0, Outcome::Joining)
        .at(ms(80))
        .done(1, found_nothing())
        .gives(["1: fetch b@0 in 40", "2: join t in 40"])
        .done(2, joins(&["t"]))
        .gives(["3: fetch t@? in 40"]);
}

/// [LI-05]
#[test]
fn a_fetch_that_gets_no_turn_is_refused() {
    let mut world = World::limited(|limits| limits.max_polls = 1);
    for name in ["a", "b"] {
        world.set_up_create(1, name, settings());
        world.set_up_assign(1, name, &[("t", 0)]);
    }
    world
        .request_of(1, "a", 1, fetch(5000))
        .done(0, fetched(&[("t", 3)]))
        .request_of(1, "b", 2, fetch(300))
        .at(ms(299))
        .gives(["0: fetch t@0 in 500", "1 <- records 0"])
        .at(ms(300))
        .gives(["2 <- 42901"])
        .delivered(1)
        .gives([]);
}

/// A broker that answers at once with nothing is not asked without end: the turn's time must pass.
#[test]
fn a_turn_that_ends_early_does_not_come_again_at_once() {
    let mut world = World::limited(|limits| limits.max_polls = 1);
    for name in ["a", "b"] {
        world.set_up_create(1, name, settings());
        world.set_up_assign(1, name, &[(name, 0)]);
    }
    world
        .request_of(1, "a", 1, fetch(5000))
        .at(ms(100))
        .fails(0, Error::KafkaRetriable)
        .gives(["0: fetch a@0 in 500"])
        .at(ms(200))
        .request_of(1, "b", 2, fetch(5000))
        .gives(["1: fetch b@0 in 500"])
        .at(ms(499))
        .gives([])
        .at(ms(500))
        .gives(["hurry 1"])
        .done(1, found_nothing())
        .gives(["2: fetch a@0 in 40"]);
}

/// The line goes on while a fetch whose turn ended early pauses.
#[test]
fn a_fetch_that_leaves_the_line_gives_its_place_up() {
    let mut world = World::limited(|limits| limits.max_polls = 1);
    for name in ["a", "b"] {
        world.set_up_create(1, name, settings());
        world.set_up_assign(1, name, &[(name, 0)]);
    }
    world.set_up_create(2, "c", settings());
    world.set_up_assign(2, "c", &[("c", 0)]);
    world
        .request_of(1, "a", 1, fetch(5000))
        .request_of(1, "b", 2, fetch(5000))
        .request_of(2, "c", 3, fetch(5000))
        .dropped(2)
        .dropped(1)
        .gives(["0: fetch a@0 in 500", "cancel 0", "1: fetch c@0 in 500"]);
}

/// A group that assigned nothing is looked at again after a turn's time, and nobody's turn is held for it.
#[test]
fn an_instance_without_partitions_holds_no_turn() {
    let mut world = World::limited(|limits| limits.max_polls = 1);
    for name in ["a", "b"] {
        world.set_up_create(1, name, settings());
    }
    world.set_up_assign(1, "b", &[("b", 0)]);
    world.set_up(1, "a", subscribe(&["t"]));
    world
        .request_of(1, "a", 1, fetch(1000))
        .done(0, Outcome::Joined(vec![]))
        .gives(["0: join t in 500"])
        .request_of(1, "b", 2, fetch(400))
        .at(ms(400))
        .done(1, found_nothing())
        .gives(["1: fetch b@0 in 400", "2 <- []"])
        .at(secs(1))
        .gives(["1 <- []"]);
}

/// A join that takes longer than a turn goes on; each turn asks after it.
#[test]
fn a_join_takes_as_many_turns_as_it_needs() {
    let mut world = created(settings());
    world.set_up(1, "a", subscribe(&["t"]));
    world
        .request(1, fetch(1300))
        .at(ms(500))
        .done(0, Outcome::Joining)
        .at(ms(700))
        .done(1, joins(&["t"]))
        .gives(["0: join t in 500", "1: join t in 500", "2: fetch t@? in 300"])
        .at(ms(1000))
        .done(2, found_nothing())
        .gives(["3: fetch t@? in 300"]);
}

/// [D-19] nothing is left of the turn for a poll.
#[test]
fn a_join_at_the_end_of_its_turn_leaves_the_poll_to_the_next() {
    let mut world = created(settings());
    world.set_up(1, "a", subscribe(&["t"]));
    world
        .request(1, fetch(1000))
        .at(ms(500))
        .done(0, joins(&["t"]))
        .gives(["0: join t in 500", "1: fetch t@? in 500"]);
}

/// [FE-09] a turn that comes free behind the end of a fetch's wait is none of its.
#[test]
fn a_driver_that_was_late_does_not_prolong_a_wait() {
    let mut world = World::limited(|limits| limits.max_polls = 1);
    for name in ["a", "b"] {
        world.set_up_create(1, name, settings());
        world.set_up_assign(1, name, &[("t", 0)]);
    }
    world
        .request_of(1, "a", 1, fetch(100))
        .request_of(1, "b", 2, fetch(3000))
        .gives(["0: fetch t@0 in 100"])
        .oversleep(secs(5))
        .gives(["hurry 0", "cancel 0", "1 <- []", "2 <- 42901"]);
}

/// [FE-09] a turn that comes free at the very end of a fetch's wait is of no use to it, unless it had none before [D-19].
#[test]
fn a_turn_at_the_end_of_the_wait_is_not_taken() {
    let mut world = World::limited(|limits| limits.max_polls = 1);
    for user in [1, 2] {
        world.set_up_create(user, "a", settings());
        world.set_up_assign(user, "a", &[("t", 0)]);
    }
    world
        .request_of(1, "a", 1, fetch(1000))
        .request_of(2, "a", 2, fetch(5000))
        .at(ms(40))
        .done(0, found_nothing())
        .unnoticed(ms(1000))
        .done(1, found_nothing())
        .gives([
            "0: fetch t@0 in 500",
            "hurry 0",
            "1: fetch t@0 in 40",
            "1 <- []",
            "2: fetch t@0 in 500",
        ]);
}
