//! What goes in and out of a member, of either protocol.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use bytes::Bytes;
use kafka_protocol::error::ResponseError;
use octopus_core::Error;
use uuid::Uuid;

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
    /// ConsumerGroupHeartbeat: joins, stays and leaves in the protocol where the coordinator assigns.
    Beat(Beat),
    /// The ids of these topics; those that the cluster does not list are left out.
    Ids {
        topics: BTreeSet<String>,
        /// What is known of them was not enough: the cluster is asked.
        anew: bool,
    },
}

/// A ConsumerGroupHeartbeat; `None` where it leaves out what the coordinator knows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Beat {
    pub(crate) member_id: String,
    /// 0 to join, -1 to leave.
    pub(crate) epoch: i32,
    /// The topics that it wants, by their names on Kafka.
    pub(crate) topics: Option<BTreeSet<String>>,
    /// The partitions that it has.
    pub(crate) owned: Option<Owned>,
}

/// Partitions by the ids of their topics.
pub(crate) type Owned = BTreeMap<Uuid, BTreeSet<i32>>;

impl Request {
    /// Whether it is a part of a join, which ends with the answer to [`Request::Sync`].
    pub(crate) const fn is_of_a_join(&self) -> bool {
        match self {
            Self::Join { .. } | Self::Partitions(_) | Self::Sync { .. } => true,
            Self::Beat(_)
            | Self::Commit(_)
            | Self::Heartbeat { .. }
            | Self::Ids { .. }
            | Self::Leave { .. } => false,
        }
    }
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
    /// To [`Request::Beat`].
    Beat(Result<Beaten, Trouble>),
    /// To [`Request::Ids`].
    Ids(Result<BTreeMap<String, Uuid>, Trouble>),
}

/// A ConsumerGroupHeartbeat that was taken.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Beaten {
    /// The member's epoch from now on.
    pub(crate) epoch: i32,
    /// The time until the next one.
    pub(crate) interval: Duration,
    /// The partitions that it may have, where they changed.
    pub(crate) assigned: Option<Owned>,
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
    /// Send this too, beside what is in flight, in place of what was sent so before.
    Beside {
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
