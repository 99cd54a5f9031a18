#![forbid(unsafe_code)]
//! Everything that Octopus decides, and nothing that it does.
//!
//! Octopus lets programs read Kafka over HTTP. This crate is its head: who may have an instance, who waits for
//! whom, which fetch polls next, what is committed when, and what each request is answered. It reads no clock,
//! opens no socket and spawns no task, so that every schedule of requests, answers and failures can be played in
//! a test, and plays the same each time.
//!
//! # The loop that drives it
//!
//! [`Engine`] is the one state machine. Its driver
//!
//! 1. feeds one input, [`Engine::handle_event`] or [`Engine::handle_timeout`],
//! 2. does every [`Action`] that [`Engine::poll_action`] returns, until it returns `None`,
//! 3. waits until [`Engine::poll_timeout`], or for the next [`Event`].
//!
//! An [`Action::Call`] is work for the world outside: its end comes back as [`Event::Done`]. An
//! [`Action::Reply`] answers a request: its fate comes back as [`Event::Delivered`] or [`Event::Dropped`].
//!
//! ```
//! use std::time::Instant;
//!
//! use octopus_core::{
//!     Action, Command, Config, Effect, Engine, Event, InstanceKey, Name, Namespace, Outcome, Reply, RequestId,
//!     Settings, Subject,
//! };
//!
//! # #[allow(clippy::disallowed_methods)]
//! let now = Instant::now();
//! let mut engine = Engine::new(Config::default(), now);
//!
//! // A caller asks for an instance.
//! let subject = Subject::from_uuid(7);
//! let request = RequestId(1);
//! let create = Event::Request {
//!     request,
//!     namespace: Namespace::of(subject),
//!     key: InstanceKey {
//!         subject,
//!         group: Name::parse("my-group").unwrap(),
//!         name: Name::parse("my-instance").unwrap(),
//!     },
//!     command: Command::Create(Settings::default()),
//! };
//! engine.handle_event(create, now);
//!
//! // The engine wants its consumer made, and says how long that may take.
//! let Some(Action::Call { call, effect: Effect::Open(_), .. }) = engine.poll_action() else {
//!     unreachable!()
//! };
//! assert_eq!(engine.poll_action(), None);
//!
//! // Once it is made, the caller is answered.
//! engine.handle_event(Event::Done { call, outcome: Ok(Outcome::Done) }, now);
//! let reply = Ok(Reply::Created);
//! assert_eq!(engine.poll_action(), Some(Action::Reply { request, reply }));
//! engine.handle_event(Event::Delivered(request), now);
//! assert_eq!(engine.poll_action(), None);
//! ```
//!
//! # What always holds
//!
//! - A position moves only when a reply was delivered, so there is nothing to seek back: a reply that was cut,
//!   dropped or cancelled never moved anything [AK-04].
//! - Record bytes never enter the engine. It plans a poll ([`FetchPlan`]) and hears how far the packed reply
//!   reaches ([`Fetched`]).
//! - Every request is answered once, unless its caller leaves first; every call ends, is cancelled, or is given
//!   up when it is overdue.
//! - Time is the last parameter of every input. The engine keeps deadlines, never waits, and is deterministic.
//! - Every number of the specification has one home, [`limits`].
//!
//! Ids in brackets, such as [FE-03] and [D-21], are the clauses of the specification and the decisions beside it
//! that a line meets.

mod action;
mod command;
mod engine;
mod error;
mod event;
mod fetch;
mod instance;
pub mod limits;
mod line;
mod names;
mod record;
mod request;
mod scheduler;
mod shutdown;
mod tally;
mod timer;
mod topic;

pub use action::{
    Action, Bound, CallId, Commit, Effect, FetchPlan, InstanceId, Join, Open, Reply, RequestId,
};
pub use command::{AutoOffsetReset, Command, Fetch, Format, Processed, Settings};
pub use engine::{Config, Engine};
pub use error::{Error, ErrorCode, Short};
pub use event::{Event, Fetched, Outcome};
pub use limits::Limits;
pub use names::{InstanceKey, Name, Namespace, Subject};
pub use record::{Fault, Header, Headers, Record, Records, nullable, varint};
pub use topic::{Offset, Position, TopicName, TopicPartition};
