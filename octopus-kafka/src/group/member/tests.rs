mod commits;
mod session;

use std::collections::BTreeMap;

use super::*;

const TIMING: Timing = Timing {
    session: Duration::from_secs(10),
    rebalance: Duration::from_secs(60),
    heartbeat: Duration::from_secs(3),
};

/// A member, its clock and what it asked for last.
struct World {
    member: Member,
    now: Instant,
    number: u64,
    deadline: Option<Duration>,
}

/// What came out at once: the request sent last, and the rest in words.
#[derive(Debug, PartialEq)]
struct Out {
    sent: Option<Request>,
    said: Vec<&'static str>,
}

impl World {
    fn new() -> Self {
        let now = Instant::now();
        let member = Member::new(TIMING, now);
        Self {
            member,
            now,
            number: 0,
            deadline: None,
        }
    }

    fn out(&mut self) -> Out {
        let (mut sent, mut said) = (None, Vec::new());
        while let Some(output) = self.member.poll() {
            match output {
                Output::Send {
                    number,
                    request,
                    deadline,
                } => {
                    assert!(number > self.number);
                    self.number = number;
                    self.deadline = Some(deadline - self.now);
                    sent = Some(request);
                }
                Output::Beside { .. } => panic!("{output:?}"),
                Output::Forget => said.push("forget"),
                Output::Signal(Signal::Rebalance) => said.push("rebalance"),
                Output::Signal(Signal::Lost) => said.push("lost"),
            }
        }
        Out { sent, said }
    }

    fn want(&mut self, names: &str) -> Out {
        self.member.want(topics(names), Vec::new(), self.now);
        self.out()
    }

    fn answer(&mut self, answer: Answer) -> Out {
        self.member.answered(self.number, answer, self.now);
        self.out()
    }

    fn leave(&mut self) -> Out {
        self.member.leave(self.now);
        self.out()
    }

    /// Goes on to the time to wake.
    fn wake(&mut self) -> (Duration, Out) {
        let at = self.member.wake().expect("it waits for a time");
        let waited = at.saturating_duration_since(self.now);
        self.now += waited;
        self.member.timeout(self.now);
        (waited, self.out())
    }

    /// Joins as a follower and takes what it got.
    fn follow(&mut self, names: &str, generation: i32) -> Vec<&'static str> {
        let asked = self.want(names).sent;
        assert!(matches!(asked, Some(Request::Join { .. })), "{asked:?}");
        self.admit(names, generation)
    }

    fn admit(&mut self, names: &str, generation: i32) -> Vec<&'static str> {
        self.answer(Answer::Join(Ok(joined("me", generation, "other"))));
        let said = self.answer(Answer::Sync(Ok(given(names)))).said;
        assert_eq!(
            self.member.take(),
            Some(Ok(names.split_whitespace().map(str::to_owned).collect()))
        );
        said
    }
}

fn topics(names: &str) -> BTreeSet<String> {
    names.split_whitespace().map(str::to_owned).collect()
}

fn given(names: &str) -> Bytes {
    subscription::assignment(&topics(names).into_iter().map(|topic| (topic, vec![0])).collect())
}

fn joined(member_id: &str, generation: i32, leader: &str) -> Joined {
    Joined {
        member_id: member_id.to_owned(),
        generation,
        protocol: "roundrobin".to_owned(),
        leader: leader.to_owned(),
        ..Joined::default()
    }
}

fn join(member_id: &str, names: &str) -> Out {
    quiet(Request::Join {
        member_id: member_id.to_owned(),
        topics: topics(names),
    })
}

fn leave(member_id: &str) -> Out {
    quiet(Request::Leave {
        member_id: member_id.to_owned(),
    })
}

fn heartbeat(member_id: &str, generation: i32) -> Out {
    quiet(Request::Heartbeat {
        member_id: member_id.to_owned(),
        generation,
    })
}

fn quiet(request: Request) -> Out {
    Out {
        sent: Some(request),
        said: Vec::new(),
    }
}

