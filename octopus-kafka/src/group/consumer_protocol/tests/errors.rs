//! What a coordinator may answer instead.

use super::*;

const PUT_OUT: [ResponseError; 2] = [ResponseError::UnknownMemberId, ResponseError::FencedMemberEpoch];

/// [KF-31] its partitions are lost, and it joins again under its id, in epoch 0, with nothing.
#[test]
fn a_member_that_the_group_put_out_is_lost_and_joins_anew() {
    for code in PUT_OUT {
        let mut world = World::with("a", 4);
        world.wake();
        assert_eq!(world.refuse(code), nothing(&["lost"]));
        assert_eq!(world.member.identity(), Identity::Lost);
        assert_eq!(world.member.wake(), None);
        assert_eq!(
            world.want_with_a_commit("a"),
            beat(0, Some("a"), Some("")),
            "without a commit"
        );
        assert_eq!(world.assign(6, "a"), beat(6, None, Some("a")));
    }
}

/// Who was fenced may be known still; whom nobody knows need not leave.
#[test]
fn a_member_that_was_put_out_leaves_if_it_may_be_known() {
    let mut fenced = World::with("a", 1);
    fenced.wake();
    fenced.refuse(ResponseError::FencedMemberEpoch);
    assert_eq!(fenced.leave(), beat(-1, None, None));

    let mut unknown = World::with("a", 1);
    unknown.wake();
    unknown.refuse(ResponseError::UnknownMemberId);
    assert_eq!(unknown.leave(), nothing(&[]));
    assert!(unknown.member.is_out());
}

#[test]
fn a_join_that_finds_its_member_put_out_goes_on_anew_with_patience() {
    for code in PUT_OUT {
        let mut world = World::with("a", 1);
        world.want("a b");
        let again = Out {
            said: vec!["lost"],
            ..beat(0, Some("a b"), Some(""))
        };
        assert_eq!(world.refuse(code), again);
        let mut waits = Vec::new();
        for _ in 0..5 {
            assert_eq!(world.refuse(code), nothing(&[]));
            let (waited, out) = world.wake();
            assert_eq!(out, beat(0, Some("a b"), Some("")));
            waits.push(waited.as_millis());
        }
        assert_eq!(waits, [200, 400, 800, 1000, 1000]);
        world.assign(1, "a");
        world.take_beat(1);
        world.ids("a");
        assert_eq!(world.given(), got("a"));
    }
}

/// [KF-31] [D-23] as in the other protocol: its owner has what it had before the join.
#[test]
fn a_member_that_is_put_out_before_its_answer_was_taken_tells_of_what_it_had() {
    let mut world = World::with("a", 1);
    world.want("a");
    world.wake();
    let again = Out {
        said: vec!["lost"],
        ..beat(0, Some("a"), Some(""))
    };
    assert_eq!(world.refuse(ResponseError::UnknownMemberId), again);
    world.assign(7, "a");
    world.take_beat(7);
    world.ids("a");
    assert_eq!(world.given(), got("a"));
}

/// What was not taken yet is lost without a word.
#[test]
fn a_member_that_is_put_out_before_its_answer_was_taken_joins_again_by_itself() {
    let mut world = World::new();
    world.want("a");
    world.assign(1, "a");
    world.take_beat(1);
    world.ids("a");
    world.wake();
    assert_eq!(
        world.refuse(ResponseError::UnknownMemberId),
        beat(0, Some("a"), Some(""))
    );
    assert_eq!(world.given(), None);
}

