//! Whose commit may be made in which epoch.

use super::*;

fn may(world: &World, owned: Option<i32>, names: &str) -> bool {
    world.member.may_commit(owned, names.split_whitespace())
}

/// [D-23] a commit that waited for a join is of what the member had before: what it gave up is not committed.
#[test]
fn a_commit_that_waited_for_a_join_is_only_of_what_the_member_still_has() {
    let mut world = World::with("a b", 1);
    let held = world.member.owned();
    assert!(held.is_some());
    assert!(may(&world, held, "a b") && may(&world, held, "x"));
    world.wake();
    world.assign(1, "b");
    assert_eq!(world.member.identity(), member(1));
    assert!(may(&world, held, "a b"), "nothing is given up before the join");
    world.want("a b");
    assert_eq!(world.member.identity(), Identity::Joining);
    world.take_beat(2);
    assert_eq!(world.member.identity(), member(2));
    assert!(may(&world, held, "b"));
    assert!(!may(&world, held, "a") && !may(&world, held, "a b"));
    assert_eq!(world.member.owned(), held, "its owner has not taken the answer");
    assert_eq!(world.given(), got("b"));
    let held = world.member.owned();
    assert!(may(&world, held, "b"));
}

/// [D-23] another member may have had the topic meanwhile, and read on.
#[test]
fn a_commit_of_what_was_given_up_and_came_back_is_refused() {
    let mut world = World::with("a b", 1);
    let before = world.member.owned();
    world.wake();
    world.assign(1, "b");
    world.want("a b");
    world.assign(2, "a b");
    world.take_beat(2);
    world.ids("a b");
    world.given();
    let between = world.member.owned();
    world.wake();
    world.take_beat(2);
    world.want("a b");
    assert_eq!(world.given(), got("a b"));
    assert!(!may(&world, before, "a") && may(&world, before, "b"));
    assert!(may(&world, between, "b"));
    assert!(may(&world, world.member.owned(), "a b"));
}

/// [D-23] who was put out has nothing, and gets nothing back under its old name.
#[test]
fn a_commit_from_before_the_member_was_put_out_is_refused() {
    let mut world = World::with("a", 1);
    let before = world.member.owned();
    world.wake();
    assert_eq!(world.refuse(ResponseError::UnknownMemberId), nothing(&["lost"]));
    assert_eq!(world.member.owned(), None);
    assert_eq!(world.member.identity(), Identity::Lost);
    world.want("a");
    world.assign(5, "a");
    world.take_beat(5);
    world.ids("a");
    assert!(!may(&world, before, "a"));
    assert_eq!(world.given(), got("a"));
    assert!(!may(&world, before, "a"));
    assert!(may(&world, world.member.owned(), "a"));
}

#[test]
fn who_left_owns_nothing() {
    let mut world = World::with("a", 3);
    world.leave();
    assert_eq!(world.member.owned(), None);
}

/// [CO-06] STALE_MEMBER_EPOCH: the coordinator has raised the epoch, and a heartbeat brings it.
#[test]
fn a_commit_of_a_stale_epoch_asks_for_the_new_one() {
    let mut world = World::with("a", 1);
    world
        .member
        .refused(ResponseError::StaleMemberEpoch, 1, world.now);
    assert_eq!(world.out(), beat(1, Some("a"), Some("a")), "it asks for all");
    world
        .member
        .refused(ResponseError::StaleMemberEpoch, 1, world.now);
    assert_eq!(world.out(), nothing(&[]), "the answer is on its way");
    assert_eq!(world.assign(2, "a"), nothing(&[]));
    assert_eq!(world.member.identity(), member(2));
    world
        .member
        .refused(ResponseError::StaleMemberEpoch, 1, world.now);
    assert_eq!(world.out(), nothing(&[]), "it is known already");
}

/// [CO-06]
#[test]
fn a_refused_commit_is_a_signal_only_in_its_own_epoch() {
    for (error, said) in [
        (ResponseError::UnknownMemberId, "lost"),
        (ResponseError::FencedMemberEpoch, "lost"),
        (ResponseError::RebalanceInProgress, "rebalance"),
    ] {
        let mut world = World::with("a", 2);
        world.member.refused(error, 1, world.now);
        assert_eq!(world.out(), nothing(&[]));
        world.member.refused(error, 2, world.now);
        assert_eq!(world.out(), nothing(&[said]));
    }
}

/// [KF-31] [CO-06] the answer of a heartbeat that was in flight then changes nothing, whatever it is.
#[test]
fn a_heartbeat_does_not_outlive_the_membership_that_a_commit_found_over() {
    for answer in [
        Ok(beaten(1, Some("a b"))),
        Err(Trouble::Code(ResponseError::UnknownMemberId)),
    ] {
        let mut world = World::with("a", 1);
        world.wake();
        world
            .member
            .refused(ResponseError::FencedMemberEpoch, 1, world.now);
        assert_eq!(world.out(), nothing(&["lost"]));
        assert_eq!(world.answer(answer), nothing(&[]));
        assert_eq!(world.member.identity(), Identity::Lost);
        assert_eq!(world.want("a"), beat(0, Some("a"), Some("")));
    }
}
