//! The faults of a cluster and of the way to it, one by one: what goes wrong, and what a consumer makes of it. Each test
//! names its fault by the number that the README's table of faults has.

#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants,
    reason = "a test fails by a panic"
)]

#[path = "../consumer/support.rs"]
#[allow(dead_code, reason = "the consumer's tests use the rest")]
mod support;

mod commits;
mod connect;
mod groups;
mod link;
mod nodes;
mod partitions;
mod read;
mod records;
mod sign_in;
mod wire;
