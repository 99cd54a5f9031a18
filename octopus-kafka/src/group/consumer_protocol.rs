//! One member of a consumer group, as a machine without I/O: wishes and answers go in, requests, signals and times to
//! wake come out. It speaks the protocol where the coordinator assigns (KIP-848): heartbeats carry all, and none waits for
//! other members.
//!
//! What the coordinator would have the member read is its *target*; what it tells the coordinator that it has is what it
//! *owns*. Only a join, which its owner asks for between two fetches, goes from the one to the other, so that nothing is
//! taken from under a fetch. Until then the heartbeats go on with what it owned.

mod commit;
mod id;
mod settle;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use kafka_protocol::error::ResponseError;
use octopus_core::Error;
use uuid::Uuid;

use self::id::MemberIds;
use super::{
    Stored,
    member::{Answer, Beat, Beaten, Output, Owned, Request, Trouble},
};
use crate::{backoff, consumer::Signal, error::Api};

/// The epoch of a member that joins.
const JOIN: i32 = 0;
/// The epoch of a member that leaves.
const LEAVE: i32 = -1;
/// How long the commit before a join may take [AK-02].
const COMMIT_WAIT: Duration = Duration::from_secs(5);
/// How long topics are looked up.
const LOOK_UP_WAIT: Duration = Duration::from_secs(5);
/// How long a leave is tried.
const LEAVE_WAIT: Duration = Duration::from_secs(5);
/// How long a heartbeat is waited for: a few of them fit in Kafka's session of 45 s.
const BEAT_WAIT: Duration = Duration::from_secs(10);
/// The times between the first heartbeats after a join that brought less than was asked for: a coordinator assigns in the
/// background, once a second or so.
const SOON: [Duration; 4] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];
/// The least and the most time between two heartbeats that a coordinator is believed.
const INTERVAL: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(60));

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    /// Not a member.
    Out,
    /// It has no epoch yet.
    Joining,
    /// A member.
    In,
    /// Put out.
    Expelled,
    /// The last heartbeat is in flight, or tried again until then.
    Leaving(Instant),
}

/// How far a join is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Progress {
    /// None is under way.
    Done,
    /// The positions held are committed before anything is given up.
    Committing,
    /// What it owns comes to the target, and the coordinator is told.
    Settling,
    /// The names of what it owns are looked up; whether the cluster is asked.
    Naming { anew: bool },
}

/// A heartbeat that was sent, and what it told.
#[derive(Debug)]
struct Flight {
    number: u64,
    topics: Option<BTreeSet<String>>,
    owned: Option<Owned>,
}

/// A member of a group.
#[derive(Debug)]
pub(super) struct Member {
    ids: MemberIds,
    state: State,
    progress: Progress,
    id: String,
    /// The coordinator may know a member of this id.
    known: bool,
    epoch: i32,
    /// The time between two heartbeats, as the coordinator says.
    interval: Duration,
    /// The topics to join with; empty: to be no member.
    topics: BTreeSet<String>,
    /// The topics that the coordinator was told of for sure.
    told: Option<BTreeSet<String>>,
    /// The partitions that it was told of since it last assigned. It waits to hear that what it took away is not owned, also
    /// where it never was.
    told_owned: Option<Owned>,
    flight: Option<Flight>,
    /// How many of the first heartbeats after a join were sent.
    soon: usize,
    /// When the next heartbeat is due, unless one is in flight.
    due: Option<Instant>,
    /// The number of the request that is in flight beside.
    beside: Option<u64>,
    /// When topics are looked up again.
    look_at: Option<Instant>,
    target: Owned,
    owned: Owned,
    /// The names of those topics.
    names: BTreeMap<Uuid, String>,
    /// The join's answer, until it is taken.
    result: Option<Result<Vec<String>, Error>>,
    /// The topics of the last answer.
    given: BTreeSet<String>,
    /// Of what the member's owner has, the topics that were given up since.
    given_up: BTreeSet<String>,
    /// Counts the times when something was given up or lost.
    tenure: i32,
    /// The tenure in which each topic came.
    since: BTreeMap<String, i32>,
    /// The tenure in which an answer was taken last, unless all was lost since.
    held: Option<i32>,
    /// A rebalance was signalled since the last answer.
    signalled: bool,
    /// Tries that failed in a row.
    failures: u32,
    /// A broker was reached since the join began.
    reached: bool,
    number: u64,
    outputs: VecDeque<Output>,
}

