//! An engine, a clock that a test moves, and short words for what goes in and comes out.

use std::time::{Duration, Instant};

use octopus_core::{
    Action, Bound, CallId, Command, Commit, Config, Effect, Engine, Error, Event, Fetch, Fetched, Format,
    InstanceId, InstanceKey, Limits, Name, Namespace, Offset, Outcome, Position, Processed, Reply, RequestId,
    Settings, Subject, TopicName, TopicPartition,
};

/// The world of one engine. Time is counted from its start; calls are counted from the end of its set-up.
pub(crate) struct World {
    engine: Engine,
    start: Instant,
    now: Instant,
    seen: Vec<String>,
    calls: u64,
    first_call: u64,
    instances: u64,
    set_ups: u64,
}

/// Without anything in it.
pub(crate) fn world() -> World {
    World::new(Config::default())
}

/// With one instance of these settings.
pub(crate) fn created(settings: Settings) -> World {
    let mut world = world();
    world.set_up_create(1, "a", settings);
    world
}

/// With one instance that is assigned partitions, to be read from these positions.
pub(crate) fn assigned(settings: Settings, positions: &[(&str, i64)]) -> World {
    let mut world = created(settings);
    world.set_up_assign(1, "a", positions);
    world
}

/// With one instance that subscribes to topics, all of which its group assigned, to be read from these positions.
pub(crate) fn joined(settings: Settings, positions: &[(&str, i64)]) -> World {
    let mut world = created(settings);
    let topics: Vec<_> = positions.iter().map(|(topic, _)| *topic).collect();
    world.set_up(1, "a", subscribe(&topics));
    world.set_up(1, "a", fetch(500));
    world.seek_all(1, "a", positions);
    world
}

impl World {
    pub(crate) fn new(config: Config) -> Self {
        #[expect(clippy::disallowed_methods, reason = "any instant will do to count from")]
        let start = Instant::now();
        Self {
            engine: Engine::new(config, start),
            start,
            now: start,
            seen: Vec::new(),
            calls: 0,
            first_call: 0,
            instances: 0,
            set_ups: 1_000_000,
        }
    }

    pub(crate) fn limited(change: impl FnOnce(&mut Limits)) -> Self {
        let mut config = Config::default();
        change(&mut config.limits);
        Self::new(config)
    }

    /// Lets time pass, deadline by deadline, up to so long after the start.
    pub(crate) fn at(&mut self, after: Duration) -> &mut Self {
        let target = self.start + after;
        assert!(target >= self.now, "time goes on");
        while let Some(due) = self.engine.poll_timeout().filter(|due| *due <= target) {
            self.now = self.now.max(due);
            self.engine.handle_timeout(self.now);
            self.drain();
        }
        self.now = target;
        self
    }

    /// Lets time pass while the driver sleeps.
    pub(crate) fn oversleep(&mut self, after: Duration) -> &mut Self {
        self.now = self.start + after;
        self.engine.handle_timeout(self.now);
        self.drain();
        self
    }

    /// Time has passed, and the driver has a fact to tell before it says so.
    pub(crate) fn unnoticed(&mut self, after: Duration) -> &mut Self {
        self.now = self.start + after;
        self
    }

    /// User 1 asks something of its instance `a`.
    pub(crate) fn request(&mut self, id: u64, command: Command) -> &mut Self {
        self.request_of(1, "a", id, command)
    }

    /// A user asks something of one of its instances.
    pub(crate) fn request_of(&mut self, user: u128, name: &str, id: u64, command: Command) -> &mut Self {
        self.event(Event::Request {
            request: RequestId(id),
            namespace: Namespace::of(Subject::from_uuid(user)),
            key: key(user, name),
            command,
        })
    }

    /// A call succeeds.
    pub(crate) fn done(&mut self, call: u64, outcome: Outcome) -> &mut Self {
        self.ended(call, Ok(outcome))
    }

    /// A call fails.
    pub(crate) fn fails(&mut self, call: u64, error: Error) -> &mut Self {
        self.ended(call, Err(error))
    }

    fn ended(&mut self, call: u64, outcome: Result<Outcome, Error>) -> &mut Self {
        let call = CallId(self.first_call + call);
        self.event(Event::Done { call, outcome })
    }

    pub(crate) fn delivered(&mut self, id: u64) -> &mut Self {
        self.event(Event::Delivered(RequestId(id)))
    }

    pub(crate) fn dropped(&mut self, id: u64) -> &mut Self {
        self.event(Event::Dropped(RequestId(id)))
    }

    pub(crate) fn event(&mut self, event: Event) -> &mut Self {
        self.engine.handle_event(event, self.now);
        self.drain();
        self
    }

