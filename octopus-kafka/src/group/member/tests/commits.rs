//! Whose commit may be made in which generation.

use super::*;

fn may(world: &World, owned: Option<i32>, names: &str) -> bool {
    world.member.may_commit(owned, names.split_whitespace())
}

/// [D-23] a commit that waited for a join is of the generation before: what the join gave to others is not committed.
#[test]
fn a_commit_that_waited_for_a_join_is_only_of_what_the_member_still_has() {
    let mut world = World::new();
    world.follow("a b", 3);
    let owned = world.member.owned();
    assert_eq!(owned, Some(3));
    assert!(may(&world, owned, "a b") && may(&world, owned, "x"));
    world.want("a b");
    world.answer(Answer::Join(Ok(joined("me", 4, "other"))));
    world.answer(Answer::Sync(Ok(given("b"))));
    assert!(may(&world, owned, "b"));
    assert!(!may(&world, owned, "a") && !may(&world, owned, "a b"));
    // Its owner still holds what it had before, until it takes what it has come to have.
    assert_eq!(world.member.owned(), Some(3));
    assert_eq!(world.member.take(), Some(Ok(vec!["b".to_owned()])));
    assert_eq!(world.member.owned(), Some(4));
}

/// [D-23] in a generation between, another member may have had the partition and read on.
#[test]
fn a_commit_of_two_generations_before_is_refused() {
    let mut world = World::new();
    world.follow("a b", 3);
    let owned = world.member.owned();
    world.want("a b");
    world.answer(Answer::Join(Ok(joined("me", 5, "other"))));
    assert_eq!(world.answer(Answer::Sync(Ok(given("a b")))).said, ["lost"]);
    assert!(!may(&world, owned, "a") && !may(&world, owned, "b"));
    assert_eq!(world.member.owned(), None);
}

#[test]
fn who_left_owns_nothing() {
    let mut world = World::new();
    world.follow("a", 3);
    world.leave();
    assert_eq!(world.member.owned(), None);
}

/// [CO-06]
#[test]
fn a_refused_commit_is_a_signal_only_in_its_own_generation() {
    for (error, said) in [
        (ResponseError::RebalanceInProgress, "rebalance"),
        (ResponseError::IllegalGeneration, "lost"),
        (ResponseError::UnknownMemberId, "lost"),
    ] {
        let mut world = World::new();
        world.follow("a", 2);
        world.member.refused(error, 1, world.now);
        assert_eq!(world.out(), nothing(&[]));
        world.member.refused(error, 2, world.now);
        assert_eq!(world.out(), nothing(&[said]));
    }
}
