//! What the bytes of an input stand for: waits, requests, and what calls bring.

use std::{collections::BTreeSet, num::NonZeroU64, time::Duration};

use octopus_core::{
    AutoOffsetReset, Command, Commit, Effect, Error, Fetch, Fetched, Format, InstanceKey, Name, Offset,
    Outcome, Position, Processed, Settings, Subject, TopicName, TopicPartition,
};

/// Around the times that the specification knows, in milliseconds.
const WAITS: [u64; 32] = [
    0, 1, 39, 40, 41, 100, 199, 200, 459, 460, 499, 500, 501, 1_000, 1_999, 2_000, 4_999, 5_000, 5_001,
    7_999, 8_000, 9_000, 9_999, 10_000, 11_000, 12_000, 29_999, 30_000, 30_001, 60_000, 299_999, 330_000,
];

/// What is left of an input.
#[derive(Debug)]
pub(super) struct Bytes<'a> {
    rest: &'a [u8],
    /// Counts the offsets given out, so that each is of one place only.
    offsets: i64,
}

impl<'a> Bytes<'a> {
    pub(super) const fn new(rest: &'a [u8]) -> Self {
        Self { rest, offsets: 0 }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next byte; zeros behind the last.
    pub(super) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else {
            return 0;
        };
        self.rest = rest;
        *first
    }

    /// One of so many.
    pub(super) fn pick(&mut self, of: usize) -> usize {
        usize::from(self.byte()) % of.max(1)
    }

