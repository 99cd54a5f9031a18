//! Consumers against the embedded broker, or against a real Kafka where `OCTOPUS_TEST_KAFKA` names one.
#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants,
    reason = "a test fails by a panic"
)]

mod epochs;
mod fetch;
mod group;
mod offsets;
mod support;
mod topics;
