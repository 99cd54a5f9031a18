//! A driver that does what a schedule says, and watches what the engine does.

mod check;
mod end;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use octopus_core::{
    Action, CallId, Command, Config, Effect, Engine, Error, Event, InstanceId, InstanceKey, Limits, Name,
    Namespace, Reply, RequestId, Subject, TopicPartition,
};

use crate::{
    kafka::Kafka,
    reader::{Range, Reader, Reads},
    step::{How, LAST_NAME, Step},
};

/// Everything around one engine.
pub(crate) struct Service {
    engine: Engine,
    limits: Limits,
    now: Instant,
    kafka: Kafka,
    requests: u64,
    /// Requests without an answer, whose callers wait.
    asked: BTreeMap<RequestId, Asked>,
    /// Requests whose callers left before the answer.
    left: BTreeMap<RequestId, Asked>,
    /// Replies on their way.
    sending: BTreeMap<RequestId, Sending>,
    running: BTreeMap<CallId, Running>,
    /// Packed replies that nobody sends yet.
    bodies: BTreeMap<CallId, Body>,
    /// The instances that were made and not closed.
    readers: BTreeMap<InstanceId, Reader>,
    /// The instances whose consumer may exist.
    consumers: BTreeSet<InstanceId>,
    /// The last instance of a name.
    names: BTreeMap<InstanceKey, InstanceId>,
    /// The instances that hold a place.
    places: BTreeMap<InstanceId, Subject>,
    /// How long the driver slept in all.
    slept: Duration,
    shutdown_end: Option<Instant>,
}

struct Asked {
    key: InstanceKey,
    command: Command,
    instance: Option<InstanceId>,
    at: Instant,
}

struct Sending {
    asked: Asked,
    records: Option<Body>,
}

struct Running {
    instance: InstanceId,
    effect: Effect,
    within: Duration,
}

/// What a packed reply holds.
#[derive(Debug, Clone)]
struct Body {
    ranges: Vec<Range>,
    cut: Option<TopicPartition>,
}

impl Service {
    pub(crate) fn new() -> Self {
        #[expect(clippy::disallowed_methods, reason = "any instant will do to count from")]
        let now = Instant::now();
        let config = Config::default();
        Self {
            limits: config.limits.clone(),
            engine: Engine::new(config, now),
            now,
            kafka: Kafka::default(),
            requests: 0,
            asked: BTreeMap::new(),
            left: BTreeMap::new(),
            sending: BTreeMap::new(),
            running: BTreeMap::new(),
            bodies: BTreeMap::new(),
            readers: BTreeMap::new(),
            consumers: BTreeSet::new(),
            names: BTreeMap::new(),
            places: BTreeMap::new(),
            slept: Duration::ZERO,
            shutdown_end: None,
        }
    }

    pub(crate) fn take(&mut self, step: Step) {
        match step {
            Step::Wait(time) => self.wait(time),
            Step::Jump(time) => {
                self.slept += time;
                self.now += time;
                self.engine.handle_timeout(self.now);
                self.watch();
            }
            Step::Ask(user, name, command) => self.ask(user, name, command),
            Step::Ready(user, name, settings, reads) => {
                self.ask(user, name, Command::Create(settings));
                self.settle();
                self.ask(user, name, reads);
                self.settle();
            }
            Step::End(pick, how) => {
                if let Some(call) = nth(&self.running, pick) {
                    self.end(call, &how);
                }
            }
            Step::Fate(pick, delivered) => {
                if let Some(request) = nth(&self.sending, pick) {
                    self.fate(request, delivered);
                }
            }
            Step::Leave(pick) => {
                if let Some(request) = nth(&self.asked, pick) {
                    self.leave(request);
                }
            }
            Step::Signal(pick, lost) => {
                if let Some(instance) = nth(&self.readers, pick) {
                    self.signal(instance, lost);
                }
            }
            Step::Produce(topic, count) => self.kafka.produce(topic, count),
            Step::Settle => self.settle(),
            Step::Shutdown => {
                self.shutdown_end
                    .get_or_insert(self.now + self.limits.shutdown_grace);
                self.feed(Event::Shutdown);
            }
        }
    }

    /// Lets everything end well: every request is answered, and then every instance is closed, idle or by the
    /// shutdown.
    pub(crate) fn come_to_rest(&mut self) {
        for _ in 0..1_000 {
            self.settle();
            if self.asked.is_empty() {
                break;
            }
            self.wait(Duration::from_millis(100));
        }
        assert!(self.asked.is_empty(), "every request is answered");
        for _ in 0..15 {
            self.wait(self.limits.reap_interval);
            self.settle();
        }
        let given_up = self.shutdown_end.is_some();
        assert!(self.consumers.is_empty() || given_up, "every instance is closed");
        assert!(self.running.is_empty(), "nothing runs for nobody");
        if self.shutdown_end.is_none() {
            self.feed(Event::Shutdown);
            assert!(self.engine.is_drained(), "there is nothing to wait for");
        }
    }