    /// What came out since the last look.
    #[track_caller]
    pub(crate) fn gives<const N: usize>(&mut self, expected: [&str; N]) -> &mut Self {
        let seen = std::mem::take(&mut self.seen);
        assert_eq!(seen, expected, "at {:?}", self.now - self.start);
        self
    }

    /// How long after the start the next deadline is.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.engine.poll_timeout().map(|due| due - self.start)
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.engine.is_drained()
    }

    /// The last instance that was made.
    pub(crate) fn instance(&self) -> InstanceId {
        InstanceId(self.instances - 1)
    }

    /// Makes an instance, without a trace.
    pub(crate) fn set_up_create(&mut self, user: u128, name: &str, settings: Settings) {
        self.set_up(user, name, Command::Create(settings));
    }

    /// Assigns partitions to be read from positions, without a trace.
    pub(crate) fn set_up_assign(&mut self, user: u128, name: &str, positions: &[(&str, i64)]) {
        let topics: Vec<_> = positions.iter().map(|(topic, _)| *topic).collect();
        self.set_up(user, name, assign(&topics));
        self.seek_all(user, name, positions);
    }

    fn seek_all(&mut self, user: u128, name: &str, positions: &[(&str, i64)]) {
        self.set_up(user, name, seek(positions));
    }

    /// A request that Kafka gives all that it wants, delivered, without a trace. A fetch finds one record of the
    /// partition that comes first.
    pub(crate) fn set_up(&mut self, user: u128, name: &str, command: Command) {
        self.gives([]);
        self.set_ups += 1;
        let id = self.set_ups;
        let mut answered = 0;
        self.request_of(user, name, id, command);
        while answered < self.calls - self.first_call {
            let effect = self.seen.last().cloned().unwrap_or_default();
            self.done(answered, outcome(&effect));
            answered += 1;
        }
        self.delivered(id);
        self.seen.clear();
        self.first_call = self.calls;
    }

    fn drain(&mut self) {
        while let Some(action) = self.engine.poll_action() {
            if let Action::Call { call, instance, .. } = &action {
                self.calls = call.0 + 1;
                self.instances = self.instances.max(instance.0 + 1);
            }
            self.seen.push(self.show(&action));
        }
        let due = self.engine.poll_timeout();
        assert!(due.is_none_or(|due| due >= self.now), "a deadline in the past");
    }

    fn show(&self, action: &Action) -> String {
        let number = |call: &CallId| call.0 - self.first_call;
        match action {
            Action::Call {
                call, effect, within, ..
            } => {
                format!(
                    "{}: {} in {}",
                    number(call),
                    show_effect(effect),
                    within.as_millis()
                )
            }
            Action::Hurry(call) => format!("hurry {}", number(call)),
            Action::Cancel(call) => format!("cancel {}", number(call)),
            Action::Reply { request, reply } => {
                let reply = match reply {
                    Ok(Reply::Created) => "created".to_owned(),
                    Ok(Reply::NoContent) => "204".to_owned(),
                    Ok(Reply::Topics(topics)) => {
                        format!("topics {}", show_all(topics, |topic| topic.to_string()))
                    }
                    Ok(Reply::Partitions(partitions)) => {
                        format!("partitions {}", show_all(partitions, show_partition))
                    }
                    Ok(Reply::Offsets(commits)) => format!("offsets {}", show_all(commits, show_commit)),
                    Ok(Reply::Empty) => "[]".to_owned(),
                    Ok(Reply::Records(call)) => format!("records {}", number(call)),
                    Err(error) => error.code().error_code().to_string(),
                };
                format!("{} <- {reply}", request.0)
            }
            Action::Abort(request) => format!("abort {}", request.0),
        }
    }
}

/// The outcome that a set-up gives a call, known by how it is shown.
fn outcome(shown: &str) -> Outcome {
    let mut words = shown.split(' ').skip(1);
    let effect = words.next().unwrap_or_default();
    let rest: Vec<_> = words.take_while(|word| *word != "in").collect();
    match effect {
        "topics" => topics(&rest),
        "join" => joins(&rest),
        "fetch" => fetched(&[(rest[0].split_once('@').expect("a position").0, 1)]),
        _ => Outcome::Done,
    }
}

