//! One request, from its arrival to the end of its reply.

use std::time::Instant;

use crate::{CallId, Command, InstanceId, Subject, TopicPartition, fetch::Fetching};

/// A request in hand.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) subject: Subject,
    /// The instance that it found or makes.
    pub(crate) instance: Option<InstanceId>,
    pub(crate) stage: Stage,
    /// Its caller left: what it began goes on to its end, but nothing is answered.
    pub(crate) is_gone: bool,
}

/// Where a request is.
#[derive(Debug)]
pub(crate) enum Stage {
    /// It makes its instance.
    Opening(CallId),
    /// It asks which topics the namespace holds.
    Topics(CallId, Command),
    /// It stands in the line for its instance.
    Waiting(Command),
    /// It holds its instance and waits for a fetch's commit.
    Held(Command),
    /// It holds its instance, and a call runs.
    Working(Step),
    /// It holds its instance and fetches.
    Fetching(Fetching),
    /// It was answered, and the reply is on its way.
    Answered(Answered),
}

impl Request {
    /// Whether it is a fetch whose records are on their way to the client.
    pub(crate) const fn is_sending(&self) -> bool {
        matches!(&self.stage, Stage::Fetching(fetching) if fetching.is_sending())
    }
}

/// What the running call of a request is for, and what comes after it.
#[derive(Debug)]
pub(crate) enum Step {
    /// The instance closes.
    Delete,
    /// The old assignment's commit; then these partitions are assigned.
    Assign(Vec<TopicPartition>),
    /// The commit before an unsubscribe, whose leave shares this time.
    Unsubscribe(Instant),
    /// The leave of the group.
    Leave,
    /// Where reading starts, so that every position is known; then the commit.
    Start,
    /// The client's commit.
    Commit,
    /// What the group committed for these.
    Committed(Vec<TopicPartition>),
    /// Where these begin or end.
    Seek(Vec<TopicPartition>),
}

/// What hangs on a reply's fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answered {
    /// The instance that was made: it is undone if the reply is not delivered [D-29].
    Created,
    /// Nothing but the idle time [D-30].
    Other,
}
