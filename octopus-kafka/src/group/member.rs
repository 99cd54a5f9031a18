//! One member of a consumer group, as a machine without I/O: wishes and answers go in, requests, signals and a
//! time to wake come out. It speaks Kafka's classic group protocol.

mod commit;
mod lead;
mod message;

use std::{
    collections::{BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use bytes::Bytes;
use kafka_protocol::error::ResponseError;
use octopus_core::Error;

pub(crate) use self::message::{Answer, Beat, Beaten, Identity, Joined, Output, Owned, Request, Trouble};
use super::{Stored, subscription, topics::Topics};
use crate::{backoff, consumer::Signal};

/// The times of the protocol.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    /// How long the coordinator keeps a member that it does not hear from.
    pub(crate) session: Duration,
    /// How long the coordinator waits for members to join again.
    pub(crate) rebalance: Duration,
    /// The time between two heartbeats.
    pub(crate) heartbeat: Duration,
}

/// How long the commit before a join may take [AK-02].
const COMMIT_WAIT: Duration = Duration::from_secs(5);
/// How long the leader looks topics up: well within the session of the members that wait for it.
const LOOK_UP_WAIT: Duration = Duration::from_secs(3);
/// How long a leave is tried.
const LEAVE_WAIT: Duration = Duration::from_secs(5);
/// The least that a heartbeat is waited for.
const LEAST_WAIT: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    /// Not a member.
    Out,
    /// The positions held are committed before the join.
    Committing,
    Joining,
    /// As the leader: looking topics up.
    Leading,
    Syncing,
    /// To join again at this time.
    Backoff(Instant),
    /// A member; the next heartbeat is due at this time, or in flight.
    Stable(Option<Instant>),
    /// Put out.
    Expelled,
    Leaving,
}

/// A member of a group.
#[derive(Debug)]
pub(crate) struct Member {
    timing: Timing,
    state: State,
    /// Empty: none yet.
    id: String,
    generation: i32,
    /// The topics to join with; empty: to be no member.
    topics: Topics,
    /// The topics of the JoinGroup sent last.
    joined_with: Topics,
    /// The join's answer, until it is taken.
    result: Option<Result<Vec<String>, Error>>,
    /// The generation whose assignment was taken last, unless it was lost since.
    held: Option<i32>,
    /// The generation whose assignment is still held, where the next one's was not taken yet.
    before: Option<i32>,
    /// The generation whose assignment came last.
    synced: i32,
    /// The topics that this generation gave it.
    assigned: Topics,
    /// A rebalance was signalled in this generation.
    signalled: bool,
    /// Joined, as the leader is told of it.
    joined: Joined,
    /// As the leader: every member's topics, and how many partitions the cluster listed of each.
    led: Option<(Topics, Box<[Option<i32>]>)>,
    /// Tries that failed in a row.
    failures: u32,
    /// When the coordinator last knew that the member lives, as far as the member can tell: at the latest when it sent
    /// what was answered. The session counts from there.
    heard: Instant,
    /// When the heartbeat that is in flight was sent.
    beat: Instant,
    /// A broker was reached since the join began.
    reached: bool,
    number: u64,
    outputs: VecDeque<Output>,
}

impl Member {
    pub(crate) fn new(timing: Timing, now: Instant) -> Self {
        Self {
            timing,
            state: State::Out,
            id: String::new(),
            generation: -1,
            topics: Topics::default(),
            joined_with: Topics::default(),
            result: None,
            held: None,
            before: None,
            synced: -1,
            assigned: Topics::default(),
            signalled: false,
            joined: Joined::default(),
            led: None,
            failures: 0,
            heard: now,
            beat: now,
            reached: false,
            number: 0,
            outputs: VecDeque::new(),
        }
    }

    /// Joins the group, or joins it again, for these topics. A join for the same topics that is under way, or
    /// whose result was not taken, goes on; then nothing is committed.
    pub(crate) fn want(&mut self, topics: BTreeSet<String>, commit: Vec<Stored>, now: Instant) {
        let before = std::mem::take(&mut self.topics);
        self.topics = Topics::new(topics, &before);
        let same = self.topics == before;
        if same && (self.result.is_some() || self.is_joining()) {
            return;
        }
        match self.state {
            State::Out | State::Expelled => self.join(now),
            State::Stable(_) if commit.is_empty() => self.join(now),
            State::Stable(_) => {
                self.state = State::Committing;
                self.result = None;
                self.send(Request::Commit(commit), now + COMMIT_WAIT);
            }
            State::Joining if !self.id.is_empty() => self.join(now),
            State::Leading | State::Syncing => self.join(now),
            // The topics are read when these end.
            State::Joining | State::Committing | State::Backoff(_) | State::Leaving => {}
        }
    }