fn show_effect(effect: &Effect) -> String {
    match effect {
        Effect::Open(_) => "open".to_owned(),
        Effect::Close => "close".to_owned(),
        Effect::Topics(topics) => format!("topics {}", show_all(topics, |topic| topic.to_string())),
        Effect::Join(join) => {
            let topics = show_all(&join.topics, |topic| topic.to_string());
            if join.commit.is_empty() {
                format!("join {topics}")
            } else {
                format!("join {topics} behind {}", show_all(&join.commit, show_commit))
            }
        }
        Effect::Leave => "leave".to_owned(),
        Effect::Fetch(plan) => {
            let limit = plan
                .max_bytes
                .map(|most| format!(" below {most}"))
                .unwrap_or_default();
            format!("fetch {}{limit}", show_all(&plan.positions, show_position))
        }
        Effect::Commit(commits) => format!("commit {}", show_all(commits, show_commit)),
        Effect::Committed(partitions) => format!("committed {}", show_all(partitions, show_partition)),
        Effect::Start(partitions) => format!("start {}", show_all(partitions, show_partition)),
        Effect::Bounds(partitions, Bound::Beginning) => {
            format!("beginning {}", show_all(partitions, show_partition))
        }
        Effect::Bounds(partitions, Bound::End) => format!("end {}", show_all(partitions, show_partition)),
    }
}

fn show_all<T>(items: &[T], show: impl Fn(&T) -> String) -> String {
    items.iter().map(show).collect::<Vec<_>>().join(" ")
}

fn show_partition(partition: &TopicPartition) -> String {
    assert_eq!(partition.partition, 0);
    partition.topic.to_string()
}

fn show_position((partition, position): &(TopicPartition, Option<Position>)) -> String {
    let offset = position.map_or_else(|| "?".to_owned(), |position| position.offset.to_string());
    format!("{}@{offset}", show_partition(partition))
}

fn show_commit(commit: &Commit) -> String {
    let metadata = if commit.metadata.is_empty() {
        String::new()
    } else {
        format!("/{}", commit.metadata)
    };
    format!(
        "{}@{}{metadata}",
        show_partition(&commit.partition),
        commit.position.offset
    )
}

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn settings() -> Settings {
    Settings::default()
}

pub(crate) fn auto_commit() -> Settings {
    let mut settings = Settings::default();
    settings.auto_commit = true;
    settings
}

pub(crate) fn json() -> Settings {
    let mut settings = Settings::default();
    settings.format = Format::Json;
    settings
}

pub(crate) fn key(user: u128, name: &str) -> InstanceKey {
    InstanceKey {
        subject: Subject::from_uuid(user),
        group: Name::parse("g").expect("a name"),
        name: Name::parse(name).expect("a name"),
    }
}

pub(crate) fn only(topic: &str) -> TopicPartition {
    TopicPartition::only(topic.into())
}

pub(crate) fn second(topic: &str) -> TopicPartition {
    TopicPartition {
        topic: topic.into(),
        partition: 1,
    }
}

fn named(topics: &[&str]) -> Vec<TopicName> {
    topics.iter().map(|topic| TopicName::from(*topic)).collect()
}

pub(crate) fn partitions(topics: &[&str]) -> Vec<TopicPartition> {
    topics.iter().map(|topic| only(topic)).collect()
}

pub(crate) fn positions(at: &[(&str, i64)]) -> Vec<(TopicPartition, Position)> {
    at.iter()
        .map(|(topic, offset)| (only(topic), Position::at(*offset)))
        .collect()
}

pub(crate) fn create() -> Command {
    Command::Create(settings())
}

pub(crate) fn subscribe(topics: &[&str]) -> Command {
    Command::Subscribe(named(topics))
}

pub(crate) fn assign(topics: &[&str]) -> Command {
    Command::Assign(partitions(topics))
}

pub(crate) fn seek(at: &[(&str, i64)]) -> Command {
    Command::Seek(positions(at))
}

/// Commits the offsets of processed records, each with the metadata `m`.
pub(crate) fn commit(at: &[(&str, i64)]) -> Command {
    let processed = at.iter().map(|(topic, offset)| Processed {
        partition: only(topic),
        offset: Offset(*offset),
        metadata: "m".into(),
    });
    Command::Commit(Some(processed.collect()))
}

pub(crate) fn committed(topics: &[&str]) -> Command {
    Command::Committed(Some(partitions(topics)))
}

/// A fetch of a binary instance that waits so many milliseconds.
pub(crate) fn fetch(timeout: u64) -> Command {
    fetch_as(Some(Format::Binary), Some(ms(timeout)))
}

pub(crate) fn fetch_as(format: Option<Format>, timeout: Option<Duration>) -> Command {
    Command::Fetch(Fetch {
        format,
        timeout,
        max_bytes: None,
    })
}

pub(crate) fn topics(held: &[&str]) -> Outcome {
    Outcome::Topics(named(held).into_iter().collect())
}

pub(crate) fn joins(topics: &[&str]) -> Outcome {
    Outcome::Joined(partitions(topics))
}

pub(crate) fn found_nothing() -> Outcome {
    Outcome::Fetched(Fetched::default())
}

/// A reply that reaches up to these positions.
pub(crate) fn fetched(next: &[(&str, i64)]) -> Outcome {
    Outcome::Fetched(Fetched {
        next: positions(next),
        ..Fetched::default()
    })
}
