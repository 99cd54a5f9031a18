//! Clients that leave before they have their reply, and those that stay.

use std::time::Duration;

use serde_json::json;
use tokio::{io::AsyncReadExt, net::TcpSocket};

use crate::support::{
    client::{BINARY, Client},
    kafka::Broker,
    server::Server,
};

const INSTANCE: &str = "/api/v2/consumers/g/instances/i";

async fn assigned(server: &Server, topic: &str) -> Client {
    let user = server.user(0);
    user.post(
        "/api/v2/consumers/g",
        r#"{"name": "i", "auto.offset.reset": "earliest"}"#,
    )
    .await
    .expect(200);
    let partitions = json!({"partitions": [{"topic": topic, "partition": 0}]}).to_string();
    user.post(&format!("{INSTANCE}/assignments"), &partitions)
        .await
        .expect(204);
    user
}

/// Fetches until the instance is free again.
async fn next_offset(user: &Client) -> i64 {
    for _ in 0..200 {
        let reply = user.fetch(INSTANCE, "?timeout=5000", BINARY).await;
        if reply.status == 200 {
            if let Some(first) = reply.json().get(0) {
                return first["offset"].as_i64().unwrap();
            }
        } else {
            assert_eq!(reply.error(), (409, 40904));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no records");
}

/// [RP-04] [AK-04] a client that leaves in the middle of a long poll costs no record.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_a_long_poll_gets_its_records_with_the_next_fetch() {
    let broker = Broker::start().await;
    let server = Server::start(&broker.address(), &[]).await;
    let topic = broker.topic(&server.user(0), "quiet").await;
    let user = assigned(&server, "quiet").await;
    for round in 0..5 {
        let connection = user.polling(INSTANCE, BINARY).await;
        drop(connection);
        let written = broker.write(&topic, &[b"here"]).await;
        assert_eq!(next_offset(&user).await, written, "round {round}");
    }
}

/// [RP-02] [RP-04] [RP-05] an 8 MiB record comes again to a client that took 4 KiB of it, and not to one that took it
/// whole.
#[tokio::test(flavor = "multi_thread")]
async fn a_reply_read_in_part_comes_again_and_one_read_whole_does_not() {
    let broker = Broker::start().await;
    let server = Server::start(&broker.address(), &[]).await;
    let topic = broker.topic(&server.user(0), "large").await;
    let large: Vec<u8> = (0..8 * 1024 * 1024 - 1024u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    broker.write(&topic, &[&large]).await;
    broker.write(&topic, &[b"after"]).await;
    let user = assigned(&server, "large").await;

    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(user.address).await.unwrap();
    let fetch = user.head(
        "GET",
        &format!("{INSTANCE}/records?timeout=10000"),
        &[("Accept", BINARY)],
        "",
    );
    tokio::io::AsyncWriteExt::write_all(&mut stream, fetch.as_bytes())
        .await
        .unwrap();
    let mut part = vec![0; 4096];
    stream.read_exact(&mut part).await.unwrap();
    let head = String::from_utf8_lossy(&part);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(
        head.contains("transfer-encoding: chunked") && !head.to_lowercase().contains("content-length"),
        "{head}"
    );
    drop(stream);

    // It comes again, and this time it is read whole.
    let whole = loop {
        let reply = user.fetch(INSTANCE, "?timeout=10000", BINARY).await;
        match reply.status {
            200 => break reply,
            _ => assert_eq!(reply.error(), (409, 40904)),
        }
    };
    let records = whole.json();
    assert_eq!(
        records.as_array().unwrap().len(),
        1,
        "a reply over 2 MiB holds its record alone"
    );
    assert_eq!(records[0]["offset"], 0);
    use base64_of::base64_of;
    assert_eq!(records[0]["value"].as_str().unwrap(), base64_of(&large));
    assert_eq!(next_offset(&user).await, 1);
}

mod base64_of {
    /// Base64 by the book, apart from the product's.
    pub(super) fn base64_of(bytes: &[u8]) -> String {
        const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
        for three in bytes.chunks(3) {
            let bits =
                three.iter().fold(0u32, |bits, &b| bits << 8 | u32::from(b)) << (8 * (3 - three.len()));
            for i in 0..4 {
                let digit = DIGITS[(bits >> (18 - 6 * i)) as usize & 63];
                text.push(if i <= three.len() { digit as char } else { '=' });
            }
        }
        text
    }
}
