//! The binary in the hands of its users: the walk of the specification, over sockets, against the embedded broker or
//! a real Kafka (`OCTOPUS_TEST_KAFKA`).
#![allow(clippy::unwrap_used, reason = "tests")]

mod assigned;
mod dev;
mod flags;
mod foreign;
mod formats;
mod groups;
mod hostile;
mod leaving;
mod produce;
mod refused;
mod stopping;
mod subscribed;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../support/mod.rs"]
mod support;
mod topics;
