//! A member of a group whose owner, coordinator and clock are played from bytes.

mod coordinator;
mod holding;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use kafka_protocol::error::ResponseError;

use self::{coordinator::Coordinator, holding::Holding};
use super::{
    Stored,
    member::{Answer, Identity, Output, Request, Timing},
    protocol::Member,
};
use crate::{GroupProtocol, consumer::Signal};

const TIMING: Timing = Timing {
    session: Duration::from_secs(10),
    rebalance: Duration::from_secs(60),
    heartbeat: Duration::from_secs(3),
};

/// Around the times that members know, in milliseconds.
const WAITS: [u64; 16] = [
    0, 1, 50, 100, 249, 250, 1_000, 2_000, 2_999, 3_000, 5_000, 6_667, 9_999, 10_000, 30_000, 90_000,
];

/// The most requests that may follow each other at one instant, with nothing new in the answers.
const BURST: usize = 10;

/// Plays what the bytes say, and holds the member to this: what it was not given, or may be another member's by now, it
/// neither reads on from where it was nor commits for; it neither stands still nor asks without end; and with a
/// coordinator that works it gets what it wants, and leaves.
///
/// # Panics
///
/// Where that does not hold.
#[doc(hidden)]
pub fn play_member(data: &[u8]) {
    let mut bytes = Bytes(data);
    let mut world = World::new(bytes.byte());
    while !bytes.0.is_empty() {
        world.step(&mut bytes);
        world.look();
    }
    world.come_to_rest();
}

/// What is left of an input; zeros behind its end.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[usize::from(self.byte()) % of.len()].clone()
    }

    fn wait(&mut self) -> Duration {
        Duration::from_millis(self.pick(&WAITS))
    }

    fn topics(&mut self) -> BTreeSet<String> {
        let bits = self.byte();
        let names = coordinator::TOPICS.into_iter().enumerate();
        let named = names.filter(|(place, _)| bits >> place & 1 == 1);
        named.map(|(_, name)| name.to_owned()).collect()
    }
}

/// A request that is on its way.
struct Flight {
    number: u64,
    request: Request,
    deadline: Instant,
}

struct World {
    member: Member,
    coordinator: Coordinator,
    holding: Holding,
    now: Instant,
    /// The number of the request sent last.
    number: u64,
    flight: Option<Flight>,
    beside: Option<Flight>,
    wanted: BTreeSet<String>,
    /// The requests since time passed, its owner said something, or something new was answered.
    burst: usize,
}

impl World {
    fn new(protocol: u8) -> Self {
        let now = tokio::time::Instant::now().into_std();
        let protocol = if protocol & 1 == 0 {
            GroupProtocol::Classic
        } else {
            GroupProtocol::Consumer
        };
        Self {
            member: Member::new(protocol, TIMING, now, || 7),
            coordinator: Coordinator::default(),
            holding: Holding::default(),
            now,
            number: 0,
            flight: None,
            beside: None,
            wanted: BTreeSet::new(),
            burst: 0,
        }
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.byte() % 16 {
            0 => {
                let topics = bytes.topics();
                self.want(topics, bytes.byte() & 1 == 1);
            }
            1 => self.leave(),
            2 => self.take(),
            3 | 4 => self.pass(bytes.wait()),
            5 => {
                // The process stands still.
                self.now += bytes.wait();
                self.burst = 0;
                self.member.timeout(self.now);
                self.hear();
            }
            6..12 => {
                if let Some(flight) = self.flight.take() {
                    let answer = self.coordinator.answer(&flight.request, bytes);
                    self.answer(flight, answer);
                }
            }
            12 => {
                if let Some(flight) = self.beside.take() {
                    let answer = self.coordinator.answer(&flight.request, bytes);
                    self.answer(flight, answer);
                }
            }
            13 => self.refuse(bytes),
            14 => {
                let counts = coordinator::counts(bytes);
                self.member.listed(&counts, self.now);
                self.hear();
            }
            // To what was asked before.
            _ => {
                let number = self.number.saturating_sub(1 + u64::from(bytes.byte() % 4));
                let in_flight =
                    |flight: &Option<Flight>| flight.as_ref().is_some_and(|flight| flight.number == number);
                if number > 0 && !in_flight(&self.flight) && !in_flight(&self.beside) {
                    self.member
                        .answered(number, bytes.pick(&[Answer::Commit, Answer::Leave]), self.now);
                    self.hear();
                }
            }
        }
    }

    fn want(&mut self, topics: BTreeSet<String>, commits: bool) {
        if topics.is_empty() {
            return;
        }
        self.burst = 0;
        self.wanted.clone_from(&topics);
        let stored = topics.iter().filter(|_| commits).map(|topic| Stored {
            topic: topic.clone(),
            offset: 1,
            leader_epoch: None,
            metadata: "".into(),
        });
        let stored = stored.collect();
        self.member.want(topics, stored, self.now);
        self.hear();
    }

    fn leave(&mut self) {
        self.burst = 0;
        self.holding.lose();
        self.holding.let_go();
        self.member.leave(self.now);
        self.hear();
    }

    /// As [`Membership::take`](super::Membership::take): once every signal before it was heard.
    fn take(&mut self) {
        assert!(!self.member.has_signals());
        let Some(result) = self.member.take() else {
            return;
        };
        self.burst = 0;
        if let Ok(topics) = result {
            let topics: BTreeSet<String> = topics.into_iter().collect();
            assert!(topics.is_subset(&self.wanted), "it takes what it wants");
            self.holding.take(topics, self.member.owned());
        }
    }