/// [KF-26] [KF-06] the next one tells all: the coordinator may have taken the one that failed, and raised the epoch.
#[test]
fn a_coordinator_that_moves_is_looked_up_and_the_member_kept() {
    for (error, said) in [
        (Trouble::Code(ResponseError::NotCoordinator), &["forget"][..]),
        (Trouble::Code(ResponseError::CoordinatorNotAvailable), &["forget"]),
        (Trouble::Code(ResponseError::CoordinatorLoadInProgress), &[]),
        (Trouble::Silent, &["forget"]),
        (Trouble::Unreachable, &["forget"]),
    ] {
        let mut world = World::new();
        world.want("a");
        let mut waits = Vec::new();
        for _ in 0..6 {
            assert_eq!(world.answer(Err(error.clone())), nothing(said));
            let (waited, out) = world.wake();
            assert_eq!(out, beat(0, Some("a"), Some("")));
            waits.push(waited.as_millis());
        }
        assert_eq!(waits, [100, 200, 400, 800, 1000, 1000]);

        let mut world = World::with("a", 1);
        world.wake();
        assert_eq!(world.answer(Err(error.clone())), nothing(said));
        let (waited, out) = world.wake();
        assert_eq!(waited, Duration::from_millis(100));
        assert_eq!(out, beat(1, Some("a"), Some("a")));
        assert_eq!(world.assign(2, "a"), nothing(&[]), "nothing changed");
        assert_eq!(world.wake(), (secs(5), beat(2, None, None)));

        // In the middle of a join, after something was given up.
        let mut world = World::with("a b", 1);
        world.wake();
        world.assign(1, "b");
        assert_eq!(world.want("a b"), beat(1, None, Some("b")));
        assert_eq!(world.answer(Err(error)), nothing(said));
        assert_eq!(world.wake().1, beat(1, Some("a b"), Some("b")));
        assert_eq!(world.assign(2, "b"), nothing(&[]));
        assert_eq!(world.given(), got("b"));
    }
}

/// [ER-01] [ER-02] [ER-05] what a join that can't succeed comes to.
#[test]
fn a_join_that_can_not_succeed_says_why_once() {
    for (code, error) in [
        (ResponseError::GroupAuthorizationFailed, Error::KafkaUnauthorized),
        (ResponseError::TopicAuthorizationFailed, Error::KafkaUnauthorized),
        (ResponseError::UnsupportedVersion, Error::KafkaInvalid),
        (ResponseError::InvalidRequest, Error::KafkaInvalid),
        (ResponseError::UnsupportedAssignor, Error::KafkaFailed),
        (ResponseError::UnreleasedInstanceId, Error::KafkaFailed),
        (ResponseError::GroupMaxSizeReached, Error::KafkaFailed),
        (ResponseError::GroupIdNotFound, Error::KafkaFailed),
        (ResponseError::InconsistentGroupProtocol, Error::KafkaFailed),
    ] {
        let mut world = World::new();
        world.want("a");
        assert_eq!(world.refuse(code), nothing(&[]));
        assert!(world.member.is_out());
        assert_eq!(world.given(), Some(Err(error)), "{code:?}");
        let again = world.want("a").beat;
        assert_eq!(
            again.map(|beat| beat.epoch),
            Some(0),
            "and is tried anew when it is wanted again"
        );
    }
    let mut world = World::new();
    world.want("a");
    world.answer(Err(Trouble::Fatal(Error::KafkaInvalid)));
    assert_eq!(world.given(), Some(Err(Error::KafkaInvalid)));
}

/// [ER-02] a member whose new topics are refused is none any more.
#[test]
fn a_member_whose_join_can_not_succeed_leaves() {
    let mut world = World::with("a", 1);
    world.want("b");
    let lost = Out {
        said: vec!["lost"],
        ..beat(-1, None, None)
    };
    assert_eq!(world.refuse(ResponseError::TopicAuthorizationFailed), lost);
    assert_eq!(world.given(), Some(Err(Error::KafkaUnauthorized)));
    assert_eq!(world.take_beat(-1), nothing(&[]));
    assert!(world.member.is_out());
}

/// A right that is taken away for a while is no end of a membership that nobody asks for.
#[test]
fn an_idle_member_outlives_what_it_can_not_mend() {
    let mut world = World::with("a", 1);
    world.wake();
    assert_eq!(
        world.refuse(ResponseError::GroupAuthorizationFailed),
        nothing(&["forget"])
    );
    assert_eq!(world.wake().1, beat(1, Some("a"), Some("a")));
    assert_eq!(world.assign(1, "a"), nothing(&[]));
    assert_eq!(world.member.identity(), member(1));
}

/// [ER-07]
#[test]
fn a_join_knows_whether_any_broker_was_reached() {
    let mut world = World::new();
    world.want("a");
    assert!(!world.member.was_reached());
    world.answer(Err(Trouble::Unreachable));
    assert!(!world.member.was_reached());
    world.wake();
    world.refuse(ResponseError::CoordinatorLoadInProgress);
    assert!(world.member.was_reached());
    world.wake();
    world.answer(Err(Trouble::Unreachable));
    assert!(world.member.was_reached(), "one was, since the join began");
}
