//! Getting to a broker, and losing it.

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};

use octopus_core::{AutoOffsetReset, Error};
use octopus_kafka::{
    Cluster, Config,
    broker::{self, ApiKey, Broker},
    testing::ClosedPort,
};
use socket2::{Domain, Socket, Type};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{
    link::Link,
    nodes::Nodes,
    support::{PATIENCE, TURN, World, eventually},
};

fn cluster(addresses: &[&str]) -> Cluster {
    Cluster::new(Config::new(
        addresses.iter().map(|address| (*address).to_owned()).collect(),
    ))
}

/// A world whose broker is reached by a link only, with a session of 10 s.
async fn linked() -> (Link, World) {
    let link = Link::open().await;
    let mut config = broker::Config::default();
    config.initial_rebalance_delay = Duration::ZERO;
    let world = World::of(link.broker(config).await);
    let mut config = Config::new(vec![link.address.to_string()]);
    config.heartbeat_interval = Duration::from_secs(1);
    let world = World {
        cluster: Cluster::new(config),
        ..world
    };
    (link, world)
}

/// [KF-01] [ER-07] a name that does not resolve and a host that is down leave the next one; all of them together are no
/// cluster.
#[tokio::test(flavor = "multi_thread")]
async fn servers_that_are_not_there_leave_the_next_one() {
    let closed = ClosedPort::new().unwrap();
    let world = World::embedded().await;
    let (unknown, closed) = ("no-such-host.invalid:9092", closed.address());
    let live = world.broker().addr().to_string();
    cluster(&[unknown, &closed, &live]).reach(PATIENCE).await.unwrap();
    let none = cluster(&[unknown, &closed]).reach(Duration::from_secs(1)).await;
    assert_eq!(Error::from(none.unwrap_err()), Error::KafkaUnreachable);
}

/// [KF-02] [ER-07] a broker that comes up while it is tried is found, and meanwhile nobody waits for it longer than he
/// has time.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_comes_up_is_found() {
    let port = ClosedPort::new().unwrap();
    let address = port.address();
    let late = cluster(&[&address]);
    let waiting = tokio::spawn({
        let late = late.clone();
        async move { late.reach(PATIENCE).await }
    });
    let hasty = late.reach(Duration::from_secs(1)).await;
    assert_eq!(Error::from(hasty.unwrap_err()), Error::KafkaUnreachable);
    drop(port);
    let mut config = broker::Config::default();
    config.listen = address.parse().unwrap();
    let _broker = Broker::start(config).await.expect("the port is free still");
    waiting.await.unwrap().unwrap();
}

/// A listener whose backlog is full: the system answers no more connections to it, and refuses none.
fn black_hole() -> (SocketAddr, Vec<Socket>) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    listener.bind(&any.into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let mut held = vec![listener];
    for _ in 0..8 {
        let filler = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        filler.set_nonblocking(true).unwrap();
        let _ = filler.connect(&address.into());
        held.push(filler);
    }
    (address, held)
}

/// [KF-03] [K14] a leader that swallows packets costs only what it leads: the turn ends in its time, and other brokers'
/// topics are read.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_swallows_packets_does_not_hold_the_others_up() {
    let nodes = Nodes::start().await;
    let (hole, _held) = black_hole();
    nodes.place_second(hole);
    nodes.topic("dark", &[]);
    nodes.lead("dark", 2, 0);
    nodes.world.topic("a", &["a0", "a1"]).await;
    let mut one = nodes.world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["dark", "a"]);
    one.seek("dark", 0);
    one.seek("a", 0);
    assert_eq!(one.read(2).await, ["a0", "a1"]);
    let start = Instant::now();
    let turn = one.turn(TURN).await.unwrap();
    assert_eq!((turn.values, turn.failed), (Vec::new(), Vec::new()));
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    nodes.world.produce("a", &["a2"]).await;
    assert_eq!(one.read(1).await, ["a2"]);
}