fn nothing(said: &[&'static str]) -> Out {
    Out {
        sent: None,
        said: said.to_vec(),
    }
}

fn code(code: ResponseError) -> Trouble {
    Trouble::Code(code)
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn commit() -> Stored {
    Stored {
        topic: "a".to_owned(),
        offset: 5,
        leader_epoch: None,
        metadata: "".into(),
    }
}

/// [K25]
#[test]
fn a_new_member_joins_at_once_with_the_id_that_it_is_given() {
    let mut world = World::new();
    assert_eq!(world.want("a b"), join("", "a b"));
    assert_eq!(world.deadline, Some(secs(70)));
    assert_eq!(world.answer(Answer::MemberId("me".to_owned())), join("me", "a b"));
    let sync = Request::Sync {
        member_id: "me".to_owned(),
        generation: 1,
        protocol: "roundrobin".to_owned(),
        assignments: Vec::new(),
    };
    assert_eq!(
        world.answer(Answer::Join(Ok(joined("me", 1, "other")))),
        quiet(sync)
    );
    assert_eq!(world.member.identity(), Identity::Joining);
    assert_eq!(world.answer(Answer::Sync(Ok(given("b")))), nothing(&[]));
    assert_eq!(world.member.take(), Some(Ok(vec!["b".to_owned()])));
    assert_eq!(world.member.take(), None);
    let identity = Identity::Member {
        member_id: "me".to_owned(),
        generation: 1,
    };
    assert_eq!(world.member.identity(), identity);
}

#[test]
fn wanting_the_same_again_does_not_disturb_a_join() {
    let mut world = World::new();
    world.want("a");
    assert_eq!(world.want("a"), nothing(&[]));
    world.answer(Answer::Join(Ok(joined("me", 1, "other"))));
    world.member.want(topics("a"), vec![commit()], world.now);
    assert_eq!(world.out(), nothing(&[]));
    world.answer(Answer::Sync(Ok(given("a"))));
    assert_eq!(world.want("a"), nothing(&[]), "the result waits to be taken");
    assert_eq!(world.member.take(), Some(Ok(vec!["a".to_owned()])));
    assert_eq!(world.want("a"), join("me", "a"), "a new join");
}

#[test]
fn other_topics_start_the_join_again() {
    let mut world = World::new();
    world.want("a");
    assert_eq!(
        world.want("b"),
        nothing(&[]),
        "without an id the answer is waited for"
    );
    assert_eq!(world.answer(Answer::MemberId("me".to_owned())), join("me", "b"));
    assert_eq!(world.want("c"), join("me", "c"));
    world.answer(Answer::Join(Ok(joined("me", 1, "other"))));
    assert_eq!(world.want("d"), join("me", "d"), "while syncing");

    let mut old = World::new();
    old.want("a");
    old.want("b");
    let late = old.answer(Answer::Join(Ok(joined("me", 1, "other"))));
    assert_eq!(
        late,
        join("me", "b"),
        "an old broker takes a member without an id"
    );
}

/// [D-24]
#[test]
fn the_leader_assigns_what_the_cluster_lists_and_nothing_else() {
    let mut world = World::new();
    world.want("a b gone");
    let members = vec![
        (
            "me".to_owned(),
            None,
            subscription::subscription(&topics("a b gone")),
        ),
        (
            "other".to_owned(),
            None,
            subscription::subscription(&topics("a b c")),
        ),
        ("odd".to_owned(), None, Bytes::from_static(&[0xff])),
    ];
    let answer = Joined {
        members,
        ..joined("me", 4, "me")
    };
    let asked = world.answer(Answer::Join(Ok(answer)));
    assert_eq!(asked, quiet(Request::Partitions(topics("a b c gone"))));
    let listed = BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 1)]);
    let sync = Request::Sync {
        member_id: "me".to_owned(),
        generation: 4,
        protocol: "roundrobin".to_owned(),
        assignments: vec![
            ("me".to_owned(), given("a")),
            ("other".to_owned(), given("b")),
            ("odd".to_owned(), given("")),
        ],
    };
    assert_eq!(world.answer(Answer::Partitions(Ok(listed.clone()))), quiet(sync));
    world.answer(Answer::Sync(Ok(given("a"))));
    assert_eq!(world.member.take(), Some(Ok(vec!["a".to_owned()])));

    assert_eq!(world.member.watched(), Some(topics("a b c gone")));
    world.member.listed(&listed, world.now);
    assert_eq!(world.out(), nothing(&[]));
    let more = listed.into_iter().chain([("gone".to_owned(), 1)]).collect();
    world.member.listed(&more, world.now);
    world.member.listed(&more, world.now);
    assert_eq!(world.out(), nothing(&["rebalance"]), "once");
}

