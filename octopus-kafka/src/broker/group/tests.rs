//! Groups, with a clock that is moved by hand.

use kafka_protocol::messages::{
    GroupId, LeaveGroupRequest, join_group_request::JoinGroupRequestProtocol,
    leave_group_request::MemberIdentity, sync_group_request::SyncGroupRequestAssignment,
};

use super::*;
use crate::broker::coordinator::Groups;

/// One group's coordinator.
struct World {
    groups: Groups,
    ids: Ids,
    now: Instant,
    answers: Answers,
}

/// What a JoinGroup asks for: who, of which static instance, with which protocols.
struct Wish {
    member: String,
    instance: Option<&'static str>,
    protocols: &'static [&'static str],
    version: i16,
    session: i32,
    rebalance: i32,
}

fn wish(member: &str) -> Wish {
    Wish {
        member: member.to_owned(),
        instance: None,
        protocols: &["range"],
        version: 5,
        session: 10_000,
        rebalance: 20_000,
    }
}

const fn connection(number: u64) -> ConnectionId {
    ConnectionId(number)
}

impl World {
    fn new() -> Self {
        let rules = Rules {
            initial_rebalance_delay: Duration::from_secs(3),
            min_session_timeout: Duration::from_secs(6),
            max_session_timeout: Duration::from_secs(1800),
            consumer_session_timeout: Duration::from_secs(45),
            consumer_heartbeat_interval: Duration::from_secs(5),
        };
        Self {
            groups: Groups::new(rules),
            ids: Ids::new(3),
            now: tokio::time::Instant::now().into_std(),
            answers: Answers::new(),
        }
    }

    fn join(&mut self, from: u64, wish: &Wish) {
        let protocol = |name: &&str| {
            JoinGroupRequestProtocol::default()
                .with_name(text(name))
                .with_metadata(Bytes::from(format!("{name} of {from}")))
        };
        let request = JoinGroupRequest::default()
            .with_group_id(GroupId(text("g")))
            .with_member_id(text(&wish.member))
            .with_group_instance_id(wish.instance.map(text))
            .with_session_timeout_ms(wish.session)
            .with_rebalance_timeout_ms(wish.rebalance)
            .with_protocol_type(text("consumer"))
            .with_protocols(wish.protocols.iter().map(protocol).collect());
        let head = Head {
            api: kafka_protocol::messages::ApiKey::JoinGroup,
            version: wish.version,
            correlation_id: 0,
            client_id: "c".to_owned(),
        };
        let (ids, answers) = (&mut self.ids, &mut self.answers);
        self.groups
            .join(connection(from), &head, &request, ids, answers, self.now);
    }

    /// Joins as a client of these days: with the id that it is given. Returns the id.
    fn enter(&mut self, from: u64, mut wish: Wish) -> String {
        self.join(from, &wish);
        let given = self.joined(from);
        assert_eq!(given.error_code, code::MEMBER_ID_REQUIRED);
        wish.member = given.member_id.to_string();
        self.join(from, &wish);
        wish.member
    }

