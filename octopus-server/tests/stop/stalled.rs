//! Replies that nobody reads, and the service's end behind them.

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpSocket,
};

use crate::support::{client::BINARY, kafka::Broker, server::Server};

const INSTANCE: &str = "/api/v2/consumers/g/instances/i";

/// [RP-03] [AK-03] a reply that took too long ends its connection and counts as received: the next fetch starts behind
/// its records, and the stop commits past them.
#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_took_too_long_is_committed_past_at_the_stop() {
    let broker = Broker::start().await;
    let mut server = Server::start(&broker.address(), &["--send-timeout-ms", "1000"]).await;
    let user = server.user(0);
    let topic = broker.topic(&user, "events").await;
    broker.write(&topic, &[&vec![b'x'; 8 * 1024 * 1024 - 1024]]).await;
    broker.write(&topic, &[b"after"]).await;
    let create = json!({"name": "i", "auto.offset.reset": "earliest", "auto.commit.enable": "true"});
    user.post("/api/v2/consumers/g", &create.to_string())
        .await
        .expect(200);
    let partitions = json!({"partitions": [{"topic": "events", "partition": 0}]}).to_string();
    user.post(&format!("{INSTANCE}/assignments"), &partitions)
        .await
        .expect(204);

    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(user.address).await.unwrap();
    let path = format!("{INSTANCE}/records?timeout=10000");
    let fetch = user.head("GET", &path, &[("Accept", BINARY)], "");
    stream.write_all(fetch.as_bytes()).await.unwrap();
    let mut part = [0; 1024];
    stream.read_exact(&mut part).await.unwrap();
    // It holds its instance until its time is over.
    let next = loop {
        let reply = user.fetch(INSTANCE, "?timeout=10000", BINARY).await;
        if reply.status == 200 {
            break reply.json();
        }
        assert_eq!(reply.error(), (409, 40904));
    };
    assert_eq!(next[0]["offset"], 1, "behind the large record");
    let mut rest = Vec::new();
    assert!(
        stream.read_to_end(&mut rest).await.is_err(),
        "the connection is reset"
    );

    server.signal("TERM");
    assert_eq!(server.ended().await.code(), Some(0));
    assert_eq!(broker.committed(&user, "g", "events").await, Some(2));
}