#[test]
fn a_leader_that_need_not_decide_only_syncs() {
    let mut world = World::new();
    world.want("a");
    let asked = world.answer(Answer::Join(Ok(Joined {
        skip_assignment: true,
        ..joined("me", 1, "me")
    })));
    assert!(matches!(asked.sent, Some(Request::Sync { assignments, .. }) if assignments.is_empty()));
    assert_eq!(world.member.watched(), None);
}

#[test]
fn what_was_not_asked_for_is_left_out_of_an_assignment() {
    let mut world = World::new();
    world.want("a b c");
    world.answer(Answer::Join(Ok(joined("me", 1, "other"))));
    let partitions = [("a", vec![0, 1]), ("b", vec![1]), ("x", vec![0])];
    let partitions = partitions.map(|(topic, partitions)| (topic.to_owned(), partitions));
    world.answer(Answer::Sync(Ok(subscription::assignment(&partitions.into()))));
    assert_eq!(world.member.take(), Some(Ok(vec!["a".to_owned()])));

    let mut empty = World::new();
    empty.want("a");
    empty.answer(Answer::Join(Ok(joined("me", 1, "other"))));
    empty.answer(Answer::Sync(Ok(Bytes::new())));
    assert_eq!(empty.member.take(), Some(Ok(Vec::new())));
}

/// [KF-45] [LC-03]
#[test]
fn heartbeats_keep_an_idle_member_for_ever() {
    let mut world = World::new();
    world.follow("a", 1);
    for _ in 0..1000 {
        assert_eq!(world.wake(), (secs(3), heartbeat("me", 1)));
        assert_eq!(world.answer(Answer::Heartbeat(Ok(()))), nothing(&[]));
    }
}

#[test]
fn a_rebalance_is_signalled_once_and_the_member_kept_alive() {
    let mut world = World::new();
    world.follow("a", 1);
    let rebalance = || Answer::Heartbeat(Err(code(ResponseError::RebalanceInProgress)));
    world.wake();
    assert_eq!(world.answer(rebalance()), nothing(&["rebalance"]));
    assert_eq!(world.wake(), (secs(3), heartbeat("me", 1)));
    assert_eq!(world.answer(rebalance()), nothing(&[]));
    assert_eq!(world.want("a"), join("me", "a"), "the id is kept");
    assert_eq!(world.admit("a", 2), [""; 0], "nothing is lost");
    world.wake();
    assert_eq!(
        world.answer(rebalance()),
        nothing(&["rebalance"]),
        "in the next generation again"
    );
}

/// [AK-02]
#[test]
fn positions_are_committed_before_a_member_joins_again() {
    let mut world = World::new();
    world.member.want(topics("a"), vec![commit()], world.now);
    assert_eq!(world.out(), join("", "a"), "no member, so nothing to commit as");
    world.admit("a", 1);
    world.member.want(topics("a"), vec![commit()], world.now);
    assert_eq!(world.out(), quiet(Request::Commit(vec![commit()])));
    assert_eq!(world.deadline, Some(secs(5)));
    let identity = Identity::Member {
        member_id: "me".to_owned(),
        generation: 1,
    };
    assert_eq!(world.member.identity(), identity);
    assert_eq!(world.answer(Answer::Commit), join("me", "a"));
}

