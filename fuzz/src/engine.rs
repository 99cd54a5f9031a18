//! The engine, told any facts at any times: what it does keeps to its rules, and nothing is owed at the end.

mod bytes;
mod positions;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use octopus_core::{
    Action, CallId, Command, Config, Effect, Engine, Error, Event, InstanceId, InstanceKey, Namespace,
    Outcome, Reply, RequestId, Subject,
};

use bytes::Bytes;
use positions::Positions;

/// The most that the fetches poll at once, here so few that they wait for each other [LI-02].
const POLLS: usize = 2;
/// The most fetches of a user [LI-01].
const FETCHES: usize = 2;

/// The input is what happens, step by step: requests, the ends of calls, the fates of replies, signals, and time. Every
/// request is answered once, and once only; no call is ended that does not run; a turn is one of few; a position is where
/// a delivered reply, the client or Kafka put it; and in the end every request was answered and every instance is closed.
pub fn check(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut world = World::new(&mut bytes);
    while !bytes.is_empty() {
        world.step(&mut bytes);
    }
    world.come_to_rest();
}

struct World {
    engine: Engine,
    config: Config,
    now: Instant,
    requests: u64,
    asked: BTreeMap<RequestId, Asked>,
    sending: BTreeMap<RequestId, Sending>,
    running: BTreeMap<CallId, (InstanceId, Effect)>,
    /// Packed replies that nobody sends yet.
    packed: BTreeSet<CallId>,
    calls: BTreeSet<CallId>,
    instances: BTreeMap<InstanceId, Subject>,
    closed: BTreeSet<InstanceId>,
    positions: Positions,
    ends: Option<Instant>,
}

struct Asked {
    key: InstanceKey,
    command: Command,
}

struct Sending {
    asked: Asked,
    /// The call that packed its records.
    records: Option<CallId>,
}

impl World {
    fn new(bytes: &mut Bytes<'_>) -> Self {
        #[expect(clippy::disallowed_methods, reason = "any instant will do to count from")]
        let now = Instant::now();
        let bits = bytes.byte();
        let mut config = Config::default();
        config.kafka = bits != 0xff;
        config.limits.max_polls = POLLS;
        config.limits.max_fetches_per_user = FETCHES;
        if bits & 1 != 0 {
            config.limits.max_instances = 3;
            config.limits.max_instances_per_user = 2;
        }
        if bits & 2 != 0 {
            config.limits.idle_rejoin = Duration::ZERO;
        }
        if bits & 4 != 0 {
            config.limits.short_turn = config.limits.turn;
        }
        Self {
            engine: Engine::new(config.clone(), now),
            config,
            now,
            requests: 0,
            asked: BTreeMap::new(),
            sending: BTreeMap::new(),
            running: BTreeMap::new(),
            packed: BTreeSet::new(),
            calls: BTreeSet::new(),
            instances: BTreeMap::new(),
            closed: BTreeSet::new(),
            positions: Positions::default(),
            ends: None,
        }
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.byte() % 64 {
            0..8 => {
                let wait = bytes.wait();
                self.pass(wait);
            }
            // The driver sleeps.
            8..10 => {
                self.now += bytes.wait();
                self.timeout();
            }
            10..16 => {
                let (key, settings) = (bytes.key(), bytes.settings());
                self.ask(key, Command::Create(settings));
            }
            16..30 => {
                let (key, command) = (bytes.key(), bytes.command());
                self.ask(key, command);
            }
            30..46 => {
                if let Some(call) = nth(&self.running, bytes.byte()) {
                    let outcome = bytes.outcome(&self.running[&call].1);
                    self.end(call, outcome);
                }
            }
            46..53 => {
                if let Some(request) = nth(&self.sending, bytes.byte()) {
                    self.fate(request, true);
                }
            }
            53..55 => {
                if let Some(request) = nth(&self.sending, bytes.byte()) {
                    self.fate(request, false);
                }
            }
            55 => {
                if let Some(request) = nth(&self.asked, bytes.byte()) {
                    self.asked.remove(&request);
                    self.feed(Event::Dropped(request));
                }
            }
            56..60 => {
                let instance = InstanceId(u64::from(bytes.byte() % 16));
                let event = if bytes.is() {
                    Event::Lost(instance)
                } else {
                    Event::Rebalance(instance)
                };
                self.feed(event);
            }
            60 | 61 => self.nonsense(bytes),
            62 => {
                for _ in 0..=bytes.byte() % 4 {
                    self.settle();
                }
            }
            _ => {
                if bytes.byte() < 32 {
                    self.shut_down();
                }
            }
        }
    }

