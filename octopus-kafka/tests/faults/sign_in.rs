//! Sign-ins that run out, and credentials that do not come.

use std::{
    collections::BTreeSet,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use octopus_core::AutoOffsetReset;
use octopus_kafka::{
    Cluster, Config,
    broker::{self, ApiKey, Broker, ConnectionId, Received},
    security::{Issued, Issuing, Login, NotIssued, Renewed, Sasl, Security, Source, Token},
};
use tokio::time::Instant;

use super::support::{PATIENCE, World};

/// A broker where one has to sign in, and where that holds for so long; the way to do it.
async fn guarded(session: Duration) -> (World, Config) {
    let mut config = broker::Config::default();
    config.initial_rebalance_delay = Duration::ZERO;
    config.users.insert("octopus", "a password");
    config.requests_kept = 1_000_000;
    config.max_session = Some(session);
    let world = World::of(Broker::start(config).await.unwrap());
    let mut config = Config::new(vec![world.broker().addr().to_string()]);
    config.security = Security::new(
        None,
        Some(Sasl::ScramSha256(Login {
            username: "octopus".to_owned(),
            password: "a password".into(),
        })),
    );
    (world, config)
}

/// [KF-41] [K20] connections sign in again before their session ends and go on: whoever reads, writes and commits over
/// several sessions meets no error.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_two_seconds_are_not_noticed() {
    let (world, config) = guarded(Duration::from_secs(2)).await;
    let world = World {
        cluster: Cluster::new(config),
        ..world
    };
    world.topic("a", &[]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.join(&["a"]).await;
    let (start, mut written) = (Instant::now(), Vec::new());
    while start.elapsed() < Duration::from_secs(8) {
        let value = written.len().to_string();
        world.produce("a", &[&value]).await;
        written.push(value);
        assert_eq!(one.read(1).await, written[written.len() - 1..]);
        let offset = i64::try_from(written.len()).unwrap();
        one.commit("a", offset, "").await.unwrap();
    }
    assert!(!one.has_signal());
    let requests = world.broker().requests();
    // On a machine that stands still some session may end before its renewal; its connection is replaced then.
    let signed_in = |connection| {
        let is_it =
            |received: &&Received| received.api == ApiKey::SaslHandshake && received.connection == connection;
        requests.iter().filter(is_it).count()
    };
    let used: BTreeSet<ConnectionId> = requests.iter().map(|received| received.connection).collect();
    assert!(used.into_iter().map(signed_in).max() >= Some(2));
}

/// A source of tokens that fails, or does not answer.
struct Dry {
    asked: Arc<AtomicUsize>,
    hangs: bool,
}

impl Source<Token> for Dry {
    fn issue(&self) -> Issuing<'_, Token> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let hangs = self.hangs;
        Box::pin(async move {
            if hangs {
                pending::<Result<Issued<Token>, NotIssued>>().await
            } else {
                Err(NotIssued::new("the endpoint is down"))
            }
        })
    }
}

/// [KF-40] [ER-05] where no token is to be had, everyone is told so, in the source's words for the log; the source is
/// asked once for all of them.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_everyone_is_refused_and_the_source_is_asked_once() {
    for hangs in [false, true] {
        let (_world, mut config) = guarded(Duration::from_secs(60)).await;
        let asked = Arc::new(AtomicUsize::new(0));
        let source = Dry {
            asked: Arc::clone(&asked),
            hangs,
        };
        config.security = Security::new(None, Some(Sasl::OAuthBearer(Renewed::new(source))));
        let cluster = Cluster::new(config);
        let (one, other) = tokio::join!(cluster.reach(PATIENCE), cluster.reach(PATIENCE));
        for refused in [one.unwrap_err(), other.unwrap_err()] {
            let why = if hangs {
                "no answer in time"
            } else {
                "the endpoint is down"
            };
            assert!(refused.to_string().contains(why), "{refused}");
            let told = octopus_core::Error::from(refused).code();
            assert_eq!(told.error_code(), 50002);
        }
        // A connection is tried twice before its sign-in counts as refused.
        assert!(asked.load(Ordering::Relaxed) <= 2, "{asked:?}");
    }
}