    fn sync(&mut self, from: u64, member: &str, generation: i32, given: &[(&str, &'static str)]) {
        let assignment = |(member, assignment): &(&str, &'static str)| {
            SyncGroupRequestAssignment::default()
                .with_member_id(text(member))
                .with_assignment(Bytes::from_static(assignment.as_bytes()))
        };
        let request = SyncGroupRequest::default()
            .with_group_id(GroupId(text("g")))
            .with_member_id(text(member))
            .with_generation_id(generation)
            .with_assignments(given.iter().map(assignment).collect());
        self.groups
            .sync(connection(from), &request, &mut self.answers, self.now);
    }

    fn beat(&mut self, member: &str, generation: i32) -> Code {
        self.beat_as(member, generation, None)
    }

    fn beat_as(&mut self, member: &str, generation: i32, instance: Option<&str>) -> Code {
        let request = HeartbeatRequest::default()
            .with_group_id(GroupId(text("g")))
            .with_member_id(text(member))
            .with_group_instance_id(instance.map(text))
            .with_generation_id(generation);
        let Response::Heartbeat(response) = self.groups.heartbeat(&request, self.now) else {
            unreachable!("another API's response");
        };
        response.error_code
    }

    fn leave(&mut self, member: &str) -> Code {
        let member = MemberIdentity::default().with_member_id(text(member));
        let request = LeaveGroupRequest::default()
            .with_group_id(GroupId(text("g")))
            .with_members(vec![member]);
        let answers = &mut self.answers;
        let Response::LeaveGroup(response) = self.groups.leave(3, &request, answers, self.now) else {
            unreachable!("another API's response");
        };
        response.members[0].error_code
    }

    fn may_commit(&mut self, member: &str, generation: i32) -> Code {
        let request = OffsetCommitRequest::default()
            .with_group_id(GroupId(text("g")))
            .with_member_id(text(member))
            .with_generation_id_or_member_epoch(generation);
        self.groups.may_commit(8, &request, self.now)
    }

    fn wait(&mut self, milliseconds: u64) {
        let until = self.now + Duration::from_millis(milliseconds);
        while let Some(at) = self.groups.poll_timeout()
            && at <= until
        {
            self.groups.handle_timeout(&mut self.answers, at);
        }
        self.now = until;
    }

    fn answer(&mut self, from: u64) -> Option<Response> {
        let at = self.answers.iter().position(|(to, _)| *to == connection(from))?;
        Some(self.answers.remove(at).1)
    }

    fn joined(&mut self, from: u64) -> JoinGroupResponse {
        match self.answer(from) {
            Some(Response::JoinGroup(response)) => response,
            other => panic!("{other:?}"),
        }
    }

    fn synced(&mut self, from: u64) -> (Code, Bytes) {
        match self.answer(from) {
            Some(Response::SyncGroup(response)) => (response.error_code, response.assignment),
            other => panic!("{other:?}"),
        }
    }

    /// A group of one stable member, in generation 1.
    fn stable(&mut self, wish: Wish) -> String {
        let member = self.enter(1, wish);
        self.wait(3000);
        assert_eq!(self.joined(1).generation_id, 1);
        self.sync(1, &member, 1, &[(&member, "all")]);
        assert_eq!(self.synced(1), (code::NONE, Bytes::from("all")));
        member
    }
}

#[test]
fn the_first_generation_waits_for_more_members() {
    let mut world = World::new();
    let a = world.enter(1, wish(""));
    world.wait(2999);
    assert!(world.answers.is_empty());
    let b = world.enter(2, wish(""));
    world.wait(1);
    assert!(world.answers.is_empty(), "each newcomer is worth one more delay");
    world.wait(3000);
    let (one, two) = (world.joined(1), world.joined(2));
    assert_eq!((one.error_code, one.generation_id, two.generation_id), (0, 1, 1));
    assert_eq!((&*one.leader, &*two.leader), (a.as_str(), a.as_str()));
    assert_eq!(
        (one.members.len(), two.members.len()),
        (2, 0),
        "only the leader is told"
    );
    let metadata: Vec<_> = one
        .members
        .iter()
        .map(|m| (m.member_id.to_string(), &m.metadata[..]))
        .collect();
    assert!(metadata.contains(&(b, b"range of 2")));
}

#[test]
fn the_wait_for_more_members_ends_with_the_rebalance_timeout() {
    let mut world = World::new();
    world.enter(
        1,
        Wish {
            rebalance: 7000,
            ..wish("")
        },
    );
    for newcomer in 2..6 {
        world.wait(1999);
        world.enter(newcomer, wish(""));
    }
    assert_eq!(world.joined(1).generation_id, 1, "3 s, 3 s more and 1 s are over");
}

#[test]
fn a_follower_waits_for_the_leaders_assignment() {
    let mut world = World::new();
    let a = world.enter(1, wish(""));
    let b = world.enter(2, wish(""));
    world.wait(6000);
    assert_eq!(world.joined(1).generation_id, 1);
    assert_eq!(world.joined(2).generation_id, 1);
    world.sync(2, &b, 1, &[]);
    assert!(world.answer(2).is_none());
    world.sync(1, &a, 1, &[(&a, "for a"), (&b, "for b")]);
    assert_eq!(world.synced(1), (0, Bytes::from("for a")));
    assert_eq!(world.synced(2).1, Bytes::from("for b"));
    world.sync(2, &b, 1, &[]);
    assert_eq!(
        world.synced(2).1,
        Bytes::from("for b"),
        "a stable group repeats it"
    );
}

#[test]
fn a_newcomer_is_waited_with_until_the_others_have_rejoined() {
    let mut world = World::new();
    let a = world.stable(wish(""));
    let b = world.enter(2, wish(""));
    assert_eq!(world.beat(&a, 1), code::REBALANCE_IN_PROGRESS);
    assert_eq!(
        world.may_commit(&a, 1),
        code::NONE,
        "the old generation may still commit"
    );
    world.join(1, &wish(&a));
    let (one, two) = (world.joined(1), world.joined(2));
    assert_eq!(
        (one.generation_id, two.generation_id, &*two.leader),
        (2, 2, a.as_str())
    );
    assert_eq!(world.may_commit(&b, 2), code::REBALANCE_IN_PROGRESS);
    assert_eq!(world.beat(&b, 2), code::NONE);
    world.sync(2, &b, 1, &[]);
    assert_eq!(world.synced(2).0, code::ILLEGAL_GENERATION);
}

#[test]
fn who_does_not_rejoin_is_removed_at_the_rebalance_timeout() {
    let mut world = World::new();
    let a = world.stable(Wish {
        session: 30_000,
        ..wish("")
    });
    let b = world.enter(2, wish(""));
    for _ in 0..10 {
        world.wait(1999);
        assert_eq!(world.beat(&a, 1), code::REBALANCE_IN_PROGRESS);
    }
    assert!(world.answer(2).is_none());
    world.wait(10);
    let joined = world.joined(2);
    assert_eq!(
        (joined.generation_id, joined.members.len(), &*joined.leader),
        (2, 1, b.as_str())
    );
    assert_eq!(world.beat(&a, 1), code::UNKNOWN_MEMBER_ID);
}

#[test]
fn a_silent_member_is_removed_at_its_session_timeout() {
    let mut world = World::new();
    let a = world.stable(wish(""));
    world.wait(9000);
    assert_eq!(world.beat(&a, 1), code::NONE);
    world.wait(9999);
    assert_eq!(world.groups.find("g").unwrap().state, GroupState::Stable);
    world.wait(1);
    assert_eq!(world.groups.find("g").unwrap().state, GroupState::Empty);
    assert_eq!(world.beat(&a, 1), code::UNKNOWN_MEMBER_ID);
    assert_eq!(world.groups.poll_timeout(), None);
}

#[test]
fn who_never_syncs_is_removed_at_the_rebalance_timeout() {
    let mut world = World::new();
    let a = world.enter(
        1,
        Wish {
            session: 60_000,
            ..wish("")
        },
    );
    let b = world.enter(
        2,
        Wish {
            session: 60_000,
            ..wish("")
        },
    );
    world.wait(6000);
    world.answers.clear();
    world.sync(2, &b, 1, &[]);
    world.wait(20_000);
    assert_eq!(world.synced(2).0, code::REBALANCE_IN_PROGRESS);
    assert_eq!(world.beat(&a, 1), code::UNKNOWN_MEMBER_ID);
    assert_eq!(world.beat(&b, 1), code::REBALANCE_IN_PROGRESS);
}

#[test]
fn a_leave_rebalances_the_rest() {
    let mut world = World::new();
    let a = world.stable(wish(""));
    let b = world.enter(2, wish(""));
    world.join(1, &wish(&a));
    world.sync(1, &a, 2, &[]);
    world.sync(2, &b, 2, &[]);
    world.answers.clear();
    assert_eq!(world.leave(&b), code::NONE);
    assert_eq!(world.leave(&b), code::UNKNOWN_MEMBER_ID);
    assert_eq!(world.beat(&a, 2), code::REBALANCE_IN_PROGRESS);
    assert_eq!(world.leave(&a), code::NONE);
    assert_eq!(world.groups.find("g").unwrap().state, GroupState::Empty);
}

#[test]
fn an_id_that_was_given_is_waited_for_until_it_leaves() {
    let mut world = World::new();
    let a = world.stable(wish(""));
    world.join(2, &wish(""));
    let ghost = world.joined(2).member_id.to_string();
    world.join(
        1,
        &Wish {
            protocols: &["range", "roundrobin"],
            ..wish(&a)
        },
    );
    assert!(world.answer(1).is_none(), "its JoinGroup may come yet");
    assert_eq!(world.leave(&ghost), code::NONE);
    assert_eq!(world.joined(1).generation_id, 2);
}

#[test]
fn the_protocol_is_one_that_all_support_and_most_prefer() {
    let mut world = World::new();
    world.enter(
        1,
        Wish {
            protocols: &["sticky", "range", "roundrobin"],
            ..wish("")
        },
    );
    world.enter(
        2,
        Wish {
            protocols: &["roundrobin", "range"],
            ..wish("")
        },
    );
    world.enter(
        3,
        Wish {
            protocols: &["roundrobin", "range"],
            ..wish("")
        },
    );
    world.wait(6000);
    let joined = world.joined(1);
    assert_eq!(joined.protocol_name.as_deref(), Some("roundrobin"));
    assert_eq!(joined.members[0].metadata.len(), "roundrobin of 1".len());
    world.join(
        4,
        &Wish {
            protocols: &["sticky"],
            ..wish("")
        },
    );
    assert_eq!(world.joined(4).error_code, code::INCONSISTENT_GROUP_PROTOCOL);
}

#[test]
fn only_members_commit_while_there_are_any() {
    let mut world = World::new();
    assert_eq!(world.may_commit("", -1), code::NONE);
    assert_eq!(world.may_commit("x", 3), code::ILLEGAL_GENERATION);
    let a = world.stable(wish(""));
    assert_eq!(world.may_commit("", -1), code::UNKNOWN_MEMBER_ID);
    assert_eq!(world.may_commit("x", 1), code::UNKNOWN_MEMBER_ID);
    assert_eq!(world.may_commit(&a, 0), code::ILLEGAL_GENERATION);
    assert_eq!(world.may_commit(&a, 1), code::NONE);
    world.leave(&a);
    assert_eq!(world.may_commit("", -1), code::NONE);
}

#[test]
fn a_follower_that_says_nothing_new_keeps_its_generation_and_the_leader_starts_another() {
    let mut world = World::new();
    let a = world.stable(wish(""));
    let b = world.enter(2, wish(""));
    world.join(1, &wish(&a));
    world.sync(1, &a, 2, &[]);
    world.sync(2, &b, 2, &[]);
    world.answers.clear();
    world.join(2, &wish(&b));
    assert_eq!(world.joined(2).generation_id, 2);
    world.join(1, &wish(&a));
    assert!(world.answer(1).is_none());
    assert_eq!(world.beat(&b, 2), code::REBALANCE_IN_PROGRESS);
}

#[test]
fn a_static_members_successor_takes_its_place_without_a_rebalance() {
    for (version, skips) in [(5, false), (9, true)] {
        let mut world = World::new();
        let instance = || Wish {
            instance: Some("i"),
            version,
            ..wish("")
        };
        world.join(1, &instance());
        world.wait(3000);
        let a = world.joined(1).member_id.to_string();
        world.sync(1, &a, 1, &[(&a, "all")]);
        world.answers.clear();
        world.join(2, &instance());
        let joined = world.joined(2);
        let b = joined.member_id.to_string();
        assert_ne!(a, b);
        assert_eq!((joined.generation_id, joined.skip_assignment), (1, skips));
        assert_eq!(*joined.leader == *b, skips);
        world.sync(2, &b, 1, &[]);
        assert_eq!(world.synced(2).1, Bytes::from("all"));
        assert_eq!(world.beat_as(&a, 1, Some("i")), code::FENCED_INSTANCE_ID);
        assert_eq!(world.beat_as(&b, 1, Some("i")), code::NONE);
    }
}

#[test]
fn a_session_out_of_bounds_and_a_stranger_are_refused() {
    let mut world = World::new();
    for session in [5999, 1_800_001, -1] {
        world.join(1, &Wish { session, ..wish("") });
        assert_eq!(world.joined(1).error_code, code::INVALID_SESSION_TIMEOUT);
    }
    world.join(1, &wish("stranger"));
    assert_eq!(world.joined(1).error_code, code::UNKNOWN_MEMBER_ID);
    world.join(
        1,
        &Wish {
            version: 3,
            ..wish("")
        },
    );
    world.wait(3000);
    assert_eq!(world.joined(1).generation_id, 1, "old clients join without an id");
}
