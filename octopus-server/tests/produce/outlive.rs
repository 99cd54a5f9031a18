//! Leaders that die and come back.

use std::{env, sync::Arc, time::Duration};

use octopus_kafka::{
    broker::{self, Broker},
    testing::{Nodes, Release},
};
use tokio::{task::spawn_blocking, time::sleep};

use crate::{
    senders::{LEAST, Senders},
    support::{client::Client, server::Server},
};

const TOPIC: &str = "outlives";

/// Makes the topic by the route that does.
async fn make_topic(user: &Client) {
    let path = format!("/api/v3/ns-{}/{TOPIC}", &user.subject[24..]);
    user.post(&path, "").await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_records_over_http_outlive_their_broker() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = broker::Config::default();
    config.data = Some(folder.path().to_owned());
    config.initial_rebalance_delay = Duration::ZERO;
    let mut leader = Broker::start(config.clone()).await.unwrap();
    config.listen = leader.addr();
    let server = Server::start(&leader.addr().to_string(), &[]).await;
    let user = server.user(0);
    make_topic(&user).await;
    let senders = Senders::start(&user, TOPIC, Duration::ZERO);
    for _ in 0..3 {
        senders.go_on(LEAST / 5).await;
        leader.shutdown().await;
        sleep(Duration::from_millis(100)).await;
        leader = Broker::start(config.clone()).await.unwrap();
    }
    let told = senders.end().await;
    assert!(told.all_known(), "each is sent until its fate is known");
    told.check(&user, TOPIC).await;
    leader.shutdown().await;
}

/// On three nodes of Apache Kafka, one after the other of which is killed and started again, so that the leader is among
/// them. Where `OCTOPUS_TEST_KAFKA` asks for a real Kafka.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_records_over_http_outlive_each_node_of_a_cluster() {
    if env::var_os("OCTOPUS_TEST_KAFKA").is_none() {
        return;
    }
    let nodes = spawn_blocking(|| Nodes::start(Release::default())).await;
    let nodes = Arc::new(nodes.unwrap().unwrap());
    let server = Server::start(&nodes.address(), &[]).await;
    let user = server.user(0);
    make_topic(&user).await;
    let senders = Senders::start(&user, TOPIC, Duration::from_millis(50));
    let some = LEAST / 20;
    for id in 1..=3 {
        senders.go_on(some).await;
        nodes.node(id).kill().unwrap();
        senders.go_on(some).await;
        let nodes = Arc::clone(&nodes);
        let restarted = spawn_blocking(move || nodes.node(id).restart()).await;
        restarted.unwrap().unwrap();
    }
    senders.go_on(some).await;
    let told = senders.end().await;
    told.check(&user, TOPIC).await;
}
