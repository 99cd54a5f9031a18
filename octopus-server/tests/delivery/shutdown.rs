//! The end of the service, with connections in every state.

use std::time::Duration;

use octopus_server::{listener::Options, send::Fate};
use tokio::{net::TcpStream, time::sleep};

use crate::{
    client::{Client, get},
    over::Over,
    server::{Server, Told},
};

fn options(drain: Duration) -> Options {
    let mut options = Options::default();
    options.drain = drain;
    options
}

/// What is idle ends at once, long before the deadline.
#[tokio::test]
async fn idle_connections_end_at_once_and_no_more_are_accepted() {
    for over in Over::ALL {
        let mut server = Server::with_over(options(Duration::from_secs(100)), over).await;
        let mut fresh = Client::connect(server.door).await;
        let mut idle = Client::connect(server.door).await;
        let mut begun = Client::connect(server.door).await;
        for client in [&mut idle, &mut begun] {
            client.get("/one/10").await;
            client.reply().await;
            server.started().await;
            server.fate().await;
        }
        begun.begin().await;
        sleep(Duration::from_millis(50)).await; // It is read.
        let addr = server.door.addr;
        server.shutdown.notify_one();
        for client in [&mut fresh, &mut idle, &mut begun] {
            client.is_closed().await;
        }
        drop((fresh, idle, begun));
        server.ends_quietly().await;
        assert!(TcpStream::connect(addr).await.is_err());
    }
}

/// [RP-05]
#[tokio::test]
async fn a_request_in_hand_is_answered_and_the_one_behind_it_is_not() {
    for over in Over::ONE_BY_ONE {
        let mut server = Server::with_over(options(Duration::from_secs(100)), over).await;
        let mut client = Client::connect(server.door).await;
        client.send(get("/wait/200000?1") + &get("/one/10?2")).await;
        server.started().await;
        server.shutdown.notify_one();
        server.nothing().await;
        server.release();
        let reply = client.reply().await;
        assert!(reply.head.contains("connection: close"), "{}", reply.head);
        assert_eq!(reply.body.len(), 200_000);
        client.is_closed().await;
        assert_eq!(server.fate().await, (1, Fate::Delivered));
        drop(client);
        server.ends_quietly().await;
    }
}

/// [D-32]
#[tokio::test]
async fn half_a_head_ends_by_its_own_limit() {
    for over in Over::ONE_BY_ONE {
        let mut options = options(Duration::from_secs(100));
        options.head_timeout = Duration::from_millis(300);
        let server = Server::with_over(options, over).await;
        let mut client = Client::connect(server.door).await;
        client.send("GET /one/10 HT").await;
        sleep(Duration::from_millis(50)).await;
        server.shutdown.notify_one();
        client.is_closed_or_reset().await;
        server.ends_quietly().await;
    }
}

/// [RP-04]
#[tokio::test]
async fn what_does_not_end_by_itself_is_reset_at_the_deadline_and_told_dropped_once() {
    let mut server = Server::with(options(Duration::from_secs(1))).await;
    let mut clients = Vec::new();
    for request in [
        get("/wait/10?1"),
        get("/wait/10?2") + "G",
        "POST /body/10?3 HTTP/1.1\r\nHost: octopus\r\nContent-Length: 100\r\n\r\nhalf".to_owned(),
        get("/one/600000?4"),
        get("/streamed/600000?5"),
    ] {
        let mut client = Client::with_window(server.door, 4096).await;
        client.send(request).await;
        server.started().await;
        clients.push(client);
    }
    let mut half = Client::connect(server.door).await;
    half.send("GET /one/10 HT").await;
    sleep(Duration::from_millis(50)).await;
    clients.push(half);

    server.shutdown.notify_one();
    server.nothing().await;
    let mut fates = Vec::new();
    for (id, told) in server.ended().await {
        if let Told::Fate(fate) = told {
            fates.push((id, fate));
        }
    }
    fates.sort_unstable_by_key(|(id, _)| *id);
    assert_eq!(fates, (1..=5).map(|id| (id, Fate::Dropped)).collect::<Vec<_>>());
    for client in &mut clients {
        client.is_reset().await;
    }
}

/// [RP-04]
#[tokio::test]
async fn a_server_that_is_given_up_drops_everything() {
    for over in Over::ALL {
        let mut server = Server::over(over).await;
        let mut client = Client::connect(server.door).await;
        client.get("/wait/10").await;
        server.started().await;
        server.task.abort();
        server.given_up().await;
        client.is_closed_or_reset().await;
    }
}