impl Member {
    /// A member whose ids come of this seed, and which keeps this time between heartbeats where the coordinator names none.
    pub(super) const fn new(heartbeat: Duration, seed: u128) -> Self {
        Self {
            ids: MemberIds::new(seed),
            state: State::Out,
            progress: Progress::Done,
            id: String::new(),
            known: false,
            epoch: JOIN,
            interval: heartbeat,
            topics: BTreeSet::new(),
            told: None,
            told_owned: None,
            flight: None,
            soon: 0,
            due: None,
            beside: None,
            look_at: None,
            target: Owned::new(),
            owned: Owned::new(),
            names: BTreeMap::new(),
            result: None,
            given: BTreeSet::new(),
            given_up: BTreeSet::new(),
            tenure: 0,
            since: BTreeMap::new(),
            held: None,
            signalled: false,
            failures: 0,
            reached: false,
            number: 0,
            outputs: VecDeque::new(),
        }
    }

    /// Joins the group, or joins it again, for these topics. A join for the same topics that is under way, or
    /// whose result was not taken, goes on; then nothing is committed.
    pub(super) fn want(&mut self, topics: BTreeSet<String>, commit: Vec<Stored>, now: Instant) {
        let same = self.topics == topics;
        self.topics = topics;
        if same && (self.result.is_some() || self.is_joining()) {
            return;
        }
        match self.state {
            State::Out | State::Expelled => self.join(now),
            // The topics are read when the answer comes.
            State::Joining => self.progress = Progress::Settling,
            State::Leaving(_) => {}
            State::In => {
                let is_new = self.progress == Progress::Done;
                if is_new {
                    self.reached = false;
                    self.failures = 0;
                }
                self.result = None;
                if is_new && !commit.is_empty() {
                    self.progress = Progress::Committing;
                    self.look_at = None;
                    self.send_beside(Request::Commit(commit), now + COMMIT_WAIT);
                } else if self.progress != Progress::Committing {
                    self.settle(now);
                }
            }
        }
    }

    /// Leaves the group, or gives the join up.
    pub(super) fn leave(&mut self, now: Instant) {
        self.topics.clear();
        self.result = None;
        self.held = None;
        match self.state {
            State::Out | State::Leaving(_) => {}
            // On another connection the leave might come before the join.
            State::Joining if self.flight.is_some() => self.progress = Progress::Done,
            State::Joining | State::In | State::Expelled => self.go(now),
        }
    }

    /// The join's result: the topics whose partition is this member's. It is given once.
    pub(super) fn take(&mut self) -> Option<Result<Vec<String>, Error>> {
        let result = self.result.take()?;
        if result.is_ok() {
            self.held = Some(self.tenure);
            self.given_up.clear();
        }
        Some(result)
    }

    /// Whether a join is under way.
    pub(super) fn is_joining(&self) -> bool {
        match self.state {
            State::Joining | State::In => self.progress != Progress::Done,
            State::Leaving(_) => !self.is_unwanted(),
            State::Out | State::Expelled => false,
        }
    }

    /// Whether it is no member, and nothing is in flight.
    pub(super) fn is_out(&self) -> bool {
        self.state == State::Out
    }

    /// Whether a broker was reached since the join began.
    pub(super) const fn was_reached(&self) -> bool {
        self.reached
    }

    /// The answer to the request of this number.
    pub(super) fn answered(&mut self, number: u64, answer: Answer, now: Instant) {
        let flight = self.flight.take_if(|flight| flight.number == number);
        let beside = self.beside.take_if(|beside| *beside == number);
        match (answer, flight, beside) {
            (Answer::Beat(result), Some(flight), _) => self.beaten(flight, result, now),
            (Answer::Commit, _, Some(_)) if self.progress == Progress::Committing => self.settle(now),
            (Answer::Ids(result), _, Some(_)) => self.looked_up(result, now),
            (_, None, None) => {}
            (answer, ..) => debug_assert!(false, "{answer:?} in {:?}", self.state),
        }
    }

    /// When [`timeout`](Self::timeout) has something to do.
    pub(super) fn wake(&self) -> Option<Instant> {
        let due = self.due.filter(|_| self.flight.is_none());
        [due, self.look_at].into_iter().flatten().min()
    }

    /// Does what is due.
    pub(super) fn timeout(&mut self, now: Instant) {
        if self.look_at.is_some_and(|at| at <= now) {
            self.look_up(now);
        }
        if self.flight.is_none() && self.due.is_some_and(|due| due <= now) {
            self.beat(now);
        }
    }

