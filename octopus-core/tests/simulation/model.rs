//! The reference model: what must come, written from the specification and the decisions alone.
//!
//! It hears the same facts as the engine. Each rule pushes what it demands to `owed`, at the instant at which it is
//! due; an action of the engine must be one of these, and after each input none may be left. Plain lists are looked
//! through where an engine would keep an index.
//!
//! Where the specification leaves an order open (which of two things that are due at the same instant comes first,
//! which partition of a commit is named first), the model compares without it, or takes who asked first.

mod fetch;
mod instance;
mod life;
mod owed;
mod request;
mod script;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use octopus_core::{
    CallId, Command, Effect, Error, Event, InstanceId, Limits, Outcome, RequestId, Subject, TopicPartition,
};

use fetch::{Fetching, Phase};
use instance::{Instance, State};
use owed::Owed;

/// The service as its clients and Kafka see it.
pub(crate) struct Model {
    limits: Limits,
    /// Whether a Kafka endpoint is configured [CR-11].
    kafka: bool,
    now: Instant,
    lives: BTreeMap<Life, Instance>,
    requests: BTreeMap<RequestId, Request>,
    calls: BTreeMap<Call, Running>,
    /// The fetches that wait for a turn, in the order in which they asked [LI-02].
    line: Vec<RequestId>,
    owed: Vec<Owed>,
    next_sweep: Instant,
    shutdown: Option<Instant>,
    is_over: bool,
    made: usize,
    /// What the engine calls our lives and our calls.
    lives_of: BTreeMap<InstanceId, Life>,
    calls_of: BTreeMap<CallId, Call>,
}

/// One life of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Life(usize);

/// One call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Call(usize);

struct Running {
    life: Life,
    why: Why,
    until: Instant,
}

#[derive(Clone, Copy)]
enum Why {
    Open(RequestId),
    Topics(RequestId),
    Script(RequestId),
    Join(RequestId),
    Poll(RequestId),
    Alongside,
    Rejoin,
    LastCommit,
    Close,
}

struct Request {
    subject: Subject,
    life: Option<Life>,
    command: Command,
    stage: Stage,
    /// Its caller left: what it began goes on, and nobody is answered.
    is_gone: bool,
    /// The step of its script, what it is about, and when its time ends.
    step: usize,
    asked: Vec<TopicPartition>,
    until: Instant,
}

enum Stage {
    New,
    Opens(Call),
    AsksTopics(Call),
    /// In its instance's line, until then.
    Waits(Instant),
    /// Holds its instance; a fetch's commit goes first.
    Holds,
    Works,
    Fetches(Fetching),
    /// Its reply is on its way since then.
    Answered(Instant),
}

impl Stage {
    fn fetching(&self) -> Option<&Fetching> {
        if let Self::Fetches(fetching) = self {
            Some(fetching)
        } else {
            None
        }
    }
}

/// What is due, and of what is due at one instant the order: who asked first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Shutdown,
    Line(RequestId),
    Wait(RequestId),
    Pause(RequestId),
    Hurry(RequestId),
    Send(RequestId),
    Call(Call),
    Rejoin(Life),
    Sweep,
}

impl Model {
    pub(crate) fn new(limits: Limits, kafka: bool, now: Instant) -> Self {
        Self {
            next_sweep: now + limits.reap_interval,
            limits,
            kafka,
            now,
            lives: BTreeMap::new(),
            requests: BTreeMap::new(),
            calls: BTreeMap::new(),
            line: Vec::new(),
            owed: Vec::new(),
            shutdown: None,
            is_over: false,
            made: 0,
            lives_of: BTreeMap::new(),
            calls_of: BTreeMap::new(),
        }
    }

    /// A fact.
    pub(crate) fn hears(&mut self, event: &Event, now: Instant) {
        self.now = now;
        match event {
            Event::Request {
                request,
                key,
                command,
                ..
            } => self.asks(*request, key, command),
            Event::Done { call, outcome } => {
                if let Some(call) = self.calls_of.get(call).copied() {
                    self.ended(call, outcome.clone());
                }
            }
            Event::Delivered(request) => self.fate(*request, true),
            Event::Dropped(request) => self.fate(*request, false),
            Event::Rebalance(number) => self.signal(*number, false),
            Event::Lost(number) => self.signal(*number, true),
            Event::Shutdown => self.shut_down(),
        }
        self.hand_on();
    }

    /// Time has passed: what was due is done in the order in which it was due.
    pub(crate) fn passes(&mut self, now: Instant) {
        self.now = now;
        while let Some((_, due)) = self.due().filter(|(at, _)| *at <= now) {
            match due {
                Due::Shutdown => self.give_up(),
                Due::Line(id) => self.answer(id, Err(Error::InstanceBusy)), // [LK-01]
                Due::Wait(id) => self.conclude(id),
                Due::Pause(id) => self.stands_in_line(id),
                Due::Hurry(id) => self.hurries(id),
                Due::Send(id) => self.send_timeout(id),
                Due::Call(call) => self.overdue(call),
                Due::Rejoin(life) => self.rejoin(life),
                Due::Sweep => self.sweep(),
            }
            self.hand_on();
        }
    }

