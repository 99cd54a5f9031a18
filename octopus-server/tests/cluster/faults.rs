//! What happens to the cluster, one after the other.

use std::{
    collections::BTreeMap,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use octopus_kafka::testing::Nodes;
use serde_json::json;

use super::{admin::Admin, ledger::Ledger, seed::Seed};

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// Records are deleted up to somewhere below the readers' position.
    Delete,
    /// The first replica of a partition is made its leader.
    Elect,
    /// The leader of a partition is killed and started again on its data.
    Kill,
    /// A partition leaves its leader's node and comes back to all three, in another order.
    Reassign,
    /// All nodes are ended and started again, one after the other.
    Roll,
    /// The group's coordinator does nothing for 15 s.
    Stop,
}

/// The kinds, as often as each shall come in a round. All of a round come before the next one begins.
const ROUND: [Fault; 8] = [
    Fault::Delete,
    Fault::Elect,
    Fault::Kill,
    Fault::Kill,
    Fault::Delete,
    Fault::Reassign,
    Fault::Stop,
    Fault::Roll,
];

/// What the faults need to know.
#[derive(Debug)]
pub(crate) struct Faults {
    pub(crate) admin: Arc<Admin>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) ledger: Arc<Ledger>,
    /// The group's name on Kafka.
    pub(crate) group: String,
    /// The topics that the group reads, and those that one reader each has.
    pub(crate) shared: Vec<String>,
    pub(crate) assigned: Vec<String>,
    /// What stands before a topic's name on Kafka.
    pub(crate) prefix: String,
    pub(crate) seed: Seed,
}

impl Faults {
    /// Makes faults for as long as that, each only once the cluster is whole again, and at least one of each kind;
    /// gives how many of each there were.
    pub(crate) fn run(mut self, long: Duration) -> BTreeMap<Fault, usize> {
        let end = Instant::now() + long;
        let mut counts = BTreeMap::new();
        let mut round = Vec::new();
        let mut is_first = true;
        loop {
            if round.is_empty() {
                round = ROUND.to_vec();
                self.seed.shuffle(&mut round);
            }
            let fault = round.pop().unwrap();
            // The last of the first round may be left out where there is too little time, but no kind.
            if Instant::now() >= end && (!is_first || counts.contains_key(&fault)) {
                if !is_first || round.is_empty() {
                    return counts;
                }
                continue;
            }
            let begun = Instant::now();
            self.make(fault);
            self.admin.whole();
            *counts.entry(fault).or_default() += 1;
            println!("{fault:?}: whole after {:.1} s", begun.elapsed().as_secs_f64());
            is_first &= !round.is_empty();
            let rest = Duration::from_millis(500 + self.seed.below(2500));
            thread::sleep(rest.min(end.saturating_duration_since(Instant::now())));
        }
    }

    fn make(&mut self, fault: Fault) {
        let is_shared = self.seed.once_in(2);
        let topics = if is_shared { &self.shared } else { &self.assigned };
        let topic = self.seed.pick(topics).clone();
        let name = format!("{}{topic}", self.prefix);
        match fault {
            Fault::Delete => {
                let position = if is_shared {
                    self.ledger.floor(&topic)
                } else {
                    self.ledger.next(&topic)
                };
                if position > 0 {
                    let offset = position - i64::try_from(self.seed.below(50)).unwrap();
                    self.admin.ask(&json!(["delete_records", name, offset.max(1)]));
                }
            }
            Fault::Elect => {
                self.admin.ask(&json!(["elect", name]));
            }
            Fault::Kill => {
                // The leader of a topic, or the group's coordinator.
                let node = if self.seed.once_in(4) {
                    self.admin.coordinator(&self.group)
                } else {
                    self.admin.leader(&name)
                };
                let node = self.nodes.node(node);
                node.kill().unwrap();
                thread::sleep(Duration::from_millis(self.seed.below(6000)));
                node.restart().unwrap();
            }
            Fault::Reassign => {
                let leader = self.admin.leader(&name);
                let mut all = [1, 2, 3];
                self.seed.shuffle(&mut all);
                let others: Vec<_> = all.into_iter().filter(|&node| node != leader).collect();
                self.reassign(&name, &others);
                self.reassign(&name, &all);
            }
            Fault::Roll => {
                for node in self.nodes.iter() {
                    node.terminate().unwrap();
                    node.restart().unwrap();
                    self.admin.whole();
                }
            }
            Fault::Stop => {
                let node = self.nodes.node(self.admin.coordinator(&self.group));
                node.stop().unwrap();
                thread::sleep(Duration::from_secs(15));
                node.cont().unwrap();
            }
        }
    }

    /// Gives a topic these replicas, and waits until it has them.
    fn reassign(&self, name: &str, replicas: &[usize]) {
        self.admin.ask(&json!(["reassign", name, replicas]));
        let mut sorted = replicas.to_vec();
        sorted.sort_unstable();
        let wanted = json!([sorted, sorted]);
        for _ in 0..600 {
            if self.admin.ask(&json!(["in_sync", name])) == wanted {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("{name} never had {replicas:?}");
    }
}