/// [KF-06] [LC-03] connections that lead nowhere any more are left in time: the member stays in its group, and commits and
/// fetches find another way.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_survives_connections_that_died_without_a_word() {
    let (link, world) = linked().await;
    world.topic("a", &["a0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    assert_eq!(one.join(&["a"]).await, ["a"]);
    one.read(1).await;
    one.commit("a", 1, "").await.unwrap();
    eventually("a heartbeat by the first way", || {
        !world.received(ApiKey::Heartbeat).is_empty()
    })
    .await;
    let member = world
        .broker()
        .group_members(&world.name("group"))
        .remove(0)
        .member_id;
    link.freeze();
    let before = world.received(ApiKey::Heartbeat).len();
    eventually("a heartbeat by another way", || {
        world.received(ApiKey::Heartbeat).len() > before + 2
    })
    .await;
    assert!(!one.has_signal(), "it was not lost");
    one.commit("a", 1, "").await.unwrap();
    world
        .broker()
        .append(&world.name("a"), super::support::batch(&["a1"]))
        .unwrap();
    assert_eq!(one.read(1).await, ["a1"]);
    let members = world.broker().group_members(&world.name("group"));
    assert_eq!(members.len(), 1);
    assert_eq!(members[0].member_id, member);
}

/// [KF-06] [KF-04] [ER-06] a control connection that died without a word is left for a new one well before a caller's
/// time is over.
#[tokio::test(flavor = "multi_thread")]
async fn a_look_up_leaves_a_dead_connection_in_its_time() {
    let (link, world) = linked().await;
    world.topic("a", &["a0"]).await;
    let one = world.session("one", AutoOffsetReset::Earliest);
    let end = octopus_core::Bound::End;
    assert_eq!(one.bounds(&["a"], end).await, Ok(vec![("a".to_owned(), 1)]));
    link.freeze();
    // A caller gives it 10 s.
    assert_eq!(one.bounds(&["a"], end).await, Ok(vec![("a".to_owned(), 1)]));
    link.freeze();
    assert_eq!(one.committed(&["a"]).await, []);
}

/// [KF-44] [K22] every broker is at another address, under the one bootstrap name: the name is asked again.
#[tokio::test(flavor = "multi_thread")]
async fn brokers_that_were_all_replaced_are_found_by_the_bootstrap_server() {
    let link = Link::open().await;
    let world = World::embedded().await;
    link.lead_to(Some(world.broker().addr()));
    let world = World {
        cluster: cluster(&[&link.address.to_string()]),
        ..world
    };
    world.topic("a", &["a0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    assert_eq!(one.read(1).await, ["a0"]);
    one.commit("a", 1, "").await.unwrap();

    let successor = Broker::start(broker::Config::default()).await.unwrap();
    successor.create_topic(&world.name("a"));
    for value in ["new0", "new1"] {
        successor.append(&world.name("a"), super::support::batch(&[value]));
    }
    link.lead_to(Some(successor.addr()));
    link.cut();
    let World { broker, .. } = world;
    broker.unwrap().shutdown().await;
    let read = timeout(PATIENCE, async {
        loop {
            match one.turn(TURN).await {
                Ok(turn) if !turn.values.is_empty() => return turn.values,
                Ok(_) | Err(Error::KafkaUnreachable) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    });
    // It is another topic of the same name, so that reading starts anew.
    assert!(read.await.unwrap().starts_with(&["new0".to_owned()]));
}

/// [KF-46] [K22] a whole service's members lose their coordinator at once: they share a few tries to reach it, and each of
/// them is heard again in its session, on a few connections.
#[tokio::test(flavor = "multi_thread")]
async fn members_that_lose_their_coordinator_come_back_together() {
    const MEMBERS: usize = 500;
    let (link, world) = linked().await;
    world.topic("a", &[]).await;
    let mut joins = JoinSet::new();
    for i in 0..MEMBERS {
        let mut session = world.session_of(&format!("group{i}"), "one", AutoOffsetReset::Earliest);
        joins.spawn(async move {
            session.join(&["a"]).await;
            session
        });
    }
    let mut sessions = joins.join_all().await;
    let heard = Arc::new(Mutex::new(BTreeSet::new()));
    world.broker().observe({
        let heard = Arc::clone(&heard);
        move |api, _, client_id| {
            if api == ApiKey::Heartbeat {
                heard.lock().unwrap().insert(client_id.to_owned());
            }
        }
    });
    let all_are_heard = || heard.lock().unwrap().len() == MEMBERS;
    eventually("each is heard", all_are_heard).await;
    let accepted = link.accepted();
    link.lead_to(None);
    link.cut();
    sleep(Duration::from_secs(2)).await;
    link.lead_to(Some(world.broker().addr()));
    link.cut();
    heard.lock().unwrap().clear();
    eventually("each is heard again", all_are_heard).await;
    let opened = link.accepted() - accepted;
    assert!(opened <= 20, "{opened} connections for {MEMBERS} members");
    assert!(
        sessions.iter_mut().all(|session| !session.has_signal()),
        "none was put out"
    );
}

/// [K23] a broker of IPv6, which says where it is without brackets.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_of_ipv6_is_spoken_to() {
    let mut config = broker::Config::default();
    config.listen = "[::1]:0".parse().unwrap();
    // A machine without IPv6 has no such broker.
    let Ok(broker) = Broker::start(config).await else {
        return;
    };
    let world = World::of(broker);
    world.topic("a", &["a0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    assert_eq!(one.read(1).await, ["a0"]);
}
