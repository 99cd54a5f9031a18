//! How a cluster is spoken to.

use std::time::Duration;

use crate::Security;

/// The settings of a [`Cluster`](crate::Cluster).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// The brokers to begin with, each as `HOST:PORT`; the others are learned from them.
    pub bootstrap: Vec<String>,
    /// How its consumers are members of their groups.
    pub group_protocol: GroupProtocol,
    /// The silence after which a group takes a member for gone; with [`GroupProtocol::Consumer`] the broker says.
    pub session_timeout: Duration,
    /// The time that a group's members have to join again when it rebalances; above the 30 s that a reply may take to
    /// send.
    pub rebalance_timeout: Duration,
    /// The time between two heartbeats; with [`GroupProtocol::Consumer`] the broker says.
    pub heartbeat_interval: Duration,
    /// The largest answer to a fetch, in bytes: what is asked for, or one record batch that is larger, and some slack.
    pub fetch_frame: usize,
    /// The largest answer to any other request, in bytes.
    pub control_frame: usize,
    /// The bytes that large answers hold at once, over all consumers.
    pub fetch_memory: usize,
    /// How brokers are known, and how they know us.
    pub security: Security,
}

/// How the members of a consumer group come to their partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum GroupProtocol {
    /// All members stop and join again, and one of them assigns. Every Kafka speaks it.
    #[default]
    Classic,
    /// The coordinator assigns, and only those members join again whose partitions change (KIP-848). Kafka speaks it from
    /// 4.0 on.
    Consumer,
}

impl Config {
    /// The settings for these bootstrap servers, over plain TCP.
    #[must_use]
    pub const fn new(bootstrap: Vec<String>) -> Self {
        Self {
            bootstrap,
            group_protocol: GroupProtocol::Classic,
            session_timeout: Duration::from_secs(10),
            rebalance_timeout: Duration::from_secs(60),
            heartbeat_interval: Duration::from_secs(3),
            fetch_frame: (1 << 20) + (8 << 20) + (64 << 10),
            control_frame: 4 << 20,
            fetch_memory: 48 << 20,
            security: Security::new(None, None),
        }
    }
}
