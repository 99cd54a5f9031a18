//! From what a member has to what it is to have.

use super::*;

/// [KF-28] nothing is taken from under a fetch: the owner is told once, and what it has is said to be had until it joins.
#[test]
fn a_new_target_is_signalled_once_and_taken_by_the_next_join() {
    let mut world = World::with("a b", 1);
    world.wake();
    assert_eq!(world.assign(1, "b"), nothing(&["rebalance"]));
    assert_eq!(world.wake(), (secs(5), beat(1, None, Some("a b"))));
    assert_eq!(world.take_beat(1), nothing(&[]));
    for _ in 0..20 {
        assert_eq!(world.wake(), (secs(5), beat(1, None, None)));
        assert_eq!(world.take_beat(1), nothing(&[]));
    }
    assert_eq!(world.want("a b"), beat(1, None, Some("b")));
    assert_eq!(world.take_beat(2), nothing(&[]));
    assert_eq!(world.given(), got("b"));
    world.wake();
    assert_eq!(
        world.assign(3, "a b"),
        nothing(&["rebalance"]),
        "the next one again"
    );
}

/// The coordinator gave a topic, and took it away before the member's owner took it: it waits to hear that nobody has it,
/// though nothing changed for the member.
#[test]
fn what_was_given_and_taken_away_is_said_not_to_be_owned_at_once() {
    let mut world = World::new();
    world.want("a b");
    world.assign(1, "a");
    world.take_beat(1);
    world.ids("a");
    assert_eq!(world.given(), got("a"));
    world.wake();
    assert_eq!(world.assign(2, "a b"), nothing(&["rebalance"]));
    world.wake();
    assert_eq!(world.assign(2, "a"), nothing(&[]));
    assert_eq!(world.wake(), (Duration::ZERO, beat(2, None, Some("a"))));
    assert_eq!(world.take_beat(3), nothing(&[]));
    assert_eq!(world.wake().1, beat(3, None, None));
    world.take_beat(3);
    assert_eq!(world.want("a b"), nothing(&[]));
    assert_eq!(world.given(), got("a"));
}

/// What is to go has to be given up before more is given.
#[test]
fn a_join_goes_on_until_the_coordinator_has_nothing_new() {
    let mut world = World::with("a", 1);
    assert_eq!(world.want("b"), beat(1, Some("b"), None));
    assert_eq!(world.assign(1, ""), beat(1, None, Some("")));
    assert_eq!(world.assign(2, "b"), beat(2, None, Some("b")));
    assert_eq!(world.assign(3, "b c"), beat(3, None, Some("b c")));
    assert_eq!(world.take_beat(3), ask("b", false));
    assert_eq!(world.ids("b"), ask("b", true), "nobody knows c");
    assert_eq!(world.ids("b"), nothing(&[]));
    assert_eq!(world.given(), got("b"));
}

#[test]
fn a_target_that_changes_before_the_answer_was_taken_is_followed_at_once() {
    let mut world = World::new();
    world.want("a b");
    world.assign(1, "a b");
    world.take_beat(1);
    world.ids("a b");
    world.wake();
    assert_eq!(world.assign(1, "b"), beat(1, None, Some("b")), "no signal");
    assert_eq!(world.given(), None, "the old answer is gone");
    assert_eq!(world.take_beat(2), nothing(&[]));
    assert_eq!(world.given(), got("b"));

    // And one that changes while names are looked up.
    let mut world = World::new();
    world.want("a b");
    world.assign(1, "a b");
    assert_eq!(world.take_beat(1), ask("a b", false));
    world.wake();
    assert_eq!(world.assign(1, "a"), beat(1, None, Some("a")));
    assert_eq!(world.ids("a b"), nothing(&[]), "too late");
    assert_eq!(world.take_beat(2), ask("a b", false));
    world.ids("a b");
    assert_eq!(world.given(), got("a"));
}

