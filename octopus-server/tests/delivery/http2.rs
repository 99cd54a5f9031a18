//! What only HTTP/2 has: many requests at once, and windows.

use std::{collections::HashMap, io, time::Duration};

use octopus_server::{listener::Options, send::Fate};
use tokio::time::timeout;

use crate::{
    client::Client,
    frames::{DATA, END_STREAM, Frame, GOAWAY, HEADERS, NO_ERROR, RST_STREAM, WINDOW, status},
    over::Over,
    server::{A_WHILE, SOON, Server, Told, assert_sent},
};

const REFUSED_STREAM: u32 = 7;

async fn frame(client: &mut Client) -> Frame {
    let frame = timeout(SOON, client.frame()).await.expect("a frame");
    frame.unwrap().expect("the end came first")
}

/// [RP-05] what fits the window is with the network, and the last byte that does not is not, whatever else is sent.
#[tokio::test]
async fn a_reply_is_delivered_when_the_window_took_its_last_byte() {
    let mut server = Server::over(Over::Http2).await;
    for kind in ["one", "slices", "streamed"] {
        let mut client = Client::connect(server.door).await;
        client.get(&format!("/{kind}/{WINDOW}?1")).await;
        server.started().await;
        assert_eq!(server.fate().await, (1, Fate::Delivered), "{kind}");

        let mut client = Client::connect(server.door).await;
        client.get(&format!("/{kind}/{}?2", WINDOW + 1)).await;
        let stalled = client.last;
        server.started().await;
        server.nothing().await;
        // Another reply is sent and flushed meanwhile.
        client.ask("GET", "/empty/0?3", END_STREAM, &[]).await;
        server.started().await;
        assert_eq!(server.fate().await, (3, Fate::Delivered));
        server.nothing().await;
        client.last = stalled;
        client.others_are_ignored = true;
        assert_eq!(client.reply().await.body.len(), WINDOW + 1);
        assert_eq!(server.fate().await, (2, Fate::Delivered), "{kind}");
    }
    server.ends_quietly().await;
}

/// [RP-04] a client gives up one request: in the wait, in the middle of its reply, and behind a body that the HTTP library
/// has taken whole. Others on its connection go on.
#[tokio::test]
async fn a_request_that_is_reset_is_dropped_and_others_are_not() {
    let mut server = Server::over(Over::Http2).await;
    let mut client = Client::connect(server.door).await;
    client.get("/wait/10?1").await;
    let waiting = client.last;
    server.started().await;

    client.get("/wait/10?2").await;
    server.started().await;
    server.nothing().await;
    client.cancel().await;
    server.given_up().await;

    for kind in ["one", "slices", "streamed"] {
        for is_begun in [true, false] {
            client.get(&format!("/{kind}/2000000?3")).await;
            server.started().await;
            if is_begun {
                client.head().await;
                client.some(1000).await;
            }
            server.nothing().await;
            client.cancel().await;
            assert_eq!(server.fate().await, (3, Fate::Dropped), "{kind} {is_begun}");
            client.drain().await;
        }
    }

    client.post("/body/10?4", 100, "half").await;
    server.started().await;
    client.cancel().await;
    for _ in 0..2 {
        assert!(matches!(
            server.told().await,
            (4, Told::Unanswered | Told::Fate(Fate::Dropped))
        ));
    }

    server.release();
    client.last = waiting;
    assert_eq!(client.reply().await.body.len(), 10);
    assert_eq!(server.fate().await, (1, Fate::Delivered));
    server.ends_quietly().await;
}

/// [RP-05]
#[tokio::test]
async fn many_requests_of_a_connection_are_answered_each_for_itself() {
    let mut server = Server::over(Over::Http2).await;
    let mut client = Client::connect(server.door).await;
    let mut lengths = HashMap::new();
    for id in 0..100_usize {
        let kind = ["one", "slices", "streamed"][id % 3];
        client.get(&format!("/{kind}/{}?{id}", id * 997 + 1)).await;
        lengths.insert(client.last, id * 997 + 1);
    }
    let mut bodies: HashMap<u32, Vec<u8>> = HashMap::new();
    let mut whole = 0;
    while whole < lengths.len() {
        let frame = frame(&mut client).await;
        match frame.kind {
            HEADERS => assert_eq!(status(&frame.payload), 200),
            DATA => {
                client.widen(&frame).await;
                bodies.entry(frame.stream).or_default().extend(&frame.payload);
                whole += usize::from(frame.has(END_STREAM));
            }
            _ => panic!("{frame:?}"),
        }
    }
    for (stream, length) in lengths {
        assert_eq!(bodies[&stream].len(), length);
        assert_sent(&bodies[&stream], 0);
    }
    let mut delivered = 0;
    for _ in 0..200 {
        match server.told().await.1 {
            Told::Started(_) => {}
            Told::Fate(Fate::Delivered) => delivered += 1,
            other @ (Told::Unanswered | Told::Fate(Fate::Dropped)) => panic!("{other:?}"),
        }
    }
    assert_eq!(delivered, 100);
    server.ends_quietly().await;
}

/// [RP-03] a reply that takes too long ends the connection, and with it the others' replies, which are fetched again.
#[tokio::test]
async fn an_abort_drops_all_that_the_connection_was_at() {
    let mut server = Server::over(Over::Http2).await;
    let mut client = Client::connect(server.door).await;
    client.get("/wait/10?1").await;
    server.started().await;
    client.get("/one/600000?2").await;
    let stalled = server.started().await;
    server.nothing().await;
    stalled.abort();
    let mut told = [server.told().await, server.told().await, server.told().await];
    told.sort_by_key(|(id, told)| (*id, matches!(told, Told::Fate(_))));
    assert!(
        matches!(
            told,
            [
                (1, Told::Unanswered),
                (1, Told::Fate(Fate::Dropped)),
                (2, Told::Fate(Fate::Dropped))
            ]
        ),
        "{told:?}"
    );
    client.is_reset().await;
    server.ends_quietly().await;
}

