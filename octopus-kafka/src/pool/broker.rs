//! The connections to one address.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use tokio::{
    sync::{Mutex as Gate, OnceCell, OwnedSemaphorePermit, Semaphore},
    task::JoinHandle,
    time::{Instant, timeout_at},
};

use super::{Class, Links, NoConnection, Standing, dial::Dial, lock};
use crate::{connection::Connection, error::Kind, versions::Versions};

/// Those who wait for each other's answers, by what they want: they have one place among the exclusive leases of a
/// class, from when one of them got it until all of them gave it back.
#[derive(Debug, Default)]
pub(crate) struct Party(OnceCell<OwnedSemaphorePermit>);

/// The parties that have a place or wait for one.
#[derive(Debug, Default)]
struct Parties {
    known: BTreeMap<(Class, Box<str>), Weak<Party>>,
    /// How many were left when those that are over last went.
    swept_to: usize,
}

/// How many parties are known before those that are over among them go.
const KNOWN: usize = 64;

pub(super) struct Broker {
    pub(super) address: Arc<str>,
    pub(super) links: Arc<Links>,
    held: Mutex<BTreeMap<Class, Vec<Arc<Held>>>>,
    /// The most exclusive leases at once, those counted whose answer is still awaited.
    places: Mutex<BTreeMap<Class, Arc<Semaphore>>>,
    parties: Mutex<Parties>,
    /// What its last new connection was told, for those after it to share.
    pub(super) versions: Mutex<Versions>,
    dial: Arc<Gate<Dial>>,
    /// Held by the one exclusive class's caller that waits for `dial`, so that a heartbeat's connection waits behind
    /// one opening and not behind one for every consumer.
    crowd: Arc<Gate<()>>,
    /// Since when the broker owed a quick answer that did not come: connections that were not heard since are passed
    /// over, for they may have lost it in the same way.
    doubted: Mutex<Option<Instant>>,
}

/// The time without any answer, where the broker owes a quick one, after which it is asked on a new connection. Well
/// within what is left of a session when a heartbeat was not answered for two thirds of it.
pub(super) const SILENCE: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct Held {
    pub(super) connection: Connection,
    /// A permit for each request that may be without its answer.
    pub(super) places: Arc<Semaphore>,
}

/// What there is for a request.
pub(super) enum Found {
    /// A connection with a place on it.
    Free(Arc<Held>, OwnedSemaphorePermit),
    /// All are full, and this one is the least so.
    Full(Arc<Held>),
    /// There are as many as may be, and the broker reads from none of them before this.
    Throttled(Instant),
    /// No connection to wait for: one has to be opened.
    Nothing,
}

/// What an opening comes to.
pub(super) type Opened = Result<(Arc<Held>, OwnedSemaphorePermit), NoConnection>;

impl Parties {
    /// The party of this name, which is over when nobody holds it any more.
    fn of(&mut self, class: Class, name: &str) -> Arc<Party> {
        let key = (class, Box::from(name));
        if let Some(party) = self.known.get(&key).and_then(Weak::upgrade) {
            return party;
        }
        if self.known.len() >= KNOWN.max(self.swept_to * 2) {
            self.known.retain(|_, party| party.strong_count() > 0);
            self.swept_to = self.known.len();
        }
        let party = Arc::default();
        self.known.insert(key, Arc::downgrade(&party));
        party
    }
}

impl Broker {
    pub(super) fn new(address: Arc<str>, links: Arc<Links>) -> Self {
        Self {
            address,
            links,
            held: Mutex::default(),
            places: Mutex::default(),
            parties: Mutex::default(),
            versions: Mutex::default(),
            dial: Arc::default(),
            crowd: Arc::default(),
            doubted: Mutex::default(),
        }
    }

    pub(super) fn places(&self, class: Class) -> Arc<Semaphore> {
        let mut places = lock(&self.places);
        let class_places = places
            .entry(class)
            .or_insert_with(|| Arc::new(Semaphore::new(class.most())));
        Arc::clone(class_places)
    }

    /// A place for an exclusive lease: of the whole party that asks, if it is in one. The party stands once in the line,
    /// however many of it ask.
    pub(super) async fn enter(&self, class: Class, name: &str) -> Option<Arc<Party>> {
        let party = if name.is_empty() {
            Arc::default()
        } else {
            lock(&self.parties).of(class, name)
        };
        let place = || self.places(class).acquire_owned();
        // Nobody closes the semaphore.
        party.0.get_or_try_init(place).await.ok()?;
        Some(party)
    }

    /// A connection of this class. Where those that are shared are crowded, one more is opened meanwhile.
    pub(super) fn find(self: &Arc<Self>, class: Class) -> Found {
        let now = Instant::now();
        let mut held = lock(&self.held);
        let doubted = self.doubt(&held, now);
        let standing = held.entry(class).or_default();
        standing.retain(|held| {
            let connection = &held.connection;
            connection.fault().is_none() && (trusted(connection, doubted) || connection.in_flight() > 0)
        });
        let ready = standing
            .iter()
            .filter(|held| held.connection.is_ready(now) && trusted(&held.connection, doubted));
        if class.is_exclusive() {
            for held in ready {
                if let Ok(permit) = Arc::clone(&held.places).try_acquire_owned() {
                    return Found::Free(Arc::clone(held), permit);
                }
            }
            // With a place at the broker and none on a connection, those that are there are throttled. One more would
            // not be for long.
            let throttled = standing.iter().filter_map(|held| held.connection.throttled(now));
            return match throttled.min() {
                Some(until) if standing.len() >= class.most() => Found::Throttled(until),
                Some(_) | None => Found::Nothing,
            };
        }
        let ready: Vec<_> = ready.collect();
        let Some(least) = ready.iter().min_by_key(|held| held.connection.in_flight()) else {
            // It would not read from another connection for long either.
            let throttled = standing.iter().filter_map(|held| held.connection.throttled(now));
            return throttled.min().map_or(Found::Nothing, Found::Throttled);
        };
        let least = Arc::clone(least);
        let more = ready.len() < class.most() && least.connection.in_flight() >= class.crowded();
        drop(held);
        if more {
            self.open_one_more(class);
        }
        match Arc::clone(&least.places).try_acquire_owned() {
            Ok(permit) => Found::Free(least, permit),
            Err(_) => Found::Full(least),
        }
    }

