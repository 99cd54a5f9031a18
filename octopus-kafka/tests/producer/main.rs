//! The producer, against the embedded broker, or where no fault is asked of it against a real Kafka that
//! `OCTOPUS_TEST_KAFKA` names.
#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants,
    reason = "a test fails by a panic"
)]

#[path = "../faults/link.rs"]
#[allow(dead_code, reason = "the tests of faults use the rest")]
mod link;
#[path = "../consumer/support.rs"]
#[allow(dead_code, reason = "the consumer's tests use the rest")]
mod support;

mod faults;
mod limits;
mod restart;
mod write;

use octopus_core::AutoOffsetReset;
use octopus_kafka::producer::NewRecord;

use crate::support::World;

/// A record with this value.
fn record(value: impl Into<String>) -> NewRecord {
    NewRecord {
        value: Some(value.into().into_bytes().into()),
        ..NewRecord::default()
    }
}

/// The first `count` values of a topic, and what else is there.
async fn values(world: &World, topic: &str, count: usize) -> Vec<String> {
    let mut session = world.session("reader", AutoOffsetReset::Earliest);
    session.assign(&[topic]);
    let mut values = session.read(count).await;
    values.extend(session.turn(support::TURN).await.unwrap().values);
    values
}
