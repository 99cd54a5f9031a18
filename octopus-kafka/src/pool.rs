//! The connections of the whole service, shared by all consumers, in classes: a broker answers one connection's
//! requests one after the other, so that nothing quick may stand behind anything slow.

mod broker;
mod dial;

use std::{
    collections::BTreeMap,
    fmt,
    ops::{Deref, RangeInclusive},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use bytes::BytesMut;
use tokio::time::{Instant, sleep_until, timeout_at};

pub(crate) use self::broker::Party;
use self::broker::{Broker, Found, Held};
use crate::{
    connection::{Answer, Connection, Hold},
    error::Kind,
    frame::Budget,
    security::Sasl,
    transport::Dialer,
};

/// The time without a request after which a connection is closed; brokers close theirs after ten minutes.
const IDLE: Duration = Duration::from_secs(240);
/// The same for one that carries joins: a service whose members all joined at once has a thousand, and they rarely do.
const IDLE_JOIN: Duration = Duration::from_secs(15);
/// The time between two looks for idle connections.
const SWEEP: Duration = Duration::from_secs(30);

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Heartbeats only, behind nothing else.
    Beat,
    /// Commits, which wait for replication.
    Commit,
    /// What a broker answers at once.
    Control,
    /// One long poll at a time.
    Fetch,
    /// One join or sync at a time.
    Join,
    /// Records to write.
    Produce,
}

impl Class {
    /// The most connections to one broker; of joins, the most groups that join at once.
    const fn most(self) -> usize {
        match self {
            Self::Control => 1,
            Self::Beat => 2,
            Self::Commit | Self::Produce => 8,
            Self::Fetch | Self::Join => 256,
        }
    }

    /// The most requests without their answer on one connection.
    const fn together(self) -> usize {
        match self {
            Self::Fetch | Self::Join => 1,
            Self::Control | Self::Commit | Self::Produce => 32,
            Self::Beat => 256,
        }
    }

    /// The requests without their answer at which one more connection is opened.
    const fn crowded(self) -> usize {
        match self {
            Self::Fetch | Self::Join | Self::Commit | Self::Produce => 1,
            Self::Control => 32,
            Self::Beat => 128,
        }
    }

    /// The time without a request after which a connection is closed.
    const fn idle(self) -> Duration {
        match self {
            Self::Join => IDLE_JOIN,
            Self::Beat | Self::Commit | Self::Control | Self::Fetch | Self::Produce => IDLE,
        }
    }

    /// Whether brokers answer its requests at once.
    const fn is_quick(self) -> bool {
        matches!(self, Self::Beat | Self::Control)
    }

    /// Whether a connection carries one request at a time.
    const fn is_exclusive(self) -> bool {
        matches!(self, Self::Fetch | Self::Join)
    }
}

/// All connections.
pub(crate) struct Pool {
    links: Arc<Links>,
    brokers: Mutex<BTreeMap<Arc<str>, Arc<Broker>>>,
    swept: Mutex<Instant>,
}

/// What every connection is opened with.
struct Links {
    dialer: Dialer,
    sasl: Option<Sasl>,
    control_frame: usize,
    fetch_frame: usize,
    budget: Budget,
    /// So that processes that lost the same broker do not come back in step.
    chance: u64,
}

/// The connection that an answer came on, without keeping it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Origin(Weak<Held>);

/// A connection to send requests on. Its place on the connection is free again when it was dropped and each request
/// that was sent by it was answered.
#[derive(Debug)]
pub(crate) struct Lease {
    held: Arc<Held>,
    /// Its place on the connection, and at the broker; and what else is held for as long.
    hold: Hold,
    /// The place of the party that it was leased for.
    party: Option<Arc<Party>>,
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) struct NoConnection {
    pub(crate) kind: Kind,
    /// The time was over before anything was found out.
    pub(crate) is_late: bool,
    /// When it may be tried again.
    pub(crate) next: Instant,
}

/// How likely an address is to answer, the likeliest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// A connection to it stands.
    Live,
    /// Nothing is known.
    Untried,
    /// It is being connected to, or the last try failed.
    Doubtful,
}

impl Pool {
    /// No connections yet. The bounds of frames are in bytes; `chance` is a number that no other process has.
    pub(crate) fn new(
        dialer: Dialer,
        sasl: Option<Sasl>,
        control_frame: usize,
        fetch_frame: usize,
        budget: Budget,
        chance: u64,
    ) -> Self {
        Self {
            links: Arc::new(Links {
                dialer,
                sasl,
                control_frame,
                fetch_frame,
                budget,
                chance,
            }),
            brokers: Mutex::default(),
            swept: Mutex::new(Instant::now()),
        }
    }

    /// As [`lease_for`](Self::lease_for) without a party.
    #[cfg(test)]
    pub(crate) async fn lease(
        &self,
        address: &str,
        class: Class,
        deadline: Instant,
    ) -> Result<Lease, NoConnection> {
        self.lease_for(address, class, "", deadline).await
    }

