//! The settings of a node, as `server.properties` has them.

use std::{fmt::Write, path::Path};

/// Where a node stands among the nodes of its cluster.
#[derive(Debug, Clone)]
pub(in crate::testing) struct Place {
    /// Its id, from 1 on.
    pub(in crate::testing) id: usize,
    /// The broker's port of each node.
    pub(in crate::testing) brokers: Vec<u16>,
    /// The controller's port of each node.
    pub(in crate::testing) controllers: Vec<u16>,
}

impl Place {
    /// The broker's port of this node.
    pub(in crate::testing) fn broker(&self) -> u16 {
        self.brokers[self.id - 1]
    }

    /// How many nodes there are.
    pub(in crate::testing) fn nodes(&self) -> usize {
        self.brokers.len()
    }
}

/// The settings of the node at `place`, with its data in `data`.
pub(super) fn properties(place: &Place, data: &Path) -> String {
    let Place { id, controllers, .. } = place;
    let (broker, controller) = (place.broker(), controllers[id - 1]);
    let voters: Vec<_> = controllers
        .iter()
        .zip(1..)
        .map(|(port, id)| format!("{id}@127.0.0.1:{port}"))
        .collect();
    let replicas = place.nodes();
    let in_sync = if replicas > 1 { 2 } else { 1 };
    let mut lines = format!(
        "process.roles=broker,controller\n\
         node.id={id}\n\
         controller.quorum.voters={}\n\
         listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{broker}\n\
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
         inter.broker.listener.name=PLAINTEXT\n\
         controller.listener.names=CONTROLLER\n\
         log.dirs={}\n\
         message.max.bytes=9000000\n\
         log.retention.ms=-1\n\
         log.cleaner.backoff.ms=500\n\
         group.initial.rebalance.delay.ms=0\n\
         group.consumer.min.heartbeat.interval.ms=300\n\
         group.consumer.heartbeat.interval.ms=300\n\
         offsets.topic.num.partitions=5\n\
         transaction.state.log.num.partitions=5\n\
         default.replication.factor={replicas}\n\
         min.insync.replicas={in_sync}\n\
         offsets.topic.replication.factor={replicas}\n\
         transaction.state.log.replication.factor={replicas}\n\
         transaction.state.log.min.isr={in_sync}\n\
         share.coordinator.state.topic.replication.factor={replicas}\n\
         share.coordinator.state.topic.min.isr={in_sync}\n",
        voters.join(","),
        data.display()
    );
    // One node is shared by tests that count on Kafka's default. Among several a topic that comes by itself would hide
    // a fault, and a dead node is to be noticed soon.
    let more: &[_] = if replicas == 1 {
        &[("auto.create.topics.enable", "true")]
    } else {
        &[
            ("auto.create.topics.enable", "false"),
            ("unclean.leader.election.enable", "false"),
            ("replica.fetch.max.bytes", "10000000"),
            ("broker.session.timeout.ms", "4000"),
            ("broker.heartbeat.interval.ms", "500"),
            ("replica.lag.time.max.ms", "10000"),
        ]
    };
    for (name, value) in more {
        // Writing to a string does not fail.
        let _ = writeln!(lines, "{name}={value}");
    }
    lines
}