    /// Begins to open a connection, in a task of its own; `None` where somebody else did meanwhile.
    pub(super) async fn open(
        self: &Arc<Self>,
        class: Class,
        deadline: Instant,
    ) -> Result<Option<JoinHandle<Opened>>, NoConnection> {
        let turn = async {
            let crowd = if class.is_exclusive() {
                Some(Arc::clone(&self.crowd).lock_owned().await)
            } else {
                None
            };
            (crowd, Arc::clone(&self.dial).lock_owned().await)
        };
        let Ok((crowd, dial)) = timeout_at(deadline, turn).await else {
            return Err(NoConnection {
                kind: Kind::Unreachable(format!("{} in time", self.address).into()),
                is_late: true,
                next: Instant::now(),
            });
        };
        if self.is_served(class) {
            return Ok(None);
        }
        dial.may_try(Instant::now())?;
        let broker = Arc::clone(self);
        Ok(Some(tokio::spawn(async move {
            let opened = broker.dial(class, dial).await;
            drop(crowd);
            opened
        })))
    }

    fn open_one_more(self: &Arc<Self>, class: Class) {
        let now = Instant::now();
        if let Ok(dial) = Arc::clone(&self.dial).try_lock_owned()
            && dial.may_try(now).is_ok()
            && dial.wait(now) == Duration::ZERO
        {
            tokio::spawn(Arc::clone(self).dial(class, dial));
        }
    }

    /// Whether a connection was opened that [`find`](Self::find) would give.
    fn is_served(&self, class: Class) -> bool {
        let now = Instant::now();
        let held = lock(&self.held);
        let doubted = self.doubt(&held, now);
        held.get(&class).is_some_and(|held| {
            let mut ready = held
                .iter()
                .filter(|held| held.connection.is_ready(now) && trusted(&held.connection, doubted));
            ready.any(|held| !class.is_exclusive() || held.places.available_permits() > 0)
        })
    }

    /// Keeps a connection, with a place on it taken.
    pub(super) async fn keep(&self, class: Class, connection: Connection) -> Opened {
        let places = Arc::new(Semaphore::new(class.together()));
        let permit = Arc::clone(&places).acquire_owned().await;
        let held = Arc::new(Held { connection, places });
        lock(&self.held).entry(class).or_default().push(Arc::clone(&held));
        // Nobody closes the semaphore.
        permit.map(|permit| (held, permit)).map_err(|_| NoConnection {
            kind: Kind::Timeout,
            is_late: false,
            next: Instant::now(),
        })
    }

    pub(super) fn standing(&self) -> Standing {
        let held = lock(&self.held);
        let doubted = self.doubt(&held, Instant::now());
        // One that is throttled is there as well.
        let is_live = held
            .values()
            .flatten()
            .any(|held| held.connection.fault().is_none() && trusted(&held.connection, doubted));
        drop(held);
        match self.dial.try_lock() {
            _ if is_live => Standing::Live,
            Ok(dial) if !dial.failed() => Standing::Untried,
            Ok(_) | Err(_) => Standing::Doubtful,
        }
    }

    /// How many places on its connections are taken.
    #[cfg(feature = "testing")]
    pub(super) fn taken(&self) -> usize {
        let held = lock(&self.held);
        let of_class = |(class, held): (&Class, &Vec<Arc<Held>>)| {
            let places = held
                .iter()
                .map(|held| class.together() - held.places.available_permits());
            places.sum::<usize>()
        };
        held.iter().map(of_class).sum()
    }

    /// Closes what is at fault or was idle for long; whether anything is left to know of the address.
    pub(super) fn sweep(&self, now: Instant) -> bool {
        let mut held = lock(&self.held);
        self.doubt(&held, now);
        for (class, standing) in held.iter_mut() {
            standing.retain(|held| {
                let connection = &held.connection;
                let busy = held.places.available_permits() < class.together();
                connection.fault().is_none() && (busy || now.duration_since(connection.used()) < class.idle())
            });
        }
        held.retain(|_, standing| !standing.is_empty());
        !held.is_empty() || self.dial.try_lock().map_or(true, |dial| dial.counts(now))
    }
}

impl Broker {
    /// Looks for connections whose broker is silent, and gives the time since when the others are doubted.
    fn doubt(&self, held: &BTreeMap<Class, Vec<Arc<Held>>>, now: Instant) -> Option<Instant> {
        let quick = held.iter().filter(|(class, _)| class.is_quick());
        let silent = quick.flat_map(|(_, held)| held);
        let since = silent
            .filter_map(|held| held.connection.silent(SILENCE, now))
            .max();
        let mut doubted = lock(&self.doubted);
        *doubted = since.max(*doubted);
        *doubted
    }
}

/// Whether a connection was heard since the broker was doubted.
fn trusted(connection: &Connection, doubted: Option<Instant>) -> bool {
    doubted.is_none_or(|since| connection.heard() > since)
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Broker").field(&self.address).finish()
    }
}
