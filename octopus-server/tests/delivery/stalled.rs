//! Clients that do not read, and what the kernel takes of their replies.

use std::{fs, future, net::SocketAddr, sync::atomic::Ordering::Relaxed, time::Duration};

use octopus_server::{
    listener::{Options, Protocol},
    send::Fate,
};
use tokio::{
    io::BufWriter,
    time::{sleep, timeout},
};

use crate::{
    client::Client,
    counted::counted,
    over::Over,
    server::{A_WHILE, SOON, Server},
};

/// [RP-03] [RP-05]
#[tokio::test]
async fn a_reply_that_nobody_reads_is_told_nothing_until_it_is_aborted() {
    for over in Over::ALL {
        let mut server = Server::over(over).await;
        for (kind, length) in [("one", 600_000), ("slices", 2_097_152), ("streamed", 9_000_000)] {
            let mut client = Client::with_window(server.door, 4096).await;
            client.get(&format!("/{kind}/{length}")).await;
            let peer = server.started().await;
            client.head().await;
            server.nothing().await;
            peer.abort();
            assert_eq!(server.fate().await.1, Fate::Dropped, "{kind}");
            is_gone(server.door.addr, client.stream.tcp().local_addr().unwrap()).await;
            client.is_reset().await;
        }
        server.ends_quietly().await;
    }
}

/// [RP-03]
#[tokio::test]
async fn an_abort_ends_a_wait_too() {
    for over in Over::ALL {
        let mut server = Server::over(over).await;
        for is_more_behind in [false, true] {
            let mut client = Client::connect(server.door).await;
            client.get("/wait/10").await;
            let peer = server.started().await;
            if is_more_behind {
                client.begin().await;
            }
            peer.abort();
            server.given_up().await;
            client.is_reset().await;
        }
        server.ends_quietly().await;
    }
}

/// [RP-03]
#[tokio::test]
async fn an_abort_leaves_other_connections_alone() {
    for over in Over::ALL {
        let mut server = Server::over(over).await;
        let mut stalled = Client::with_window(server.door, 4096).await;
        stalled.get("/one/600000?1").await;
        let first = server.started().await;
        let mut other = Client::with_window(server.door, 4096).await;
        other.get("/one/600000?2").await;
        server.started().await;
        first.abort();
        assert_eq!(server.fate().await, (1, Fate::Dropped));
        assert_eq!(other.reply().await.body.len(), 600_000);
        assert_eq!(server.fate().await, (2, Fate::Delivered));
        server.ends_quietly().await;
    }
}

/// [RP-03]
#[tokio::test]
async fn a_late_abort_does_not_hit_the_next_request() {
    for over in Over::ALL {
        let mut server = Server::over(over).await;
        let mut client = Client::connect(server.door).await;
        client.get("/one/10?1").await;
        let first = server.started().await;
        client.reply().await;
        assert_eq!(server.fate().await, (1, Fate::Delivered));
        first.abort();
        client.get("/wait/10?2").await;
        server.started().await;
        first.abort();
        server.nothing().await;
        server.release();
        assert_eq!(client.reply().await.body.len(), 10);
        assert_eq!(server.fate().await, (2, Fate::Delivered));
        server.ends_quietly().await;
    }
}

/// [RP-05]
#[tokio::test]
async fn a_reply_that_is_read_slowly_is_delivered_at_its_end_and_not_before() {
    for over in Over::ALL {
        let mut server = Server::over(over).await;
        let mut client = Client::with_window(server.door, 4096).await;
        client.get("/slices/1000000").await;
        server.started().await;
        client.head().await;
        let mut read = 0;
        while read < 500_000 {
            read += client.some(20_000).await.len();
            sleep(Duration::from_millis(2)).await;
        }
        server.nothing().await;
        while read < 1_000_000 {
            read += client.some(20_000).await.len();
        }
        assert_eq!(server.fate().await.1, Fate::Delivered);
        server.ends_quietly().await;
    }
}

