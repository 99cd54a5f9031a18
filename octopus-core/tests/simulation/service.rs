//! A driver that does what a schedule says, and shows the model what the engine does.

mod check;
mod seen;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use octopus_core::{
    Action, CallId, Command, Config, Effect, Engine, Error, Event, Fetch, Format, InstanceId, InstanceKey,
    Limits, Name, Namespace, Outcome, Reply, RequestId, Subject,
};

use crate::{
    kafka::{Consumer, Kafka},
    model::Model,
    step::{Accept, How, Schedule, Step, Who},
};
pub(crate) use seen::Seen;

/// Everything around one engine.
pub(crate) struct Service {
    engine: Engine,
    model: Model,
    limits: Limits,
    now: Instant,
    kafka: Kafka,
    requests: u64,
    /// Requests without an answer, whose callers wait.
    asked: BTreeMap<RequestId, Asked>,
    /// Replies on their way.
    sending: BTreeMap<RequestId, Sending>,
    /// Those whose replies do not settle with the others.
    slow: BTreeSet<RequestId>,
    running: BTreeMap<CallId, Running>,
    /// Calls that were stopped or given up.
    stopped: Vec<CallId>,
    /// Packed replies that nobody sends yet.
    bodies: BTreeSet<CallId>,
    /// The instances whose consumer may exist.
    consumers: BTreeMap<InstanceId, Consumer>,
    /// Those that were closed: a question about topics may outlive them.
    closed: BTreeMap<InstanceId, Consumer>,
    /// The last instance of a name.
    names: BTreeMap<InstanceKey, InstanceId>,
    /// How long the driver slept in all.
    slept: Duration,
    /// Whether it has not looked at its deadlines since.
    is_late: bool,
    shutdown_end: Option<Instant>,
    /// What the engine did so far.
    seen: Seen,
}

struct Asked {
    key: InstanceKey,
    command: Command,
    instance: Option<InstanceId>,
    at: Instant,
}

struct Sending {
    asked: Asked,
    /// Whether it holds records, and so a turn.
    has_records: bool,
}

struct Running {
    instance: InstanceId,
    effect: Effect,
    /// Whether it is a fetch's, in its turn.
    in_turn: bool,
}

impl Service {
    pub(crate) fn new(schedule: &Schedule) -> Self {
        #[expect(clippy::disallowed_methods, reason = "any instant will do to count from")]
        let now = Instant::now();
        let mut config = Config::default();
        config.limits = schedule.limits.clone();
        config.kafka = schedule.kafka;
        Self {
            limits: config.limits.clone(),
            model: Model::new(config.limits.clone(), config.kafka, now),
            engine: Engine::new(config, now),
            now,
            kafka: Kafka::new(),
            requests: 0,
            asked: BTreeMap::new(),
            sending: BTreeMap::new(),
            slow: BTreeSet::new(),
            running: BTreeMap::new(),
            stopped: Vec::new(),
            bodies: BTreeSet::new(),
            consumers: BTreeMap::new(),
            closed: BTreeMap::new(),
            names: BTreeMap::new(),
            slept: Duration::ZERO,
            is_late: false,
            shutdown_end: None,
            seen: Seen::default(),
        }
    }

    pub(crate) fn take(&mut self, step: &Step) {
        match step {
            Step::Wait(time) => self.wait(*time),
            Step::Jump(time) => {
                self.slept += *time;
                self.now += *time;
                self.timeout();
            }
            Step::Lag(time) => {
                self.slept += *time;
                self.now += *time;
                self.is_late = true;
            }
            Step::Ask(who, command) => self.ask(*who, command.clone()),
            Step::Fetch(who, accept, timeout, max_bytes) => {
                let format = self.format(*who, *accept);
                let (timeout, max_bytes) = (*timeout, *max_bytes);
                let fetch = Fetch {
                    format,
                    timeout,
                    max_bytes,
                };
                self.ask(*who, Command::Fetch(fetch));
            }
            Step::Ready(who, settings, reads, slow) => {
                self.ask(*who, Command::Create(settings.clone()));
                self.slow.extend(slow.then_some(RequestId(self.requests)));
                self.settle();
                self.ask(*who, reads.clone());
                self.settle();
            }
            Step::Crowd {
                users,
                each,
                settings,
                reads,
            } => {
                for (user, name) in (0..*users).flat_map(|user| (0..*each).map(move |name| (user, name))) {
                    let who = Who::Named(user, 0, name);
                    self.ask(who, Command::Create(settings.clone()));
                    self.settle();
                    self.ask(who, reads.clone());
                    self.settle();
                }
            }
            Step::End(pick, how) => {
                if let Some(call) = nth(&self.running, *pick) {
                    self.end(call, how);
                }
            }
            Step::Late(pick) => {
                if let Some(call) = self.stopped.get(pick % self.stopped.len().max(1)) {
                    let call = *call;
                    self.feed(&Event::Done {
                        call,
                        outcome: Ok(Outcome::Done),
                    });
                }
            }
            Step::Fate(pick, delivered) => {
                if let Some(request) = nth(&self.sending, *pick) {
                    self.fate(request, *delivered);
                }
            }
            Step::Leave(pick) => {
                if let Some(request) = nth(&self.asked, *pick) {
                    self.leave(request);
                }
            }
            Step::Signal(pick, lost) => {
                if let Some(instance) = nth(&self.consumers, *pick) {
                    self.feed(&if *lost {
                        Event::Lost(instance)
                    } else {
                        Event::Rebalance(instance)
                    });
                }
            }
            Step::Produce(topic, count) => self.kafka.produce(*topic, *count),
            Step::Settle => self.settle(),
            Step::Shutdown => self.shut_down(),
        }
    }