    /// Whether a signal is yet to be taken by [`poll`](Self::poll).
    pub(super) fn has_signals(&self) -> bool {
        self.outputs
            .iter()
            .any(|output| matches!(output, Output::Signal(_)))
    }

    /// The next thing to do.
    pub(super) fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn is_unwanted(&self) -> bool {
        self.topics.is_empty()
    }

    fn send_beside(&mut self, request: Request, deadline: Instant) {
        self.number += 1;
        self.beside = Some(self.number);
        self.outputs.push_back(Output::Beside {
            number: self.number,
            request,
            deadline,
        });
    }

    /// Joins from outside of the group.
    fn join(&mut self, now: Instant) {
        self.reached = false;
        self.failures = 0;
        self.result = None;
        if self.state == State::Out {
            self.id = self.ids.next();
        }
        self.state = State::Joining;
        self.progress = Progress::Settling;
        self.soon = 0;
        self.beat(now);
    }

    /// Sends a heartbeat. What the coordinator is not known to know is in it.
    fn beat(&mut self, now: Instant) {
        let (epoch, deadline) = match self.state {
            State::Leaving(until) => (LEAVE, until),
            State::Joining => (JOIN, now + BEAT_WAIT),
            State::In => (self.epoch, now + BEAT_WAIT),
            State::Out | State::Expelled => return,
        };
        let is_new = |told: bool| epoch != LEAVE && !told;
        let topics = is_new(self.told.as_ref() == Some(&self.topics));
        let owned = is_new(self.told_owned.as_ref() == Some(&self.owned));
        let topics = topics.then(|| self.topics.clone());
        let owned = owned.then(|| self.owned.clone());
        self.number += 1;
        self.due = None;
        self.known = true;
        self.flight = Some(Flight {
            number: self.number,
            topics: topics.clone(),
            owned: owned.clone(),
        });
        self.outputs.push_back(Output::Send {
            number: self.number,
            request: Request::Beat(Beat {
                member_id: self.id.clone(),
                epoch,
                topics,
                owned,
            }),
            deadline,
        });
    }

    fn beaten(&mut self, flight: Flight, result: Result<Beaten, Trouble>, now: Instant) {
        match (self.state, result) {
            (State::Leaving(until), Err(trouble)) if is_passing(&trouble) => {
                self.moved(&trouble);
                let again = now + self.backoff();
                if again < until {
                    self.due = Some(again);
                } else {
                    self.left(now);
                }
            }
            (State::Leaving(_), _) => self.left(now),
            (State::Joining | State::In, Ok(beaten)) => self.heard(flight, beaten, now),
            (State::Joining, Err(_)) if self.is_unwanted() => self.go(now),
            (State::Joining | State::In, Err(trouble)) => self.troubled(trouble, now),
            (State::Out | State::Expelled, _) => {}
        }
    }

    /// The coordinator took a heartbeat.
    fn heard(&mut self, flight: Flight, beaten: Beaten, now: Instant) {
        self.reached = true;
        self.failures = 0;
        self.state = State::In;
        self.epoch = beaten.epoch;
        if !beaten.interval.is_zero() {
            self.interval = beaten.interval.clamp(INTERVAL.0, INTERVAL.1);
        }
        self.told = flight.topics.or_else(|| self.told.take());
        self.told_owned = flight.owned.or_else(|| self.told_owned.take());
        let mut is_waited_for = false;
        if let Some(assigned) = beaten.assigned
            && assigned != self.target
        {
            is_waited_for = takes_what_is_not_owned(&self.target, &assigned, &self.owned);
            self.told_owned = None;
            self.target = assigned;
        }
        let until_next = if is_waited_for {
            Duration::ZERO
        } else {
            self.until_next()
        };
        self.due = Some(now + until_next);
        if self.is_unwanted() {
            self.go(now);
        } else {
            self.advance(now);
        }
    }

    /// The time until the next heartbeat, where nothing is to be said before.
    fn until_next(&mut self) -> Duration {
        let lacks = self.owned.values().filter(|has| is_read(has)).count() < self.topics.len();
        let waits = lacks && self.has_told() && self.owned == self.target;
        let Some(soon) = SOON.get(self.soon).filter(|_| waits) else {
            return self.interval;
        };
        self.soon += 1;
        self.interval.min(*soon)
    }