#[test]
fn a_rebalance_before_the_assignment_was_taken_is_followed_at_once() {
    let mut world = World::new();
    world.want("a");
    world.answer(Answer::Join(Ok(joined("me", 1, "other"))));
    world.answer(Answer::Sync(Ok(given("a"))));
    world.wake();
    assert_eq!(
        world.answer(Answer::Heartbeat(Err(code(ResponseError::RebalanceInProgress)))),
        join("me", "a")
    );
    assert_eq!(world.member.take(), None, "the old assignment is gone");
    assert_eq!(world.admit("a", 2), [""; 0]);
}

#[test]
fn a_member_that_the_group_put_out_is_lost_and_joins_as_a_new_one() {
    for (error, id) in [
        (ResponseError::UnknownMemberId, ""),
        (ResponseError::FencedInstanceId, ""),
        (ResponseError::IllegalGeneration, "me"),
    ] {
        let mut world = World::new();
        world.follow("a", 1);
        world.wake();
        assert_eq!(
            world.answer(Answer::Heartbeat(Err(code(error)))),
            nothing(&["lost"])
        );
        assert_eq!(world.member.identity(), Identity::Lost);
        assert_eq!(world.member.wake(), None);
        world.member.want(topics("a"), vec![commit()], world.now);
        assert_eq!(world.out(), join(id, "a"), "without a commit");
    }
}

/// [KF-31] [CO-06] the answer of a heartbeat that was in flight then changes nothing, whatever it is.
#[test]
fn a_heartbeat_does_not_outlive_the_membership_that_a_commit_found_over() {
    for answer in [Ok(()), Err(code(ResponseError::UnknownMemberId))] {
        let mut world = World::new();
        world.follow("a", 1);
        world.wake();
        world
            .member
            .refused(ResponseError::IllegalGeneration, 1, world.now);
        assert_eq!(world.out(), nothing(&["lost"]));
        assert_eq!(world.answer(Answer::Heartbeat(answer)), nothing(&[]));
        assert_eq!(world.member.identity(), Identity::Lost);
        assert_eq!(world.want("a"), join("me", "a"));
    }
}

#[test]
fn a_join_that_finds_its_member_unknown_goes_on_as_a_new_one() {
    let mut world = World::new();
    world.follow("a", 1);
    world.want("a");
    let unknown = || Answer::Join(Err(code(ResponseError::UnknownMemberId)));
    assert_eq!(
        world.answer(unknown()),
        Out {
            said: vec!["lost"],
            ..join("", "a")
        }
    );
    assert_eq!(
        world.answer(unknown()),
        nothing(&[]),
        "with patience from then on"
    );
    assert_eq!(world.wake().1, join("", "a"));
}

#[test]
fn a_sync_that_comes_too_late_joins_again_with_its_id() {
    for error in [
        ResponseError::RebalanceInProgress,
        ResponseError::IllegalGeneration,
    ] {
        let mut world = World::new();
        world.want("a");
        world.answer(Answer::Join(Ok(joined("me", 1, "other"))));
        assert_eq!(world.answer(Answer::Sync(Err(code(error)))), join("me", "a"));
    }
}

#[test]
fn an_assignment_after_a_generation_that_was_missed_is_a_new_start() {
    let mut world = World::new();
    world.follow("a", 1);
    world.want("a");
    assert_eq!(world.admit("a", 3), ["lost"]);
    world.want("a");
    assert_eq!(world.admit("a", 4), [""; 0]);
}

/// [KF-26]
#[test]
fn a_coordinator_that_moves_is_looked_up_and_the_member_kept() {
    for (error, forgets) in [
        (code(ResponseError::NotCoordinator), true),
        (code(ResponseError::CoordinatorNotAvailable), true),
        (code(ResponseError::CoordinatorLoadInProgress), false),
        (Trouble::Silent, true),
        (Trouble::Unreachable, true),
    ] {
        let forget: &[&str] = if forgets { &["forget"] } else { &[] };
        let mut world = World::new();
        world.want("a");
        world.answer(Answer::MemberId("me".to_owned()));
        let mut waits = Vec::new();
        for _ in 0..6 {
            assert_eq!(world.answer(Answer::Join(Err(error.clone()))), nothing(forget));
            let (waited, out) = world.wake();
            assert_eq!(out, join("me", "a"));
            waits.push(waited.as_millis());
        }
        assert_eq!(waits, [100, 200, 400, 800, 1000, 1000]);

        world.admit("a", 1);
        world.wake();
        assert_eq!(world.answer(Answer::Heartbeat(Err(error))), nothing(forget));
        assert_eq!(world.wake(), (Duration::from_millis(100), heartbeat("me", 1)));
    }
}

