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
    CallId, Command, Effect, Error, Event, InstanceId, InstanceKey, Limits, Outcome, Reply, RequestId,
    Subject, TopicPartition,
};

use fetch::{Fetching, Phase};
use instance::{Instance, State};
use owed::Owed;
use request::{each_once, partitions, topics};

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

    /// When something is due.
    pub(crate) fn is_due_at(&self) -> Option<Instant> {
        self.due().map(|(at, _)| at)
    }

    /// A request, and the refusals that come before it has its instance, in their order [D-01].
    fn asks(&mut self, id: RequestId, key: &InstanceKey, command: &Command) {
        let command = each_once(command);
        let creates = matches!(command, Command::Create(_));
        let mut lives = self.lives.iter();
        let found = lives.find(|(_, i)| i.key == *key && matches!(i.state, State::Open)); // [AU-03] [D-42]
        let life = found.map(|(life, _)| *life).filter(|_| !creates);
        let request = Request {
            subject: key.subject,
            life,
            command: command.clone(),
            stage: Stage::New,
            is_gone: false,
            step: 0,
            asked: Vec::new(),
            until: self.now,
        };
        self.requests.insert(id, request);
        if let Command::Create(settings) = command {
            return self.create(id, key, settings);
        }
        let Some(life) = life else {
            return self.answer(id, Err(Error::InstanceNotFound)); // 40403 [LC-01]
        };
        let format = self.lives[&life].settings.format;
        let other = partitions(&command).into_iter().find(|at| at.partition != 0);
        if let Command::Fetch(fetch) = &command
            && fetch.format != Some(format)
        {
            self.answer(id, Err(Error::FormatMismatch(format))); // 40601 [AC-03]
        } else if command == Command::Committed(None) {
            self.answer(id, Err(Error::PartitionsMissing)); // 40402 [CO-04]
        } else if let Some(at) = other {
            self.answer(id, Err(Error::PartitionNotFound(at))); // 40402 [AS-02]
        } else {
            let topics = topics(&command);
            if topics.is_empty() {
                self.lines_up(id, life);
            } else {
                let call = self.call(
                    life,
                    Why::Topics(id),
                    Effect::Topics(topics),
                    self.limits.call_wait,
                );
                self.set(id, Stage::AsksTopics(call));
            }
        }
    }

    /// Which topics the namespace holds is known: 40401 [NS-04] [D-16].
    fn topics_known(&mut self, id: RequestId, life: Life, came: Result<Outcome, Error>) {
        let missing = match came {
            Ok(Outcome::Topics(held)) => {
                let mut topics = topics(&self.requests[&id].command).into_iter();
                topics
                    .find(|topic| !held.contains(topic))
                    .map(Error::TopicNotFound)
            }
            Ok(_) => Some(Error::Internal),
            Err(error) => Some(error),
        };
        let open = self
            .lives
            .get(&life)
            .is_some_and(|i| matches!(i.state, State::Open));
        match missing {
            Some(error) => self.answer(id, Err(error)),
            None if open => self.lines_up(id, life),
            None => self.answer(id, Err(Error::InstanceNotFound)),
        }
    }

    /// One request at a time, for at most 10 s [LK-01]. A fetch does not wait [LK-02], but for the fate of a reply that
    /// its client may hold already.
    fn lines_up(&mut self, id: RequestId, life: Life) {
        let fetches = matches!(self.requests[&id].command, Command::Fetch(_));
        let i = &self.lives[&life];
        let sends = i.holder.is_some_and(|holder| self.is_sending(holder)) && i.line.is_empty();
        if i.holder.is_none() && i.line.is_empty() {
            self.takes(id, life);
        } else if fetches && !sends {
            self.answer(id, Err(Error::InstanceBusy));
        } else {
            let wait = if fetches {
                self.limits.settle_wait
            } else {
                self.limits.lock_wait
            };
            self.life(life).line.push(id);
            self.set(id, Stage::Waits(self.now + wait));
        }
    }

    /// A request has its instance. What commits waits for the commit of a fetch before it: it must not be overtaken.
    fn takes(&mut self, id: RequestId, life: Life) {
        self.life(life).holder = Some(id);
        let command = &self.requests[&id].command;
        let commits = matches!(
            command,
            Command::Unsubscribe | Command::Assign(_) | Command::Commit(_)
        );
        if commits && self.lives[&life].alongside.is_some() {
            self.set(id, Stage::Holds);
        } else {
            self.begins(id, life);
        }
    }

    fn begins(&mut self, id: RequestId, life: Life) {
        let command = &self.requests[&id].command;
        if let Command::Fetch(fetch) = *command {
            self.fetches(id, life, fetch);
        } else if let Command::Delete = command {
            self.set(id, Stage::Works);
            self.close(life, Some(id), true);
        } else {
            self.works(id, life, None);
        }
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

    /// The answer of a request, which lets go of its instance.
    fn answer(&mut self, id: RequestId, reply: Result<Reply, Error>) {
        let life = self.requests[&id].life;
        if let Some(i) = life.and_then(|life| self.lives.get_mut(&life)) {
            i.line.retain(|other| *other != id);
            i.holder = i.holder.filter(|holder| *holder != id);
        }
        self.set(id, Stage::Answered(self.now));
        if self.requests[&id].is_gone {
            self.ends(id);
        } else {
            self.owed.push(Owed::Reply(id, reply));
        }
    }

    /// A reply was handed to the network whole [RP-05], or its caller left [RP-04].
    fn fate(&mut self, id: RequestId, received: bool) {
        let Some(request) = self.requests.get_mut(&id) else {
            return;
        };
        request.is_gone = true;
        let life = request.life;
        let creates = matches!(request.command, Command::Create(_));
        match &request.stage {
            Stage::Answered(_) => {
                self.ends(id);
                self.undo(life.filter(|_| creates && !received)); // [D-29]
            }
            Stage::Fetches(fetching) if fetching.is_sending() => self.sent(id, received),
            Stage::Fetches(_) => {
                self.leaves_fetch(id);
                self.ends(id);
            }
            Stage::Opens(call) => {
                let call = *call;
                self.cancel(call);
                self.ends(id);
                self.undo(life);
            }
            Stage::AsksTopics(call) => {
                let call = *call;
                self.cancel(call);
                self.ends(id);
            }
            Stage::Waits(_) | Stage::Holds => self.answer(id, Err(Error::Internal)), // which nobody hears
            Stage::New | Stage::Works => {}
        }
    }

    /// A reply that takes over 30 s: its connection is closed, and records count as read [RP-03].
    fn send_timeout(&mut self, id: RequestId) {
        self.owed.push(Owed::Abort(id));
        if self.is_sending(id) {
            self.sent(id, true);
        } else {
            let request = &self.requests[&id];
            let made = request
                .life
                .filter(|_| matches!(request.command, Command::Create(_)));
            self.ends(id);
            self.undo(made); // [D-29]
        }
    }

    /// A request is over. From the last one's end its instance is idle [D-30].
    fn ends(&mut self, id: RequestId) {
        let life = self.requests.remove(&id).and_then(|request| request.life);
        let now = self.now;
        if let Some(i) = life.and_then(|life| self.lives.get_mut(&life)) {
            i.idle_since = now;
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
