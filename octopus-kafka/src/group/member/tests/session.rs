//! Who is heard, and for how long a membership holds unheard.

use super::*;

/// [KF-31] [D-23] its owner has what it had before the join until it takes the join's answer: it is told also where the
/// member is put out between the two, since others may have had its partitions before it joins again.
#[test]
fn a_member_that_is_put_out_before_its_answer_was_taken_tells_of_what_it_had() {
    let mut world = World::new();
    world.follow("a", 3);
    world.want("a");
    world.answer(Answer::Join(Ok(joined("me", 4, "other"))));
    world.answer(Answer::Sync(Ok(given("a"))));
    world.wake();
    let unknown = Answer::Heartbeat(Err(code(ResponseError::UnknownMemberId)));
    let joins = Out {
        said: vec!["lost"],
        ..join("", "a")
    };
    assert_eq!(world.answer(unknown), joins);
    assert_eq!(world.admit("a", 9), [""; 0]);
}

/// [KF-28] [D-23] two rebalances before its owner takes an answer: what it had is its still only if it had it in between.
#[test]
fn what_comes_back_after_a_generation_that_nobody_took_is_a_new_start() {
    for (between, generation, now, said) in [
        ("b", 5, "a b", &["lost"][..]),
        ("b", 5, "b", &[]),
        ("a b", 5, "a", &[]),
        ("a b", 5, "", &[]),
        ("a b", 6, "a b", &["lost"]),
    ] {
        let mut world = World::new();
        world.follow("a b", 3);
        world.want("a b");
        world.answer(Answer::Join(Ok(joined("me", 4, "other"))));
        assert_eq!(world.answer(Answer::Sync(Ok(given(between)))).said, [""; 0]);
        world.wake();
        let rebalance = Answer::Heartbeat(Err(code(ResponseError::RebalanceInProgress)));
        assert_eq!(world.answer(rebalance), join("me", "a b"));
        assert_eq!(world.admit(now, generation), said, "{between}, then {now}");
    }
}

/// [D-23] [FE-11] a follower that joins again with the same topics is told of the generation that it is in: nobody else had
/// its partitions, so it reads on where it was.
#[test]
fn a_join_in_the_same_generation_takes_nothing_away() {
    let mut world = World::new();
    world.follow("a b", 3);
    assert_eq!(world.follow("a b", 3), [""; 0]);
    assert_eq!(world.member.owned(), Some(3));
    // Also where the answer was not taken.
    world.want("a b");
    world.answer(Answer::Join(Ok(joined("me", 3, "other"))));
    world.answer(Answer::Sync(Ok(given("a b"))));
    world.wake();
    let rebalance = Answer::Heartbeat(Err(code(ResponseError::RebalanceInProgress)));
    assert_eq!(world.answer(rebalance), join("me", "a b"));
    assert_eq!(world.admit("a b", 3), [""; 0]);
}

/// A coordinator that would have it join with an id again and again is not asked without end.
#[test]
fn a_member_that_has_an_id_waits_before_it_joins_with_another() {
    let mut world = World::new();
    assert_eq!(world.want("a"), join("", "a"));
    assert_eq!(world.answer(Answer::MemberId("me".to_owned())), join("me", "a"));
    for wait in [100, 200, 400] {
        assert_eq!(world.answer(Answer::MemberId("you".to_owned())), nothing(&[]));
        assert_eq!(world.wake(), (Duration::from_millis(wait), join("you", "a")));
    }
    assert_eq!(world.admit("a", 1), [""; 0]);
}

/// [KF-06]
#[test]
fn a_heartbeat_is_waited_for_until_two_thirds_of_the_session() {
    let mut world = World::new();
    world.follow("a", 1);
    world.wake();
    let two_thirds = secs(10) * 2 / 3;
    assert_eq!(world.deadline, Some(two_thirds - secs(3)));
    world.now += two_thirds - secs(3);
    world.answer(Answer::Heartbeat(Err(Trouble::Silent)));
    world.wake();
    assert_eq!(
        world.deadline,
        Some(secs(1)),
        "there is still time for another coordinator"
    );
}

/// [KF-45] [KF-32] the session counts from when the last heartbeat that was answered was sent. A member that was not
/// heard for so long gives its partitions up by itself, whatever it waits for, and asks for them again under its old
/// name.
#[test]
fn a_session_that_passed_unheard_ends_the_membership() {
    // A heartbeat is on its way, or the last one was answered and no other sent: the process stood still.
    for in_flight in [true, false] {
        let mut world = World::new();
        world.follow("a", 1);
        world.wake();
        world.now += secs(2);
        world.answer(Answer::Heartbeat(Ok(())));
        // The last one was sent 2 s ago.
        if in_flight {
            world.wake();
        } else {
            world.now += secs(60);
        }
        let (waited, out) = world.wake();
        assert_eq!(out, nothing(&["lost"]));
        if in_flight {
            assert_eq!(waited, secs(5), "10 s after it was sent");
            assert_eq!(world.answer(Answer::Heartbeat(Ok(()))), nothing(&[]), "too late");
        }
        assert_eq!(world.member.identity(), Identity::Lost);
        assert_eq!(world.want("a"), join("me", "a"));
        let unknown = Answer::Join(Err(code(ResponseError::UnknownMemberId)));
        assert_eq!(world.answer(unknown), join("", "a"));
    }
}

/// [KF-32] heartbeats that fail do not stretch the session, and the last of them is waited for no longer than it.
#[test]
fn failing_heartbeats_do_not_stretch_a_session() {
    let mut world = World::new();
    let began = world.now;
    world.follow("a", 1);
    let mut said = Vec::new();
    while said != ["lost"] {
        let (_, out) = world.wake();
        said = out.said;
        if out.sent.is_some() {
            assert!(world.now + world.deadline.unwrap() <= began + secs(10));
            world.answer(Answer::Heartbeat(Err(Trouble::Silent)));
        }
    }
    assert_eq!(world.now, began + secs(10));
}

/// [KF-26] a coordinator that is loading its groups puts nobody out meanwhile.
#[test]
fn a_session_does_not_pass_while_the_coordinator_loads() {
    let mut world = World::new();
    world.follow("a", 1);
    for _ in 0..100 {
        let (_, out) = world.wake();
        assert_eq!(out, heartbeat("me", 1));
        let loading = Answer::Heartbeat(Err(code(ResponseError::CoordinatorLoadInProgress)));
        assert_eq!(world.answer(loading), nothing(&[]));
    }
}