    /// Lets everything end well: every request is answered, and then every instance is closed, idle or by the
    /// shutdown.
    pub(crate) fn come_to_rest(mut self) -> Seen {
        self.slow.clear();
        for _ in 0..1_000 {
            self.settle();
            if self.asked.is_empty() {
                break;
            }
            self.wait(Duration::from_millis(100));
        }
        assert!(self.asked.is_empty(), "every request is answered");
        let idle = self.limits.idle_timeout + self.limits.reap_interval;
        let end = self.now + idle + self.limits.close_wait;
        while self.now < end {
            self.wait(self.limits.reap_interval);
            self.settle();
        }
        let given_up = self.shutdown_end.is_some();
        assert!(self.consumers.is_empty() || given_up, "every instance is closed");
        assert!(self.running.is_empty(), "nothing runs for nobody");
        if self.shutdown_end.is_none() {
            self.shut_down();
            assert!(self.engine.is_drained(), "there is nothing to wait for");
        }
        self.seen
    }

    fn shut_down(&mut self) {
        let end = self.now + self.limits.shutdown_grace;
        self.shutdown_end.get_or_insert(end);
        self.feed(&Event::Shutdown);
    }

    fn settle(&mut self) {
        let how = How::Well {
            most: 100,
            cut: false,
            bits: 15,
        };
        for _ in 0..8 {
            if self.running.is_empty() && self.sending.is_empty() {
                break;
            }
            let calls: Vec<_> = self.running.keys().copied().collect();
            calls.into_iter().for_each(|call| self.end(call, &how));
            let replies = self.sending.keys().filter(|request| !self.slow.contains(request));
            let replies: Vec<_> = replies.copied().collect();
            replies.into_iter().for_each(|request| self.fate(request, true));
        }
    }

    fn wait(&mut self, time: Duration) {
        let target = self.now + time;
        while let Some(due) = self.engine.poll_timeout().filter(|due| *due <= target) {
            self.now = self.now.max(due);
            let is_past = self.model.is_due_at().is_some_and(|owed| owed < self.now);
            assert!(!is_past || self.is_late, "something was due before");
            self.timeout();
        }
        self.now = target;
        let owed = self.model.is_due_at();
        assert!(owed.is_none_or(|owed| owed > self.now), "something is due");
    }

    fn ask(&mut self, who: Who, command: Command) {
        self.requests += 1;
        let request = RequestId(self.requests);
        let key = self.key(who);
        let subject = key.subject;
        let asked = Asked {
            key: key.clone(),
            command: command.clone(),
            instance: self.names.get(&key).copied(),
            at: self.now,
        };
        self.asked.insert(request, asked);
        self.feed(&Event::Request {
            request,
            namespace: Namespace::of(subject),
            key,
            command,
        });
    }

    fn key(&self, who: Who) -> InstanceKey {
        let name = |text: String| Name::parse(&text).expect("a name");
        match who {
            Who::Named(user, group, instance) => InstanceKey {
                subject: Subject::from_uuid(user.into()),
                group: name(format!("group-{group}")),
                name: name(format!("instance-{instance}")),
            },
            Who::There(pick) => match self.consumers.values().nth(pick % self.consumers.len().max(1)) {
                Some(consumer) => consumer.key.clone(),
                None => self.key(Who::Named(0, 0, 0)),
            },
            Who::Other(pick, user) => InstanceKey {
                subject: Subject::from_uuid(user.into()),
                ..self.key(Who::There(pick))
            },
        }
    }

