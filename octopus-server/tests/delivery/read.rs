//! Replies that are read whole.

use octopus_server::send::Fate;
use tokio::task::yield_now;

use crate::{
    client::{Client, get},
    counted::counted,
    over::Over,
    server::{Server, WINDOW},
};

const TWO_MIB: usize = 2 * 1024 * 1024;
/// Those of frames of HTTP/2 and of what it copies into them, of our windows, and of replies.
const LENGTHS: [usize; 14] = [
    1,
    246,
    255,
    256,
    257,
    16_383,
    16_384,
    16_385,
    WINDOW - 1,
    WINDOW,
    WINDOW + 1,
    TWO_MIB,
    TWO_MIB + 1,
    3 * TWO_MIB + 1,
];

/// [RP-05]
#[tokio::test]
async fn a_reply_of_any_size_and_shape_that_is_read_whole_is_delivered() {
    for is_vectored in [true, false] {
        read_whole(counted(is_vectored).await.0).await;
    }
    for over in [Over::Https1, Over::Http2] {
        read_whole(Server::over(over).await).await;
    }
}

async fn read_whole(mut server: Server) {
    let mut client = Client::connect(server.door).await;
    for kind in ["one", "slices", "streamed"] {
        for length in LENGTHS {
            client.get(&format!("/{kind}/{length}")).await;
            assert_eq!(client.reply().await.body.len(), length);
            server.started().await;
            // The connection is kept, so nothing but the reply itself can have settled it.
            assert_eq!(
                server.fate().await.1,
                Fate::Delivered,
                "{:?} {kind} {length}",
                server.door.over
            );
        }
    }
    drop(client);
    server.ends_quietly().await;
}

/// [RP-02]
#[tokio::test]
async fn a_streamed_reply_has_no_content_length_and_a_whole_one_has() {
    let server = Server::start().await;
    let mut client = Client::connect(server.door).await;
    client.get(&format!("/streamed/{TWO_MIB}")).await;
    let head = client.reply().await.head;
    assert!(
        head.contains("transfer-encoding: chunked") && !head.contains("content-length"),
        "{head}"
    );
    client.get(&format!("/slices/{TWO_MIB}")).await;
    let head = client.reply().await.head;
    assert!(head.contains(&format!("content-length: {TWO_MIB}\r\n")), "{head}");
    assert!(!head.contains("transfer-encoding"), "{head}");
}

/// [RP-05]
#[tokio::test]
async fn pipelined_requests_are_answered_and_delivered_in_order() {
    for over in Over::ONE_BY_ONE {
        let mut server = Server::over(over).await;
        let mut client = Client::connect(server.door).await;
        client
            .send(get("/wait/100?1") + &get("/streamed/200000?2") + &get("/one/300?3"))
            .await;
        server.started().await;
        server.nothing().await;
        server.release();
        for length in [100, 200_000, 300] {
            assert_eq!(client.reply().await.body.len(), length);
        }
        assert_eq!(server.fate().await, (1, Fate::Delivered));
        for id in 2..=3 {
            server.started().await;
            assert_eq!(server.fate().await, (id, Fate::Delivered));
        }
        server.ends_quietly().await;
    }
}

/// [RP-05]
#[tokio::test]
async fn a_100_continue_settles_nothing() {
    for over in Over::ONE_BY_ONE {
        let mut server = Server::over(over).await;
        let mut client = Client::connect(server.door).await;
        client
        .send("POST /body/10 HTTP/1.1\r\nHost: octopus\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
        .await;
        assert!(client.head().await.starts_with("HTTP/1.1 100"));
        server.started().await;
        client.send("body").await;
        server.nothing().await;
        server.release();
        assert_eq!(client.reply().await.body.len(), 10);
        assert_eq!(server.fate().await.1, Fate::Delivered);
        server.ends_quietly().await;
    }
}

/// [RP-05]
#[tokio::test]
async fn a_reply_before_a_close_is_delivered_and_then_the_connection_ends_in_order() {
    for over in Over::ONE_BY_ONE {
        let mut server = Server::over(over).await;
        for request in [
            "GET /one/200000 HTTP/1.1\r\nHost: octopus\r\nConnection: close\r\n\r\n",
            "GET /one/200000 HTTP/1.0\r\n\r\n",
            "GET /streamed/200000 HTTP/1.1\r\nHost: octopus\r\nConnection: close\r\n\r\n",
        ] {
            let mut client = Client::connect(server.door).await;
            client.send(request).await;
            server.started().await;
            assert_eq!(client.reply().await.body.len(), 200_000);
            // The client has not closed its side.
            assert_eq!(server.fate().await.1, Fate::Delivered);
            client.is_closed().await;
        }
        server.ends_quietly().await;
    }
}

#[tokio::test]
async fn a_reply_without_a_body_is_sent() {
    for over in Over::ALL {
        let server = Server::over(over).await;
        let mut client = Client::connect(server.door).await;
        for _ in 0..2 {
            client.get("/empty/0").await;
            let reply = client.reply().await;
            assert!(reply.head.contains(" 204"), "{}", reply.head);
            assert_eq!(reply.body.len(), 0);
        }
    }
}

/// hyper drops the body of a reply to HEAD unsent: its receipt cannot say that it was delivered, and the connection
/// goes on.
#[tokio::test]
async fn a_reply_to_head_has_no_body_and_is_told_once() {
    for over in Over::ONE_BY_ONE {
        let mut server = Server::over(over).await;
        let mut client = Client::connect(server.door).await;
        for _ in 0..2 {
            client
                .send("HEAD /one/1000 HTTP/1.1\r\nHost: octopus\r\n\r\n")
                .await;
            let head = client.head().await;
            assert!(head.contains("content-length: 1000\r\n"), "{head}");
            server.started().await;
            assert_eq!(server.fate().await.1, Fate::Dropped);
            client.get("/one/10").await;
            assert_eq!(client.reply().await.body.len(), 10);
            server.started().await;
            assert_eq!(server.fate().await.1, Fate::Delivered);
        }
        server.ends_quietly().await;
    }
}

/// The rest of a large request is thrown away before the close: else a reset would stop the client from
/// sending, and could overtake the reply.
#[tokio::test]
async fn a_reply_that_comes_before_its_request_was_read_reaches_the_client() {
    for over in Over::ONE_BY_ONE {
        let mut server = Server::over(over).await;
        for _ in 0..20 {
            let mut client = Client::connect(server.door).await;
            client
                .send("POST /one/1000 HTTP/1.1\r\nHost: octopus\r\nContent-Length: 300000\r\n\r\n")
                .await;
            server.started().await;
            client.stream.tcp().readable().await.unwrap();
            for _ in 0..10 {
                client.send([b'x'; 30_000]).await;
                yield_now().await;
            }
            assert_eq!(client.reply().await.body.len(), 1000);
            client.is_closed().await;
            assert_eq!(server.fate().await.1, Fate::Delivered);
        }
    }
}