    /// Leaves the group, or gives the join up.
    pub(crate) fn leave(&mut self, now: Instant) {
        self.topics = Topics::default();
        self.result = None;
        self.held = None;
        self.before = None;
        match self.state {
            State::Out | State::Leaving => {}
            // Its answer brings the id to leave with.
            State::Joining if self.id.is_empty() => {}
            State::Committing
            | State::Joining
            | State::Leading
            | State::Syncing
            | State::Backoff(_)
            | State::Stable(_)
            | State::Expelled => self.go(now),
        }
    }

    /// The join's result: the topics whose partition is this member's. It is given once.
    pub(crate) fn take(&mut self) -> Option<Result<Vec<String>, Error>> {
        let result = self.result.take()?;
        if result.is_ok() {
            self.held = Some(self.generation);
            self.before = None;
        }
        Some(result)
    }

    /// Whether a join is under way.
    pub(crate) fn is_joining(&self) -> bool {
        match self.state {
            State::Committing | State::Joining | State::Leading | State::Syncing | State::Backoff(_) => true,
            State::Leaving => !self.is_unwanted(),
            State::Out | State::Stable(_) | State::Expelled => false,
        }
    }

    /// Whether it is no member, and nothing is in flight.
    pub(crate) fn is_out(&self) -> bool {
        self.state == State::Out
    }

    /// Whether a broker was reached since the join began.
    pub(crate) const fn was_reached(&self) -> bool {
        self.reached
    }

    /// The answer to the request of this number.
    pub(crate) fn answered(&mut self, number: u64, answer: Answer, now: Instant) {
        if number != self.number {
            return;
        }
        match (answer, self.state) {
            (Answer::Commit, State::Committing) => self.join(now),
            (Answer::MemberId(id), State::Joining) => {
                self.reached = true;
                // Who came with an id was given one before: asked at once, that would go on without end.
                let is_asked_again = !self.id.is_empty();
                self.id = id;
                if self.is_unwanted() {
                    self.go(now);
                } else if is_asked_again {
                    self.later(now);
                } else {
                    self.join(now);
                }
            }
            (Answer::Join(Ok(joined)), State::Joining) => self.joined(joined, now),
            (Answer::Join(Err(trouble)), State::Joining) if self.is_unwanted() => {
                tracing::debug!(?trouble, "the join that was given up failed");
                self.go(now);
            }
            (Answer::Partitions(Ok(counts)), State::Leading) => self.lead(counts, now),
            (Answer::Sync(Ok(bytes)), State::Syncing) => self.synced(&bytes, now),
            (Answer::Join(Err(trouble)), State::Joining)
            | (Answer::Partitions(Err(trouble)), State::Leading)
            | (Answer::Sync(Err(trouble)), State::Syncing) => self.troubled(trouble, now),
            (Answer::Heartbeat(result), State::Stable(_)) => self.beaten(result, now),
            (Answer::Leave, State::Leaving) => {
                self.state = State::Out;
                if !self.is_unwanted() {
                    self.join(now);
                }
            }
            (answer, state) => debug_assert!(false, "{answer:?} in {state:?}"),
        }
    }

    /// When [`timeout`](Self::timeout) has something to do.
    pub(crate) fn wake(&self) -> Option<Instant> {
        match self.state {
            State::Backoff(at) => Some(at),
            State::Stable(due) => match due {
                Some(due) if due < self.session_end() => Some(due),
                Some(_) | None => Some(self.session_end()),
            },
            State::Out
            | State::Committing
            | State::Joining
            | State::Leading
            | State::Syncing
            | State::Expelled
            | State::Leaving => None,
        }
    }

    /// Does what is due.
    pub(crate) fn timeout(&mut self, now: Instant) {
        if self.wake().is_none_or(|at| at > now) {
            return;
        }
        if self.has_expired(now) {
            tracing::warn!("no heartbeat was answered for a whole session");
            return self.contradicted(ResponseError::IllegalGeneration, now);
        }
        if let State::Stable(due) = &mut self.state {
            *due = None;
            self.beat = now;
            let request = Request::Heartbeat {
                member_id: self.id.clone(),
                generation: self.generation,
            };
            // Past two thirds of the session the coordinator is looked up anew, while there is time.
            let deadline = (self.heard + self.timing.session * 2 / 3).max(now + LEAST_WAIT);
            self.send(request, deadline.min(self.session_end()));
        } else {
            self.join(now);
        }
    }

