//! What may happen next, decoded from a few random bytes: cheap to make, and what is smaller is simpler.

use std::{fmt, num::NonZeroU64, time::Duration};

use octopus_core::{
    AutoOffsetReset, Command, Error, Format, Limits, Offset, Position, Processed, Settings, TopicName,
    TopicPartition,
};
use proptest::{collection::vec, prelude::*};

/// The topics that callers name. The cluster does not list the fourth before it has a record; the namespace does not
/// hold the last.
pub(crate) const TOPICS: [&str; 5] = ["t0", "t1", "t2", "t3", "none"];

/// A service and what happens to it.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    pub(crate) limits: Limits,
    /// Whether a Kafka endpoint is configured.
    pub(crate) kafka: bool,
    pub(crate) steps: Vec<Step>,
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}", self.limits)?;
        self.steps.iter().try_for_each(|step| writeln!(f, "{step:?}"))
    }
}

/// One step of a schedule. A `pick` chooses among those that are there.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Time passes, deadline by deadline.
    Wait(Duration),
    /// Time passes while the driver sleeps.
    Jump(Duration),
    /// Time passes, and before the driver looks at its deadlines something else happens.
    Lag(Duration),
    /// A user asks something of an instance.
    Ask(Who, Command),
    /// A user fetches.
    Fetch(Who, Accept, Option<Duration>, Option<NonZeroU64>),
    /// An instance is made, and reads what it is told to, subscribed to or assigned. The answer of its create may be slow,
    /// so that its fate comes when the instance is in use.
    Ready(Who, Settings, Command, bool),
    /// Many users make some instances each.
    Crowd {
        users: u64,
        each: u64,
        settings: Settings,
        reads: Command,
    },
    /// A call ends.
    End(usize, How),
    /// A call that was stopped or given up ends after all.
    Late(usize),
    /// A reply is delivered or dropped.
    Fate(usize, bool),
    /// A caller leaves before its answer.
    Leave(usize),
    /// A group rebalances, or puts an instance out.
    Signal(usize, bool),
    /// Records come.
    Produce(usize, i64),
    /// Every call ends well and every reply is delivered.
    Settle,
    /// The service shuts down.
    Shutdown,
}

/// Which instance a request names.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Who {
    /// One that is there.
    There(usize),
    /// One that is there, asked for by another user.
    Other(usize, u64),
    /// One of this user, group and name, there or not.
    Named(u64, u64, u64),
}

/// What a fetch accepts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Accept {
    /// The instance's format.
    Its,
    /// A format, perhaps another.
    Only(Format),
    /// One that no instance has.
    Foreign,
}

/// How a call ends.
#[derive(Debug, Clone)]
pub(crate) enum How {
    /// With all that there is, at most so many records of a partition, or so many of the first one only. Of what is
    /// subscribed, the group assigns what the bits say.
    Well { most: i64, cut: bool, bits: usize },
    /// With nothing: no records, or no answer of the group yet.
    Empty,
    /// Past stretches without records.
    Skip,
    /// At a record that is not UTF-8.
    NotUtf8,
    /// With partitions that can't be read.
    Failed { bits: usize },
    /// With an answer to another question.
    Wrong,
    /// Not at all.
    Fails(Error),
}

/// Some instances that are ready, and what happens to them.
pub(crate) fn schedule() -> impl Strategy<Value = Schedule> {
    (any::<u64>(), vec(any::<u64>(), 1..300)).prop_map(|(shape, steps)| decode(shape, &steps))
}

