#![forbid(unsafe_code)]
//! Everything that Octopus decides, and nothing that it does.

mod action;
mod command;
mod error;
mod event;
pub mod limits;
mod names;
mod record;
mod topic;

pub use action::{
    Action, Bound, CallId, Commit, Effect, FetchPlan, InstanceId, Join, Open, Reply, RequestId,
};
pub use command::{AutoOffsetReset, Command, Fetch, Format, Processed, Settings};
pub use error::{Error, ErrorCode};
pub use event::{Event, Fetched, Outcome};
pub use limits::Limits;
pub use names::{InstanceKey, Name, Namespace, Subject};
pub use record::{Fault, Header, Headers, Record, Records, varint};
pub use topic::{Offset, Position, TopicName, TopicPartition};