    /// A connection of this class to `address`, opened if there is none. Those of one party wait for each other's
    /// answers: past the bound on joins they wait as a whole, so that none of them waits for one behind it. While the address is being let alone after a
    /// failure, there is none at once. A caller that leaves, or is in a hurry, does not end the opening.
    pub(crate) async fn lease_for(
        &self,
        address: &str,
        class: Class,
        party: &str,
        deadline: Instant,
    ) -> Result<Lease, NoConnection> {
        self.sweep();
        let broker = self.broker(address);
        let late = |kind| NoConnection {
            kind,
            is_late: true,
            next: Instant::now(),
        };
        let mut at_broker = None;
        if class.is_exclusive() {
            at_broker = match timeout_at(deadline, broker.enter(class, party)).await {
                Ok(permit) => permit,
                Err(_) => return Err(late(Kind::Timeout)),
            };
        }
        let unreached = || late(Kind::Unreachable(format!("{address} in time").into()));
        loop {
            let (held, permit) = match broker.find(class) {
                Found::Free(held, permit) => (held, permit),
                Found::Full(held) => {
                    tokio::select! {
                        biased;
                        Ok(permit) = Arc::clone(&held.places).acquire_owned() => (held, permit),
                        () = held.connection.ended() => continue,
                        () = sleep_until(deadline) => return Err(late(Kind::Timeout)),
                    }
                }
                Found::Throttled(until) => {
                    sleep_until(until.min(deadline)).await;
                    if until >= deadline {
                        return Err(late(Kind::Timeout));
                    }
                    continue;
                }
                Found::Nothing => {
                    let opening = broker.open(class, deadline).await?;
                    match opening {
                        None => continue,
                        Some(opening) => match timeout_at(deadline, opening).await {
                            Ok(Ok(opened)) => opened?,
                            Ok(Err(_)) | Err(_) => return Err(unreached()),
                        },
                    }
                }
            };
            let hold = Arc::new((permit, at_broker.clone()));
            return Ok(Lease {
                held,
                hold,
                party: at_broker,
            });
        }
    }

    /// Whether a connection to `address` stands that may be asked.
    pub(crate) fn is_live(&self, address: &str) -> bool {
        self.standing(address) == Standing::Live
    }

    pub(crate) fn standing(&self, address: &str) -> Standing {
        let broker = lock(&self.brokers).get(address).map(Arc::clone);
        broker.map_or(Standing::Untried, |broker| broker.standing())
    }

    /// How many places on connections are taken, how many large answers are held, and their bytes.
    #[cfg(feature = "testing")]
    pub(crate) fn taken(&self) -> (usize, usize, usize) {
        let places = lock(&self.brokers).values().map(|broker| broker.taken()).sum();
        let (answers, bytes) = self.links.budget.held();
        (places, answers, bytes)
    }

    fn broker(&self, address: &str) -> Arc<Broker> {
        let mut brokers = lock(&self.brokers);
        if let Some(broker) = brokers.get(address) {
            return Arc::clone(broker);
        }
        let address: Arc<str> = address.into();
        let broker = Arc::new(Broker::new(Arc::clone(&address), Arc::clone(&self.links)));
        brokers.insert(address, Arc::clone(&broker));
        broker
    }

    /// Closes what is at fault or was idle for long, and forgets the addresses that nothing is left of.
    fn sweep(&self) {
        let now = Instant::now();
        let mut swept = lock(&self.swept);
        if now.duration_since(*swept) < SWEEP {
            return;
        }
        *swept = now;
        drop(swept);
        lock(&self.brokers).retain(|_, broker| broker.sweep(now) || Arc::strong_count(broker) > 1);
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pool").field(&lock(&self.brokers).keys()).finish()
    }
}

impl Lease {
    /// As [`Connection::send`]; the place on the connection stays taken until the answer came.
    pub(crate) async fn send(
        &self,
        api_key: i16,
        range: &RangeInclusive<i16>,
        client_id: &str,
        body: impl FnOnce(i16, &mut BytesMut) -> Result<(), Kind>,
        deadline: Instant,
    ) -> Result<Answer, Kind> {
        let hold = Arc::clone(&self.hold);
        let connection = &self.held.connection;
        connection
            .send(api_key, range, client_id, body, Some(hold), deadline)
            .await
    }

    /// The same one, which holds this too for as long as its place.
    pub(crate) fn holding(self, what: impl Send + Sync + 'static) -> Self {
        let Self { held, hold, party } = self;
        Self {
            held,
            hold: Arc::new((hold, what)),
            party,
        }
    }

    /// The place of the party that it was leased for: while it is held, the next lease for the party does not wait.
    pub(crate) fn party(&self) -> Option<Arc<Party>> {
        self.party.clone()
    }

    /// Its connection, to come back to.
    pub(crate) fn origin(&self) -> Origin {
        Origin(Arc::downgrade(&self.held))
    }
}

impl Origin {
    /// Ends the connection: nothing that comes from it is believed any more.
    pub(crate) fn poison(&self, why: &str) {
        if let Some(held) = self.0.upgrade() {
            held.connection.poison(why);
        }
    }
}

impl Deref for Lease {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.held.connection
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
