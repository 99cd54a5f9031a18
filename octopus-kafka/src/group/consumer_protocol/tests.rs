mod commits;
mod errors;
mod settling;

use super::*;
use crate::group::member::Identity;

const SEED: u128 = 7;

/// The first id of the members here.
fn me() -> String {
    MemberIds::new(SEED).next()
}

/// A member, its clock, and what it asked for last.
struct World {
    member: Member,
    now: Instant,
    sent: u64,
    beside: u64,
}

/// What came out at once: the heartbeat, the request beside it, and the rest in words.
#[derive(Debug, PartialEq, Default)]
struct Out {
    beat: Option<Beat>,
    beside: Option<Request>,
    said: Vec<&'static str>,
}

impl World {
    fn new() -> Self {
        Self {
            member: Member::new(secs(3), SEED),
            now: Instant::now(),
            sent: 0,
            beside: 0,
        }
    }

    fn out(&mut self) -> Out {
        let mut out = Out::default();
        while let Some(output) = self.member.poll() {
            match output {
                Output::Send {
                    number,
                    request: Request::Beat(beat),
                    deadline,
                } => {
                    let wait = if beat.epoch == LEAVE {
                        LEAVE_WAIT
                    } else {
                        BEAT_WAIT
                    };
                    assert!(deadline <= self.now + wait && deadline > self.now);
                    assert!(number > self.sent && out.beat.is_none(), "one at a time");
                    (self.sent, out.beat) = (number, Some(beat));
                }
                Output::Beside {
                    number,
                    request,
                    deadline,
                } => {
                    assert!(number > self.beside && deadline == self.now + secs(5));
                    (self.beside, out.beside) = (number, Some(request));
                }
                Output::Send { .. } => panic!("{output:?}"),
                Output::Forget => out.said.push("forget"),
                Output::Signal(Signal::Rebalance) => out.said.push("rebalance"),
                Output::Signal(Signal::Lost) => out.said.push("lost"),
            }
        }
        out
    }

    fn want(&mut self, names: &str) -> Out {
        self.member.want(topics(names), Vec::new(), self.now);
        self.out()
    }

    fn want_with_a_commit(&mut self, names: &str) -> Out {
        self.member.want(topics(names), vec![commit()], self.now);
        self.out()
    }

    fn leave(&mut self) -> Out {
        self.member.leave(self.now);
        self.out()
    }

    fn answer(&mut self, result: Result<Beaten, Trouble>) -> Out {
        self.member.answered(self.sent, Answer::Beat(result), self.now);
        self.out()
    }

    /// The coordinator takes the heartbeat, and has nothing new.
    fn take_beat(&mut self, epoch: i32) -> Out {
        self.answer(Ok(beaten(epoch, None)))
    }

    /// The coordinator takes the heartbeat, and assigns.
    fn assign(&mut self, epoch: i32, assigned: &str) -> Out {
        self.answer(Ok(beaten(epoch, Some(assigned))))
    }

    fn refuse(&mut self, code: ResponseError) -> Out {
        self.answer(Err(Trouble::Code(code)))
    }

    /// The answer to a look-up: these topics have ids.
    fn ids(&mut self, names: &str) -> Out {
        let ids = topics(names).into_iter().map(|name| (name.clone(), id(&name)));
        let answer = Answer::Ids(Ok(ids.collect()));
        self.member.answered(self.beside, answer, self.now);
        self.out()
    }

