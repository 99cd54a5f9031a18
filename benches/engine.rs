//! What the engine takes for an event, with the twelve instances of the specification and with ten thousand: every
//! input costs O(log n), so that the two stay close.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use octopus_core::{
    Action, CallId, Command, Config, Effect, Engine, Event, Fetch, Fetched, Format, InstanceKey, Name,
    Namespace, Outcome, Position, Reply, RequestId, Settings, Subject, TopicPartition,
};

/// The instances of one user.
const A_USER: usize = 4;

fn engine(criterion: &mut Criterion) {
    let works = [
        ("quiet turns", Work::Quiet),
        ("replies with records", Work::Records),
    ];
    for (name, work) in works {
        let mut group = criterion.benchmark_group(format!("engine/{name}"));
        group.throughput(Throughput::Elements(1));
        for instances in [12, 10_000] {
            let mut load = Load::new(instances, work);
            group.bench_function(BenchmarkId::from_parameter(instances), |bencher| {
                bencher.iter_custom(|events| load.run(events));
            });
        }
        group.finish();
    }
}

/// What the polls of a load find.
#[derive(Debug, Clone, Copy)]
enum Work {
    Quiet,
    Records,
}

/// An engine whose instances all fetch without a pause, three at a time; the others stand in the line.
struct Load {
    engine: Engine,
    work: Work,
    now: Instant,
    requests: u64,
    /// Whose each request in hand is, by its number.
    owners: Vec<usize>,
    polls: VecDeque<CallId>,
    pending: VecDeque<Event>,
    events: u64,
}

impl Load {
    #[expect(clippy::disallowed_methods, reason = "any instant will do to count from")]
    fn new(instances: usize, work: Work) -> Self {
        let mut config = Config::default();
        config.limits.max_instances = instances;
        config.limits.max_instances_per_user = A_USER;
        config.limits.max_fetches_per_user = A_USER;
        // The line of ten thousand is longer than the longest wait: half of them would only be refused.
        config.limits.short_turn = Duration::from_micros(100);
        let now = Instant::now();
        let mut load = Self {
            engine: Engine::new(config, now),
            work,
            now,
            requests: 0,
            owners: Vec::new(),
            polls: VecDeque::new(),
            pending: VecDeque::new(),
            events: 0,
        };
        let topic = || vec![TopicPartition::only("events".into())];
        for owner in 0..instances {
            load.ask(owner, Command::Create(Settings::default()));
            load.settle();
            load.ask(owner, Command::Assign(topic()));
            load.settle();
        }
        for owner in 0..instances {
            load.ask(owner, fetch());
            load.settle();
        }
        load
    }

    /// Feeds so many events, and gives the time that they took.
    #[expect(clippy::disallowed_methods, reason = "the bench's own measure")]
    fn run(&mut self, events: u64) -> Duration {
        let end = self.events + events;
        let start = Instant::now();
        while self.events < end {
            let call = self.polls.pop_front().expect("three fetches poll");
            self.now += Duration::from_micros(34);
            if self.engine.poll_timeout().is_some_and(|due| due <= self.now) {
                self.engine.handle_timeout(self.now);
                self.drain();
            }
            let fetched = match self.work {
                Work::Quiet => Fetched::default(),
                Work::Records => Fetched {
                    next: vec![(TopicPartition::only("events".into()), Position::at(7))],
                    ..Fetched::default()
                },
            };
            self.pending.push_back(Event::Done {
                call,
                outcome: Ok(Outcome::Fetched(fetched)),
            });
            self.settle();
        }
        start.elapsed()
    }

    fn ask(&mut self, owner: usize, command: Command) {
        let subject = Subject::from_uuid((owner / A_USER) as u128);
        let request = RequestId(self.requests);
        self.requests += 1;
        self.owners.push(owner);
        self.pending.push_back(Event::Request {
            request,
            namespace: Namespace::of(subject),
            key: InstanceKey {
                subject,
                group: Name::parse("group").expect("a name"),
                name: Name::parse(&format!("instance-{owner}")).expect("a name"),
            },
            command,
        });
    }

    /// Feeds what is pending, and what follows from it.
    fn settle(&mut self) {
        while let Some(event) = self.pending.pop_front() {
            self.events += 1;
            self.engine.handle_event(event, self.now);
            self.drain();
        }
    }

    fn drain(&mut self) {
        while let Some(action) = self.engine.poll_action() {
            match action {
                Action::Call { call, effect, .. } => {
                    let outcome = match effect {
                        Effect::Fetch(_) => {
                            self.polls.push_back(call);
                            continue;
                        }
                        Effect::Topics(topics) => Outcome::Topics(topics.into_iter().collect()),
                        Effect::Open(_)
                        | Effect::Close
                        | Effect::Join(_)
                        | Effect::Leave
                        | Effect::Commit(_)
                        | Effect::Committed(_)
                        | Effect::Start(_)
                        | Effect::Bounds(..) => Outcome::Done,
                    };
                    self.pending.push_back(Event::Done {
                        call,
                        outcome: Ok(outcome),
                    });
                }
                Action::Reply { request, reply } => {
                    self.pending.push_back(Event::Delivered(request));
                    if let Ok(Reply::Records(_) | Reply::Empty) = reply {
                        let owner = usize::try_from(request.0).map(|number| self.owners[number]);
                        self.ask(owner.expect("a number of ours"), fetch());
                    }
                    reply.expect("nothing is refused");
                }
                // The poll goes on, and its end comes with the next event.
                Action::Hurry(_) => {}
                Action::Cancel(_) | Action::Abort(_) => unreachable!("{action:?}"),
            }
        }
    }
}

fn fetch() -> Command {
    Command::Fetch(Fetch {
        format: Some(Format::Binary),
        timeout: Some(Duration::from_secs(30)),
        max_bytes: None,
    })
}

criterion_group!(benches, engine);
criterion_main!(benches);