    pub(super) fn is(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    pub(super) fn wait(&mut self) -> Duration {
        Duration::from_millis(WAITS[self.pick(WAITS.len())])
    }

    /// One of three users' twelve instances.
    pub(super) fn key(&mut self) -> InstanceKey {
        let place = self.byte();
        let name = |text: String| Name::parse(&text).expect("a name");
        InstanceKey {
            subject: Subject::from_uuid(u128::from(place % 3)),
            group: name(format!("g{}", place / 3 % 2)),
            name: name(format!("i{}", place / 6 % 2)),
        }
    }

    pub(super) fn settings(&mut self) -> Settings {
        let bits = self.byte();
        let mut settings = Settings::default();
        settings.auto_commit = bits & 1 == 1;
        settings.format = [Format::Binary, Format::Json][usize::from(bits >> 1 & 1)];
        settings.auto_offset_reset = [
            AutoOffsetReset::Earliest,
            AutoOffsetReset::Latest,
            AutoOffsetReset::None,
        ][usize::from(bits >> 2) % 3];
        settings.request_timeout = Duration::from_millis([0, 700, 5_000, 90_000][usize::from(bits >> 4) % 4]);
        settings
    }

    /// Anything but a create.
    pub(super) fn command(&mut self) -> Command {
        match self.byte() % 24 {
            0..8 => {
                let bits = self.byte();
                let format = [Format::Binary, Format::Json][usize::from(bits & 1)];
                Command::Fetch(Fetch {
                    format: (bits & 6 != 6).then_some(format),
                    timeout: (bits & 8 != 0).then(|| self.wait().max(Duration::from_millis(1))),
                    max_bytes: NonZeroU64::new(u64::from(bits >> 4)),
                })
            }
            8 => Command::Delete,
            9..12 => Command::Subscribe(self.topics()),
            12 => Command::Subscription,
            13 => Command::Unsubscribe,
            14 | 15 => Command::Assign(self.partitions()),
            16 => Command::Assignments,
            17 => Command::Commit(None),
            18 => Command::Commit(Some(self.processed())),
            19 => Command::Committed(Some(self.partitions()).filter(|list| !list.is_empty())),
            20 | 21 => {
                let list = self.partitions();
                Command::Seek(list.into_iter().map(|at| (at, self.position())).collect())
            }
            22 => Command::SeekToBeginning(self.partitions()),
            _ => Command::SeekToEnd(self.partitions()),
        }
    }

    /// What a call brings: mostly what it was to bring, or a part of it.
    pub(super) fn outcome(&mut self, effect: &Effect) -> Result<Outcome, Error> {
        match self.byte() % 16 {
            0 => Err([
                Error::KafkaUnreachable,
                Error::KafkaRetriable,
                Error::KafkaUnauthorized,
                Error::CommitFailed,
                Error::KafkaFailed,
                Error::KafkaTopicUnknown,
                Error::Throttled,
                Error::Internal,
            ][self.pick(8)]
            .clone()),
            1 => Ok([
                Outcome::Done,
                Outcome::Joining,
                Outcome::Topics(BTreeSet::new()),
                Outcome::Joined(self.partitions()),
                Outcome::Committed(Vec::new()),
                Outcome::Positions(self.positions(&[])),
            ][self.pick(6)]
            .clone()),
            strange => Ok(self.fitting(effect, strange == 2)),
        }
    }

    /// All that was asked for.
    pub(super) fn well(&mut self, effect: &Effect) -> Outcome {
        self.fitting(effect, false)
    }

    /// What was asked for; or `strange`, with what was not.
    fn fitting(&mut self, effect: &Effect, strange: bool) -> Outcome {
        let others = if strange { self.partitions() } else { Vec::new() };
        match effect {
            Effect::Open(_) | Effect::Close | Effect::Leave | Effect::Commit(_) => Outcome::Done,
            Effect::Topics(topics) => {
                let bits = self.byte();
                let held = topics.iter().enumerate();
                let held = held.filter(|(place, _)| bits >> (place % 8) & 1 == 0);
                Outcome::Topics(held.map(|(_, topic)| topic.clone()).collect())
            }
            Effect::Join(join) => {
                let bits = self.byte();
                if bits == 0xff {
                    return Outcome::Joining;
                }
                let given = join.topics.iter().enumerate();
                let given = given.filter(|(place, _)| bits >> (place % 8) & 1 == 0);
                let given = given.map(|(_, topic)| TopicPartition::only(topic.clone()));
                Outcome::Joined(given.chain(others).collect())
            }
            Effect::Fetch(plan) => {
                let planned: Vec<_> = plan.positions.iter().map(|(at, _)| at.clone()).collect();
                Outcome::Fetched(self.fetched(planned.into_iter().chain(others)))
            }
            Effect::Committed(asked) => {
                let found = self.positions(asked).into_iter();
                let found = found.chain(others.into_iter().map(|at| (at, Position::at(0))));
                let commit = |(partition, position)| Commit {
                    partition,
                    position,
                    metadata: "".into(),
                };
                Outcome::Committed(found.map(commit).collect())
            }
            Effect::Start(asked) | Effect::Bounds(asked, _) => {
                let mut found = self.positions(asked);
                found.extend(self.positions(&others));
                Outcome::Positions(found)
            }
        }
    }

    /// Of each partition what one byte says.
    fn fetched(&mut self, partitions: impl Iterator<Item = TopicPartition>) -> Fetched {
        let mut fetched = Fetched::default();
        for at in partitions {
            let bits = self.byte();
            if bits & 1 != 0 {
                fetched.started.push((at.clone(), self.position()));
            }
            if bits & 2 != 0 {
                fetched.skipped.push((at.clone(), self.position()));
            }
            if bits & 12 == 4 || bits & 12 == 8 {
                fetched.next.push((at.clone(), self.position()));
            }
            if bits & 16 != 0 {
                fetched.cut = Some(at.clone());
            }
            if bits & 96 == 96 {
                fetched.not_utf8 = Some(at.clone());
            }
            if bits & 128 != 0 {
                let error = [Error::RecordUnreadable(at.clone()), Error::NoOffset(at.clone())];
                fetched.failed.push((at, error[self.pick(2)].clone()));
            }
        }
        fetched
    }

    fn topics(&mut self) -> Vec<TopicName> {
        let bits = self.byte();
        let names = ["a", "b", "c", "d"].into_iter().enumerate();
        let named = names.filter(|(place, _)| bits >> place & 1 == 1);
        let mut topics: Vec<_> = named.map(|(_, name)| TopicName::from(name)).collect();
        if bits & 16 != 0 {
            topics.extend(topics.first().cloned());
        }
        topics
    }

    fn partitions(&mut self) -> Vec<TopicPartition> {
        let mut partitions: Vec<_> = self.topics().into_iter().map(TopicPartition::only).collect();
        if let [.., last] = &mut partitions[..]
            && self.byte() > 240
        {
            last.partition = 1;
        }
        partitions
    }

    /// Of these, but for some.
    fn positions(&mut self, of: &[TopicPartition]) -> Vec<(TopicPartition, Position)> {
        let bits = self.byte();
        let some = of.iter().enumerate();
        let some = some.filter(|(place, _)| bits >> (place % 8) & 1 == 0);
        some.map(|(_, at)| (at.clone(), self.position())).collect()
    }

    fn processed(&mut self) -> Vec<Processed> {
        let list = self.partitions().into_iter();
        list.map(|partition| Processed {
            partition,
            offset: Offset(self.position().offset),
            metadata: "m".into(),
        })
        .collect()
    }

    /// One that no other place has.
    fn position(&mut self) -> Position {
        self.offsets += 2;
        Position {
            offset: self.offsets,
            leader_epoch: Some(1),
        }
    }
}
