//! Clients that leave before they have their reply.

use octopus_server::send::Fate;

use crate::{
    client::{Client, get},
    over::Over,
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
    fn leave(self, client: Client) -> Option<Client> {
        match self {
            Self::Close => drop(client),
            Self::HalfClose => {
                client.half_close();
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
    for over in Over::ALL {
        let mut server = Server::over(over).await;
        for how in HOWS {
            for is_more_behind in [false, true] {
                let mut client = Client::connect(server.door).await;
                client.get("/wait/10").await;
                server.started().await;
                if is_more_behind {
                    client.begin().await;
                }
                server.nothing().await;
                let half = how.leave(client);
                server.given_up().await;
                if let Some(mut client) = half {
                    client.is_closed_or_reset().await;
                }
            }
        }
        server.ends_quietly().await;
    }
}

/// [RP-04]
#[tokio::test]
async fn a_client_that_leaves_in_mid_reply_drops_it() {
    for over in Over::ALL {
        let mut server = Server::over(over).await;
        for how in HOWS {
            for kind in ["one", "slices", "streamed"] {
                for is_more_behind in [false, true] {
                    let mut client = Client::with_window(server.door, 4096).await;
                    client.get(&format!("/{kind}/2000000")).await;
                    // The windows of HTTP/2 are made wider in between, by whole frames.
                    let is_framed = over == Over::Http2;
                    if is_more_behind && !is_framed {
                        client.begin().await;
                    }
                    server.started().await;
                    client.head().await;
                    client.some(1000).await;
                    if is_more_behind && is_framed {
                        client.begin().await;
                    }
                    server.nothing().await;
                    let half = how.leave(client);
                    assert_eq!(
                        server.fate().await.1,
                        Fate::Dropped,
                        "{over:?} {how:?} {kind} {is_more_behind}"
                    );
                    drop(half);
                }
            }
        }
        server.ends_quietly().await;
    }
}

/// [RP-04]
#[tokio::test]
async fn a_client_that_leaves_behind_an_unread_body_drops_the_request() {
    for over in Over::ALL {
        let mut server = Server::over(over).await;
        for how in HOWS {
            let mut client = Client::connect(server.door).await;
            client.post("/unread/10", 5000, "some").await;
            server.started().await;
            server.nothing().await;
            let half = how.leave(client);
            server.given_up().await;
            drop(half);
        }
        server.ends_quietly().await;
    }
}

/// [RP-04]
#[tokio::test]
async fn a_request_behind_a_wait_never_starts_once_its_client_left() {
    for over in Over::ONE_BY_ONE {
        let mut server = Server::over(over).await;
        for how in HOWS {
            let mut client = Client::connect(server.door).await;
            client.send(get("/wait/10?1") + &get("/one/10?2")).await;
            server.started().await;
            let half = how.leave(client);
            server.given_up().await;
            drop(half);
        }
        // Not even the start of a second one was told.
        server.ends_quietly().await;
    }
}
