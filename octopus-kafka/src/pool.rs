//! The connections of the whole service, shared by all consumers, in classes: a broker answers one connection's
//! requests one after the other, so that nothing quick may stand behind anything slow.

use std::{
    collections::HashMap,
    ops::Deref,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Mutex as Gate, OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use crate::{backoff, connection::Connection, error::Kind, frame::Budget, transport};

/// The time without a request after which a connection is closed; brokers close theirs after ten minutes.
const IDLE: Duration = Duration::from_secs(240);
/// The time between two looks for idle connections.
const SWEEP: Duration = Duration::from_secs(30);
/// The least time between two new connections to one broker: twenty a second.
const DIAL_PACE: Duration = Duration::from_millis(50);
/// The most requests without an answer on a connection that is shared, where another one may be opened.
const CROWDED: usize = 32;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    /// The most connections to one broker.
    const fn most(self) -> usize {
        match self {
            Self::Control => 1,
            Self::Beat => 2,
            Self::Produce => 4,
            Self::Commit => 8,
            Self::Join => 64,
            Self::Fetch => 256,
        }
    }

    /// Whether a connection carries one request at a time.
    const fn is_exclusive(self) -> bool {
        matches!(self, Self::Fetch | Self::Join)
    }
}

/// All connections.
#[derive(Debug)]
pub(crate) struct Pool {
    control_frame: usize,
    fetch_frame: usize,
    budget: Budget,
    brokers: Mutex<HashMap<Arc<str>, Arc<Broker>>>,
    swept: Mutex<Instant>,
}

/// The connections to one address.
#[derive(Debug, Default)]
struct Broker {
    held: Mutex<HashMap<Class, Vec<Arc<Held>>>>,
    leases: Mutex<HashMap<Class, Arc<Semaphore>>>,
    dial: Gate<Dial>,
}

#[derive(Debug)]
struct Held {
    connection: Connection,
    leased: AtomicBool,
}

/// How opening connections to an address goes.
#[derive(Debug, Default)]
struct Dial {
    failures: u32,
    next: Option<Instant>,
    why: Box<str>,
}

/// A connection to send one request on.
#[derive(Debug)]
pub(crate) struct Lease {
    held: Arc<Held>,
    exclusive: Option<OwnedSemaphorePermit>,
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) struct NoConnection {
    pub(crate) kind: Kind,
    /// When it may be tried again.
    pub(crate) next: Instant,
}

impl Pool {
    /// No connections yet. The bounds of frames are in bytes.
    pub(crate) fn new(control_frame: usize, fetch_frame: usize, budget: Budget) -> Self {
        Self {
            control_frame,
            fetch_frame,
            budget,
            brokers: Mutex::default(),
            swept: Mutex::new(Instant::now()),
        }
    }

    /// A connection of this class to `address`, opened if there is none. While the address is being let alone after a
    /// failure, there is none at once.
    pub(crate) async fn lease(
        &self,
        address: &str,
        class: Class,
        deadline: Instant,
    ) -> Result<Lease, NoConnection> {
        self.sweep();
        let broker = self.broker(address);
        let exclusive = if class.is_exclusive() {
            let leases = Arc::clone(
                lock(&broker.leases)
                    .entry(class)
                    .or_insert_with(|| Arc::new(Semaphore::new(class.most()))),
            );
            match timeout_at(deadline, leases.acquire_owned()).await {
                Ok(permit) => permit.ok(),
                Err(_) => {
                    return Err(NoConnection {
                        kind: Kind::Timeout,
                        next: deadline,
                    });
                }
            }
        } else {
            None
        };
        if let Some(held) = broker.find(class, true) {
            return Ok(Lease { held, exclusive });
        }
        let Ok(mut dial) = timeout_at(deadline, broker.dial.lock()).await else {
            return Err(NoConnection {
                kind: Kind::Timeout,
                next: deadline,
            });
        };
        // Whoever dialed before may have opened what serves here too.
        if let Some(held) = broker.find(class, false) {
            return Ok(Lease { held, exclusive });
        }
        let connection = self.dial(address, class, &mut dial, deadline).await?;
        let held = Arc::new(Held {
            connection,
            leased: AtomicBool::new(class.is_exclusive()),
        });
        lock(&broker.held)
            .entry(class)
            .or_default()
            .push(Arc::clone(&held));
        Ok(Lease { held, exclusive })
    }

    /// Whether a connection to `address` stands that may be asked.
    pub(crate) fn is_live(&self, address: &str) -> bool {
        let broker = lock(&self.brokers).get(address).map(Arc::clone);
        broker.is_some_and(|broker| {
            let now = Instant::now();
            lock(&broker.held)
                .values()
                .flatten()
                .any(|held| held.connection.is_ready(now))
        })
    }

