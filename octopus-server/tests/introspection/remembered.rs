//! How long the authority's words count: the real check and the real HTTP, on a clock that is moved by hand.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use octopus_auth::{Introspection, introspection::Now};
use octopus_kafka::security::{Tls, Trust};
use octopus_server::{
    Server, TokenAuthority,
    clock::{Clock as _, ManualClock},
};
use tokio::net::TcpListener;

use crate::{
    ADMITTED, ANN, AWAY, BEN, CLIENT_ID, REFUSED, SCOPE, SECRET, active, asks,
    authority::{Authority, Mode},
    support::client::Client,
    tls::self_signed,
    token_of,
};

/// Seconds since 1970 when the clock starts.
const START: u64 = 1_900_000_000;

struct Service {
    authority: Authority,
    clock: ManualClock,
    client: Client,
}

impl Service {
    async fn start() -> Self {
        let authority = Authority::start().await;
        let clock = ManualClock::new();
        let (hand, start) = (clock.clone(), clock.now());
        let now = move || Now {
            monotonic: hand.now(),
            wall: SystemTime::UNIX_EPOCH + Duration::from_secs(START) + (hand.now() - start),
        };
        let (certificate, _) = self_signed();
        let tls = Tls::new(Trust::Pem(certificate.as_bytes()), None).unwrap();
        let url = authority.url().parse().unwrap();
        let asks = TokenAuthority::new(url, CLIENT_ID.to_owned(), SECRET.into(), tls);
        let check = Introspection::new(asks, SCOPE, &[7; 32], now);
        let server = Server::builder(Arc::new(check)).start();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let client = Client {
            address: listener.local_addr().unwrap(),
            subject: ANN.to_owned(),
            token: token_of("ann"),
        };
        tokio::spawn(server.serve(listener, std::future::pending()));
        Self {
            authority,
            clock,
            client,
        }
    }

    /// What a caller meets after so many seconds more, and how often the authority was asked by then.
    async fn after(&self, seconds: u64, subject: &str) -> ((u16, u64), usize) {
        self.clock.advance(Duration::from_secs(seconds));
        let caller = Client {
            subject: subject.to_owned(),
            ..self.client.clone()
        };
        (asks(&caller).await, self.authority.asked())
    }
}

/// [AU-02] [D-35]
#[tokio::test]
async fn a_token_that_holds_is_looked_up_once_a_minute() {
    let service = Service::start().await;
    service.authority.knows("ann", active(ANN, ""));
    assert_eq!(service.after(0, ANN).await, (ADMITTED, 1));
    service.authority.set(Mode::Bytes(Vec::new()));
    assert_eq!(service.after(59, ANN).await, (ADMITTED, 1));
    assert_eq!(service.after(1, ANN).await, (AWAY, 2));
    service.authority.set(Mode::Answers);
    assert_eq!(service.after(0, ANN).await, (ADMITTED, 3));
    // The token is withdrawn, which is noticed within the minute.
    service.authority.knows("ann", r#"{"active": false}"#.to_owned());
    assert_eq!(service.after(59, ANN).await, (ADMITTED, 3));
    assert_eq!(service.after(1, ANN).await, (REFUSED, 4));
}

/// [AU-02]
#[tokio::test]
async fn a_refusal_stands_for_five_seconds() {
    let service = Service::start().await;
    assert_eq!(service.after(0, ANN).await, (REFUSED, 1));
    service.authority.knows("ann", active(ANN, ""));
    assert_eq!(service.after(4, ANN).await, (REFUSED, 1));
    assert_eq!(service.after(1, ANN).await, (ADMITTED, 2));
    assert_eq!(service.after(1, BEN).await, (REFUSED, 2));
    service
        .authority
        .knows("ann", active(ANN, &format!(r#", "identity_set": ["{BEN}"]"#)));
    assert_eq!(service.after(3, BEN).await, (REFUSED, 2));
    assert_eq!(service.after(1, BEN).await, (ADMITTED, 3));
}

/// [AU-02]
#[tokio::test]
async fn a_token_is_let_in_up_to_its_end() {
    let service = Service::start().await;
    let ends = |at: u64| format!(r#"{{"active": true, "scope": "{SCOPE}", "sub": "{ANN}", "exp": {at}}}"#);
    service.authority.knows("ann", ends(START + 10));
    assert_eq!(service.after(0, ANN).await, (ADMITTED, 1));
    assert_eq!(service.after(9, ANN).await, (ADMITTED, 1));
    assert_eq!(service.after(1, ANN).await, (REFUSED, 2));
}
