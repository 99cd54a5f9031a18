//! The registry on Kafka: read to its end before anything is said of it, and written so that a change is of what was read.

use std::{
    sync::{
        Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use octopus_core::{
    AutoOffsetReset, Bound, Effect, Error, Fault, FetchPlan, Name, Namespace, Open, Outcome, Position,
    Records as _, Settings, TopicName, TopicPartition,
};
use octopus_kafka::{
    Cluster, Consumer, NewTopic, Producer,
    producer::{Config, NewRecord},
    records::Reader,
};
use tokio::{
    sync::{Mutex, MutexGuard},
    time::timeout,
};

use super::{
    super::kafka::{Left, failed},
    REGISTRY,
    state::{Stage, Stages, State, key, value},
};
use crate::random;

/// The longest turn of a read.
const TURN: Duration = Duration::from_millis(500);
/// The most tombstones that go with one change.
const TOMBSTONES: usize = 64;

/// Reads and writes the registry. Who waits for a read of it shares the next one, and nobody waits for a write.
#[derive(Debug)]
pub(super) struct Journal {
    cluster: Cluster,
    /// It writes each record once, also where an answer is lost.
    producer: Producer,
    log: Mutex<Log>,
    state: Arc<RwLock<State>>,
    /// How many reads have begun.
    begun: AtomicU64,
    /// What the tokens of this process begin with.
    server: OnceLock<Box<str>>,
    /// How many tokens there were.
    tokens: AtomicU64,
}

/// What a change does.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing.
    Keep,
    /// Has the namespace hold these topics.
    Put(Stages),
    /// Deletes the namespace.
    Delete,
}

/// What a change came to.
#[derive(Debug)]
pub(super) struct Made {
    /// The token of its record; `None` where there was nothing to do.
    pub(super) token: Option<Box<str>>,
    /// What the namespace then holds; `None` where there is no such namespace.
    pub(super) topics: Option<Stages>,
}

#[derive(Debug)]
struct Log {
    state: Arc<RwLock<State>>,
    consumer: Arc<Consumer>,
    at: TopicPartition,
    /// Where it is read next; `None` before the first read.
    position: Option<Position>,
    /// Whether the registry is known to be there, and fit to be one.
    is_made: bool,
    /// Whether it was said that it is not fit.
    is_told: bool,
    /// The last read that ended well, of those that have begun.
    done: u64,
    /// What is read of another registry, until its end: nobody sees half of it.
    anew: Option<State>,
}

impl Journal {
    pub(super) fn new(cluster: Cluster) -> Self {
        let mut settings = Settings::default();
        settings.auto_offset_reset = AutoOffsetReset::Earliest;
        let group = Name::parse(REGISTRY).expect("letters and a dash");
        let consumer = cluster.consumer(&Open::outside(group, settings), |_| {});
        let state = Arc::<RwLock<State>>::default();
        let log = Log {
            state: Arc::clone(&state),
            consumer: Arc::new(consumer),
            at: TopicPartition::only(REGISTRY.into()),
            position: None,
            is_made: false,
            is_told: false,
            done: 0,
            anew: None,
        };
        Self {
            producer: cluster.producer(Config::default()),
            cluster,
            log: Mutex::new(log),
            state,
            begun: AtomicU64::new(0),
            server: OnceLock::new(),
            tokens: AtomicU64::new(0),
        }
    }

    /// The topics of a namespace at present, `None` where there is no such namespace.
    pub(super) async fn topics(&self, namespace: &Namespace, left: &Left) -> Result<Option<Stages>, Error> {
        self.read(left).await?;
        Ok(shared(&self.state).topics(namespace.as_str()).cloned())
    }

    /// Whether a namespace held a topic when the registry was last read. It waits for nothing.
    pub(super) fn knew(&self, namespace: &Namespace, topic: &TopicName) -> bool {
        let state = shared(&self.state);
        let stage = state
            .topics(namespace.as_str())
            .and_then(|topics| topics.get(topic));
        stage.is_some_and(Stage::is_held)
    }

    /// Whether a token is one of this process's.
    pub(super) fn is_own(&self, token: &str) -> bool {
        let server = self.server.get();
        server.is_some_and(|server| token.starts_with(&**server))
    }

    /// Changes a namespace as `decide` says of the topics that it holds, `None` where there is no such namespace, and of the
    /// token that the change would have; it is asked again where another server was quicker.
    pub(super) async fn change(
        &self,
        namespace: &Namespace,
        left: &Left,
        mut decide: impl FnMut(Option<&Stages>, &str) -> Result<Step, Error> + Send,
    ) -> Result<Made, Error> {
        let name = namespace.as_str();
        self.read(left).await?;
        loop {
            let token = self.token()?;
            let (held, version) = {
                let state = shared(&self.state);
                (state.topics(name).cloned(), state.next_version(name))
            };
            let new = match decide(held.as_ref(), &token)? {
                Step::Put(topics) => Some(topics),
                Step::Delete => None,
                Step::Keep => {
                    return Ok(Made {
                        token: None,
                        topics: held,
                    });
                }
            };
            let stale: Vec<_> = {
                let mut state = alone(&self.state);
                state.watch(&token);
                state.stale(name).take(TOMBSTONES).map(str::to_owned).collect()
            };
            let written = self
                .write(name, &token, value(version, new.as_ref()), stale, left)
                .await;
            let counts = alone(&self.state).counted(&token);
            written?;
            if counts {
                return Ok(Made {
                    token: Some(token),
                    topics: new,
                });
            }
            tracing::debug!(%namespace, "another server changed a namespace in the same moment");
        }
    }

    /// Writes a record, and reads it back.
    async fn write(
        &self,
        namespace: &str,
        token: &str,
        value: Vec<u8>,
        stale: Vec<String>,
        left: &Left,
    ) -> Result<(), Error> {
        let record = |token: &str, value: Option<Vec<u8>>| NewRecord {
            key: Some(key(namespace, token).into()),
            value: value.map(Into::into),
            ..NewRecord::default()
        };
        let send = |record| self.producer.send(REGISTRY, record, left.time());
        let sending = send(record(token, Some(value)));
        let tombstones: Vec<_> = stale.iter().map(|token| send(record(token, None))).collect();
        sending.await.map_err(|error| failed(error.error().clone()))?;
        self.read(left).await?;
        for tombstone in tombstones {
            // The next change sends it again.
            if let Err(error) = tombstone.await {
                tracing::debug!(%error, "a tombstone of the registry was not written");
            }
        }
        Ok(())
    }

    /// Reads the registry to where it ends at present, or later. A read that began while this one waited will do.
    async fn read(&self, left: &Left) -> Result<(), Error> {
        let before = self.begun.load(Ordering::SeqCst);
        let log = timeout(left.time(), self.log.lock()).await;
        let mut log = log.map_err(|_| Error::KafkaRetriable)?;
        if log.done > before {
            return Ok(());
        }
        let turn = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        if !log.is_made {
            self.make(&mut log, left).await?;
        }
        let end = log.end(left).await?;
        log.read_to(end, left).await?;
        log.done = turn;
        Ok(())
    }

    /// Makes the registry where there is none; one that is there must be fit.
    async fn make(&self, log: &mut MutexGuard<'_, Log>, left: &Left) -> Result<(), Error> {
        let new = NewTopic::named(REGISTRY).config("cleanup.policy", "compact");
        let made = self.cluster.ensure_topic(&new, left.time()).await;
        if !made.map_err(failed)? {
            let partitions = self.cluster.partitions(REGISTRY, left.time()).await;
            let partitions = partitions.map_err(failed)?.ok_or(Error::KafkaRetriable)?;
            if partitions != 1 {
                if !std::mem::replace(&mut log.is_told, true) {
                    tracing::error!(
                        registry = REGISTRY,
                        partitions,
                        "the registry can't be used: make it with 1 partition and cleanup.policy=compact"
                    );
                }
                return Err(Error::KafkaFailed);
            }
        }
        log.is_made = true;
        Ok(())
    }

    /// A token that no other record has.
    fn token(&self) -> Result<Box<str>, Error> {
        let server = match self.server.get() {
            Some(server) => server,
            None => {
                let new = random::hex::<8>().map_err(|_| Error::Internal)?;
                self.server.get_or_init(|| format!("{new}-").into())
            }
        };
        let number = self.tokens.fetch_add(1, Ordering::Relaxed);
        Ok(format!("{server}{number}").into())
    }
}

impl Log {
    /// Where the registry ends at present.
    async fn end(&mut self, left: &Left) -> Result<i64, Error> {
        let effect = Effect::Bounds(vec![self.at.clone()], Bound::End);
        let ends = match self.consumer.run(effect, left.time()).await? {
            Outcome::Positions(ends) => ends,
            Outcome::Done
            | Outcome::Topics(_)
            | Outcome::Joined(_)
            | Outcome::Joining
            | Outcome::Fetched(_)
            | Outcome::Committed(_) => Vec::new(),
        };
        let end = ends.first().map(|(_, end)| end.offset);
        if end.is_none_or(|end| self.position.is_some_and(|position| end < position.offset)) {
            // It was deleted, or made anew: what was read is not in it.
            tracing::warn!(registry = REGISTRY, "the registry is another one");
            self.forget(None);
            self.is_made = end.is_some();
        }
        end.ok_or(Error::KafkaRetriable)
    }

    /// Reads the records before `end`, and maybe more.
    async fn read_to(&mut self, end: i64, left: &Left) -> Result<(), Error> {
        while self.position.map_or(0, |position| position.offset) < end {
            if left.time().is_zero() {
                return Err(Error::KafkaRetriable);
            }
            let mut plan = FetchPlan::of([self.at.clone()]);
            if let Some(position) = self.position {
                plan.advance(&self.at, position);
            }
            let polled = self.consumer.poll(&plan, left.time().min(TURN)).await?;
            if let Some((_, start)) = polled.started.into_iter().next() {
                self.forget(Some(start));
            }
            for (_, records) in polled.parts {
                self.take(records)?;
            }
            if let Some((_, error)) = polled.failed.into_iter().next() {
                return Err(error);
            }
        }
        if let Some(anew) = self.anew.take() {
            alone(&self.state).follow(anew);
        }
        Ok(())
    }

    /// Takes in what a turn read.
    fn take(&mut self, mut records: Reader) -> Result<(), Error> {
        let fault = {
            let mut known = alone(&self.state);
            let state = self.anew.as_mut().unwrap_or(&mut known);
            loop {
                let record = match records.next() {
                    Some(Ok(record)) => record,
                    Some(Err(fault)) => break Some(fault),
                    None => break None,
                };
                if let Some(key) = record.key.and_then(|key| str::from_utf8(key).ok()) {
                    state.apply(key, record.value);
                }
            }
        };
        let position = records.position();
        self.position = Some(position);
        match fault {
            // It may have been damaged on its way, and is fetched again.
            Some(Fault::Corrupt) if !self.consumer.is_damaged(&self.at, position) => Ok(()),
            Some(fault) => {
                tracing::error!(registry = REGISTRY, ?fault, "the registry can't be read");
                Err(Error::KafkaFailed)
            }
            None => Ok(()),
        }
    }

    /// Starts again from there.
    fn forget(&mut self, start: Option<Position>) {
        self.anew = Some(State::default());
        self.position = start;
    }
}

fn shared(state: &RwLock<State>) -> RwLockReadGuard<'_, State> {
    state.read().unwrap_or_else(PoisonError::into_inner)
}

fn alone(state: &RwLock<State>) -> RwLockWriteGuard<'_, State> {
    state.write().unwrap_or_else(PoisonError::into_inner)
}
