//! The Kafka under the tests: the embedded broker, or a real Apache Kafka.
//!
//! `OCTOPUS_TEST_KAFKA` says which: unset, each test starts an embedded broker of its own; `maven` fetches
//! Apache Kafka 4.4.0 from Maven Central and starts one node for the test process (Java 17 and Maven are
//! needed); anything else is the `HOST:PORT` of a running cluster. A test of a cluster's faults starts three
//! [`Nodes`] of its own.

mod answer;
mod closed;
mod keeper;
mod node;
mod nodes;
mod played;
mod ports;
mod release;
mod sign_in;

use std::{env, io, time::Duration};

pub use self::{
    answer::reads,
    closed::ClosedPort,
    node::{Node, Secured},
    nodes::Nodes,
    played::Taken,
    release::Release,
    sign_in::SignIn,
};
use tokio::sync::OnceCell;

use crate::broker::{self, Broker};
pub use crate::group::played::play_member;

/// The Kafka that a test runs against.
#[derive(Debug)]
pub enum Kafka {
    /// An embedded broker of the test's own.
    Embedded(Broker),
    /// A real one, shared with other tests: use names of your own.
    Real(String),
}

impl Kafka {
    /// The Kafka that `OCTOPUS_TEST_KAFKA` asks for.
    ///
    /// # Panics
    ///
    /// Where it can't be had.
    #[expect(clippy::expect_used, reason = "a test without its Kafka has failed")]
    pub async fn start() -> Self {
        static SHARED: OnceCell<Node> = OnceCell::const_new();
        match env::var("OCTOPUS_TEST_KAFKA") {
            Err(_) => {
                let config = broker::Config {
                    initial_rebalance_delay: Duration::ZERO,
                    consumer_heartbeat_interval: Duration::from_millis(300),
                    ..broker::Config::default()
                };
                Self::Embedded(Broker::start(config).await.expect("an embedded broker"))
            }
            Ok(maven) if maven == "maven" => {
                let start = || async {
                    tokio::task::spawn_blocking(|| Node::start(Release::default()))
                        .await
                        .map_err(io::Error::other)?
                };
                let node = SHARED
                    .get_or_try_init(start)
                    .await
                    .expect("Apache Kafka by Maven");
                Self::Real(node.address())
            }
            Ok(address) => Self::Real(address),
        }
    }

    /// Its address, as `HOST:PORT`.
    #[must_use]
    pub fn address(&self) -> String {
        match self {
            Self::Embedded(broker) => broker.addr().to_string(),
            Self::Real(address) => address.clone(),
        }
    }

    /// The embedded broker, whose faults and records a test may look into; `None` for a real Kafka.
    #[must_use]
    pub fn embedded(&self) -> Option<&Broker> {
        match self {
            Self::Embedded(broker) => Some(broker),
            Self::Real(_) => None,
        }
    }
}
