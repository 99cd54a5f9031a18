//! Opening connections to one address: one at a time, at a pace, and after a failure not at once again.

use std::{
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::OwnedMutexGuard, time::Instant};

use super::{
    Class, IDLE, NoConnection,
    broker::{Broker, Opened},
    lock,
};
use crate::{backoff, connection::Connection, error::Kind};

/// The least time between two new connections to one broker: twenty within any second.
const PACE: Duration = Duration::from_millis(52);
/// The longest that a broker may take to say which versions it speaks.
const HELLO: Duration = Duration::from_secs(5);

/// The longest that a broker is let alone that could not be reached. All who want it share the one try: a coordinator
/// that is back must be found while the sessions of its members last.
const LET_ALONE: Duration = Duration::from_secs(1);

/// How opening connections to an address goes.
#[derive(Debug, Default)]
pub(super) struct Dial {
    failures: u32,
    next: Option<Instant>,
    why: Option<Kind>,
}

impl Dial {
    /// Not while the address is let alone after a failure.
    pub(super) fn may_try(&self, now: Instant) -> Result<(), NoConnection> {
        match (&self.why, self.next) {
            (Some(kind), Some(next)) if next > now => Err(NoConnection {
                kind: kind.clone(),
                is_late: false,
                next,
            }),
            _ => Ok(()),
        }
    }

    /// How long it is until the next connection may be opened.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        self.next
            .map_or(Duration::ZERO, |next| next.saturating_duration_since(now))
    }

    /// Whether it is of use to know how it went: until long after the last try.
    pub(super) fn counts(&self, now: Instant) -> bool {
        self.next.is_some_and(|next| now < next + IDLE)
    }

    pub(super) const fn failed(&self) -> bool {
        self.why.is_some()
    }

    /// Whether the last try failed in this way.
    fn failed_so(&self, kind: &Kind) -> bool {
        self.why
            .as_ref()
            .is_some_and(|why| std::mem::discriminant(why) == std::mem::discriminant(kind))
    }
}

impl Broker {
    /// Opens a connection within limits of its own, and keeps it.
    pub(super) async fn dial(self: Arc<Self>, class: Class, mut dial: OwnedMutexGuard<Dial>) -> Opened {
        tokio::time::sleep(dial.wait(Instant::now())).await;
        dial.next = Some(Instant::now() + PACE);
        let address = &*self.address;
        let mut connected = self.connect(class).await;
        if !dial.failed() && matches!(connected, Err(Kind::SignIn(_))) {
            // A broker may refuse a credential that has just ended, or that it does not know of yet.
            tokio::time::sleep(PACE).await;
            connected = self.connect(class).await;
        }
        match connected {
            Ok(connection) => {
                if dial.why.take().is_some() {
                    tracing::info!(address, "a broker is reached again");
                }
                dial.failures = 0;
                self.keep(class, connection).await
            }
            Err(kind) => {
                if !dial.failed_so(&kind) {
                    let what = match &kind {
                        Kind::SignIn(_) => "a broker can't be signed in to",
                        Kind::Unreachable(_)
                        | Kind::Timeout
                        | Kind::Closed { .. }
                        | Kind::Malformed
                        | Kind::Unsupported
                        | Kind::InvalidTopic
                        | Kind::TooLarge
                        | Kind::Full
                        | Kind::Response(_) => "a broker can't be reached",
                    };
                    tracing::warn!(address, why = %kind, "{what}");
                }
                dial.failures = dial.failures.saturating_add(1);
                let hasher = BuildHasherDefault::<DefaultHasher>::default();
                let chance = hasher.hash_one((self.links.chance, address, dial.failures));
                // A credential that is refused again and again may lock its user out.
                let wait = if matches!(kind, Kind::SignIn(_)) {
                    backoff::wait(dial.failures, chance)
                } else {
                    backoff::wait_at_most(dial.failures, chance, LET_ALONE)
                };
                let next = Instant::now() + wait;
                dial.next = Some(next);
                dial.why = Some(kind.clone());
                Err(NoConnection {
                    kind,
                    is_late: false,
                    next,
                })
            }
        }
    }

    async fn connect(&self, class: Class) -> Result<Connection, Kind> {
        let address = &self.address;
        let most = if class == Class::Fetch {
            self.links.fetch_frame
        } else {
            self.links.control_frame
        };
        let stream = (self.links.dialer)(Arc::clone(address))
            .await
            .map_err(|error| Kind::Unreachable(format!("{address}: {error}").into()))?;
        let limit = Instant::now() + HELLO;
        let mut connection = Connection::open(stream, most, self.links.budget.clone(), limit)
            .await
            .map_err(|error| unusable(address, error.kind()))?;
        connection.share(&mut lock(&self.versions));
        if let Some(sasl) = &self.links.sasl {
            connection
                .sign_in(sasl, address)
                .await
                .map_err(|kind| unusable(address, &kind))?;
        }
        Ok(connection)
    }
}

/// Why a connection that was opened is of no use.
fn unusable(address: &str, kind: &Kind) -> Kind {
    match kind {
        // It took the connection and spoke no Kafka: it is there, but no broker.
        Kind::Malformed => Kind::Malformed,
        Kind::SignIn(why) => Kind::SignIn(format!("{address}: {why}").into()),
        Kind::Unreachable(_)
        | Kind::Timeout
        | Kind::Closed { .. }
        | Kind::Unsupported
        | Kind::InvalidTopic
        | Kind::TooLarge
        | Kind::Full
        | Kind::Response(_) => Kind::Unreachable(format!("{address}: {kind}").into()),
    }
}
