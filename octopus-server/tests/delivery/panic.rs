//! A service that panics.

use octopus_server::send::Fate;

use crate::{
    client::{Client, get},
    server::{Server, Told},
};

#[tokio::test]
async fn a_panic_is_a_500_and_touches_nothing_else() {
    let mut server = Server::start().await;
    let mut other = Client::connect(server.door).await;
    other.get("/wait/10?7").await;
    server.started().await;

    let mut client = Client::connect(server.door).await;
    client.send(get("/panic/0?1") + &get("/one/10?2")).await;
    let reply = client.reply().await;
    assert!(reply.head.starts_with("HTTP/1.1 500"), "{}", reply.head);
    assert_eq!(client.reply().await.body.len(), 10);

    server.release();
    assert_eq!(other.reply().await.body.len(), 10);

    let mut told = server.end().await;
    told.sort_by_key(|(id, _)| *id); // Stable.
    assert!(
        matches!(
            &told[..],
            [
                (1, Told::Started(_)),
                (1, Told::Unanswered | Told::Fate(Fate::Dropped)),
                (1, Told::Unanswered | Told::Fate(Fate::Dropped)),
                (2, Told::Started(_)),
                (2, Told::Fate(Fate::Delivered)),
                (7, Told::Fate(Fate::Delivered)),
            ]
        ),
        "{told:?}"
    );
}