    fn troubled(&mut self, trouble: Trouble, now: Instant) {
        tracing::debug!(?trouble, "a heartbeat failed");
        self.reached |= trouble != Trouble::Unreachable;
        // It may have been taken all the same.
        self.doubt();
        match trouble {
            Trouble::Code(code @ (ResponseError::UnknownMemberId | ResponseError::FencedMemberEpoch)) => {
                self.contradicted(code, now);
            }
            Trouble::Code(code) if !is_passing(&trouble) && self.is_joining() => {
                self.fail(
                    crate::Error::response(Api::ConsumerGroupHeartbeat, code).into(),
                    now,
                );
            }
            Trouble::Fatal(error) if self.is_joining() => self.fail(error, now),
            Trouble::Code(_) | Trouble::Fatal(_) | Trouble::Silent | Trouble::Unreachable => {
                self.moved(&trouble);
                self.due = Some(now + self.backoff());
            }
        }
    }

    /// The next heartbeat tells all, and asks for all.
    fn doubt(&mut self) {
        self.told = None;
        self.told_owned = None;
    }

    /// The coordinator says that the member is none, or of another epoch.
    fn contradicted(&mut self, code: ResponseError, now: Instant) {
        let joins = self.is_joining() || self.result.is_some();
        self.lose();
        self.known = code != ResponseError::UnknownMemberId;
        if !joins {
            self.state = State::Expelled;
            return;
        }
        self.state = State::Joining;
        self.progress = Progress::Settling;
        // At once the first time, then with patience.
        if self.failures == 0 {
            self.failures = 1;
            self.beat(now);
        } else {
            self.due = Some(now + self.backoff());
        }
    }

    /// The partitions are no longer this member's, and nothing that was asked for them counts.
    fn lose(&mut self) {
        self.forget();
        if self.held.take().is_some() {
            self.outputs.push_back(Output::Signal(Signal::Lost));
        }
    }

    /// Forgets all that the membership was about.
    fn forget(&mut self) {
        self.flight = None;
        self.due = None;
        self.beside = None;
        self.look_at = None;
        self.progress = Progress::Done;
        self.result = None;
        self.signalled = false;
        self.doubt();
        self.epoch = JOIN;
        self.target.clear();
        self.owned.clear();
        self.names.clear();
        self.given.clear();
        self.given_up.clear();
        self.since.clear();
        self.tenure = self.tenure.wrapping_add(1);
    }

    /// The coordinator may be another broker.
    fn moved(&mut self, trouble: &Trouble) {
        if *trouble != Trouble::Code(ResponseError::CoordinatorLoadInProgress) {
            self.outputs.push_back(Output::Forget);
        }
    }

    fn backoff(&mut self) -> Duration {
        let wait = backoff::of_a_member(self.failures);
        self.failures = self.failures.saturating_add(1);
        wait
    }

    /// The join can't succeed. Who is a member leaves.
    fn fail(&mut self, error: Error, now: Instant) {
        let was_in = self.state == State::In;
        self.lose();
        self.topics.clear();
        if was_in {
            self.go(now);
        } else {
            self.state = State::Out;
            self.known = false;
        }
        self.result = Some(Err(error));
    }

    /// Leaves, if the coordinator may know the member.
    fn go(&mut self, now: Instant) {
        self.forget();
        if self.known {
            self.state = State::Leaving(now + LEAVE_WAIT);
            self.beat(now);
        } else {
            self.state = State::Out;
        }
    }

    fn left(&mut self, now: Instant) {
        self.forget();
        self.known = false;
        self.state = State::Out;
        if !self.is_unwanted() {
            self.join(now);
        }
    }
}

/// Whether a target lacks something of the one before it that the member does not own.
fn takes_what_is_not_owned(before: &Owned, target: &Owned, owned: &Owned) -> bool {
    before.iter().any(|(id, partitions)| {
        let is_in = |of: &Owned, partition: &i32| of.get(id).is_some_and(|of| of.contains(partition));
        partitions
            .iter()
            .any(|partition| !is_in(target, partition) && !is_in(owned, partition))
    })
}

/// Whether the partition that is read is among them.
fn is_read(partitions: &BTreeSet<i32>) -> bool {
    partitions.contains(&0)
}

/// Whether the same request may be taken in a while.
const fn is_passing(trouble: &Trouble) -> bool {
    match trouble {
        Trouble::Code(code) => code.is_retriable(),
        Trouble::Silent | Trouble::Unreachable => true,
        Trouble::Fatal(_) => false,
    }
}

#[cfg(test)]
mod tests;