fn decode(shape: u64, rest: &[u64]) -> Schedule {
    let mut dice = Dice(shape);
    let mut limits = Limits::default();
    let mut steps = Vec::new();
    let size = dice.roll(100);
    let users = match size {
        0..60 => 1 + dice.roll(4),
        60..80 => 1 + dice.roll(8),
        80..97 => {
            limits.max_polls = dice.count(1, 3);
            limits.max_instances = dice.count(1, 8);
            limits.max_instances_per_user = dice.count(1, 4);
            limits.max_fetches_per_user = dice.count(1, 3);
            limits.idle_timeout = Duration::from_secs(10 + dice.roll(40));
            limits.reap_interval = Duration::from_secs(1 + dice.roll(10));
            limits.short_turn = Duration::from_millis(1 + dice.roll(700));
            limits.idle_rejoin = Duration::from_secs(dice.roll(4) * 3);
            1 + dice.roll(4)
        }
        97..99 => {
            let (users, each) = (5 + dice.roll(36), 1 + dice.roll(8));
            limits.max_instances = 200;
            limits.max_instances_per_user = 20;
            limits.max_polls = dice.count(3, 20);
            limits.max_fetches_per_user = dice.count(2, 6);
            let (settings, reads) = (dice.settings(), dice.reads());
            steps.push(Step::Crowd {
                users,
                each,
                settings,
                reads,
            });
            users
        }
        _ => 2,
    };
    // Enough of them, now and then, for twelve instances and more.
    let first = if (60..80).contains(&size) {
        dice.count(6, 16)
    } else {
        dice.count(1, 6)
    };
    for (place, bits) in rest.iter().enumerate() {
        let mut dice = Dice(*bits);
        steps.push(if place < first {
            dice.ready(users)
        } else {
            dice.step(users)
        });
    }
    Schedule {
        limits,
        kafka: size < 99,
        steps,
    }
}