    fn committed(&mut self) -> Out {
        self.member.answered(self.beside, Answer::Commit, self.now);
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

    fn given(&mut self) -> Option<Result<Vec<String>, Error>> {
        self.member.take()
    }

    /// A member that wants and has these topics, in this epoch.
    fn with(names: &str, epoch: i32) -> Self {
        let mut world = Self::new();
        world.want(names);
        world.assign(epoch, names);
        world.take_beat(epoch);
        world.ids(names);
        assert_eq!(world.given(), got(names));
        world
    }
}

fn topics(names: &str) -> BTreeSet<String> {
    names.split_whitespace().map(str::to_owned).collect()
}

/// The id of a topic by its name.
fn id(name: &str) -> Uuid {
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    Uuid::from_bytes(bytes)
}

/// Partitions in words: `a` is a's first one, `a1` its second, `a01` both.
fn owned(words: &str) -> Owned {
    let split = |word: &str| {
        let (name, numbers) = word.split_at(1);
        let numbers = if numbers.is_empty() { "0" } else { numbers };
        let partitions = numbers.bytes().map(|digit| i32::from(digit - b'0'));
        (id(name), partitions.collect())
    };
    words.split_whitespace().map(split).collect()
}

fn beaten(epoch: i32, assigned: Option<&str>) -> Beaten {
    Beaten {
        epoch,
        interval: secs(5),
        assigned: assigned.map(owned),
    }
}

fn beat(epoch: i32, names: Option<&str>, has: Option<&str>) -> Out {
    Out {
        beat: Some(Beat {
            member_id: me(),
            epoch,
            topics: names.map(topics),
            owned: has.map(owned),
        }),
        ..Out::default()
    }
}

fn ask(names: &str, anew: bool) -> Out {
    Out {
        beside: Some(Request::Ids {
            topics: topics(names),
            anew,
        }),
        ..Out::default()
    }
}

fn nothing(said: &[&'static str]) -> Out {
    Out {
        said: said.to_vec(),
        ..Out::default()
    }
}

fn got(names: &str) -> Option<Result<Vec<String>, Error>> {
    Some(Ok(topics(names).into_iter().collect()))
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

fn member(epoch: i32) -> Identity {
    Identity::Member {
        member_id: me(),
        generation: epoch,
    }
}

/// A new member tells all at once, under an id of its own making; then that it took what it was given.
#[test]
fn a_member_joins_in_epoch_0_and_says_what_it_took() {
    let mut world = World::new();
    assert_eq!(world.want("a b"), beat(0, Some("a b"), Some("")));
    assert_eq!(world.member.identity(), Identity::Joining);
    assert_eq!(world.assign(3, "a b"), beat(3, None, Some("a b")));
    assert_eq!(world.take_beat(3), ask("a b", false));
    assert_eq!(world.given(), None);
    assert_eq!(world.ids("a b"), nothing(&[]));
    assert_eq!(world.given(), got("a b"));
    assert_eq!(world.given(), None, "it is given once");
    assert_eq!(world.member.identity(), member(3));
}

/// [KF-45] [LC-03] the coordinator says how often; what it knows is not said again.
#[test]
fn heartbeats_keep_an_idle_member_for_ever() {
    let mut world = World::with("a", 1);
    for _ in 0..1000 {
        assert_eq!(world.wake(), (secs(5), beat(1, None, None)));
        assert_eq!(world.take_beat(1), nothing(&[]));
    }
    // Another member came or went, and nothing changes for this one.
    world.wake();
    assert_eq!(world.take_beat(2), nothing(&[]));
    assert_eq!(world.member.identity(), member(2));
    assert_eq!(world.wake().1, beat(2, None, None));
}

#[test]
fn the_coordinators_interval_is_believed_within_reason() {
    for (said, kept) in [
        (0, secs(3)),
        (1, Duration::from_millis(50)),
        (200, Duration::from_millis(200)),
        (i32::MAX, secs(60)),
    ] {
        let mut world = World::new();
        world.want("a");
        let interval = Duration::from_millis(u64::try_from(said).unwrap());
        world.answer(Ok(Beaten {
            interval,
            ..beaten(1, Some("a"))
        }));
        world.answer(Ok(Beaten {
            interval,
            ..beaten(1, None)
        }));
        assert_eq!(world.wake(), (kept, beat(1, None, None)));
    }
}

/// Coordinators assign in the background: what a join did not bring is asked for soon, a few times.
#[test]
fn who_got_less_than_it_asked_for_asks_again_soon() {
    let mut world = World::new();
    world.want("a b");
    assert_eq!(world.assign(1, ""), nothing(&[]));
    assert_eq!(world.given(), got(""));
    let mut waits = Vec::new();
    for _ in 0..6 {
        let (waited, out) = world.wake();
        assert_eq!(out, beat(1, None, None));
        assert_eq!(world.take_beat(1), nothing(&[]));
        waits.push(waited.as_millis());
    }
    assert_eq!(waits, [250, 500, 1000, 2000, 5000, 5000]);
    world.wake();
    assert_eq!(world.assign(2, "a"), nothing(&["rebalance"]));
    assert_eq!(world.wake().0, secs(5));
    world.take_beat(2);
    assert_eq!(world.want("a b"), beat(2, None, Some("a")));
    assert_eq!(world.take_beat(2), ask("a b", false));
    world.ids("a b");
    assert_eq!(world.given(), got("a"));
    assert_eq!(world.wake().0, Duration::from_millis(250), "after each join");
    assert_eq!(world.assign(3, "a b"), nothing(&["rebalance"]));
    assert_eq!(world.want("a b"), beat(3, None, Some("a b")));
    world.take_beat(3);
    assert_eq!(world.wake().0, secs(5), "it has all");
}

#[test]
fn a_join_for_the_same_topics_goes_on_and_one_for_others_begins_again() {
    let mut world = World::new();
    world.want("a");
    assert_eq!(world.want("a"), nothing(&[]));
    assert_eq!(world.want("b"), nothing(&[]), "the answer is waited for first");
    assert_eq!(world.assign(1, "a"), beat(1, Some("b"), Some("a")));
    assert_eq!(world.assign(1, ""), beat(1, None, Some("")));
    assert_eq!(world.assign(2, "b"), beat(2, None, Some("b")));
    assert_eq!(world.take_beat(2), ask("b", false));
    assert_eq!(world.want("b"), nothing(&[]));
    assert_eq!(world.ids("b"), nothing(&[]));
    assert_eq!(world.want("b"), nothing(&[]), "its result was not taken yet");
    assert_eq!(world.given(), got("b"));
}

/// [AK-02]
#[test]
fn positions_are_committed_before_anything_is_given_up_and_the_heartbeats_go_on() {
    let mut world = World::new();
    assert_eq!(
        world.want_with_a_commit("a b"),
        beat(0, Some("a b"), Some("")),
        "no member, so nothing to commit as"
    );
    let mut world = World::with("a b", 1);
    world.wake();
    assert_eq!(world.assign(1, "b"), nothing(&["rebalance"]));
    let commit = Out {
        beside: Some(Request::Commit(vec![commit()])),
        ..Out::default()
    };
    assert_eq!(world.want_with_a_commit("a b"), commit);
    assert_eq!(world.member.identity(), member(1));
    assert_eq!(world.wake(), (secs(5), beat(1, None, Some("a b"))));
    assert_eq!(world.take_beat(1), nothing(&[]));
    assert_eq!(world.want_with_a_commit("a b"), nothing(&[]), "it goes on");
    assert_eq!(world.committed(), beat(1, None, Some("b")));
    assert_eq!(world.take_beat(2), nothing(&[]), "its name is known");
    assert_eq!(world.given(), got("b"));
}

/// A leave is of the epoch -1, on the connection of heartbeats, and tried again where the coordinator moved.
#[test]
fn leaving_is_a_last_heartbeat() {
    let mut world = World::with("a", 1);
    assert_eq!(world.leave(), beat(-1, None, None));
    assert_eq!(world.member.identity(), Identity::Alone);
    assert!(!world.member.is_out());
    assert_eq!(world.leave(), nothing(&[]));
    assert_eq!(world.refuse(ResponseError::NotCoordinator), nothing(&["forget"]));
    assert_eq!(world.wake().1, beat(-1, None, None));
    assert_eq!(world.take_beat(-1), nothing(&[]));
    assert!(world.member.is_out());
    assert_eq!(world.member.wake(), None);

    let mut gone = World::with("a", 1);
    gone.leave();
    assert_eq!(gone.refuse(ResponseError::UnknownMemberId), nothing(&[]));
    assert!(gone.member.is_out());

    let mut silent = World::with("a", 1);
    silent.leave();
    let end = silent.now + LEAVE_WAIT;
    while !silent.member.is_out() {
        silent.answer(Err(Trouble::Silent));
        if silent.member.wake().is_some() {
            silent.wake();
        }
    }
    assert!(silent.now < end);
}

#[test]
fn a_join_that_is_given_up_leaves_once_it_is_answered() {
    for answer in [Ok(beaten(1, Some("a"))), Err(Trouble::Silent)] {
        let mut world = World::new();
        world.want("a");
        assert_eq!(world.leave(), nothing(&[]));
        assert_eq!(world.answer(answer), beat(-1, None, None));
        world.take_beat(-1);
        assert!(world.member.is_out());
        assert_eq!(world.given(), None);
    }
}

#[test]
fn a_join_wanted_while_leaving_comes_after_it_under_another_id() {
    let mut world = World::new();
    let ids = |out: Out| out.beat.map(|beat| (beat.member_id, beat.epoch));
    assert_eq!(ids(world.want("a")), Some((me(), 0)));
    world.assign(1, "a");
    assert_eq!(ids(world.leave()), Some((me(), -1)));
    assert_eq!(world.want("b"), nothing(&[]));
    assert!(world.member.is_joining());
    let (id, epoch) = ids(world.take_beat(-1)).unwrap();
    assert!(epoch == 0 && id != me());
}

#[test]
fn an_answer_that_was_overtaken_changes_nothing() {
    let mut world = World::with("a", 1);
    world.wake();
    let late = world.sent;
    world.leave();
    let unknown = Answer::Beat(Err(Trouble::Code(ResponseError::UnknownMemberId)));
    world.member.answered(late, unknown, world.now);
    assert_eq!(world.out(), nothing(&[]));
    assert!(!world.member.is_out());
}