    fn settle(&mut self) {
        for _ in 0..8 {
            let calls: Vec<_> = self.running.keys().copied().collect();
            for call in calls {
                self.end(
                    call,
                    &How::Well {
                        most: 100,
                        cut: false,
                        bits: 15,
                    },
                );
            }
            let replies: Vec<_> = self.sending.keys().copied().collect();
            for request in replies {
                self.fate(request, true);
            }
        }
    }

    fn wait(&mut self, time: Duration) {
        let target = self.now + time;
        while let Some(due) = self.engine.poll_timeout().filter(|due| *due <= target) {
            self.now = self.now.max(due);
            self.engine.handle_timeout(self.now);
            self.watch();
        }
        self.now = target;
    }

    fn ask(&mut self, user: u8, name: u8, command: Command) {
        self.requests += 1;
        let request = RequestId(self.requests);
        let key = self.key(user, name, &command);
        let subject = key.subject;
        let instance = self.names.get(&key).copied();
        let asked = Asked {
            key: key.clone(),
            command: command.clone(),
            instance,
            at: self.now,
        };
        self.asked.insert(request, asked);
        self.feed(Event::Request {
            request,
            namespace: Namespace::of(subject),
            key,
            command,
        });
    }

    /// The instance that a request names. Where there is none of that name, another one, for else most requests would
    /// find nothing; the last name stands for what is not there.
    fn key(&self, user: u8, name: u8, command: &Command) -> InstanceKey {
        let key = InstanceKey {
            subject: Subject::from_uuid(u128::from(user)),
            group: Name::parse("group").expect("a name"),
            name: Name::parse(&format!("instance-{name}")).expect("a name"),
        };
        let is_there = self.readers.values().any(|reader| reader.key == key);
        if is_there || name == LAST_NAME || matches!(command, Command::Create(_)) {
            return key;
        }
        let other = nth(&self.readers, usize::from(user + name));
        other.map_or(key, |instance| self.readers[&instance].key.clone())
    }

    fn fate(&mut self, request: RequestId, delivered: bool) {
        let Some(sending) = self.sending.remove(&request) else {
            return;
        };
        if delivered {
            self.received(&sending);
            self.feed(Event::Delivered(request));
        } else {
            self.undone(&sending);
            self.feed(Event::Dropped(request));
        }
    }

    fn leave(&mut self, request: RequestId) {
        let Some(asked) = self.asked.remove(&request) else {
            return;
        };
        let changes = matches!(asked.command, Command::Assign(_) | Command::Unsubscribe);
        if let Some(reader) = asked
            .instance
            .and_then(|instance| self.readers.get_mut(&instance))
        {
            reader.is_unknown |= changes;
        }
        if matches!(asked.command, Command::Create(_)) {
            asked.instance.iter().for_each(|instance| {
                self.places.remove(instance);
            });
        }
        self.left.insert(request, asked);
        self.feed(Event::Dropped(request));
    }

    fn signal(&mut self, instance: InstanceId, lost: bool) {
        if lost {
            if let Some(reader) = self.readers.get_mut(&instance) {
                reader.is_lost |= matches!(reader.reads, Reads::Topics(_));
            }
            self.feed(Event::Lost(instance));
        } else {
            self.feed(Event::Rebalance(instance));
        }
    }

    fn feed(&mut self, event: Event) {
        self.engine.handle_event(event, self.now);
        self.watch();
    }

    /// Does what the engine says.
    fn watch(&mut self) {
        while let Some(action) = self.engine.poll_action() {
            match action {
                Action::Call {
                    call,
                    instance,
                    effect,
                    within,
                } => self.start(call, instance, effect, within),
                Action::Hurry(call) => {
                    let running = &self.running[&call];
                    assert!(self.is_turn(running), "only a turn is ended early");
                }
                Action::Cancel(call) => {
                    let running = self.running.remove(&call);
                    let body = self.bodies.remove(&call);
                    if let Some(running) = &running
                        && matches!(running.effect, Effect::Close)
                    {
                        self.closed(running.instance);
                    }
                    assert!(running.is_some() || body.is_some(), "a cancelled call was there");
                }
                Action::Reply { request, reply } => self.answer(request, reply),
                Action::Abort(request) => {
                    let sending = self
                        .sending
                        .remove(&request)
                        .expect("an aborted reply was on its way");
                    self.received(&sending);
                    self.undone(&sending);
                }
            }
        }
        self.check();
    }