/// A topic may be given up and come back within one join. Another member may have read on there: its owner must not keep
/// its position, so it is left to the next join.
#[test]
fn what_was_given_up_does_not_come_back_in_the_same_join() {
    let mut world = World::with("a b", 1);
    world.wake();
    world.assign(1, "b");
    assert_eq!(world.want("a b"), beat(1, None, Some("b")));
    assert_eq!(world.assign(2, "a b"), beat(2, None, Some("a b")));
    assert_eq!(world.take_beat(2), ask("a b", false));
    assert_eq!(world.ids("a b"), nothing(&[]));
    assert_eq!(world.given(), got("b"));
    world.wake();
    assert_eq!(world.take_beat(2), nothing(&["rebalance"]));
    assert_eq!(world.want("a b"), nothing(&[]), "it has all already");
    assert_eq!(world.given(), got("a b"));
}

/// [D-22] a topic that was made anew has another id.
#[test]
fn a_topic_that_was_made_anew_is_seen_to_go() {
    let mut world = World::with("a", 1);
    world.wake();
    let anew = Uuid::from_u128(7);
    let first: BTreeSet<i32> = [0].into();
    let target = Owned::from([(anew, first)]);
    let answer = Ok(Beaten {
        assigned: Some(target.clone()),
        ..beaten(2, None)
    });
    assert_eq!(world.answer(answer), nothing(&["rebalance"]));
    let told = world.want("a").beat.unwrap();
    assert_eq!(told.owned, Some(target));
    assert_eq!(world.take_beat(2), ask("a", false));
    let ids = || Answer::Ids(Ok([("a".to_owned(), anew)].into()));
    world.member.answered(world.beside, ids(), world.now);
    assert_eq!(world.out(), nothing(&[]));
    assert_eq!(world.given(), got(""));
    world.wake();
    assert_eq!(world.take_beat(2), nothing(&["rebalance"]));
    world.want("a");
    assert_eq!(world.given(), got("a"));
}

#[test]
fn only_the_first_partition_of_a_topic_that_is_wanted_is_read() {
    let mut world = World::new();
    world.want("a b");
    assert_eq!(world.assign(1, "a01 b1 x"), beat(1, None, Some("a01 b1 x")));
    assert_eq!(world.take_beat(1), ask("a b", false));
    assert_eq!(world.ids("a b"), ask("a b", true));
    assert_eq!(world.ids("a b"), nothing(&[]));
    assert_eq!(world.given(), got("a"));
}

/// [NS-05] the coordinator may know of a topic before the broker that is asked for its id.
#[test]
fn a_topic_whose_name_is_not_known_is_looked_up_with_each_heartbeat() {
    let mut world = World::new();
    world.want("a late");
    world.assign(1, "a l");
    assert_eq!(world.take_beat(1), ask("a late", false));
    assert_eq!(world.ids("a"), ask("a late", true));
    assert_eq!(world.ids("a"), nothing(&[]));
    assert_eq!(world.given(), got("a"));
    for _ in 0..3 {
        world.wake();
        assert_eq!(world.take_beat(1), ask("a late", true));
        assert_eq!(world.ids("a"), nothing(&[]));
    }
    world.wake();
    world.take_beat(1);
    let found = [("a".to_owned(), id("a")), ("late".to_owned(), id("l"))];
    let found = Answer::Ids(Ok(found.into()));
    world.member.answered(world.beside, found, world.now);
    assert_eq!(world.out(), nothing(&["rebalance"]));
    assert_eq!(world.want("a late"), nothing(&[]));
    assert_eq!(world.given(), got("a late"));
}

#[test]
fn a_look_up_that_fails_is_tried_again_and_the_heartbeats_go_on() {
    let mut world = World::new();
    world.want("a");
    world.assign(1, "a");
    world.take_beat(1);
    let mut waits = Vec::new();
    for _ in 0..5 {
        let silent = Answer::Ids(Err(Trouble::Silent));
        world.member.answered(world.beside, silent, world.now);
        assert_eq!(world.out(), nothing(&[]));
        let (waited, out) = world.wake();
        assert_eq!(out, ask("a", true));
        waits.push(waited.as_millis());
    }
    assert_eq!(waits, [100, 200, 400, 800, 1000]);
    assert_eq!(world.wake().1, beat(1, None, None));
    assert_eq!(world.take_beat(1), nothing(&[]));
    world.ids("a");
    assert_eq!(world.given(), got("a"));
}
