//! Members, writers and readers that are not ours: librdkafka and kafka-python, where `OCTOPUS_TEST_PYTHON` names a
//! Python that has them.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use crate::support::{
    client::{BINARY, Client, JSON},
    kafka::{Broker, on_kafka},
    server::Server,
};

/// Far longer than a member needs to start, join, read and commit.
const SHARED_WITHIN: Duration = Duration::from_secs(60);

/// Runs a script of `tests/walk/foreign/` with arguments and gives what it printed as JSON; `None` without a Python.
fn python(script: &str, args: &[&str]) -> Option<Value> {
    let python = std::env::var_os("OCTOPUS_TEST_PYTHON")?;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/walk/foreign");
    let output = Command::new(python)
        .arg(format!("{folder}/{script}"))
        .args(args)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    Some(serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {errors}")))
}

/// [FE-01] [FE-02] [FE-03] [FE-04] what librdkafka wrote in each compression is read back to the byte.
#[tokio::test(flavor = "multi_thread")]
async fn records_of_librdkafka_are_read_in_every_compression() {
    let broker = Broker::start().await;
    let server = Server::start(&broker.address(), &[]).await;
    let user = server.user(0);
    for compression in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let topic = broker.topic(&user, compression).await;
        let address = broker.address();
        let args = [address.as_str(), &topic, compression];
        let run = tokio::task::block_in_place(|| python("write.py", &args));
        let Some(written) = run else { return };
        for (format, accept) in [("binary", BINARY), ("json", JSON)] {
            let name = format!("{format}-{compression}");
            let create = json!({"name": name, "format": format, "auto.offset.reset": "earliest"}).to_string();
            user.post("/api/v2/consumers/g", &create).await.expect(200);
            let instance = format!("/api/v2/consumers/g/instances/{name}");
            let partitions = json!({"partitions": [{"topic": compression, "partition": 0}]}).to_string();
            user.post(&format!("{instance}/assignments"), &partitions)
                .await
                .expect(204);
            let expected = written[format].as_array().unwrap();
            let mut read = Vec::new();
            while read.len() < expected.len() {
                read.extend(user.fetch_some(&instance, "?timeout=5000", accept).await);
            }
            assert_eq!(&read, expected, "{format} {compression}");
            user.delete(&instance).await.expect(204);
        }
    }
}

/// A member of librdkafka's in the group gets its share, and each side goes on from what the other committed.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_of_librdkafka_shares_the_group_and_its_commits() {
    share_with("librdkafka", "roundrobin").await;
    share_with("librdkafka", "range").await;
}

/// As above, in the protocol where the broker assigns.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_of_librdkafka_shares_the_group_that_the_broker_assigns_in() {
    share_with("librdkafka", "").await;
}

/// As above, with kafka-python.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_of_kafka_python_shares_the_group_and_its_commits() {
    share_with("kafka-python", "roundrobin").await;
    share_with("kafka-python", "range").await;
}

/// Ours leads the group and gives the other one, whose id sorts first, one of two topics by `roundrobin`, and both by
/// `range`, since each has one partition. Without an assignor, it is for the broker to give one to each.
async fn share_with(client: &str, assignor: &str) {
    let Some(python) = std::env::var_os("OCTOPUS_TEST_PYTHON") else {
        return;
    };
    let broker = Broker::start().await;
    let protocol = if assignor.is_empty() {
        "consumer"
    } else {
        "classic"
    };
    let server = Server::start(&broker.address(), &["--kafka-group-protocol", protocol]).await;
    let user = server.user(0);
    let on_kafka = |name: &str| on_kafka(&user, name);
    for topic in ["left", "right"] {
        let topic = broker.topic(&user, topic).await;
        broker.write(&topic, &[b"0", b"1", b"2", b"3"]).await;
    }
    let create = json!({"name": "ours", "auto.offset.reset": "earliest"}).to_string();
    user.post("/api/v2/consumers/mixed", &create).await.expect(200);
    let instance = "/api/v2/consumers/mixed/instances/ours";
    let subscription = json!({"topics": ["left", "right"]}).to_string();
    user.post(&format!("{instance}/subscription"), &subscription)
        .await
        .expect(204);
    let mut read = 0;
    while read < 8 {
        read += user.fetch_some(instance, "?timeout=5000", BINARY).await.len();
    }
    // Ours commits 2 for both before the other one comes.
    let processed = ["left", "right"].map(|t| json!({"topic": t, "partition": 0, "offset": 1}));
    let offsets = format!("{instance}/offsets");
    user.post(&offsets, &json!({"offsets": processed}).to_string())
        .await
        .expect(200);

    // The member reads its share from our commit, commits all of it, and leaves when its input ends.
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/walk/foreign");
    let member = Command::new(python)
        .arg(format!("{folder}/member.py"))
        .args([client, assignor, &broker.address(), &on_kafka("mixed")])
        .args([on_kafka("left"), on_kafka("right")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let ours = if assignor == "range" { 0 } else { 1 };
    let waiting = async {
        loop {
            user.fetch(instance, "?timeout=300", BINARY).await.expect(200);
            let kept = topics(&user, &format!("{instance}/assignments")).await;
            let theirs: Vec<_> = ["left", "right"]
                .into_iter()
                .filter(|t| !kept.iter().any(|k| k == t))
                .collect();
            if kept.len() != ours {
                continue;
            }
            let mut done = true;
            for topic in &theirs {
                done &= broker.committed(&user, "mixed", topic).await == Some(4);
            }
            if done {
                return theirs;
            }
        }
    };
    let waited = tokio::time::timeout(SHARED_WITHIN, waiting).await;
    // Its input ends with this, also where the wait was in vain.
    let output = tokio::task::block_in_place(|| member.wait_with_output()).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let theirs = waited.unwrap_or_else(|_| panic!("{client} has no share by {assignor}: {errors}"));
    assert!(output.status.success(), "{client}: {errors}");
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    let from_ours: Value = theirs.iter().map(|t| (on_kafka(t), json!([2, 3]))).collect();
    assert_eq!(seen, from_ours, "{client} starts at our commits, by {assignor}");

    // Ours takes over, and goes on from their commits.
    for topic in &theirs {
        broker.write(&on_kafka(topic), &[b"4"]).await;
    }
    let mut taken_over = Vec::new();
    while taken_over.len() < theirs.len() {
        taken_over.extend(user.fetch_some(instance, "?timeout=1000", BINARY).await);
    }
    taken_over.sort_by_key(|record| record["topic"].to_string());
    let taken_over: Vec<_> = taken_over
        .iter()
        .map(|r| (r["topic"].as_str().unwrap(), r["offset"].as_i64().unwrap()))
        .collect();
    let from_theirs: Vec<_> = theirs.iter().map(|&t| (t, 4)).collect();
    assert_eq!(
        taken_over, from_theirs,
        "ours goes on from the commits of {client}"
    );
}

/// The topics that an instance has.
async fn topics(user: &Client, assignments: &str) -> Vec<Value> {
    let assigned = user.get(assignments).await.expect(200).json();
    let partitions = assigned["partitions"].as_array().unwrap();
    partitions.iter().map(|p| p["topic"].clone()).collect()
}
