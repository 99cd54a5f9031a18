//! Who is heard, and for how long a membership holds unheard.

use super::*;

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
