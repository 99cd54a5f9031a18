//! The cluster as a whole, against the embedded broker or the Kafka that `OCTOPUS_TEST_KAFKA` names.

mod brokers;
mod topics;

use std::time::{Duration, SystemTime};

use octopus_core::{Namespace, Subject, TopicName};
use octopus_kafka::{
    Cluster, Config,
    broker::{self, ApiKey, Broker},
    records::{BatchWriter, Compression},
};

const SOON: Duration = Duration::from_secs(30);

fn cluster(address: String) -> Cluster {
    Cluster::new(Config::new(vec![address]))
}

/// A namespace that no other test has.
fn namespace() -> Namespace {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("the clock is past 1970");
    Namespace::of(Subject::from_uuid(now.as_nanos()))
}

fn batch(value: &[u8]) -> bytes::Bytes {
    let mut batch = BatchWriter::new(Compression::None);
    batch.push(1, None, Some(value), &[]);
    batch.finish()
}

/// An embedded broker of the test's own, whatever the others run against, and its cluster.
async fn embedded() -> (Broker, Cluster) {
    let broker = Broker::start(broker::Config::default())
        .await
        .expect("an embedded broker");
    let cluster = cluster(broker.addr().to_string());
    (broker, cluster)
}

async fn lists(cluster: &Cluster, within: Duration) -> Result<usize, octopus_kafka::Error> {
    let namespace = Namespace::of(Subject::from_uuid(7));
    let names = ["t"].map(TopicName::from);
    cluster
        .topics(&namespace, &names, within)
        .await
        .map(|held| held.len())
}

fn make(broker: &Broker) -> String {
    let topic = Namespace::of(Subject::from_uuid(7)).qualify("t");
    assert!(broker.create_topic(&topic));
    topic
}

/// How many requests of this API came.
fn came(broker: &Broker, api: ApiKey) -> usize {
    let requests = broker.requests();
    requests.iter().filter(|received| received.api == api).count()
}