    /// Whether a signal is yet to be taken by [`poll`](Self::poll).
    pub(crate) fn has_signals(&self) -> bool {
        self.outputs
            .iter()
            .any(|output| matches!(output, Output::Signal(_)))
    }

    /// The next thing to do.
    pub(crate) fn poll(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front();
        if self.outputs.is_empty() {
            // A member at rest holds no room for what it may say.
            self.outputs = VecDeque::new();
        }
        output
    }

    fn is_unwanted(&self) -> bool {
        self.topics.is_empty()
    }

    fn send(&mut self, request: Request, deadline: Instant) {
        self.number += 1;
        self.outputs.push_back(Output::Send {
            number: self.number,
            request,
            deadline,
        });
    }

    fn join(&mut self, now: Instant) {
        if !self.is_joining() {
            self.reached = false;
            self.failures = 0;
        }
        self.state = State::Joining;
        self.result = None;
        self.led = None;
        self.joined_with = self.topics.clone();
        let request = Request::Join {
            member_id: self.id.clone(),
            topics: self.topics.to_set(),
        };
        self.send(request, now + self.timing.rebalance + self.timing.session);
    }

    fn joined(&mut self, joined: Joined, now: Instant) {
        self.reached = true;
        self.heard = now;
        self.id.clone_from(&joined.member_id);
        self.generation = joined.generation;
        if self.is_unwanted() {
            return self.go(now);
        }
        if self.joined_with != self.topics {
            return self.join(now);
        }
        let leads = joined.leader == joined.member_id && !joined.skip_assignment;
        self.joined = joined;
        if !leads {
            return self.sync(Vec::new(), now);
        }
        let topics = self.subscribers().into_iter().flat_map(|member| member.topics);
        let topics: BTreeSet<String> = topics.collect();
        self.state = State::Leading;
        self.send(Request::Partitions(topics), now + LOOK_UP_WAIT);
    }

    fn sync(&mut self, assignments: Vec<(String, Bytes)>, now: Instant) {
        self.state = State::Syncing;
        let request = Request::Sync {
            member_id: self.id.clone(),
            generation: self.generation,
            protocol: std::mem::take(&mut self.joined).protocol,
            assignments,
        };
        self.send(request, now + self.timing.rebalance);
    }

    fn synced(&mut self, bytes: &[u8], now: Instant) {
        self.reached = true;
        let Some(mut assigned) = subscription::assigned(bytes) else {
            tracing::warn!("the group's assignment can't be read");
            return self.fail(Error::KafkaFailed);
        };
        assigned.retain(|topic, partitions| {
            let foreign = !self.topics.contains(topic) || partitions.iter().any(|&partition| partition != 0);
            if foreign {
                tracing::warn!(topic, ?partitions, "the group assigned what was not asked for");
            }
            self.topics.contains(topic) && partitions.contains(&0)
        });
        // In a generation between, another member may have had the partitions; who joins without a change may be told of
        // the same one. Of one whose answer was not taken it is known what this member had.
        let follows = matches!(self.generation.checked_sub(self.synced), Some(0 | 1));
        let kept = self.held.is_some() || assigned.keys().all(|topic| self.assigned.contains(topic));
        let before = self.held.take().or_else(|| self.before.take());
        self.before = before.filter(|_| follows && kept);
        if before.is_some() && self.before.is_none() {
            self.outputs.push_back(Output::Signal(Signal::Lost));
        }
        self.synced = self.generation;
        self.assigned = Topics::new(assigned.keys().cloned(), &self.topics);
        self.signalled = false;
        self.failures = 0;
        self.heard = now;
        self.state = State::Stable(Some(now + self.timing.heartbeat));
        self.result = Some(Ok(assigned.into_keys().collect()));
    }

    fn beaten(&mut self, result: Result<(), Trouble>, now: Instant) {
        match result {
            Ok(()) => self.lives(now),
            Err(Trouble::Code(ResponseError::RebalanceInProgress)) => {
                self.lives(now);
                self.unsettled(now);
            }
            Err(Trouble::Code(
                code @ (ResponseError::IllegalGeneration
                | ResponseError::UnknownMemberId
                | ResponseError::FencedInstanceId),
            )) => self.contradicted(code, now),
            Err(trouble) => {
                if trouble == Trouble::Code(ResponseError::CoordinatorLoadInProgress) {
                    // It puts nobody out before it has loaded its groups, and counts every session from then.
                    self.heard = self.beat;
                } else {
                    self.outputs.push_back(Output::Forget);
                }
                tracing::debug!(?trouble, "a heartbeat failed");
                self.state = State::Stable(Some(now + self.backoff()));
            }
        }
    }