/// [D-32] a request that has no answer ends alone.
#[tokio::test]
async fn a_request_without_an_answer_is_reset_and_its_connection_goes_on() {
    let mut server = Server::over(Over::Http2).await;
    let mut client = Client::connect(server.door).await;
    client.get("/cut/10?1").await;
    server.started().await;
    let reset = frame(&mut client).await;
    assert_eq!((reset.kind, reset.stream), (RST_STREAM, client.last));
    server.given_up().await;
    client.get("/one/10?2").await;
    assert_eq!(client.reply().await.body.len(), 10);
    server.started().await;
    assert_eq!(server.fate().await, (2, Fate::Delivered));
    server.ends_quietly().await;
}

#[tokio::test]
async fn a_reply_to_head_has_no_body() {
    let mut server = Server::over(Over::Http2).await;
    let mut client = Client::connect(server.door).await;
    for path in ["/one/1000", "/streamed/1000", "/empty/0"] {
        client.ask("HEAD", path, END_STREAM, &[]).await;
        let head = frame(&mut client).await;
        assert_eq!(head.kind, HEADERS, "{path}: {head:?}");
        assert!(head.has(END_STREAM), "{path}: {head:?}");
        server.started().await;
        server.fate().await;
    }
    client.get("/one/10").await;
    assert_eq!(client.reply().await.body.len(), 10);
}

/// [CT-05] a reply that comes before its request was read reaches its client, which is told to stop and not that it failed.
#[tokio::test]
async fn a_reply_before_the_end_of_its_request_is_followed_by_a_reset_without_an_error() {
    let mut server = Server::over(Over::Http2).await;
    let mut client = Client::connect(server.door).await;
    client.post("/one/1000?1", 300_000, "some").await;
    server.started().await;
    assert_eq!(client.reply().await.body.len(), 1000);
    assert_eq!(server.fate().await, (1, Fate::Delivered));
    let reset = frame(&mut client).await;
    let told = (reset.kind, reset.stream, reset.code());
    assert_eq!(told, (RST_STREAM, client.last, NO_ERROR));
    client.get("/one/10?2").await;
    assert_eq!(client.reply().await.body.len(), 10);
    server.started().await;
    assert_eq!(server.fate().await, (2, Fate::Delivered));
    server.ends_quietly().await;
}

#[tokio::test]
async fn a_panic_is_a_500_of_its_stream_alone() {
    let mut server = Server::over(Over::Http2).await;
    let mut client = Client::connect(server.door).await;
    client.get("/wait/10?1").await;
    let waiting = client.last;
    server.started().await;
    client.get("/panic/0?2").await;
    assert_eq!(client.reply().await.head, "HTTP/2 500");
    server.release();
    client.last = waiting;
    assert_eq!(client.reply().await.body.len(), 10);
}

/// Requests past the most of a connection are refused so that they may be sent again.
#[tokio::test]
async fn requests_past_the_most_of_a_connection_are_refused() {
    let mut options = Options::default();
    assert_eq!(options.max_streams, 100);
    options.max_streams = 2;
    let mut server = Server::with_over(options, Over::Http2).await;
    let mut client = Client::connect(server.door).await;
    // The limit holds once the client has acknowledged it.
    client.get("/one/10?0").await;
    client.reply().await;
    server.started().await;
    server.fate().await;
    for id in 1..3 {
        client.get(&format!("/wait/10?{id}")).await;
        server.started().await;
    }
    client.get("/one/10?3").await;
    let reset = frame(&mut client).await;
    let told = (reset.kind, reset.stream, reset.code());
    assert_eq!(told, (RST_STREAM, client.last, REFUSED_STREAM));
    server.nothing().await;
}

/// [RP-05] at the shutdown the requests in hand are answered, and then the connection ends.
#[tokio::test]
async fn requests_in_hand_are_answered_at_the_shutdown() {
    let mut options = Options::default();
    options.drain = Duration::from_secs(100);
    let mut server = Server::with_over(options, Over::Http2).await;
    let mut client = Client::connect(server.door).await;
    client.get("/wait/200000?1").await;
    server.started().await;
    server.shutdown.notify_one();
    let farewell = frame(&mut client).await;
    assert_eq!((farewell.kind, farewell.code()), (GOAWAY, NO_ERROR));
    server.nothing().await;
    server.release();
    assert_eq!(client.reply().await.body.len(), 200_000);
    client.is_closed().await;
    assert_eq!(server.fate().await, (1, Fate::Delivered));
    drop(client);
    server.ends_quietly().await;
}

/// A client that does not answer a farewell is not waited for.
#[tokio::test]
async fn a_client_that_is_idle_and_silent_is_left() {
    let mut options = Options::default();
    options.keep_alive = A_WHILE;
    let server = Server::with_over(options, Over::Http2).await;
    let client = Client::connect(server.door).await;
    // It answers nothing, since it does not understand what it reads.
    let socket = client.stream.tcp();
    let closed = async {
        let mut bytes = [0; 1 << 14];
        loop {
            socket.readable().await.unwrap();
            match socket.try_read(&mut bytes) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
    };
    timeout(SOON, closed).await.expect("still open");
    server.ends_quietly().await;
}
