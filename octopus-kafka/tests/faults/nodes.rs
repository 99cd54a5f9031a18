//! Two brokers that tell their clients that they are one cluster.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use kafka_protocol::{messages::metadata_response::MetadataResponseBroker, protocol::StrBytes};
use octopus_kafka::broker::{self, ApiKey, Broker, Response, always};
use uuid::Uuid;

use super::support::World;

/// The world of the first broker, and the second one.
pub(crate) struct Nodes {
    pub(crate) world: World,
    pub(crate) second: Broker,
    table: Arc<Mutex<Table>>,
}

/// What both say of the cluster.
struct Table {
    brokers: Vec<(i32, SocketAddr)>,
    /// Topics by their names on Kafka that the first broker does not lead, each with its leader, -1 for none, and epoch.
    leaders: BTreeMap<String, (i32, i32)>,
}

impl Nodes {
    pub(crate) async fn start() -> Self {
        let world = World::embedded().await;
        let second = Broker::start(broker::Config::default()).await.unwrap();
        let table = Arc::new(Mutex::new(Table {
            brokers: vec![(1, world.broker().addr()), (2, second.addr())],
            leaders: BTreeMap::new(),
        }));
        for broker in [world.broker(), &second] {
            let table = Arc::clone(&table);
            let metadata = broker.faults().on(ApiKey::Metadata, always());
            metadata.edit(move |response| lock(&table).write(response));
        }
        Self { world, second, table }
    }

    /// Makes a topic on both, with these values on the second one.
    pub(crate) fn topic(&self, topic: &str, values: &[&str]) {
        let name = self.world.name(topic);
        assert!(self.world.broker().create_topic(&name) && self.second.create_topic(&name));
        for value in values {
            self.second
                .append(&name, super::support::batch(&[value]))
                .unwrap();
        }
    }

    /// Who leads a topic from here on.
    pub(crate) fn lead(&self, topic: &str, leader: i32, leader_epoch: i32) {
        let name = self.world.name(topic);
        lock(&self.table).leaders.insert(name, (leader, leader_epoch));
    }

    /// The second broker is said to be at another address.
    pub(crate) fn place_second(&self, address: SocketAddr) {
        lock(&self.table).brokers[1].1 = address;
    }
}

impl Table {
    fn write(&self, response: &mut Response) {
        let Response::Metadata(response) = response else {
            return;
        };
        let brokers = self.brokers.iter();
        response.brokers = brokers
            .map(|(id, address)| {
                MetadataResponseBroker::default()
                    .with_node_id((*id).into())
                    .with_host(StrBytes::from_string(address.ip().to_string()))
                    .with_port(address.port().into())
            })
            .collect();
        for topic in &mut response.topics {
            // The two have ids of their own for it: it is known by its name.
            topic.topic_id = Uuid::nil();
            let name = topic.name.as_ref().map(|name| name.to_string());
            let leader = name.and_then(|name| self.leaders.get(&name));
            for partition in &mut topic.partitions {
                if let Some((leader, epoch)) = leader {
                    partition.leader_id = (*leader).into();
                    partition.leader_epoch = *epoch;
                }
            }
        }
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
