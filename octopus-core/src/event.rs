//! What comes in: facts from outside, in the past tense.

use std::collections::BTreeSet;

use crate::{
    CallId, Command, Commit, Error, InstanceId, InstanceKey, Namespace, Position, RequestId, TopicName,
    TopicPartition,
};

/// A fact that the driver tells the engine.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A caller asked for something. Answered by exactly one [`Action::Reply`](crate::Action::Reply), unless the
    /// caller is dropped first.
    Request {
        /// The driver's own number of the request, never used again.
        request: RequestId,
        /// The caller's namespace; a create's instance keeps it.
        namespace: Namespace,
        /// The instance that the request is for.
        key: InstanceKey,
        /// What is asked.
        command: Command,
    },
    /// A call ended, by its answer or its failure.
    Done {
        /// The call. One that was cancelled is ignored.
        call: CallId,
        /// What came of it.
        outcome: Result<Outcome, Error>,
    },
    /// A reply was handed to the network whole [RP-05].
    Delivered(RequestId),
    /// The caller left before its reply was handed over, or the reply could not be made [RP-04].
    Dropped(RequestId),
    /// A heartbeat said that the instance's group rebalances, or the group would give it other partitions [D-23].
    Rebalance(InstanceId),
    /// The group put the instance out: its partitions may be another member's by now, so nothing of the old
    /// assignment may be committed any more.
    Lost(InstanceId),
    /// The service shuts down [AK-03].
    Shutdown,
}

/// What a call brought; which variant belongs to which [`Effect`](crate::Effect) stands at the effect.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// Which of the topics asked about the namespace holds.
    Topics(BTreeSet<TopicName>),
    /// The group assigned these partitions.
    Joined(Vec<TopicPartition>),
    /// The group has not answered yet; the join goes on, and the next [`Effect::Join`](crate::Effect::Join)
    /// picks it up.
    Joining,
    /// A turn of a fetch ended.
    Fetched(Fetched),
    /// What the group holds, without the partitions that it never committed [CO-04].
    Committed(Vec<Commit>),
    /// Where partitions start, begin or end. A topic that the cluster does not list is left out [NS-05].
    Positions(Vec<(TopicPartition, Position)>),
}

/// What a turn of a fetch found, and how far its packed reply reaches.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fetched {
    /// Where partitions without a position start, and where those start again whose position is out of range
    /// or whose topic was made anew [D-22]. Moves at once.
    pub started: Vec<(TopicPartition, Position)>,
    /// Past stretches at a position that hold no record for a client: markers, and what compaction took. Moves
    /// at once.
    pub skipped: Vec<(TopicPartition, Position)>,
    /// The position behind the last record that the packed reply holds, for each partition with one in it.
    /// Moves when the reply is delivered. Empty: there is no reply.
    pub next: Vec<(TopicPartition, Position)>,
    /// The partition that comes first in the reply, if the reply was cut at 2 MiB or at `max_bytes`: it comes last
    /// in the next one [FE-12].
    pub cut: Option<TopicPartition>,
    /// The partition whose first record would have been the reply's first, but is not UTF-8 [FE-06] [D-37].
    pub not_utf8: Option<TopicPartition>,
    /// The partitions that can't be read, and why [D-20] [D-26].
    pub failed: Vec<(TopicPartition, Error)>,
}
