//! The Kafka client of Octopus.
#![forbid(unsafe_code)]

#[cfg(feature = "broker")]
pub mod broker;
pub mod records;
