//! Clients of HTTP/2 that are slow with a head, or send more than they may.

use std::time::Duration;

use octopus_server::{listener::Options, send::Fate};
use tokio::{
    io::AsyncWriteExt as _,
    time::{Instant, sleep, timeout},
};

use crate::{
    client::Client,
    frames::{
        CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, Frame, GOAWAY, HEADERS, PING,
        RST_STREAM, headers,
    },
    over::Over,
    server::{SOON, Server, Told},
};

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(100);

fn options(head_timeout: Duration, keep_alive: Duration) -> Options {
    let mut options = Options::default();
    options.head_timeout = head_timeout;
    options.keep_alive = keep_alive;
    options
}

/// Sends what `next` gives every 20 ms until the server closes; gives how long that took.
async fn drip(client: &mut Client, mut next: impl FnMut() -> Vec<u8>) -> Duration {
    let start = Instant::now();
    while start.elapsed() < SOON {
        let bytes = next();
        let is_sent = client.stream.write_all(&bytes).await.is_ok() && client.stream.flush().await.is_ok();
        let closed = timeout(Duration::from_millis(20), client.is_closed_or_reset()).await;
        if closed.is_ok() || !is_sent {
            return start.elapsed();
        }
    }
    panic!("still open");
}

/// [D-32] a list of headers has its time in all, however often its client says something, also beside another request.
#[tokio::test]
async fn a_list_of_headers_that_is_late_closes_its_connection() {
    for is_busy in [false, true] {
        let mut server = Server::with_over(options(SHORT, LONG), Over::Http2).await;
        let mut client = Client::connect(server.door).await;
        let mut stream = 1;
        if is_busy {
            client.get("/wait/10").await;
            server.started().await;
            stream = 3;
        }
        // The settings are answered before, since nothing may come between the parts of a list.
        client.drain().await;
        let list = headers("GET", "/one/10", &[]);
        client.send_frame(HEADERS, END_STREAM, stream, &list[..8]).await;
        let mut rest = Frame::new(CONTINUATION, END_HEADERS, stream, &list[8..])
            .bytes()
            .into_iter();
        let after = drip(&mut client, || rest.next().into_iter().collect()).await;
        assert!(after >= SHORT, "{after:?}");
        if is_busy {
            server.given_up().await;
        }
        server.ends_quietly().await;
    }
}

/// [D-32] a client that says something all the time, but asks nothing, is idle.
#[tokio::test]
async fn pings_do_not_keep_a_connection() {
    let mut server = Server::with_over(options(LONG, SHORT), Over::Http2).await;
    let mut client = Client::connect(server.door).await;
    let start = Instant::now();
    client.get("/one/10").await;
    client.reply().await;
    server.started().await;
    server.fate().await;
    let ping = Frame::new(PING, 0, 0, &[0; 8]).bytes();
    // Each time the end of one, and the begin of the next.
    client.send(&ping[..4]).await;
    let turned = [&ping[4..], &ping[..4]].concat();
    drip(&mut client, || turned.clone()).await;
    assert!(start.elapsed() >= SHORT);
    server.ends_quietly().await;
}

/// [D-32] a body's frame may come in pieces for longer than a head.
#[tokio::test]
async fn a_body_in_pieces_is_no_head() {
    let mut server = Server::with_over(options(SHORT, LONG), Over::Http2).await;
    let mut client = Client::connect(server.door).await;
    client
        .ask("POST", "/body/10", 0, &[("content-length", "20")])
        .await;
    server.started().await;
    server.release();
    let body = Frame::new(DATA, END_STREAM, client.last, &[b'x'; 20]).bytes();
    let start = Instant::now();
    for piece in body.chunks(9) {
        client.send(piece).await;
        sleep(SHORT / 2).await;
    }
    assert!(start.elapsed() >= SHORT);
    assert_eq!(client.reply().await.body.len(), 10);
    assert_eq!(server.fate().await.1, Fate::Delivered);
    server.ends_quietly().await;
}

/// A list of headers over 16 KiB is a bare 431, and the connection goes on.
#[tokio::test]
async fn a_list_of_headers_that_is_too_large_is_a_431() {
    assert_eq!(Options::default().head_bytes, 16 * 1024);
    let mut server = Server::over(Over::Http2).await;
    let mut client = Client::connect(server.door).await;
    let long = "x".repeat(15_000);
    client
        .ask("GET", "/one/10?1", END_STREAM, &[("x-long", &long)])
        .await;
    assert_eq!(client.reply().await.body.len(), 10);
    server.started().await;
    server.fate().await;
    let more = [("x-long", &*long), ("x-more", &long[..1150])];
    client.ask("GET", "/one/10?2", END_STREAM, &more).await;
    assert_eq!(client.head().await, "HTTP/2 431");
    client.get("/one/10?3").await;
    assert_eq!(client.reply().await.body.len(), 10);
    server.started().await;
    assert_eq!(server.fate().await.0, 3);
    server.ends_quietly().await;
}

/// The code of the farewell that the server says to a flood.
async fn farewell(client: &mut Client, flood: Vec<u8>) -> u32 {
    // It may end before all of it is sent.
    let _ = client.stream.write_all(&flood).await;
    let _ = client.stream.flush().await;
    let found = async {
        loop {
            match client.frame().await.unwrap() {
                Some(frame) if frame.kind == GOAWAY => return frame.code(),
                Some(_) => {}
                None => panic!("no farewell"),
            }
        }
    };
    timeout(SOON, found).await.expect("a farewell")
}

/// A list of headers that goes on and on is cut off (the CONTINUATION flood).
#[tokio::test]
async fn a_flood_of_continuations_ends_its_connection() {
    let mut server = Server::over(Over::Http2).await;
    let mut client = Client::connect(server.door).await;
    let mut flood = Frame::new(HEADERS, END_STREAM, 1, &headers("GET", "/one/10", &[])).bytes();
    for _ in 0..200 {
        flood.extend(Frame::new(CONTINUATION, 0, 1, &[]).bytes());
    }
    assert_eq!(farewell(&mut client, flood).await, ENHANCE_YOUR_CALM);
    client.is_closed_or_reset().await;
    server.nothing().await;
    server.ends_quietly().await;
}

/// Requests that are taken back as soon as they are sent (rapid reset, CVE-2023-44487) end their connection, and hardly any
/// of them begins.
#[tokio::test]
async fn a_flood_of_resets_ends_its_connection() {
    let server = Server::over(Over::Http2).await;
    let mut client = Client::connect(server.door).await;
    let list = headers("GET", "/wait/10", &[]);
    let mut flood = Vec::new();
    for stream in (1..2000).step_by(2) {
        flood.extend(Frame::new(HEADERS, END_STREAM | END_HEADERS, stream, &list).bytes());
        flood.extend(Frame::new(RST_STREAM, 0, stream, &CANCEL.to_be_bytes()).bytes());
    }
    assert_eq!(farewell(&mut client, flood).await, ENHANCE_YOUR_CALM);
    client.is_closed_or_reset().await;
    let told = server.end().await;
    let begun = told
        .iter()
        .filter(|(_, told)| matches!(told, Told::Started(_)))
        .count();
    assert!(begun < 100, "{begun} of 1000 began");
}