    fn start(&mut self, call: CallId, instance: InstanceId, effect: Effect, within: Duration) {
        if let Effect::Open(open) = &effect {
            self.names.insert(open.key.clone(), instance);
            self.places.insert(instance, open.key.subject);
            self.consumers.insert(instance);
            let reader = Reader::new(open.key.clone(), open.settings.clone(), self.now);
            self.readers.insert(instance, reader);
            let creates = self.asked.values_mut().filter(|asked| asked.key == open.key);
            for asked in creates.filter(|asked| matches!(asked.command, Command::Create(_))) {
                asked.instance = Some(instance);
            }
        }
        self.check_call(instance, &effect, within);
        let running = Running {
            instance,
            effect,
            within,
        };
        assert!(
            self.running.insert(call, running).is_none(),
            "a call's number is its own"
        );
    }

    fn answer(&mut self, request: RequestId, reply: Result<Reply, Error>) {
        let asked = self
            .asked
            .remove(&request)
            .expect("a request is answered once, and not when its caller left");
        let records = match &reply {
            Ok(Reply::Records(call)) => Some(self.bodies.remove(call).expect("a reply's body was packed")),
            Ok(_) | Err(_) => None,
        };
        match &reply {
            Ok(reply) => self.answered(&asked, reply),
            Err(error) => self.refused(&asked, error),
        }
        self.sending.insert(request, Sending { asked, records });
    }

    /// What a success means for the client.
    fn answered(&mut self, asked: &Asked, reply: &Reply) {
        let Some(instance) = asked.instance else {
            return;
        };
        if matches!(asked.command, Command::Delete) {
            self.places.remove(&instance);
        }
        let Some(reader) = self.readers.get_mut(&instance) else {
            return;
        };
        match (&asked.command, reply) {
            (Command::Subscribe(topics), _) => reader.subscribed(&once(topics)),
            (Command::Unsubscribe, _) => reader.unsubscribed(),
            (Command::Assign(partitions), _) => reader.assigned(&once(partitions)),
            (Command::Seek(positions), _) => {
                positions
                    .iter()
                    .for_each(|(at, position)| reader.seeks(at, *position));
            }
            (Command::Subscription, Reply::Topics(topics)) if !reader.is_unknown => {
                let subscribed = match &reader.reads {
                    Reads::Topics(topics) => topics.clone(),
                    Reads::Nothing | Reads::Assigned => Vec::new(),
                };
                assert_eq!(*topics, subscribed);
            }
            (Command::Assignments, Reply::Partitions(partitions)) if !reader.is_unknown => {
                assert_eq!(*partitions, reader.next.keys().cloned().collect::<Vec<_>>());
            }
            (Command::Committed(Some(partitions)), Reply::Offsets(offsets)) => {
                let held = once(partitions);
                let held = held
                    .iter()
                    .filter_map(|at| self.kafka.committed(&reader.key, at).cloned());
                assert_eq!(*offsets, held.collect::<Vec<_>>());
            }
            _ => {}
        }
    }

    fn refused(&mut self, asked: &Asked, error: &Error) {
        self.check_refusal(asked, error);
        if let (Command::Create(_), Some(instance)) = (&asked.command, asked.instance) {
            self.places.remove(&instance);
        }
    }

    /// A reply was received, or took so long that it counts as received [RP-03] [RP-05].
    fn received(&mut self, sending: &Sending) {
        let reader = sending
            .asked
            .instance
            .and_then(|instance| self.readers.get_mut(&instance));
        if let (Some(reader), Some(body)) = (reader, &sending.records) {
            reader.receives(&body.ranges, body.cut.as_ref());
        }
    }

    /// A reply was not received: an instance made by it is gone [D-29].
    fn undone(&mut self, sending: &Sending) {
        if let (Command::Create(_), Some(instance)) = (&sending.asked.command, sending.asked.instance) {
            self.places.remove(&instance);
        }
    }

    fn closed(&mut self, instance: InstanceId) {
        self.consumers.remove(&instance);
        self.readers.remove(&instance);
        self.places.remove(&instance);
    }
}

fn nth<K: Copy + Ord, V>(map: &BTreeMap<K, V>, pick: usize) -> Option<K> {
    map.keys().nth(pick % map.len().max(1)).copied()
}

fn once<T: Clone + PartialEq>(items: &[T]) -> Vec<T> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(item) {
            seen.push(item.clone());
        }
    }
    seen
}