/// [ER-02]
#[test]
fn a_join_that_can_not_succeed_says_why_once() {
    let mut world = World::new();
    world.want("a");
    let denied = code(ResponseError::GroupAuthorizationFailed);
    assert_eq!(world.answer(Answer::Join(Err(denied))), nothing(&[]));
    assert!(world.member.is_out());
    assert_eq!(world.member.take(), Some(Err(Error::KafkaUnauthorized)));
    assert_eq!(
        world.want("a"),
        join("", "a"),
        "and is tried anew when it is wanted again"
    );
}

/// [ER-07]
#[test]
fn a_join_knows_whether_any_broker_was_reached() {
    let mut world = World::new();
    world.want("a");
    assert!(!world.member.was_reached());
    world.answer(Answer::Join(Err(Trouble::Unreachable)));
    assert!(!world.member.was_reached());
    world.wake();
    world.answer(Answer::MemberId("me".to_owned()));
    assert!(world.member.was_reached());
    world.answer(Answer::Join(Err(Trouble::Unreachable)));
    assert!(world.member.was_reached(), "one was, since the join began");
}

#[test]
fn leaving_sends_the_id_whatever_is_under_way() {
    let mut stable = World::new();
    stable.follow("a", 1);
    assert_eq!(stable.leave(), leave("me"));
    assert_eq!(stable.member.identity(), Identity::Alone);
    assert_eq!(stable.answer(Answer::Leave), nothing(&[]));
    assert!(stable.member.is_out());

    let mut joining = World::new();
    joining.want("a");
    joining.answer(Answer::MemberId("me".to_owned()));
    assert_eq!(joining.leave(), leave("me"));

    let mut lost = World::new();
    lost.follow("a", 1);
    lost.member.refused(ResponseError::UnknownMemberId, 1, lost.now);
    assert_eq!(lost.out(), nothing(&["lost"]));
    assert_eq!(lost.leave(), nothing(&[]), "there is no member to leave with");
    assert!(lost.member.is_out());
}

#[test]
fn a_join_without_an_id_is_left_when_its_answer_brings_one() {
    for (answer, sent) in [
        (Answer::MemberId("me".to_owned()), leave("me")),
        (Answer::Join(Ok(joined("me", 1, "other"))), leave("me")),
        (Answer::Join(Err(Trouble::Silent)), nothing(&[])),
    ] {
        let mut world = World::new();
        world.want("a");
        assert_eq!(world.leave(), nothing(&[]));
        assert_eq!(world.answer(answer), sent);
        if sent.sent.is_some() {
            world.answer(Answer::Leave);
        }
        assert!(world.member.is_out());
    }
}

#[test]
fn a_join_wanted_while_leaving_comes_after_it() {
    let mut world = World::new();
    world.follow("a", 1);
    world.leave();
    assert_eq!(world.want("b"), nothing(&[]));
    assert!(world.member.is_joining());
    assert_eq!(world.answer(Answer::Leave), join("", "b"));
}

#[test]
fn an_answer_that_was_overtaken_changes_nothing() {
    let mut world = World::new();
    world.follow("a", 1);
    world.wake();
    let number = world.number;
    world.want("a b");
    let late = Answer::Heartbeat(Err(code(ResponseError::UnknownMemberId)));
    world.member.answered(number, late, world.now);
    assert_eq!(world.out(), nothing(&[]));
    assert_eq!(world.admit("a", 2), [""; 0]);
}
