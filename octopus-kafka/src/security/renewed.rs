//! Credentials that end: had once for all connections, and had anew before they end.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Mutex as Gate, OwnedMutexGuard},
    time::{Instant, timeout},
};

/// The part of its life after which a credential is had anew, in percent.
const DUE: u32 = 80;
/// The longest that a source may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a source is let alone after it failed.
const PAUSE: Duration = Duration::from_secs(1);
/// The shortest life that is of any use.
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest life that is believed.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Where a credential that ends comes from, such as an OAuth token endpoint. It is asked by one at a time, and not
/// again before the credential is about to end or was refused.
pub trait Source<C>: Send + Sync {
    /// Issues one.
    fn issue(&self) -> Issuing<'_, C>;
}

/// A credential that is on its way.
pub type Issuing<'a, C> = Pin<Box<dyn Future<Output = Result<Issued<C>, NotIssued>> + Send + 'a>>;

/// A credential, and how long it holds.
#[derive(Debug, Clone)]
pub struct Issued<C> {
    /// The credential.
    pub credential: C,
    /// How long it holds from here on; `None`: for ever.
    pub lifetime: Option<Duration>,
}

/// Why there is no credential, in words for the log: nothing secret may be in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotIssued(Arc<str>);

/// A credential that is had from a [`Source`] when it is first needed, and anew before it ends. Clones are the same one.
pub struct Renewed<C>(Arc<Inner<C>>);

struct Inner<C> {
    source: Box<dyn Source<C>>,
    state: Mutex<State<C>>,
    /// Held by the one who asks the source.
    asking: Arc<Gate<()>>,
}

struct State<C> {
    held: Option<Held<C>>,
    failed: Option<(Instant, NotIssued)>,
}

struct Held<C> {
    credential: Arc<C>,
    /// When it is due, and when it ends.
    times: Option<(Instant, Instant)>,
}

impl<C> Renewed<C>
where
    C: Send + Sync + 'static,
{
    /// What this source issues.
    #[must_use]
    pub fn new(source: impl Source<C> + 'static) -> Self {
        let state = State {
            held: None,
            failed: None,
        };
        Self(Arc::new(Inner {
            source: Box::new(source),
            state: Mutex::new(state),
            asking: Arc::default(),
        }))
    }

    /// One that holds. An old one is used while it holds and a new one is being had; without one its source is waited
    /// for.
    pub(crate) async fn get(&self) -> Result<Arc<C>, NotIssued> {
        let mut asking = None;
        loop {
            let now = Instant::now();
            {
                let state = self.0.lock();
                if let Some(held) = state.held.as_ref().filter(|held| held.holds(now)) {
                    let credential = Arc::clone(&held.credential);
                    let may_ask = held.is_due(now) && !state.pauses(now);
                    drop(state);
                    if may_ask && let Ok(asking) = Arc::clone(&self.0.asking).try_lock_owned() {
                        tokio::spawn(Arc::clone(&self.0).ask(asking));
                    }
                    return Ok(credential);
                }
                if let Some((_, why)) = state.failed.as_ref().filter(|_| state.pauses(now)) {
                    return Err(why.clone());
                }
            }
            match asking.take() {
                // Somebody else may have asked while the turn was waited for, so it is looked once more.
                None => asking = Some(Arc::clone(&self.0.asking).lock_owned().await),
                // A caller that leaves does not break off what others wait for as well.
                Some(asking) => _ = tokio::spawn(Arc::clone(&self.0).ask(asking)).await,
            }
        }
    }

    /// A broker refused it: the next one is had anew.
    pub(crate) fn refuse(&self, refused: &Arc<C>) {
        let mut state = self.0.lock();
        if state
            .held
            .as_ref()
            .is_some_and(|held| Arc::ptr_eq(&held.credential, refused))
        {
            state.held = None;
        }
    }
}

impl<C> Inner<C> {
    async fn ask(self: Arc<Self>, asking: OwnedMutexGuard<()>) {
        let issued = match timeout(PATIENCE, self.source.issue()).await {
            Ok(issued) => issued,
            Err(_) => Err(NotIssued::new("no answer in time")),
        };
        let issued = issued.and_then(|issued| match issued.lifetime {
            // It would be asked for again and again.
            Some(life) if life < SHORTEST => Err(NotIssued::new("it ends at once")),
            Some(_) | None => Ok(issued),
        });
        let now = Instant::now();
        let mut state = self.lock();
        match issued {
            Ok(Issued { credential, lifetime }) => {
                state.failed = None;
                state.held = Some(Held {
                    credential: Arc::new(credential),
                    times: lifetime.map(|life| {
                        let life = life.min(LONGEST);
                        (now + life * DUE / 100, now + life)
                    }),
                });
            }
            Err(why) => {
                tracing::warn!(%why, "no new credential for Kafka");
                state.failed = Some((now + PAUSE, why));
            }
        }
        drop(state);
        drop(asking);
    }

    fn lock(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C> State<C> {
    fn pauses(&self, now: Instant) -> bool {
        self.failed.as_ref().is_some_and(|(until, _)| now < *until)
    }
}

impl<C> Held<C> {
    fn holds(&self, now: Instant) -> bool {
        self.times.is_none_or(|(_, ends)| now < ends)
    }

    fn is_due(&self, now: Instant) -> bool {
        self.times.is_some_and(|(due, _)| now >= due)
    }
}

impl NotIssued {
    /// For this reason.
    #[must_use]
    pub fn new(why: &str) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for NotIssued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotIssued {}

impl<C> Clone for Renewed<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C> fmt::Debug for Renewed<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Renewed")
    }
}

#[cfg(test)]
mod tests;