    /// What no driver should say changes nothing.
    fn nonsense(&mut self, bytes: &mut Bytes<'_>) {
        let number = u64::from(bytes.byte());
        let request = RequestId(number);
        let event = match bytes.byte() % 4 {
            0 if !self.sending.contains_key(&request) => Event::Delivered(request),
            1 if !self.sending.contains_key(&request) && !self.asked.contains_key(&request) => {
                Event::Dropped(request)
            }
            2 if self.asked.contains_key(&request) => {
                let (key, command) = (bytes.key(), bytes.command());
                request_of(request, key, command)
            }
            3 if !self.running.contains_key(&CallId(number)) => Event::Done {
                call: CallId(number),
                outcome: Ok(Outcome::Done),
            },
            _ => return,
        };
        self.engine.handle_event(event.clone(), self.now);
        let action = self.engine.poll_action();
        assert_eq!(action, None, "{event:?} is nonsense");
    }

    /// Time passes, deadline by deadline.
    fn pass(&mut self, wait: Duration) {
        let until = self.now + wait;
        while let Some(due) = self.engine.poll_timeout().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.timeout();
        }
        self.now = until;
        self.timeout();
    }

    fn timeout(&mut self) {
        self.engine.handle_timeout(self.now);
        let due = self.engine.poll_timeout();
        assert!(due.is_none_or(|due| due > self.now), "what was due was done");
        self.watch();
    }

    fn ask(&mut self, key: InstanceKey, command: Command) {
        self.requests += 1;
        let request = RequestId(self.requests);
        let asked = Asked {
            key: key.clone(),
            command: command.clone(),
        };
        self.asked.insert(request, asked);
        self.feed(request_of(request, key, command));
    }

    fn end(&mut self, call: CallId, outcome: Result<Outcome, Error>) {
        let Some((instance, effect)) = self.running.remove(&call) else {
            return;
        };
        match (&effect, &outcome) {
            (Effect::Fetch(_), Ok(Outcome::Fetched(fetched))) if !fetched.next.is_empty() => {
                self.packed.insert(call);
            }
            (Effect::Close, _) => _ = self.closed.insert(instance),
            (Effect::Open(_), outcome) if *outcome != Ok(Outcome::Done) => {
                self.closed.insert(instance);
            }
            _ => {}
        }
        self.positions.come(call, instance, &effect, &outcome);
        self.feed(Event::Done { call, outcome });
    }

    fn fate(&mut self, request: RequestId, delivered: bool) {
        let Some(sending) = self.sending.remove(&request) else {
            return;
        };
        if let Some(call) = sending.records.filter(|_| delivered) {
            self.positions.delivered(call);
        }
        self.feed(if delivered {
            Event::Delivered(request)
        } else {
            Event::Dropped(request)
        });
    }

    fn shut_down(&mut self) {
        self.ends
            .get_or_insert(self.now + self.config.limits.shutdown_grace);
        self.feed(Event::Shutdown);
    }

    fn feed(&mut self, event: Event) {
        self.engine.handle_event(event, self.now);
        self.watch();
    }

    /// Does what the engine says, and looks at it.
    fn watch(&mut self) {
        let most =
            8 + 4 * (self.asked.len() + self.sending.len() + self.running.len() + self.instances.len());
        let mut count = 0;
        while let Some(action) = self.engine.poll_action() {
            count += 1;
            assert!(count <= most, "an input leads to an end");
            self.take(action);
        }
        assert!(self.packed.is_empty(), "what was packed is sent or forgotten");
        self.limits();
    }

    fn take(&mut self, action: Action) {
        match action {
            Action::Call {
                call,
                instance,
                effect,
                within,
            } => {
                assert!(self.calls.insert(call), "a call's number is its own");
                if let Effect::Open(open) = &effect {
                    let before = self.instances.insert(instance, open.key.subject);
                    assert_eq!(before, None, "an instance's number is its own");
                }
                assert!(
                    self.instances.contains_key(&instance),
                    "an instance that was made"
                );
                let is_closed = self.closed.contains(&instance) && !matches!(effect, Effect::Topics(_));
                assert!(!is_closed, "nothing is done with what was closed");
                if let Effect::Fetch(_) = effect {
                    assert!(
                        within <= self.config.limits.turn,
                        "a turn is at most half a second"
                    );
                }
                let of_it = self.running.values().filter(|(of, _)| *of == instance);
                let commits = of_it.filter(|(_, effect)| commits(effect)).count();
                assert!(
                    commits == 0 || !self::commits(&effect),
                    "no commit passes another"
                );
                self.positions.asked(instance, &effect);
                self.running.insert(call, (instance, effect));
            }
            Action::Hurry(call) => {
                let effect = self.running.get(&call).map(|(_, effect)| effect);
                let is_turn = matches!(effect, Some(Effect::Fetch(_) | Effect::Join(_)));
                assert!(is_turn, "a turn that runs is hurried");
            }
            Action::Cancel(call) => {
                let ran = self.running.remove(&call);
                assert!(ran.is_some() || self.packed.remove(&call), "what runs is stopped");
                if let Some((instance, Effect::Close)) = ran {
                    self.closed.insert(instance);
                }
            }
            Action::Reply { request, reply } => {
                let asked = self.asked.remove(&request);
                let asked = asked.expect("a request is answered once, and not when its caller left");
                assert!(fits(&asked.command, &reply), "{reply:?} to {:?}", asked.command);
                let mut records = None;
                if let Ok(Reply::Records(call)) = &reply {
                    assert!(self.packed.remove(call), "the records were packed");
                    records = Some(*call);
                }
                self.positions.answered(&asked.key, &asked.command, &reply);
                self.sending.insert(request, Sending { asked, records });
            }
            Action::Abort(request) => {
                let sending = self.sending.remove(&request);
                let sending = sending.expect("a reply that is on its way is aborted");
                if let Some(call) = sending.records {
                    self.positions.delivered(call); // It counts as read [RP-03].
                }
            }
        }
    }

    /// [LI-01] [LI-02] [LI-03] [LK-01]
    fn limits(&self) {
        let polls = self.running.values();
        let polls = polls.filter(|(_, effect)| matches!(effect, Effect::Fetch(_)));
        let polls = polls.map(|(instance, _)| self.instances[instance]);
        let replies = self.sending.values().filter(|sending| sending.records.is_some());
        let users: Vec<_> = polls
            .chain(replies.map(|sending| sending.asked.key.subject))
            .collect();
        assert!(users.len() <= POLLS, "turns at once");
        let of = |user| users.iter().filter(|other| **other == user).count();
        assert!(users.iter().all(|user| of(*user) <= FETCHES), "fetches of a user");
        let mut instances = self.running.values().filter(|(_, effect)| holds(effect));
        let mut held = BTreeSet::new();
        assert!(
            instances.all(|(instance, _)| held.insert(*instance)),
            "one request at a time"
        );
        if self.ends.is_some_and(|end| self.now > end) {
            assert!(self.engine.is_drained(), "a shutdown is over in its time");
            assert!(self.running.is_empty() && self.asked.is_empty());
        }
    }

    /// Every call ends well, and every reply is delivered.
    fn settle(&mut self) {
        for call in self.running.keys().copied().collect::<Vec<_>>() {
            if let Some((_, effect)) = self.running.get(&call) {
                let outcome = Bytes::new(&[]).well(effect);
                self.end(call, Ok(outcome));
            }
        }
        for request in self.sending.keys().copied().collect::<Vec<_>>() {
            self.fate(request, true);
        }
    }

    /// Every request is answered, and every instance closed by a shutdown in its time.
    fn come_to_rest(mut self) {
        for _ in 0..300 {
            if self.asked.is_empty() && self.sending.is_empty() && self.running.is_empty() {
                break;
            }
            self.settle();
            self.pass(Duration::from_secs(2));
        }
        assert!(self.asked.is_empty(), "every request is answered");
        self.shut_down();
        for _ in 0..8 {
            self.settle();
        }
        assert!(self.engine.is_drained(), "nothing is waited for");
        self.pass(self.config.limits.shutdown_grace * 2);
        assert!(self.running.is_empty() && self.asked.is_empty() && self.sending.is_empty());
        assert_eq!(self.engine.poll_timeout(), None, "nothing is due any more");
    }
}

