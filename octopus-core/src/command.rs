//! What a caller asks of an instance: one variant for each row of the specification's *Routes*.

use std::{num::NonZeroU64, time::Duration};

use crate::{Offset, Position, TopicName, TopicPartition, limits::DEFAULT_WAIT};

/// A request that was read whole and is well formed [RT-01].
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Create the instance.
    Create(Settings),
    /// Delete it.
    Delete,
    /// Subscribe to topics, in the order given, each once.
    Subscribe(Vec<TopicName>),
    /// Which topics it subscribes to.
    Subscription,
    /// Drop the subscription and the assignment.
    Unsubscribe,
    /// Assign partitions, each once.
    Assign(Vec<TopicPartition>),
    /// Which partitions are assigned.
    Assignments,
    /// Commit the offsets of records that were processed, or without a list every position [CO-01] [CO-02].
    Commit(Option<Vec<Processed>>),
    /// What the group has committed for these partitions; without a list it is refused [CO-04].
    Committed(Option<Vec<TopicPartition>>),
    /// Go to these positions, each partition once.
    Seek(Vec<(TopicPartition, Position)>),
    /// Go to the first record; an empty list means every assigned partition [SK-02].
    SeekToBeginning(Vec<TopicPartition>),
    /// Go past the last record; an empty list means every assigned partition [SK-02].
    SeekToEnd(Vec<TopicPartition>),
    /// Fetch records.
    Fetch(Fetch),
}

/// The settings of a create [CR-04] to [CR-08].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// How records are returned [CR-04].
    pub format: Format,
    /// Where reading starts without a commit [CR-05].
    pub auto_offset_reset: AutoOffsetReset,
    /// Whether positions are committed without being asked [CR-05].
    pub auto_commit: bool,
    /// The bytes that a broker waits for before it answers a fetch, at least 0 [CR-07].
    pub min_bytes: i32,
    /// The wait of a fetch that names none, at most 30 s [CR-08].
    pub request_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            format: Format::Binary,
            auto_offset_reset: AutoOffsetReset::Latest,
            auto_commit: false,
            min_bytes: 1,
            request_timeout: DEFAULT_WAIT,
        }
    }
}

/// How an instance returns keys and values [CR-04].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// As base64 of the exact bytes [FE-02].
    Binary,
    /// As the JSON that they are, or as a string of their text [FE-03] [FE-04].
    Json,
}

/// Where reading starts in a partition that the group never committed [FE-15].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AutoOffsetReset {
    /// At the first record.
    Earliest,
    /// Behind the last record.
    Latest,
    /// Nowhere: the fetch fails until a seek [D-20].
    None,
}

/// An offset of a commit: of the last record that the client processed [CO-01].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Processed {
    /// The record's partition.
    pub partition: TopicPartition,
    /// The record's offset.
    pub offset: Offset,
    /// What the client stores beside it; empty when it gave none.
    pub metadata: Box<str>,
}

/// A fetch [FE-08] [FE-10].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetch {
    /// The format that `Accept` chose; `None` where it chose one that no instance has: avro, jsonschema,
    /// protobuf [AC-03] [D-03].
    pub format: Option<Format>,
    /// The wait, more than zero and at most 30 s; `None` for the instance's own [FE-08].
    pub timeout: Option<Duration>,
    /// The bytes of keys and values that the reply stays below; `None` for no limit [FE-10].
    pub max_bytes: Option<NonZeroU64>,
}