    /// A commit is refused.
    fn refuse(&mut self, bytes: &mut Bytes<'_>) {
        let code = bytes.pick(&[
            ResponseError::RebalanceInProgress,
            ResponseError::IllegalGeneration,
            ResponseError::UnknownMemberId,
            ResponseError::FencedInstanceId,
            ResponseError::FencedMemberEpoch,
            ResponseError::StaleMemberEpoch,
        ]);
        let is_consumers = matches!(self.member, Member::Consumer(_));
        let is_beats = code == ResponseError::FencedMemberEpoch || code == ResponseError::StaleMemberEpoch;
        if let Identity::Member { generation, .. } = self.member.identity()
            && (is_consumers || !is_beats)
        {
            let generation = if bytes.byte() < 32 { 0 } else { generation };
            self.burst = 0;
            self.member.refused(code, generation, self.now);
            self.hear();
        }
    }

    fn answer(&mut self, flight: Flight, answer: Answer) {
        if self.coordinator.has_news() {
            self.burst = 0;
        }
        self.holding.answered(&flight.request, &answer);
        self.member.answered(flight.number, answer, self.now);
        self.hear();
    }

    /// Time passes: what is due is done, and what is not answered in time never is.
    fn pass(&mut self, wait: Duration) {
        let until = self.now + wait;
        loop {
            let deadlines = [&self.flight, &self.beside].into_iter().flatten();
            let next = deadlines
                .map(|flight| flight.deadline)
                .chain(self.member.wake())
                .min();
            let Some(next) = next.filter(|next| *next <= until) else {
                break;
            };
            if next > self.now {
                self.now = next;
                self.burst = 0;
            }
            let now = self.now;
            let flight = self.flight.take_if(|flight| flight.deadline <= now);
            let flight = flight.or_else(|| self.beside.take_if(|flight| flight.deadline <= now));
            if let Some(flight) = flight {
                let silence = coordinator::silence(&flight.request);
                self.answer(flight, silence);
            } else {
                self.member.timeout(now);
                self.hear();
                let wake = self.member.wake();
                assert!(wake.is_none_or(|at| at > now), "what was due was done");
            }
        }
        if until > self.now {
            self.now = until;
            self.burst = 0;
        }
    }

    /// Does what the member says.
    fn hear(&mut self) {
        let mut count = 0;
        while let Some(output) = self.member.poll() {
            count += 1;
            assert!(count <= 4, "an input leads to a few things");
            match output {
                Output::Send {
                    number,
                    request,
                    deadline,
                } => {
                    self.flight = Some(self.sent(number, request, deadline));
                }
                Output::Beside {
                    number,
                    request,
                    deadline,
                } => {
                    self.beside = Some(self.sent(number, request, deadline));
                }
                Output::Forget => {}
                Output::Signal(Signal::Lost) => {
                    self.holding.told_lost();
                    assert_eq!(self.member.owned(), None, "who lost it holds nothing");
                }
                Output::Signal(Signal::Rebalance) => {}
            }
        }
        assert!(self.burst <= BURST, "nothing is asked without end");
        if self.member.is_out() {
            // Nobody waits for an answer any more.
            self.flight = None;
            self.beside = None;
        }
    }

    fn sent(&mut self, number: u64, request: Request, deadline: Instant) -> Flight {
        assert!(number > self.number, "a request's number is its own");
        self.number = number;
        self.burst += 1;
        self.holding.sent(&request);
        Flight {
            number,
            request,
            deadline,
        }
    }

    /// What holds at any time.
    fn look(&self) {
        let identity = self.member.identity();
        let waits = self.flight.is_some() || self.beside.is_some() || self.member.wake().is_some();
        assert!(
            waits || self.member.is_out() || identity == Identity::Lost,
            "it waits for nothing: {:?}",
            self.member
        );
        if let Identity::Member {
            member_id,
            generation,
        } = &identity
        {
            self.coordinator.is_member(member_id, *generation);
            self.holding.look(&self.member);
        }
    }

    /// With a coordinator that works it gets all that it wants, and is out in the end.
    fn come_to_rest(mut self) {
        let topics = BTreeSet::from([
            coordinator::TOPICS[0].to_owned(),
            coordinator::TOPICS[1].to_owned(),
        ]);
        self.want(topics.clone(), false);
        let has_all = |world: &mut Self| match world.member.take() {
            Some(Ok(given)) => given.into_iter().collect::<BTreeSet<_>>() == topics,
            Some(Err(_)) | None => {
                world.want(topics.clone(), false);
                false
            }
        };
        self.until(has_all);
        self.leave();
        self.until(|world| world.member.is_out());
    }

    fn until(&mut self, done: impl Fn(&mut Self) -> bool) {
        for _ in 0..1_000 {
            if done(self) {
                return;
            }
            if let Some(flight) = self.flight.take().or_else(|| self.beside.take()) {
                let answer = self.coordinator.well(&flight.request);
                self.coordinator.news();
                self.answer(flight, answer);
            } else {
                self.pass(Duration::from_secs(1));
            }
            if self.member.identity() == Identity::Lost {
                self.want(self.wanted.clone(), false);
            }
            self.look();
        }
        panic!("it comes to no end: {:?}", self.member);
    }
}
