//! A cluster of three nodes of Apache Kafka.

use std::{io, thread};

use super::{
    node::{self, Node, Place},
    ports,
    release::Release,
};

/// How many nodes a cluster has.
const NODES: usize = 3;

/// Three running nodes, each a broker and a controller. Topics have three replicas of which two must be in sync, and
/// none comes by itself. They end with this value, or with the process that holds it, however that ends.
#[derive(Debug)]
pub struct Nodes(Vec<Node>);

impl Nodes {
    /// Starts them on free ports, on empty folders. Blocks until all answer.
    ///
    /// # Errors
    ///
    /// Those of [`Node::start`].
    pub fn start(release: Release) -> io::Result<Self> {
        // Once, and not by all of them at one time.
        release.jars(&node::home())?;
        let ports = ports::free(2 * NODES)?;
        let (brokers, controllers) = ports.split_at(NODES);
        let places = (1..=NODES).map(|id| Place {
            id,
            brokers: brokers.to_vec(),
            controllers: controllers.to_vec(),
        });
        // None answers before two are there.
        thread::scope(|scope| {
            let starting: Vec<_> = places
                .map(|place| scope.spawn(move || Node::start_at(release, &place, None)))
                .collect();
            let nodes: io::Result<_> = starting
                .into_iter()
                .map(|node| node.join().unwrap_or_else(|_| Err(io::Error::other("a panic"))))
                .collect();
            Ok(Self(nodes?))
        })
    }

    /// The addresses of all, as `HOST:PORT,HOST:PORT,HOST:PORT`.
    #[must_use]
    pub fn address(&self) -> String {
        let addresses: Vec<_> = self.0.iter().map(Node::address).collect();
        addresses.join(",")
    }

    /// The node with an id, from 1 to 3.
    ///
    /// # Panics
    ///
    /// Where there is none.
    #[must_use]
    pub fn node(&self, id: usize) -> &Node {
        &self.0[id - 1]
    }

    /// All of them, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Node> {
        self.0.iter()
    }
}
