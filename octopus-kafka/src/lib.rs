#![doc = include_str!("../README.md")]
//!
//! # Example
//!
#![cfg_attr(feature = "broker", doc = "```")]
#![cfg_attr(not(feature = "broker"), doc = "```ignore")]
//! use std::time::Duration;
//!
//! use octopus_core::{AutoOffsetReset, FetchPlan, Name, Open, Records, Settings, TopicPartition};
//! use octopus_kafka::{
//!     Cluster, Config, broker,
//!     producer::{self, NewRecord},
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let within = Duration::from_secs(30);
//! let broker = broker::Broker::start(broker::Config::default()).await?;
//! let cluster = Cluster::new(Config::new(vec![broker.addr().to_string()]));
//! cluster.reach(within).await?;
//!
//! cluster.create_topic("runs", within).await?;
//! let producer = cluster.producer(producer::Config::default());
//! let mut run = NewRecord::default();
//! run.value = Some("{\"step\":7}".into());
//! let written = producer.send("runs", run, within).await?;
//! assert_eq!(written.offset, Some(0));
//!
//! let mut settings = Settings::default();
//! settings.auto_offset_reset = AutoOffsetReset::Earliest;
//! let group = Name::parse("readers").ok_or("a group's name")?;
//! let consumer = cluster.consumer(&Open::outside(group, settings), |_| {});
//! let plan = FetchPlan::of([TopicPartition::only("runs".into())]);
//! let polled = consumer.poll(&plan, within).await?;
//! for (_, mut records) in polled.parts {
//!     let record = records.next().ok_or("a record")??;
//!     assert_eq!(record.value, Some(b"{\"step\":7}".as_slice()));
//! }
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod answer;
pub(crate) mod api;
mod backoff;
#[cfg(feature = "broker")]
pub mod broker;
mod changes;
mod cluster;
mod config;
mod connection;
mod consumer;
mod error;
mod fetcher;
mod frame;
mod group;
mod guard;
mod large;
mod pace;
mod pool;
mod position;
pub mod producer;
pub mod records;
pub mod security;
#[cfg(feature = "testing")]
pub mod testing;
mod transport;
mod versions;

pub use cluster::{Cluster, NewTopic};
pub use config::{Config, GroupProtocol};
pub use consumer::{Consumer, Polled, Room, Signal};
pub use error::{Api, Error, Kind};
pub use producer::Producer;
pub use security::Security;
