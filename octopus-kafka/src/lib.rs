//! The Kafka client of Octopus.
#![forbid(unsafe_code)]
#![allow(dead_code, unused_imports, reason = "the consumer uses it")]

pub(crate) mod api;
mod backoff;
#[cfg(feature = "broker")]
pub mod broker;
mod cluster;
mod config;
mod connection;
mod error;
mod frame;
mod guard;
mod pool;
pub mod records;
#[cfg(feature = "testing")]
pub mod testing;
mod transport;
mod versions;

pub use cluster::Cluster;
pub use config::Config;
pub use error::{Api, Error, Kind};