fn request_of(request: RequestId, key: InstanceKey, command: Command) -> Event {
    Event::Request {
        request,
        namespace: Namespace::of(key.subject),
        key,
        command,
    }
}

fn commits(effect: &Effect) -> bool {
    matches!(effect, Effect::Commit(_)) || matches!(effect, Effect::Join(join) if !join.commit.is_empty())
}

/// Whether only who holds the instance does it. Beside it there may be a commit, a join, and questions about topics.
fn holds(effect: &Effect) -> bool {
    !matches!(effect, Effect::Join(_) | Effect::Topics(_) | Effect::Commit(_))
}

/// Whether it is a reply to this.
fn fits(command: &Command, reply: &Result<Reply, Error>) -> bool {
    let Ok(reply) = reply else { return true };
    match command {
        Command::Create(_) => *reply == Reply::Created,
        Command::Delete
        | Command::Subscribe(_)
        | Command::Unsubscribe
        | Command::Assign(_)
        | Command::Seek(_)
        | Command::SeekToBeginning(_)
        | Command::SeekToEnd(_) => *reply == Reply::NoContent,
        Command::Subscription => matches!(reply, Reply::Topics(_)),
        Command::Assignments => {
            matches!(reply, Reply::Partitions(list) if list.is_sorted() && list.iter().all(|at| at.partition == 0))
        }
        Command::Commit(_) => *reply == Reply::Empty,
        Command::Committed(_) => matches!(reply, Reply::Offsets(_)),
        Command::Fetch(_) => matches!(reply, Reply::Records(_) | Reply::Empty),
    }
}

fn nth<K: Copy + Ord, V>(map: &BTreeMap<K, V>, pick: u8) -> Option<K> {
    map.keys().nth(usize::from(pick) % map.len().max(1)).copied()
}
