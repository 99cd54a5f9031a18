//! The Kafka client of Octopus.
#![forbid(unsafe_code)]

pub mod records;
