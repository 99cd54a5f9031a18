//! The faults of Kafka as callers of the binary see them. Each test names its fault by the number that the README's table
//! of faults has.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod damage;
mod groups;
mod joins;
mod limits;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../support/mod.rs"]
mod support;
mod world;