    /// The coordinator took a heartbeat. It may have done so long ago, if this process stood still meanwhile.
    fn lives(&mut self, now: Instant) {
        self.heard = self.beat;
        self.failures = 0;
        self.state = State::Stable(Some(now + self.timing.heartbeat));
    }

    /// When the coordinator puts a member out that it has not heard.
    fn session_end(&self) -> Instant {
        self.heard + self.timing.session
    }

    /// Whether the partitions may be another member's by now, though nobody said so.
    fn has_expired(&self, now: Instant) -> bool {
        matches!(self.state, State::Stable(_)) && now >= self.session_end()
    }

    /// The coordinator says that the member's generation is over.
    fn contradicted(&mut self, code: ResponseError, now: Instant) {
        if code == ResponseError::RebalanceInProgress {
            return self.unsettled(now);
        }
        self.forget_membership(code);
        if self.result.is_some() {
            self.join(now);
        } else {
            // A heartbeat may be in flight: its answer is about a membership that is over.
            self.number += 1;
            self.state = State::Expelled;
        }
    }

    /// The partitions are no longer this member's. The id is kept where the coordinator still knows it.
    fn forget_membership(&mut self, code: ResponseError) {
        // What it held before a join is its owner's still where the join's answer was not taken.
        let before = self.before.take();
        if self.held.take().or(before).is_some() {
            self.outputs.push_back(Output::Signal(Signal::Lost));
        }
        self.generation = -1;
        self.led = None;
        if code != ResponseError::IllegalGeneration {
            self.id.clear();
        }
    }

    /// The member should join again: its owner is told once; if no one took the assignment, it just does.
    fn unsettled(&mut self, now: Instant) {
        if self.result.is_some() {
            self.join(now);
        } else if !self.signalled {
            self.signalled = true;
            self.outputs.push_back(Output::Signal(Signal::Rebalance));
        }
    }

    fn troubled(&mut self, trouble: Trouble, now: Instant) {
        self.reached |= trouble != Trouble::Unreachable;
        match trouble {
            Trouble::Code(
                code @ (ResponseError::UnknownMemberId
                | ResponseError::IllegalGeneration
                | ResponseError::FencedInstanceId),
            ) => {
                self.forget_membership(code);
                self.again(now);
            }
            Trouble::Code(ResponseError::RebalanceInProgress) => self.again(now),
            Trouble::Code(ResponseError::CoordinatorLoadInProgress) => self.later(now),
            Trouble::Code(code) if !code.is_retriable() => self.fail(refusal(code)),
            Trouble::Fatal(error) => self.fail(error),
            Trouble::Code(_) | Trouble::Silent | Trouble::Unreachable => {
                self.outputs.push_back(Output::Forget);
                self.later(now);
            }
        }
    }

    /// Joins at once the first time, then with patience.
    fn again(&mut self, now: Instant) {
        if self.failures == 0 {
            self.failures = 1;
            self.join(now);
        } else {
            self.later(now);
        }
    }

    fn later(&mut self, now: Instant) {
        self.state = State::Backoff(now + self.backoff());
    }

    fn backoff(&mut self) -> Duration {
        let wait = backoff::of_a_member(self.failures);
        self.failures = self.failures.saturating_add(1);
        wait
    }

    fn fail(&mut self, error: Error) {
        self.forget_membership(ResponseError::UnknownMemberId);
        self.state = State::Out;
        self.result = Some(Err(error));
    }

    /// Leaves with the id there is.
    fn go(&mut self, now: Instant) {
        self.led = None;
        self.generation = -1;
        let member_id = std::mem::take(&mut self.id);
        if member_id.is_empty() {
            self.state = State::Out;
            self.number += 1;
        } else {
            self.state = State::Leaving;
            self.send(Request::Leave { member_id }, now + LEAVE_WAIT);
        }
    }
}

/// What a join that Kafka refused for good comes to.
fn refusal(code: ResponseError) -> Error {
    if code == ResponseError::GroupAuthorizationFailed {
        Error::KafkaUnauthorized
    } else {
        Error::KafkaFailed
    }
}

#[cfg(test)]
mod tests;