    fn format(&self, who: Who, accept: Accept) -> Option<Format> {
        let instance = self.names.get(&self.key(who));
        let its = instance.and_then(|instance| self.consumers.get(instance));
        match accept {
            Accept::Its => Some(its.map_or(Format::Binary, |consumer| consumer.settings.format)),
            Accept::Only(format) => Some(format),
            Accept::Foreign => None,
        }
    }

    /// Ends a call.
    fn end(&mut self, call: CallId, how: &How) {
        let Some(running) = self.running.remove(&call) else {
            return;
        };
        let consumer = self
            .consumers
            .get(&running.instance)
            .or_else(|| self.closed.get(&running.instance));
        let consumer = consumer.expect("a call is for an instance that was made");
        let outcome = self.kafka.answer(consumer, &running.effect, how);
        if let Ok(Outcome::Fetched(fetched)) = &outcome
            && !fetched.next.is_empty()
        {
            self.bodies.insert(call);
        }
        let opened = matches!(outcome, Ok(Outcome::Done));
        let failed = matches!(running.effect, Effect::Open(_)) && !opened;
        if failed || matches!(running.effect, Effect::Close) {
            self.closed(running.instance);
        }
        self.feed(&Event::Done { call, outcome });
    }

    fn fate(&mut self, request: RequestId, delivered: bool) {
        if self.sending.remove(&request).is_none() {
            return;
        }
        if delivered {
            self.feed(&Event::Delivered(request));
        } else {
            self.feed(&Event::Dropped(request));
        }
    }

    fn leave(&mut self, request: RequestId) {
        if self.asked.remove(&request).is_some() {
            self.feed(&Event::Dropped(request));
        }
    }

    fn feed(&mut self, event: &Event) {
        self.model.hears(event, self.now);
        self.engine.handle_event(event.clone(), self.now);
        self.watch();
    }

    fn timeout(&mut self) {
        self.model.passes(self.now);
        self.engine.handle_timeout(self.now);
        self.is_late = false;
        self.watch();
    }

    /// Does what the engine says.
    fn watch(&mut self) {
        while let Some(action) = self.engine.poll_action() {
            self.model.sees(&action);
            self.seen.count(&action);
            match action {
                Action::Call {
                    call,
                    instance,
                    effect,
                    within,
                } => self.start(call, instance, effect, within),
                Action::Hurry(call) => {
                    let running = &self.running[&call];
                    assert!(running.in_turn, "only a turn is ended early");
                }
                Action::Cancel(call) => {
                    let running = self.running.remove(&call).expect("a cancelled call was there");
                    if let Effect::Close = running.effect {
                        self.closed(running.instance);
                    }
                    self.stopped.push(call);
                }
                Action::Reply { request, reply } => self.answer(request, &reply),
                Action::Abort(request) => {
                    let sending = self.sending.remove(&request);
                    assert!(sending.is_some(), "an aborted reply was on its way");
                }
            }
        }
        self.model.rests();
        self.check();
    }

    fn start(&mut self, call: CallId, instance: InstanceId, effect: Effect, within: Duration) {
        if let Effect::Open(open) = &effect {
            self.names.insert(open.key.clone(), instance);
            let consumer = Consumer {
                key: open.key.clone(),
                settings: open.settings.clone(),
            };
            self.consumers.insert(instance, consumer);
            let creates = self.asked.values_mut().filter(|asked| asked.key == open.key);
            for asked in creates.filter(|asked| matches!(asked.command, Command::Create(_))) {
                asked.instance = Some(instance);
            }
        }
        self.check_call(instance, &effect, within);
        let fetches = matches!(effect, Effect::Fetch(_) | Effect::Join(_));
        let running = Running {
            instance,
            effect,
            in_turn: fetches && within <= self.limits.turn,
        };
        self.running.insert(call, running);
    }

    fn answer(&mut self, request: RequestId, reply: &Result<Reply, Error>) {
        let asked = self.asked.remove(&request);
        let asked = asked.expect("a request is answered once, and not when its caller left");
        let has_records = if let Ok(Reply::Records(call)) = reply {
            assert!(self.bodies.remove(call), "a reply's body was packed");
            true
        } else {
            false
        };
        self.sending.insert(request, Sending { asked, has_records });
    }

    fn closed(&mut self, instance: InstanceId) {
        if let Some(consumer) = self.consumers.remove(&instance) {
            self.closed.insert(instance, consumer);
        }
    }
}

fn nth<K: Copy + Ord, V>(map: &BTreeMap<K, V>, pick: usize) -> Option<K> {
    map.keys().nth(pick % map.len().max(1)).copied()
}