    async fn dial(
        &self,
        address: &str,
        class: Class,
        dial: &mut Dial,
        deadline: Instant,
    ) -> Result<Connection, NoConnection> {
        let now = Instant::now();
        if let Some(next) = dial.next.filter(|next| *next > now) {
            if dial.failures > 0 || next > deadline {
                return Err(NoConnection {
                    kind: Kind::Unreachable(dial.why.clone()),
                    next,
                });
            }
            tokio::time::sleep_until(next).await;
        }
        dial.next = Some(Instant::now() + DIAL_PACE);
        let most = if class == Class::Fetch {
            self.fetch_frame
        } else {
            self.control_frame
        };
        let opened = match transport::connect(address, deadline).await {
            Ok(stream) => {
                let hello = deadline.min(Instant::now() + Duration::from_secs(5));
                Connection::open(stream, most, self.budget.clone(), hello)
                    .await
                    .map_err(|error| {
                        let kind = match error.kind() {
                            // It took the connection and spoke no Kafka: it is there, but no broker.
                            Kind::Malformed => Kind::Malformed,
                            Kind::Unreachable(_)
                            | Kind::Timeout
                            | Kind::Closed { .. }
                            | Kind::Unsupported
                            | Kind::InvalidTopic
                            | Kind::Response(_) => Kind::Unreachable(format!("{address}: {error}").into()),
                        };
                        (error.to_string(), kind)
                    })
            }
            Err(error) => Err((
                error.to_string(),
                Kind::Unreachable(format!("{address}: {error}").into()),
            )),
        };
        match opened {
            Ok(connection) => {
                if std::mem::take(&mut dial.failures) > 0 {
                    tracing::info!(address, "a broker is reached again");
                }
                Ok(connection)
            }
            Err((why, kind)) => {
                if dial.failures == 0 {
                    tracing::warn!(address, why, "a broker can't be reached");
                }
                dial.failures = dial.failures.saturating_add(1);
                let chance = address
                    .bytes()
                    .fold(u64::from(dial.failures), |c, b| c.rotate_left(8) ^ u64::from(b));
                let next = Instant::now() + backoff::wait(dial.failures, chance);
                dial.next = Some(next);
                dial.why = format!("{address}: {why}").into();
                Err(NoConnection { kind, next })
            }
        }
    }

    fn broker(&self, address: &str) -> Arc<Broker> {
        let mut brokers = lock(&self.brokers);
        match brokers.get(address) {
            Some(broker) => Arc::clone(broker),
            None => Arc::clone(brokers.entry(address.into()).or_default()),
        }
    }

    /// Closes what is at fault or was idle for long.
    fn sweep(&self) {
        let now = Instant::now();
        let mut swept = lock(&self.swept);
        if now.duration_since(*swept) < SWEEP {
            return;
        }
        *swept = now;
        drop(swept);
        let brokers: Vec<_> = lock(&self.brokers).values().map(Arc::clone).collect();
        for broker in brokers {
            for class in lock(&broker.held).values_mut() {
                class.retain(|held| {
                    let connection = &held.connection;
                    let busy = connection.in_flight() > 0 || held.leased.load(Ordering::Acquire);
                    connection.fault().is_none() && (busy || now.duration_since(connection.used()) < IDLE)
                });
            }
        }
    }
}

impl Broker {
    /// A connection of this class that stands. One that is shared is taken although it is crowded where no further one
    /// may be opened, and where `may_open` says that opening one is not the question.
    fn find(&self, class: Class, may_open: bool) -> Option<Arc<Held>> {
        let now = Instant::now();
        let mut held = lock(&self.held);
        let standing = held.get_mut(&class)?;
        standing.retain(|held| held.connection.fault().is_none());
        let ready = standing.iter().filter(|held| held.connection.is_ready(now));
        if class.is_exclusive() {
            let mut free = ready.filter(|held| held.connection.in_flight() == 0);
            return free
                .find(|held| !held.leased.swap(true, Ordering::AcqRel))
                .map(Arc::clone);
        }
        let least = ready.min_by_key(|held| held.connection.in_flight())?;
        let crowded = match class {
            Class::Commit | Class::Produce => least.connection.in_flight() > 0,
            Class::Beat | Class::Control | Class::Fetch | Class::Join => {
                least.connection.in_flight() >= CROWDED
            }
        };
        let full = standing.len() >= class.most();
        (full || !crowded || !may_open).then(|| Arc::clone(least))
    }
}

impl Deref for Lease {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.held.connection
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.exclusive.is_some() {
            // An answer that is still awaited keeps it from being taken before it came.
            self.held.leased.store(false, Ordering::Release);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
