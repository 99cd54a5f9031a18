//! Clients that read just fast enough, and too slowly, by the machine's clock and with times ten times as short.

use std::time::Duration;

use octopus_kafka::records::Compression;
use tokio::time::{Instant, sleep_until};

use crate::{
    client::{Client, JSON},
    reader::Reader,
    record::{self, Value},
    support::{kafka::Broker, server::Server},
};

const INSTANCE: &str = "/api/v2/consumers/g/instances/i";
const LEAST_SLEEP: Duration = Duration::from_millis(20);
/// The bytes of the escaped text, about.
const WHOLE: usize = 48 << 20;
/// The times that replies have, in ms: ten times as short as the usual one, and longer ones for a machine that is too busy
/// to read 48 MiB in that.
const LIMITS: [u64; 5] = [3_000, 6_000, 12_000, 30_000, 120_000];

/// [RP-02] [RP-03] who reads 48 MiB of escaped text well within its time has it, and not again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_that_is_read_in_time_is_whole() {
    let broker = Broker::start().await;
    for limit in LIMITS {
        let (_server, user) = serve(&broker, limit).await;
        let limit = Duration::from_millis(limit);
        let read = read_within(&user, limit.mul_f64(0.4)).await;
        assert_eq!(next(&user).await, 1);
        match read {
            Ok(length) => {
                assert!(length > WHOLE - (64 << 10), "{length}");
                return;
            }
            // Cut off, and rightly: the machine was too busy.
            Err(after) => assert!(after >= limit, "cut off after {after:?} of {limit:?}"),
        }
    }
    panic!("nobody was fast enough");
}

/// [RP-03] who reads at half the rate that it takes is cut off when its time is over, and does not get it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_that_is_read_too_slowly_is_cut_off() {
    let broker = Broker::start().await;
    let (_server, user) = serve(&broker, LIMITS[0]).await;
    let limit = Duration::from_millis(LIMITS[0]);
    let after = read_within(&user, limit * 2).await.expect_err("it is too slow");
    assert!(after >= limit, "cut off after {after:?}");
    assert_eq!(next(&user).await, 1);
}

/// A server whose replies have so many milliseconds, and an instance over a record of 8 MiB.
async fn serve(broker: &Broker, limit: u64) -> (Server, Client) {
    let limit = limit.to_string();
    let server = Server::start(&broker.address(), &["--send-timeout-ms", &limit]).await;
    let user = server.user(0);
    let topic = broker.topic(&user, "large").await;
    let batch = Value::Control.batch(Compression::None);
    broker.append(&topic, batch).await;
    broker.write(&topic, &[b"behind"]).await;
    let create = r#"{"name": "i", "format": "json", "auto.offset.reset": "earliest"}"#;
    user.post("/api/v2/consumers/g", create).await.expect(200);
    let partitions = r#"{"partitions": [{"topic": "large", "partition": 0}]}"#;
    user.post(&format!("{INSTANCE}/assignments"), partitions)
        .await
        .expect(204);
    (server, user)
}

/// Reads at the rate that takes so long for the whole; gives its length, or after what time it was cut off.
async fn read_within(user: &Client, time: Duration) -> Result<usize, Duration> {
    let path = format!("{INSTANCE}/records?timeout=30000");
    let fetch = user.head("GET", &path, &[("Accept", JSON)], "");
    loop {
        let mut reader = Reader::with_window(user.address, 1 << 20).await;
        let start = Instant::now();
        reader.send(&fetch).await;
        assert!(reader.head().await.starts_with("HTTP/1.1 200"));
        let begun = Instant::now();
        let mut read = 0;
        loop {
            match reader.some(usize::MAX).await {
                Ok(some) if some.is_empty() => return Ok(read),
                Ok(some) if some == b"[]" => break, // A busy machine found nothing in time.
                Ok(some) => read += some.len(),
                Err(_) => return Err(start.elapsed()),
            }
            #[expect(clippy::cast_precision_loss, reason = "a pace")]
            let due = begun + time.mul_f64(read as f64 / WHOLE as f64);
            if due > Instant::now() + LEAST_SLEEP {
                sleep_until(due).await;
            }
        }
    }
}

async fn next(user: &Client) -> i64 {
    loop {
        let reply = user.fetch(INSTANCE, "?timeout=30000", JSON).await.expect(200);
        if reply.body != b"[]" {
            return record::offset(&reply.body);
        }
    }
}
