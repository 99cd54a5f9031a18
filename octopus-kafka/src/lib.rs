//! The Kafka client of Octopus.
#![forbid(unsafe_code)]

pub(crate) mod api;
mod backoff;
#[cfg(feature = "broker")]
pub mod broker;
mod cluster;
mod config;
mod connection;
mod consumer;
mod error;
mod fetcher;
mod frame;
mod group;
mod guard;
mod pace;
mod pool;
mod position;
pub mod records;
#[cfg(feature = "testing")]
pub mod testing;
mod transport;
mod versions;

pub use cluster::Cluster;
pub use config::Config;
pub use consumer::{Consumer, Polled, Signal};
pub use error::{Api, Error, Kind};
