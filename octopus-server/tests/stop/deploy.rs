//! A deploy, as its script and the service's clients see it: load, SIGTERM, start again, and nothing is lost.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use tokio::{sync::watch, time::sleep};

use crate::{
    reader::{Commits, Reader, Reads},
    support::{kafka::Broker, server::Server},
};

/// Records of each topic between two deploys, at least.
const LOAD: i64 = 40;

/// [LC-01] [LC-04] [AK-03] [AK-04] [CR-11] Twelve readers follow the documented recovery through three deploys, while a
/// writer writes on. Each receives every record, in order, and again only what lies behind its group's last commit:
/// with auto-commit, which commits at the stop, nothing at all.
#[tokio::test(flavor = "multi_thread")]
async fn three_deploys_under_load_lose_nothing() {
    let broker = Arc::new(Broker::start().await);
    let mut server = Server::start(&broker.address(), &[]).await;
    let (addresses, _) = watch::channel(server.address);
    let end = Arc::new(AtomicI64::new(i64::MAX));
    let mut topics = Vec::new();
    let mut readers = Vec::new();
    for number in 0..12 {
        let user = server.user(number / 2);
        let topic = format!("events-{number}");
        topics.push(broker.topic(&user, &topic).await);
        let reads = if number % 2 == 0 {
            Reads::Assigned
        } else {
            Reads::Subscribed
        };
        let commits = if number % 3 == 0 {
            Commits::ByHand
        } else {
            Commits::Auto
        };
        let reader = Reader::new(user, topic, reads, commits, addresses.subscribe());
        readers.push(tokio::spawn(reader.run(end.clone())));
    }

    let (written, progress) = watch::channel(0);
    let stop = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn(write(broker.clone(), topics, written, stop.clone()));
    for _ in 0..3 {
        grows(&progress, LOAD).await;
        server.restart().await;
        addresses.send_replace(server.address);
    }
    grows(&progress, LOAD).await;
    stop.store(true, Ordering::Relaxed);
    let written = writing.await.unwrap();
    assert!(written >= 4 * LOAD);

    end.store(written, Ordering::Relaxed);
    for reader in readers {
        let reader = reader.await.unwrap();
        assert_eq!(
            reader.position, written,
            "{}: every record was received",
            reader.topic
        );
        assert!(reader.lives >= 4, "{}: each deploy ends a life", reader.topic);
        if let Commits::Auto = reader.commits {
            assert_eq!(reader.repeats, 0, "{}", reader.topic);
        }
    }
    server.signal("TERM");
    assert_eq!(server.ended().await.code(), Some(0));
}

/// Writes to all topics in turn, and tells how many records each has.
async fn write(
    broker: Arc<Broker>,
    topics: Vec<String>,
    written: watch::Sender<i64>,
    stop: Arc<AtomicBool>,
) -> i64 {
    let mut end = 0;
    while !stop.load(Ordering::Relaxed) {
        for topic in &topics {
            let value = end.to_string();
            assert_eq!(broker.write(topic, &[value.as_bytes()]).await, end);
        }
        end += 1;
        written.send_replace(end);
        sleep(Duration::from_millis(10)).await;
    }
    end
}

/// Waits until so many more records were written.
async fn grows(written: &watch::Receiver<i64>, by: i64) {
    let mut written = written.clone();
    let target = *written.borrow() + by;
    written.wait_for(|end| *end >= target).await.unwrap();
}
