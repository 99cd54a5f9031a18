//! What may happen next.

use std::time::Duration;

use octopus_core::{
    AutoOffsetReset, Command, Error, Fetch, Format, Offset, Position, Processed, Settings, TopicName,
    TopicPartition,
};
use proptest::{collection::vec, option, prelude::*, sample::select};

/// The topics that callers name. The namespace does not hold the last one.
pub(crate) const TOPICS: [&str; 5] = ["t0", "t1", "t2", "t3", "none"];

/// The last of the names that callers give instances.
pub(crate) const LAST_NAME: u8 = 4;

/// One step of a schedule. A `pick` chooses among those that are there.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Time passes, deadline by deadline.
    Wait(Duration),
    /// Time passes while the driver sleeps.
    Jump(Duration),
    /// A user asks something of one of its instances.
    Ask(u8, u8, Command),
    /// An instance is made, and reads what it is told to, subscribed to or assigned.
    Ready(u8, u8, Settings, Command),
    /// A call ends.
    End(usize, How),
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
    /// Not at all.
    Fails(Error),
}

/// Some instances that are ready, and what happens to them.
pub(crate) fn schedule() -> impl Strategy<Value = Vec<Step>> {
    let produce = || (0..4_usize, 1..9_i64).prop_map(|(topic, count)| Step::Produce(topic, count));
    (vec(ready(), 1..6), vec(produce(), 0..6), vec(step(), 1..300)).prop_map(|(ready, produce, steps)| {
        let before = ready.into_iter().chain(produce);
        before.chain(steps).collect()
    })
}

fn step() -> impl Strategy<Value = Step> {
    let pick = || 0..64_usize;
    prop_oneof![
        240 => wait().prop_map(Step::Wait),
        3 => (0..40_000_u64).prop_map(|ms| Step::Jump(Duration::from_millis(ms))),
        360 => (user(), name(), command()).prop_map(|(user, name, command)| Step::Ask(user, name, command)),
        20 => ready(),
        420 => (pick(), how()).prop_map(|(pick, how)| Step::End(pick, how)),
        240 => (pick(), prop::bool::weighted(0.8)).prop_map(|(pick, delivered)| Step::Fate(pick, delivered)),
        30 => pick().prop_map(Step::Leave),
        40 => (pick(), prop::bool::weighted(0.3)).prop_map(|(pick, lost)| Step::Signal(pick, lost)),
        120 => (0..4_usize, 1..6_i64).prop_map(|(topic, count)| Step::Produce(topic, count)),
        40 => Just(Step::Settle),
        1 => Just(Step::Shutdown),
    ]
}

fn ready() -> impl Strategy<Value = Step> {
    let reads = prop_oneof![
        vec(topic(), 1..5).prop_map(Command::Subscribe),
        vec(partition(), 1..5).prop_map(Command::Assign),
    ];
    (user(), name(), settings(), reads)
        .prop_map(|(user, name, settings, reads)| Step::Ready(user, name, settings, reads))
}

fn wait() -> impl Strategy<Value = Duration> {
    prop_oneof![
        200 => 0..60_u64,
        200 => 0..1_000_u64,
        40 => 0..12_000_u64,
        2 => 0..400_000_u64,
    ]
    .prop_map(Duration::from_millis)
}

fn user() -> impl Strategy<Value = u8> {
    prop_oneof![6 => Just(0), 3 => Just(1), 1 => Just(2), 1 => Just(3)]
}

fn name() -> impl Strategy<Value = u8> {
    prop_oneof![6 => Just(0), 3 => Just(1), 2 => 2..=LAST_NAME]
}

fn how() -> impl Strategy<Value = How> {
    prop_oneof![
        40 => (1..4_i64, any::<bool>(), 0..16_usize).prop_map(|(most, cut, bits)| How::Well { most, cut, bits }),
        6 => Just(How::Empty),
        2 => Just(How::Skip),
        1 => Just(How::NotUtf8),
        1 => (0..16_usize).prop_map(|bits| How::Failed { bits }),
        2 => select(vec![
            Error::KafkaUnreachable,
            Error::KafkaRetriable,
            Error::KafkaUnauthorized,
            Error::CommitFailed,
        ])
        .prop_map(How::Fails),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        4 => settings().prop_map(Command::Create),
        1 => Just(Command::Delete),
        3 => vec(topic(), 1..4).prop_map(Command::Subscribe),
        1 => Just(Command::Subscription),
        1 => Just(Command::Unsubscribe),
        2 => vec(partition(), 0..4).prop_map(Command::Assign),
        1 => Just(Command::Assignments),
        2 => option::of(vec((partition(), 0..20_i64), 0..3)).prop_map(|list| Command::Commit(list.map(processed))),
        1 => option::of(vec(partition(), 0..3)).prop_map(Command::Committed),
        2 => vec((partition(), 0..20_i64), 0..3).prop_map(|list| {
            Command::Seek(list.into_iter().map(|(at, offset)| (at, Position::at(offset))).collect())
        }),
        1 => vec(partition(), 0..2).prop_map(Command::SeekToBeginning),
        1 => vec(partition(), 0..2).prop_map(Command::SeekToEnd),
        30 => option::of(1..8_000_u64).prop_map(|timeout| Command::Fetch(Fetch {
            format: Some(Format::Binary),
            timeout: timeout.map(Duration::from_millis),
            max_bytes: None,
        })),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    (any::<bool>(), any::<bool>(), select(vec![0, 700, 5_000_u64])).prop_map(
        |(auto_commit, earliest, wait)| {
            let mut settings = Settings::default();
            settings.auto_commit = auto_commit;
            settings.request_timeout = Duration::from_millis(wait);
            if earliest {
                settings.auto_offset_reset = AutoOffsetReset::Earliest;
            }
            settings
        },
    )
}

fn topic() -> impl Strategy<Value = TopicName> {
    prop_oneof![12 => 0..4_usize, 1 => Just(4)].prop_map(|topic| TOPICS[topic].into())
}

fn partition() -> impl Strategy<Value = TopicPartition> {
    (topic(), prop::bool::weighted(0.02)).prop_map(|(topic, other)| TopicPartition {
        topic,
        partition: i32::from(other),
    })
}

fn processed(list: Vec<(TopicPartition, i64)>) -> Vec<Processed> {
    let processed = list.into_iter().map(|(partition, offset)| Processed {
        partition,
        offset: Offset(offset),
        metadata: "m".into(),
    });
    processed.collect()
}