    /// The first thing that is due, and when.
    fn due(&self) -> Option<(Instant, Due)> {
        let requests = self
            .requests
            .iter()
            .filter_map(|(id, request)| match &request.stage {
                Stage::Waits(until) => Some((*until, Due::Line(*id))),
                Stage::Fetches(fetching) => match fetching.phase {
                    Phase::Quiet | Phase::InLine => Some((fetching.deadline, Due::Wait(*id))),
                    Phase::Pausing => Some((fetching.turn_end, Due::Pause(*id)))
                        .filter(|_| fetching.turn_end < fetching.deadline)
                        .or(Some((fetching.deadline, Due::Wait(*id)))),
                    Phase::Joining(_) | Phase::Polling(_) => {
                        fetching.hurry_at.map(|at| (at, Due::Hurry(*id)))
                    }
                    Phase::Sending { since, .. } => Some((since + self.limits.send_timeout, Due::Send(*id))),
                },
                Stage::Answered(since) => Some((*since + self.limits.send_timeout, Due::Send(*id))), // [RP-03]
                Stage::New | Stage::Opens(_) | Stage::AsksTopics(_) | Stage::Holds | Stage::Works => None,
            });
        let guard = self.limits.call_grace;
        let calls = self
            .calls
            .iter()
            .map(|(call, running)| (running.until + guard, Due::Call(*call)));
        let rejoins = self
            .lives
            .iter()
            .filter_map(|(life, i)| Some((i.rejoin_at?, Due::Rejoin(*life))));
        let sweep = self.shutdown.is_none().then_some((self.next_sweep, Due::Sweep)); // [LC-01]
        let shutdown = self
            .shutdown
            .filter(|_| !self.is_over)
            .map(|end| (end, Due::Shutdown));
        requests
            .chain(calls)
            .chain(rejoins)
            .chain(sweep)
            .chain(shutdown)
            .min()
    }

    /// Who holds a place: one whose create is under way does, one that is to close does not [CR-10] [D-29].
    pub(crate) fn places(&self) -> impl Iterator<Item = Subject> {
        let named = self.lives.values().filter(|i| i.is_named);
        named.map(|i| i.key.subject)
    }

    /// When something is due.
    pub(crate) fn is_due_at(&self) -> Option<Instant> {
        self.due().map(|(at, _)| at)
    }

    /// Hands on what came free: an instance to the first of its line or to its close, a turn to the first of the line
    /// [LI-02].
    fn hand_on(&mut self) {
        loop {
            let mut lives = self.lives.iter();
            let free = lives
                .find(|(_, i)| i.holder.is_none() && i.is_wanted())
                .map(|(life, _)| *life);
            if let Some(life) = free {
                if let State::Doomed { commits } = self.lives[&life].state {
                    self.close(life, None, commits);
                } else {
                    let id = self.life(life).line.remove(0);
                    self.takes(id, life);
                }
            } else if !self.line.is_empty() && self.turns() < self.limits.max_polls {
                let id = self.line.remove(0);
                self.turn(id);
            } else {
                return self.shortens();
            }
        }
    }

    /// A call that its answer, its failure or its end in time has ended.
    fn ended(&mut self, call: Call, came: Result<Outcome, Error>) {
        let Some(Running { life, why, until }) = self.calls.remove(&call) else {
            return; // it was cancelled
        };
        match why {
            Why::Open(id) => self.opened(id, life, came),
            Why::Topics(id) => self.topics_known(id, life, came),
            Why::Script(id) => self.works(id, life, Some(came)),
            Why::Join(id) => self.joined(id, life, came),
            Why::Poll(id) => self.polled(id, life, call, came),
            Why::Alongside => self.committed_alongside(life),
            Why::Rejoin => self.rejoined(life, until, came),
            Why::LastCommit => self.closes(life),
            Why::Close => self.closed(life),
        }
    }

    /// A call that never ended has failed: Kafka did not answer in time [ER-06].
    fn overdue(&mut self, call: Call) {
        self.owed.push(Owed::Cancel(call));
        let Running { life, why, .. } = self.calls[&call];
        if let Why::Open(id) = why {
            self.calls.remove(&call);
            self.answer(id, Err(Error::KafkaRetriable));
            self.undo(Some(life)); // what it left is not known [D-41]
        } else {
            self.ended(call, Err(Error::KafkaRetriable));
        }
    }

    fn call(&mut self, life: Life, why: Why, effect: Effect, within: Duration) -> Call {
        let call = Call(self.made);
        self.made += 1;
        let until = self.now + within;
        self.calls.insert(call, Running { life, why, until });
        self.owed.push(Owed::Call {
            call,
            life,
            effect,
            within,
        });
        call
    }

    fn cancel(&mut self, call: Call) {
        if self.calls.remove(&call).is_some() {
            self.owed.push(Owed::Cancel(call));
        }
    }

    fn set(&mut self, id: RequestId, stage: Stage) {
        if let Some(request) = self.requests.get_mut(&id) {
            request.stage = stage;
        }
    }

    fn life(&mut self, life: Life) -> &mut Instance {
        self.lives.get_mut(&life).expect("who holds an instance keeps it")
    }
}
