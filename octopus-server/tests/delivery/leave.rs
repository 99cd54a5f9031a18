//! Clients that leave before they have their reply.

use octopus_server::send::Fate;
use tokio::io::AsyncWriteExt as _;

use crate::{
    client::{Client, get},
    server::Server,
};

const HOWS: [How; 3] = [How::Close, How::HalfClose, How::Reset];

#[derive(Debug, Clone, Copy)]
enum How {
    Close,
    HalfClose,
    Reset,
}

impl How {
    /// Leaves; what is returned keeps the half that stays open.
    async fn leave(self, mut client: Client) -> Option<Client> {
        match self {
            Self::Close => drop(client),
            Self::HalfClose => {
                client.stream.shutdown().await.unwrap();
                return Some(client);
            }
            Self::Reset => client.reset(),
        }
        None
    }
}

/// [RP-04]
#[tokio::test]
async fn a_client_that_leaves_during_the_wait_drops_the_request_and_its_reply() {
    let mut server = Server::start().await;
    for how in HOWS {
        for behind in ["", "G"] {
            let mut client = Client::connect(&server).await;
            client.send(get("/wait/10") + behind).await;
            server.started().await;
            server.nothing().await;
            let half = how.leave(client).await;
            server.given_up().await;
            if let Some(mut client) = half {
                client.is_closed_or_reset().await;
            }
        }
    }
    server.ends_quietly().await;
}

/// [RP-04]
#[tokio::test]
async fn a_client_that_leaves_in_mid_reply_drops_it() {
    let mut server = Server::start().await;
    for how in HOWS {
        for kind in ["one", "slices", "streamed"] {
            for behind in ["", "G"] {
                let mut client = Client::with_window(server.addr, 4096).await;
                client.send(get(&format!("/{kind}/2000000")) + behind).await;
                server.started().await;
                client.head().await;
                client.some(1000).await;
                server.nothing().await;
                let half = how.leave(client).await;
                assert_eq!(server.fate().await.1, Fate::Dropped, "{how:?} {kind} {behind}");
                drop(half);
            }
        }
    }
    server.ends_quietly().await;
}

/// [RP-04]
#[tokio::test]
async fn a_client_that_leaves_behind_an_unread_body_drops_the_request() {
    let mut server = Server::start().await;
    for how in HOWS {
        let mut client = Client::connect(&server).await;
        client
            .send("POST /unread/10 HTTP/1.1\r\nHost: octopus\r\nContent-Length: 5000\r\n\r\nsome")
            .await;
        server.started().await;
        server.nothing().await;
        let half = how.leave(client).await;
        server.given_up().await;
        drop(half);
    }
    server.ends_quietly().await;
}

/// [RP-04]
#[tokio::test]
async fn a_request_behind_a_wait_never_starts_once_its_client_left() {
    let mut server = Server::start().await;
    for how in HOWS {
        let mut client = Client::connect(&server).await;
        client.send(get("/wait/10?1") + &get("/one/10?2")).await;
        server.started().await;
        let half = how.leave(client).await;
        server.given_up().await;
        drop(half);
    }
    // Not even the start of a second one was told.
    server.ends_quietly().await;
}
