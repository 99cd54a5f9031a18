//! Members, writers and readers that are not ours: librdkafka and kafka-python, where `OCTOPUS_TEST_PYTHON` names a
//! Python that has them.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::support::{
    client::{BINARY, JSON},
    kafka::{Broker, on_kafka},
    server::Server,
};

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

/// A member of librdkafka's or kafka-python's in the group gets its share, and each side reads what the other
/// committed.
#[tokio::test(flavor = "multi_thread")]
async fn foreign_members_share_the_group_and_its_commits() {
    for client in ["librdkafka", "kafka-python"] {
        let Some(python) = std::env::var_os("OCTOPUS_TEST_PYTHON") else {
            return;
        };
        let broker = Broker::start().await;
        let server = Server::start(&broker.address(), &[]).await;
        let user = server.user(0);
        for topic in ["left", "right"] {
            let topic = broker.topic(&user, topic).await;
            broker.write(&topic, &[b"0", b"1", b"2", b"3"]).await;
        }
        let create = json!({"name": "ours", "auto.offset.reset": "earliest"}).to_string();
        user.post("/api/v2/consumers/mixed", &create).await.expect(200);
        let instance = "/api/v2/consumers/mixed/instances/ours";
        user.post(
            &format!("{instance}/subscription"),
            r#"{"topics": ["left", "right"]}"#,
        )
        .await
        .expect(204);
        assert!(
            !user
                .fetch_some(instance, "?timeout=5000", BINARY)
                .await
                .is_empty()
        );
        // Ours commits 2 for both before the other one comes.
        let processed: Vec<_> = ["left", "right"]
            .iter()
            .map(|t| json!({"topic": t, "partition": 0, "offset": 1}))
            .collect();
        let offsets = format!("{instance}/offsets");
        user.post(&offsets, &json!({"offsets": processed}).to_string())
            .await
            .expect(200);

        // The member reads its share from our commit, commits all of it, says so, and leaves when its input ends.
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/walk/foreign");
        let mut member = Command::new(python)
            .arg(format!("{folder}/member.py"))
            .args([client, &broker.address(), &on_kafka(&user, "mixed")])
            .args([on_kafka(&user, "left"), on_kafka(&user, "right")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let waiting = async {
            loop {
                user.fetch(instance, "?timeout=300", BINARY).await.expect(200);
                let ours = user
                    .get(&format!("{instance}/assignments"))
                    .await
                    .expect(200)
                    .json();
                let ours = ours["partitions"].as_array().unwrap().clone();
                if ours.len() == 1 {
                    let theirs = if ours[0]["topic"] == "left" {
                        "right"
                    } else {
                        "left"
                    };
                    let partitions = json!({"partitions": [{"topic": theirs, "partition": 0}]}).to_string();
                    let committed = user
                        .send("GET", &offsets, &[], &partitions)
                        .await
                        .expect(200)
                        .json();
                    if committed["offsets"][0]["offset"] == 4 {
                        return;
                    }
                }
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), waiting)
            .await
            .unwrap();
        let mut input = member.stdin.take().unwrap();
        input.write_all(b"\n").unwrap();
        drop(input);
        let output = tokio::task::block_in_place(|| member.wait_with_output()).unwrap();
        assert!(output.status.success());
        let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(seen["offsets"], json!([2, 3]), "{client} starts at our commit");
    }
}
