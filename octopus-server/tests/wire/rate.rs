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
const LIMIT: Duration = Duration::from_secs(3);
/// The bytes of the escaped text, about.
const WHOLE: usize = 48 << 20;
/// How often a reader is tried on a machine that is too busy for it.
const TRIES: usize = 10;

/// [RP-02] [RP-03] 48 MiB of escaped text: who reads it within its time has it, and who reads it at half that rate is cut
/// off; neither gets it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_has_its_time_and_no_more() {
    let broker = Broker::start().await;
    let server = Server::start(&broker.address(), &["--send-timeout-ms", "3000"]).await;
    let user = server.user(0);
    let topic = broker.topic(&user, "large").await;
    broker
        .append(&topic, Value::Control.batch(Compression::None))
        .await;
    broker.write(&topic, &[b"behind"]).await;
    let create = r#"{"name": "i", "format": "json", "auto.offset.reset": "earliest"}"#;
    user.post("/api/v2/consumers/g", create).await.expect(200);
    let partition = r#"{"partitions": [{"topic": "large", "partition": 0}]}"#;
    user.post(&format!("{INSTANCE}/assignments"), partition)
        .await
        .expect(204);

    let mut is_read = false;
    for _ in 0..TRIES {
        let read = read_within(&user, LIMIT.mul_f64(0.4)).await;
        assert_eq!(next(&user).await, 1);
        user.post(&format!("{INSTANCE}/positions/beginning"), partition)
            .await
            .expect(204);
        match read {
            Ok(length) => {
                assert!(length > WHOLE - (64 << 10), "{length}");
                is_read = true;
                break;
            }
            // Cut off, and rightly: the machine was too busy.
            Err(after) => assert!(after >= LIMIT, "cut off after {after:?}"),
        }
    }
    assert!(is_read, "nobody was fast enough");

    let after = read_within(&user, LIMIT * 2).await.expect_err("it is too slow");
    assert!(after >= LIMIT, "cut off after {after:?}");
    assert_eq!(next(&user).await, 1);
}

/// Reads at the rate that takes so long for the whole; gives its length, or after what time it was cut off.
async fn read_within(user: &Client, time: Duration) -> Result<usize, Duration> {
    let mut reader = Reader::with_window(user.address, 1 << 20).await;
    let path = format!("{INSTANCE}/records?timeout=10000");
    let start = Instant::now();
    reader
        .send(&user.head("GET", &path, &[("Accept", JSON)], ""))
        .await;
    assert!(reader.head().await.starts_with("HTTP/1.1 200"));
    let begun = Instant::now();
    let mut read = 0;
    loop {
        match reader.some(usize::MAX).await {
            Ok(some) if some.is_empty() => return Ok(read),
            Ok(some) => read += some.len(),
            Err(_) => return Err(start.elapsed()),
        }
        #[expect(clippy::cast_precision_loss, reason = "a pace")]
        let part = read as f64 / WHOLE as f64;
        sleep_until(begun + time.mul_f64(part)).await;
    }
}

async fn next(user: &Client) -> i64 {
    let reply = user.fetch(INSTANCE, "?timeout=10000", JSON).await.expect(200);
    record::offset(&reply.body)
}