/// Random bits, to be thrown as dice of any number of sides; zero when they are used up.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        let rolled = self.0 % sides;
        self.0 /= sides;
        rolled
    }

    fn count(&mut self, least: usize, most: usize) -> usize {
        least + self.pick(most - least + 1)
    }

    fn pick(&mut self, sides: usize) -> usize {
        usize::try_from(self.roll(sides as u64)).expect("less than a usize")
    }

    fn number(&mut self, sides: u64) -> i64 {
        self.roll(sides).cast_signed()
    }

    fn is(&mut self, of_hundred: u64) -> bool {
        self.roll(100) >= 100 - of_hundred
    }

    fn many<T>(&mut self, least: usize, most: usize, one: impl Fn(&mut Self) -> T) -> Vec<T> {
        (0..self.count(least, most)).map(|_| one(self)).collect()
    }

    fn step(&mut self, users: u64) -> Step {
        match self.roll(1_691) {
            0..240 => Step::Wait(self.wait()),
            240..560 => self.ask(users),
            560..1_060 => Step::End(self.pick(64), self.how()),
            1_060..1_360 => Step::Fate(self.pick(64), !self.is(20)),
            1_360..1_500 => Step::Produce(self.pick(4), 1 + self.number(5)),
            1_500..1_540 => Step::Settle,
            1_540..1_580 => Step::Signal(self.pick(64), self.is(30)),
            1_580..1_610 => Step::Leave(self.pick(64)),
            1_610..1_640 => self.ready(users),
            1_640..1_650 => Step::Late(self.pick(64)),
            1_650..1_659 => Step::Jump(Duration::from_millis(self.roll(40_000))),
            1_659..1_690 => Step::Lag(self.wait()),
            _ => Step::Shutdown,
        }
    }

    fn ready(&mut self, users: u64) -> Step {
        Step::Ready(self.named(users), self.settings(), self.reads(), self.is(10))
    }

    fn reads(&mut self) -> Command {
        if self.is(50) {
            Command::Subscribe(self.many(1, 4, Self::topic))
        } else {
            Command::Assign(self.many(1, 4, Self::partition))
        }
    }

    fn named(&mut self, users: u64) -> Who {
        // The lower ones more often, so that they meet.
        let (user, group, name) = (self.roll(users), self.roll(5) / 4, self.roll(3) + self.roll(3));
        Who::Named(user, group, name)
    }

    fn who(&mut self, users: u64) -> Who {
        match self.roll(40) {
            0..37 => Who::There(self.pick(256)),
            37 => Who::Other(self.pick(256), self.roll(users + 1)),
            _ => self.named(users),
        }
    }

    fn ask(&mut self, users: u64) -> Step {
        let kind = self.roll(52);
        if kind < 30 {
            let who = self.who(users);
            let accept = match self.roll(40) {
                0..37 => Accept::Its,
                37 => Accept::Only(Format::Binary),
                38 => Accept::Only(Format::Json),
                _ => Accept::Foreign,
            };
            let timeout = match self.roll(20) {
                0..8 => None,
                8..12 => Some(1 + self.roll(900)),
                12..19 => Some(1 + self.roll(8_000)),
                _ => Some(30_000),
            };
            let max_bytes = if self.is(20) {
                NonZeroU64::new(self.roll(100))
            } else {
                None
            };
            return Step::Fetch(who, accept, timeout.map(Duration::from_millis), max_bytes);
        }
        if kind < 34 {
            return Step::Ask(self.named(users), Command::Create(self.settings()));
        }
        let who = self.who(users);
        let command = match kind {
            34 => Command::Delete,
            35..38 => Command::Subscribe(self.many(1, 3, Self::topic)),
            38 => Command::Subscription,
            39 => Command::Unsubscribe,
            40..42 => Command::Assign(self.many(0, 3, Self::partition)),
            42 => Command::Assignments,
            43 | 44 => Command::Commit(Some(self.many(0, 3, Self::processed))),
            45 => Command::Commit(None),
            46 if self.is(10) => Command::Committed(None),
            46 => Command::Committed(Some(self.many(0, 3, Self::partition))),
            47 | 48 => {
                Command::Seek(self.many(0, 3, |dice| (dice.partition(), Position::at(dice.number(20)))))
            }
            49 | 50 => Command::SeekToBeginning(self.many(0, 2, Self::partition)),
            _ => Command::SeekToEnd(self.many(0, 2, Self::partition)),
        };
        Step::Ask(who, command)
    }

    fn processed(&mut self) -> Processed {
        Processed {
            partition: self.partition(),
            offset: Offset(self.number(20)),
            metadata: "m".into(),
        }
    }

    fn settings(&mut self) -> Settings {
        let mut settings = Settings::default();
        settings.auto_offset_reset = match self.roll(10) {
            0..5 => AutoOffsetReset::Latest,
            5..9 => AutoOffsetReset::Earliest,
            _ => AutoOffsetReset::None,
        };
        settings.auto_commit = self.is(50);
        settings.request_timeout = Duration::from_millis([0, 700, 5_000, 40_000][self.pick(4)]);
        settings.format = [Format::Binary, Format::Json][self.pick(2)];
        settings.min_bytes = [1, 0, 100][self.pick(3)];
        settings
    }

    fn wait(&mut self) -> Duration {
        let most = match self.roll(442) {
            0..200 => 60,
            200..400 => 1_000,
            400..440 => 12_000,
            _ => 400_000,
        };
        Duration::from_millis(self.roll(most))
    }

    fn topic(&mut self) -> TopicName {
        let topic = self.pick(49);
        TOPICS[if topic == 48 { 4 } else { topic % 4 }].into()
    }

    fn partition(&mut self) -> TopicPartition {
        TopicPartition {
            topic: self.topic(),
            partition: i32::from(self.is(2)),
        }
    }

    fn how(&mut self) -> How {
        match self.roll(54) {
            0..41 => How::Well {
                most: 1 + self.number(3),
                cut: self.is(40),
                bits: self.pick(32),
            },
            41..47 => How::Empty,
            47 | 48 => How::Skip,
            49 => How::NotUtf8,
            50 => How::Failed { bits: self.pick(16) },
            51 if self.is(30) => How::Wrong,
            _ => How::Fails(
                [
                    Error::KafkaUnreachable,
                    Error::KafkaRetriable,
                    Error::KafkaUnauthorized,
                    Error::CommitFailed,
                    Error::KafkaFailed,
                    Error::KafkaTopicUnknown,
                    Error::Throttled,
                    Error::KafkaInvalid,
                ][self.pick(8)]
                .clone(),
            ),
        }
    }
}