/// [RP-05]
#[tokio::test]
async fn the_kernel_takes_little_of_a_reply_that_nobody_reads() {
    let (mut server, counts) = counted(true).await;
    let mut client = Client::with_window(server.door, 4096).await;
    client.get(&format!("/one/{}", 32 << 20)).await;
    server.started().await;
    client.head().await;
    timeout(SOON, async {
        while counts.bytes.load(Relaxed) < 60_000 {
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .expect("the kernel takes something");
    sleep(A_WHILE).await;
    let taken = counts.bytes.load(Relaxed);
    assert!(taken < 200_000, "the kernel took {taken} bytes");
    server.nothing().await;
}

/// hyper hands a reply's slices to the kernel as they are, in few calls.
#[tokio::test]
async fn a_reply_is_written_in_few_calls_and_never_copied() {
    for kind in ["one", "slices"] {
        let (mut server, counts) = counted(true).await;
        let mut client = Client::connect(server.door).await;
        client.get(&format!("/{kind}/{}", 2 << 20)).await;
        server.started().await;
        client.reply().await;
        assert_eq!(server.fate().await.1, Fate::Delivered);
        let (vectored, flat) = (counts.vectored.load(Relaxed), counts.flat.load(Relaxed));
        // Each time at least half of what the kernel may hold unsent: 33 at the very most.
        assert!((1..=40).contains(&vectored), "{kind}: {vectored} calls");
        assert_eq!(flat, 0, "{kind}: copied");
    }
}

/// A layer over the socket holds bytes of its own, as TLS does: what only it has taken is not with the
/// network.
///
/// [RP-05]
#[tokio::test]
async fn a_reply_that_a_layer_holds_is_not_delivered() {
    let layer = |socket| {
        let stream = BufWriter::with_capacity(256 * 1024, socket);
        future::ready(Ok((stream, Protocol::Http1)))
    };
    held(Server::layered(Options::default(), layer).await).await;
    // What TLS itself holds is 64 KiB.
    held(Server::over(Over::Https1).await).await;
}

async fn held(mut server: Server) {
    for length in [150_000, 190_000] {
        for is_read in [true, false] {
            for kind in ["one", "slices", "streamed"] {
                // More than the kernel takes, less than it and the layer take together.
                let mut client = Client::with_window(server.door, 4096).await;
                client.get(&format!("/{kind}/{length}")).await;
                server.started().await;
                client.stream.tcp().readable().await.unwrap();
                server.nothing().await;
                if is_read {
                    assert_eq!(client.reply().await.body.len(), length);
                    assert_eq!(server.fate().await.1, Fate::Delivered, "{kind}");
                } else {
                    drop(client);
                    assert_eq!(server.fate().await.1, Fate::Dropped, "{kind}");
                }
            }
        }
    }
    server.ends_quietly().await;
}

/// A layer that takes no slices makes hyper copy each reply, which consumes it before a byte is sent.
///
/// [RP-04] [RP-05]
#[tokio::test]
async fn a_reply_that_is_copied_is_told_the_same() {
    let (mut server, counts) = counted(false).await;
    for kind in ["one", "slices", "streamed"] {
        let mut client = Client::with_window(server.door, 4096).await;
        for length in [1, 600_000] {
            client.get(&format!("/{kind}/{length}")).await;
            server.started().await;
            if length > 1 {
                server.nothing().await;
            }
            assert_eq!(client.reply().await.body.len(), length);
            assert_eq!(server.fate().await.1, Fate::Delivered, "{kind} {length}");
        }
        client.get(&format!("/{kind}/600000")).await;
        server.started().await;
        client.head().await;
        drop(client);
        assert_eq!(server.fate().await.1, Fate::Dropped, "{kind}");
    }
    assert_eq!(counts.vectored.load(Relaxed), 0);
    server.ends_quietly().await;
}

/// The kernel holds nothing any more of the connection between the two.
async fn is_gone(server: SocketAddr, client: SocketAddr) {
    if !cfg!(target_os = "linux") {
        return;
    }
    let line = format!("0100007F:{:04X} 0100007F:{:04X} ", server.port(), client.port());
    timeout(SOON, async {
        while fs::read_to_string("/proc/net/tcp").unwrap().contains(&line) {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the kernel still sends");
}
