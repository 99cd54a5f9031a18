//! The time and the number of connections.

use std::{future, io, time::Duration};

use octopus_server::{
    listener::{Options, Protocol},
    send::Fate,
    wire::Socket,
};
use tokio::{
    io::AsyncWriteExt as _,
    time::{Instant, sleep, timeout},
};

use crate::{
    client::{Client, get},
    over::Over,
    server::{A_WHILE, SOON, Server},
};

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(100);

fn options(head_timeout: Duration, keep_alive: Duration) -> Options {
    let mut options = Options::default();
    options.head_timeout = head_timeout;
    options.keep_alive = keep_alive;
    options
}

/// [D-32]
#[test]
fn the_times_are_those_decided() {
    let options = Options::default();
    assert_eq!(options.head_timeout, Duration::from_secs(10));
    assert_eq!(options.keep_alive, Duration::from_secs(75));
}

/// [D-32]
#[tokio::test]
async fn a_head_that_is_late_closes_its_connection() {
    for over in Over::ONE_BY_ONE {
        let mut server = Server::with_over(options(SHORT, LONG), over).await;
        for is_first in [true, false] {
            let mut client = Client::connect(server.door).await;
            if !is_first {
                client.get("/one/10").await;
                client.reply().await;
                server.started().await;
                server.fate().await;
            }
            let start = Instant::now();
            // Each byte comes soon after the one before: the limit is on all of them together.
            let mut is_closed = false;
            for byte in b"GET /one/10 HTTP/1.1\r\nHo" {
                let closed = timeout(Duration::from_millis(40), client.is_closed_or_reset()).await;
                is_closed = closed.is_ok();
                if !is_closed {
                    let _ = client.stream.write_all(&[*byte]).await;
                }
                if is_closed {
                    assert!(start.elapsed() >= SHORT);
                    break;
                }
            }
            assert!(is_closed);
        }
        server.ends_quietly().await;
    }
}

/// [D-32]
#[tokio::test]
async fn the_limit_on_heads_starts_at_their_first_byte() {
    for over in Over::ALL {
        let mut server = Server::with_over(options(SHORT, LONG), over).await;
        let mut client = Client::connect(server.door).await;
        for _ in 0..2 {
            sleep(SHORT * 2).await;
            client.get("/one/10").await;
            assert_eq!(client.reply().await.body.len(), 10);
            server.started().await;
            assert_eq!(server.fate().await.1, Fate::Delivered);
        }
        server.ends_quietly().await;
    }
}

/// [D-32]
#[tokio::test]
async fn a_connection_without_a_request_closes_after_a_while() {
    for over in Over::ALL {
        let mut server = Server::with_over(options(LONG, SHORT), over).await;
        let start = Instant::now();
        let mut fresh = Client::connect(server.door).await;
        let mut used = Client::connect(server.door).await;
        used.get("/one/10").await;
        used.reply().await;
        fresh.is_closed().await;
        assert!(start.elapsed() >= SHORT);
        used.is_closed().await;
        server.started().await;
        server.fate().await;
        server.ends_quietly().await;
    }
}

/// [D-32]
#[tokio::test]
async fn a_request_in_hand_has_no_limit_here() {
    for over in Over::ALL {
        let mut server = Server::with_over(options(SHORT, SHORT), over).await;
        let mut client = Client::connect(server.door).await;
        client.get("/wait/10").await;
        server.started().await;
        let mut stalled = Client::with_window(server.door, 4096).await;
        stalled.get("/one/600000").await;
        server.started().await;
        sleep(SHORT * 3).await;
        server.nothing().await;
        server.release();
        assert_eq!(client.reply().await.body.len(), 10);
        assert_eq!(server.fate().await.1, Fate::Delivered);
        assert_eq!(stalled.reply().await.body.len(), 600_000);
        assert_eq!(server.fate().await.1, Fate::Delivered);
        server.ends_quietly().await;
    }
}

/// [D-32]
#[tokio::test]
async fn a_handshake_that_is_late_closes_its_connection() {
    let layer = |_| future::pending::<io::Result<(Socket, Protocol)>>();
    let server = Server::layered(options(SHORT, LONG), layer).await;
    let start = Instant::now();
    Client::connect(server.door).await.is_closed().await;
    assert!(start.elapsed() >= SHORT);
    server.ends_quietly().await;
}

#[tokio::test]
async fn connections_past_the_limit_wait_for_a_place() {
    let mut options = Options::default();
    options.max_connections = 2;
    let mut server = Server::with(options).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut client = Client::connect(server.door).await;
        client.get("/one/10").await;
        client.reply().await;
        server.started().await;
        server.fate().await;
        held.push(client);
    }
    let mut third = Client::connect(server.door).await;
    third.get("/one/10").await;
    assert!(timeout(A_WHILE, third.stream.tcp().readable()).await.is_err());
    held.pop();
    assert_eq!(third.reply().await.body.len(), 10);
}

#[tokio::test]
async fn connections_past_those_of_an_address_are_closed() {
    let mut options = Options::default();
    options.max_connections_per_address = 2;
    let server = Server::with(options).await;
    let mut held = [
        Client::connect(server.door).await,
        Client::connect(server.door).await,
    ];
    for client in &mut held {
        client.get("/one/10").await;
        client.reply().await;
    }
    Client::connect(server.door).await.is_closed().await;
    let [mut first, second] = held;
    first.get("/one/10").await;
    first.reply().await;
    drop(second);
    // Its place is free once the server has noticed.
    let served = async {
        loop {
            let mut client = Client::connect(server.door).await;
            if timeout(A_WHILE, client.is_closed_or_reset()).await.is_err() {
                client.get("/one/10").await;
                return client.reply().await;
            }
        }
    };
    let reply = timeout(SOON, served).await.expect("a place");
    assert_eq!(reply.body.len(), 10);
}

#[tokio::test]
async fn a_head_that_is_too_large_is_a_431() {
    let mut options = Options::default();
    options.head_bytes = 8192;
    let server = Server::with(options).await;
    let mut client = Client::connect(server.door).await;
    client
        .send(get("/one/10").replace("Host", &format!("X: {}\r\nHost", "x".repeat(9000))))
        .await;
    let head = client.reply().await.head;
    assert!(head.starts_with("HTTP/1.1 431"), "{head}");
}
