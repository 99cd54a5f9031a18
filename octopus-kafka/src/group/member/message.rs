//! What goes in and out of a [`Member`](super::Member).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use bytes::Bytes;
use kafka_protocol::error::ResponseError;
use octopus_core::Error;

use crate::{consumer::Signal, group::Stored};

/// Something that the member asks of the world.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Request {
    /// Commit these positions as this member.
    Commit(Vec<Stored>),
    /// JoinGroup.
    Join {
        member_id: String,
        topics: BTreeSet<String>,
    },
    /// How many partitions each of these topics has; those that the cluster does not list are left out.
    Partitions(BTreeSet<String>),
    /// SyncGroup, with what each member gets if this one leads.
    Sync {
        member_id: String,
        generation: i32,
        protocol: String,
        assignments: Vec<(String, Bytes)>,
    },
    /// Heartbeat.
    Heartbeat { member_id: String, generation: i32 },
    /// LeaveGroup.
    Leave { member_id: String },
}

/// An answer to a [`Request`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    /// The commit ended, well or not.
    Commit,
    /// To [`Request::Join`]. A member id comes with MEMBER_ID_REQUIRED too.
    Join(Result<Joined, Trouble>),
    /// MEMBER_ID_REQUIRED: the id to join with.
    MemberId(String),
    /// To [`Request::Partitions`].
    Partitions(Result<BTreeMap<String, i32>, Trouble>),
    /// To [`Request::Sync`]: the assignment's bytes.
    Sync(Result<Bytes, Trouble>),
    /// To [`Request::Heartbeat`].
    Heartbeat(Result<(), Trouble>),
    /// The leave ended, well or not.
    Leave,
}

/// A JoinGroup that succeeded.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Joined {
    pub(crate) member_id: String,
    pub(crate) generation: i32,
    pub(crate) protocol: String,
    pub(crate) leader: String,
    /// The members and their metadata, for the leader.
    pub(crate) members: Vec<(String, Option<String>, Bytes)>,
    /// The leader need not decide.
    pub(crate) skip_assignment: bool,
}

/// Why there is no good answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Trouble {
    /// Kafka said so.
    Code(ResponseError),
    /// There was no answer, or none that could be read.
    Silent,
    /// No broker could be reached.
    Unreachable,
    /// It will not get better.
    Fatal(Error),
}

/// What comes out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Output {
    /// Send this and answer with its number. Whatever was in flight before is dropped.
    Send {
        number: u64,
        request: Request,
        deadline: Instant,
    },
    /// The coordinator is another one: look it up before the next request.
    Forget,
    /// Tell the owner.
    Signal(Signal),
}

/// Who commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    /// No member: partitions were assigned by hand.
    Alone,
    /// This member.
    Member { member_id: String, generation: i32 },
    /// A member that is joining.
    Joining,
    /// A member that was put out.
    Lost,
}
