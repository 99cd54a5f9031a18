//! What the service takes of memory, measured from outside.

use std::{fs, time::Duration};

use octopus_kafka::records::Compression;
use tokio::{task::JoinSet, time::sleep};

use crate::{
    reader::Reader,
    record::{self, Value},
    support::{
        client::{BINARY, Client, JSON},
        kafka::Broker,
        server::Server,
    },
};

/// The most that the process may hold, in KiB.
const MOST_KIB: u64 = 120 * 1024;
/// The records of each topic.
const RECORDS: i64 = 2;
/// How long a reply is not read on, so that everything that is to stand in memory does.
const STALL: Duration = Duration::from_millis(500);

/// A topic of a user's own, and what its two instances read it as.
const TOPICS: [(Value, Compression, [&str; 2]); 6] = [
    (Value::Control, Compression::None, [JSON, BINARY]),
    (Value::Letters, Compression::None, [JSON, BINARY]),
    (Value::Random, Compression::Zstd, [BINARY, BINARY]),
    (Value::Random, Compression::Lz4, [BINARY, BINARY]),
    (Value::Control, Compression::Gzip, [BINARY, BINARY]),
    (Value::Random, Compression::Snappy, [BINARY, BINARY]),
];

/// [RP-02] [LI-02] twelve instances over records of 8 MiB, three slow readers at a time and nine that wait: the process
/// stays under 120 MiB.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twelve_instances_of_8_mib_records_stay_under_120_mib() {
    let broker = Broker::start().await;
    // On a machine that is busy with other tests 48 MiB may take more than the usual 30 s.
    let server = Server::start(&broker.address(), &["--send-timeout-ms", "170000"]).await;
    let pid = server.process.id();
    let mut instances = Vec::new();
    for (number, (value, compression, accepts)) in TOPICS.into_iter().enumerate() {
        let user = server.user(number);
        let topic = broker.topic(&user, "large").await;
        let batch = value.batch(compression);
        for _ in 0..RECORDS {
            broker.append(&topic, batch.clone()).await;
        }
        for (instance, accept) in accepts.into_iter().enumerate() {
            let path = assigned(&user, instance, accept == JSON).await;
            let text = value.in_reply(accept == JSON);
            instances.push((user.clone(), path, accept, text));
        }
    }
    let mut fetches = JoinSet::new();
    for (user, path, accept, text) in instances {
        fetches.spawn(async move { read_slowly(&user, &path, accept, &text).await });
    }
    while let Some(read) = fetches.join_next().await {
        read.unwrap();
    }
    // The highest that the kernel has seen, its own view of the whole process.
    let most = kib(pid, "VmHWM:");
    assert!(most < MOST_KIB, "{most} KiB were held at once");
}

/// Makes an instance of a group of its own over the topic; gives its path.
async fn assigned(user: &Client, number: usize, is_json: bool) -> String {
    let format = if is_json { "json" } else { "binary" };
    let group = format!("/api/v2/consumers/g{number}");
    let create = format!(r#"{{"name": "i", "format": "{format}", "auto.offset.reset": "earliest"}}"#);
    user.post(&group, &create).await.expect(200);
    let path = format!("{group}/instances/i");
    let partitions = r#"{"partitions": [{"topic": "large", "partition": 0}]}"#;
    user.post(&format!("{path}/assignments"), partitions)
        .await
        .expect(204);
    path
}

/// Fetches every record of the topic, each whole and right, and makes each reply wait.
async fn read_slowly(user: &Client, path: &str, accept: &str, text: &[u8]) {
    let fetch = user.head(
        "GET",
        &format!("{path}/records?timeout=30000"),
        &[("Accept", accept)],
        "",
    );
    let mut offset = 0;
    while offset < RECORDS {
        let mut reader = Reader::with_window(user.address, 256 * 1024).await;
        reader.send(&fetch).await;
        let head = reader.head().await;
        if head.starts_with("HTTP/1.1 429") {
            continue; // No turn came within the wait.
        }
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        sleep(STALL).await;
        let expected = record::reply("large", offset, text);
        let mut read = 0;
        loop {
            let some = reader.some(usize::MAX).await.unwrap();
            if some.is_empty() {
                break;
            }
            if read == 0 && some == b"[]" {
                break; // Nothing came within the wait.
            }
            assert!(
                expected[read..].starts_with(&some),
                "other bytes than were written"
            );
            read += some.len();
        }
        if read > 0 {
            assert_eq!(read, expected.len());
            offset += 1;
        }
    }
}

fn kib(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let value = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    value.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
}
