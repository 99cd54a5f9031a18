//! The Kafka client of Octopus.
#![forbid(unsafe_code)]

pub(crate) mod api;
#[cfg(feature = "broker")]
pub mod broker;
pub mod records;
