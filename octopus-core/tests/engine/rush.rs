//! Twelve instances at once: how long a fetch with records ready waits, from every start, and who polls when.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use octopus_core::{
    Action, CallId, Config, Effect, Engine, Event, InstanceId, Limits, Namespace, Outcome, Reply, RequestId,
    Subject,
};

use crate::world::{assign, create, fetch, fetched, found_nothing, key, ms, seek};

/// The reader whose records are ready; the others are quiet.
const READY: usize = 11;

/// Twelve instances of six users under one engine, whose Kafka answers everything at once but a quiet poll.
struct Rush {
    engine: Engine,
    now: Instant,
    start: Instant,
    limits: Limits,
    requests: u64,
    /// Which reader an instance is.
    readers: BTreeMap<InstanceId, usize>,
    /// The polls that run, and when they end by themselves.
    polls: BTreeMap<CallId, (usize, Instant)>,
    /// Who waits for a turn, in the order asked.
    line: VecDeque<usize>,
    /// When each turn began, and whose it was.
    turns: Vec<(Instant, usize)>,
    answered: Option<Instant>,
}

impl Rush {
    fn new() -> Self {
        #[expect(clippy::disallowed_methods, reason = "any instant will do to count from")]
        let start = Instant::now();
        let config = Config::default();
        let mut rush = Self {
            limits: config.limits.clone(),
            engine: Engine::new(config, start),
            now: start,
            start,
            requests: 0,
            readers: BTreeMap::new(),
            polls: BTreeMap::new(),
            line: VecDeque::new(),
            turns: Vec::new(),
            answered: None,
        };
        for reader in 0..12 {
            for command in [create(), assign(&["t"]), seek(&[("t", 0)])] {
                rush.ask(reader, command);
            }
        }
        rush
    }

    fn ask(&mut self, reader: usize, command: octopus_core::Command) {
        self.requests += 1;
        if matches!(command, octopus_core::Command::Fetch(_)) {
            self.line.push_back(reader);
        }
        let user = u128::try_from(reader / 2).expect("a small number");
        self.feed(Event::Request {
            request: RequestId(self.requests),
            namespace: Namespace::of(Subject::from_uuid(user)),
            key: key(user, if reader.is_multiple_of(2) { "a" } else { "b" }),
            command,
        });
    }

    fn feed(&mut self, event: Event) {
        self.engine.handle_event(event, self.now);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(action) = self.engine.poll_action() {
            match action {
                Action::Call {
                    call,
                    instance,
                    effect,
                    within,
                } => self.call(call, instance, &effect, within),
                Action::Hurry(call) => self.polls.get_mut(&call).expect("it runs").1 = self.now,
                Action::Reply { request, reply } => {
                    if matches!(reply.expect("no refusal"), Reply::Records(_)) {
                        self.answered.get_or_insert(self.now);
                    }
                    self.engine.handle_event(Event::Delivered(request), self.now);
                }
                Action::Cancel(_) | Action::Abort(_) => panic!("{action:?}"),
            }
        }
    }

    fn call(&mut self, call: CallId, instance: InstanceId, effect: &Effect, within: Duration) {
        let next = self.readers.len();
        let reader = *self.readers.entry(instance).or_insert(next);
        let outcome = match effect {
            Effect::Topics(topics) => Outcome::Topics(topics.iter().cloned().collect()),
            Effect::Fetch(_) => {
                assert_eq!(
                    self.line.pop_front(),
                    Some(reader),
                    "turns are taken in the order asked"
                );
                self.turns.push((self.now, reader));
                assert!(self.polls.len() < self.limits.max_polls && within <= self.limits.turn);
                if reader != READY {
                    self.polls.insert(call, (reader, self.now + within));
                    return;
                }
                fetched(&[("t", 1)])
            }
            Effect::Open(_)
            | Effect::Close
            | Effect::Join(_)
            | Effect::Leave
            | Effect::Commit(_)
            | Effect::Committed(_)
            | Effect::Start(_)
            | Effect::Bounds(..) => Outcome::Done,
        };
        self.engine.handle_event(
            Event::Done {
                call,
                outcome: Ok(outcome),
            },
            self.now,
        );
    }

    /// Lets time pass; polls whose time is over find nothing.
    fn run_until(&mut self, end: Instant) {
        loop {
            let over = self
                .polls
                .iter()
                .map(|(call, (reader, end))| (*end, *call, *reader));
            let over = over.min().filter(|(at, ..)| *at <= end);
            let due = self.engine.poll_timeout().filter(|due| *due <= end);
            match (over, due) {
                (Some((at, call, reader)), due) if due.is_none_or(|due| at <= due) => {
                    self.now = self.now.max(at);
                    self.polls.remove(&call);
                    self.line.push_back(reader);
                    self.feed(Event::Done {
                        call,
                        outcome: Ok(found_nothing()),
                    });
                }
                (_, Some(due)) => {
                    self.now = self.now.max(due);
                    self.engine.handle_timeout(self.now);
                    self.drain();
                }
                (_, None) => break,
            }
        }
        self.now = end;
    }
}

/// How long the ready fetch waits, and how many turns others begin meanwhile, where `quiet` polls begin so far apart
/// and it comes so long after the first.
fn waited(quiet: usize, apart: Duration, after: Duration) -> (Duration, usize) {
    let mut rush = Rush::new();
    let start = rush.start;
    let mut asks: Vec<_> = (0..quiet)
        .map(|reader| (apart * u32::try_from(reader).expect("a small number"), reader))
        .collect();
    asks.push((after, READY));
    asks.sort();
    let mut turns = 0;
    for (at, reader) in asks {
        rush.run_until(start + at);
        if reader == READY {
            turns = rush.turns.len();
        }
        rush.ask(reader, fetch(30_000));
    }
    rush.run_until(start + after + ms(2_000));
    let answered = rush.answered.expect("an answer");
    let between = rush.turns[turns..].iter();
    let between = between.take_while(|(_, reader)| *reader != READY).count();
    (answered - (start + after), between)
}

/// [LI-02] [LI-04] at most three short turns behind eleven quiet polls, whenever they began and whenever it comes; and
/// no more turns come before it than fetches wait ahead of it.
#[test]
fn records_that_are_ready_wait_for_three_short_turns_from_every_start() {
    let short = Limits::default().short_turn;
    for quiet in 0..=11_usize {
        let ahead = quiet.saturating_sub(3);
        for apart in [0, 13, 40, 170, 500] {
            for after in (0..1_200).step_by(17) {
                let (wait, turns) = waited(quiet, ms(apart), ms(after));
                let rounds = u32::try_from(quiet.div_ceil(3)).expect("a small number");
                let case =
                    format!("{quiet} quiet, {apart} ms apart, {after} ms after: {wait:?}, {turns} turns");
                assert!(wait <= short * rounds.min(3), "{case}");
                assert!(turns <= ahead, "{case}");
            }
        }
    }
}

/// [LI-02] who is alone polls half a second at a time, and twelve quiet ones ask Kafka no oftener than their short
/// turns allow.
#[test]
fn quiet_polls_do_not_ask_without_end() {
    for (quiet, most) in [(1_usize, 20), (3, 60), (11, 10_000 / 40 * 3 + 3)] {
        let mut rush = Rush::new();
        for reader in 0..quiet {
            rush.ask(reader, fetch(30_000));
        }
        rush.run_until(rush.start + ms(9_999));
        assert!(rush.turns.len() <= most, "{quiet}: {}", rush.turns.len());
    }
}
