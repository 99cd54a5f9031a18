//! The registry on Kafka: read to its end before anything is said of it, and written so that a change is of what was read.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use octopus_core::{
    AutoOffsetReset, Bound, Effect, Error, Fault, FetchPlan, Header, Name, Namespace, Open, Outcome,
    Position, Records as _, Settings, TopicName, TopicPartition,
};
use octopus_kafka::{
    Cluster, Consumer, NewTopic,
    records::{BatchWriter, Compression, Reader},
};
use tokio::{
    sync::{Mutex, MutexGuard},
    time::timeout,
};

use super::{
    super::kafka::{Left, failed},
    REGISTRY,
    state::{NONE, State, value},
};

/// The longest turn of a read.
const TURN: Duration = Duration::from_millis(500);
/// The header with the offset of the namespace's record that the writer knew as its last one.
const AFTER: &[u8] = b"after";

/// Reads and writes the registry, one at a time.
#[derive(Debug)]
pub(super) struct Journal {
    cluster: Cluster,
    log: Mutex<Log>,
}

/// What a change does.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing.
    Keep,
    /// Has the namespace hold these topics.
    Put(BTreeSet<TopicName>),
    /// Deletes the namespace.
    Delete,
}

#[derive(Debug)]
struct Log {
    state: State,
    consumer: Arc<Consumer>,
    at: TopicPartition,
    /// Where it is read next; `None` before the first read.
    position: Option<Position>,
    /// Whether the registry is known to be there.
    is_made: bool,
}

impl Journal {
    pub(super) fn new(cluster: Cluster) -> Self {
        let mut settings = Settings::default();
        settings.auto_offset_reset = AutoOffsetReset::Earliest;
        let group = Name::parse(REGISTRY).expect("letters and a dash");
        let consumer = cluster.consumer(&Open::outside(group, settings), |_| {});
        let log = Log {
            state: State::default(),
            consumer: Arc::new(consumer),
            at: TopicPartition::only(REGISTRY.into()),
            position: None,
            is_made: false,
        };
        Self {
            cluster,
            log: Mutex::new(log),
        }
    }

    /// The topics of a namespace at present, `None` where there is no such namespace.
    pub(super) async fn topics(
        &self,
        namespace: &Namespace,
        left: &Left,
    ) -> Result<Option<BTreeSet<TopicName>>, Error> {
        let log = self.read(left).await?;
        Ok(log.state.topics(namespace.as_str()).cloned())
    }

    /// Whether a namespace held a topic when the registry was last read. False also where somebody reads it.
    pub(super) fn knew(&self, namespace: &Namespace, topic: &TopicName) -> bool {
        let held = |log: MutexGuard<'_, Log>| {
            let topics = log.state.topics(namespace.as_str());
            topics.is_some_and(|topics| topics.contains(topic))
        };
        self.log.try_lock().is_ok_and(held)
    }

    /// Changes a namespace as `decide` says of the topics that it holds, `None` where there is no such namespace; it is
    /// asked again where another server was quicker. Gives whether there was something to do, and what the namespace then
    /// holds, both as they were read back.
    pub(super) async fn change(
        &self,
        namespace: &Namespace,
        left: &Left,
        decide: impl Fn(Option<&BTreeSet<TopicName>>) -> Result<Step, Error>,
    ) -> Result<(bool, Option<BTreeSet<TopicName>>), Error> {
        let mut log = self.read(left).await?;
        let name = namespace.as_str();
        loop {
            let held = log.state.topics(name).cloned();
            let (is_change, new) = match decide(held.as_ref())? {
                Step::Put(topics) => (true, Some(topics)),
                Step::Delete => (true, None),
                Step::Keep if log.state.is_void(name) => (false, held),
                Step::Keep => return Ok((false, held)),
            };
            let written = self.write(&log, name, new.as_ref(), left).await?;
            if log.read_to(written + 1, Some(written), left).await? {
                return Ok((is_change, new));
            }
            tracing::debug!(%namespace, "another server changed a namespace in the same moment");
        }
    }

    /// The registry, read to its end; nobody else reads or writes it here meanwhile.
    async fn read(&self, left: &Left) -> Result<MutexGuard<'_, Log>, Error> {
        let log = timeout(left.time(), self.log.lock()).await;
        let mut log = log.map_err(|_| Error::KafkaRetriable)?;
        if !log.is_made {
            let new = NewTopic::named(REGISTRY).config("cleanup.policy", "compact");
            self.cluster
                .ensure_topic(&new, left.time())
                .await
                .map_err(failed)?;
            log.is_made = true;
        }
        let end = log.end(left).await?;
        log.read_to(end, None, left).await?;
        Ok(log)
    }

    async fn write(
        &self,
        log: &Log,
        namespace: &str,
        topics: Option<&BTreeSet<TopicName>>,
        left: &Left,
    ) -> Result<i64, Error> {
        let after = log.state.last(namespace).to_string();
        let mut batch = BatchWriter::new(Compression::None);
        batch.push(
            now_ms(),
            Some(namespace.as_bytes()),
            topics.map(value).as_deref(),
            &[(AFTER, Some(after.as_bytes()))],
        );
        let written = self.cluster.produce(REGISTRY, batch.finish(), left.time()).await;
        written.map_err(failed)
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

    /// Reads the records before `end`, and maybe more. Gives whether the one at `watched` counts.
    async fn read_to(&mut self, end: i64, watched: Option<i64>, left: &Left) -> Result<bool, Error> {
        let mut counts = false;
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
                counts |= self.take(records, watched)?;
            }
            if let Some((_, error)) = polled.failed.into_iter().next() {
                return Err(error);
            }
        }
        Ok(counts)
    }

    /// Takes in what a turn read.
    fn take(&mut self, mut records: Reader, watched: Option<i64>) -> Result<bool, Error> {
        let mut counts = false;
        let fault = loop {
            let record = match records.next() {
                Some(Ok(record)) => record,
                Some(Err(fault)) => break Some(fault),
                None => break None,
            };
            let offset = record.offset.0;
            let Some(namespace) = record.key.and_then(|key| str::from_utf8(key).ok()) else {
                continue;
            };
            let after = record.headers.filter_map(after).next().unwrap_or(NONE);
            let is_counted = self.state.apply(offset, namespace, record.value, after);
            counts |= is_counted && watched == Some(offset);
        };
        let position = records.position();
        self.position = Some(position);
        match fault {
            // It may have been damaged on its way, and is fetched again.
            Some(Fault::Corrupt) if !self.consumer.is_damaged(&self.at, position) => Ok(counts),
            Some(fault) => {
                tracing::error!(registry = REGISTRY, ?fault, "the registry can't be read");
                Err(Error::KafkaFailed)
            }
            None => Ok(counts),
        }
    }

    /// Starts again from there.
    fn forget(&mut self, start: Option<Position>) {
        self.state = State::default();
        self.position = start;
    }
}

/// What a header says of what the writer knew.
fn after(header: Header<'_>) -> Option<i64> {
    let value = header.value.filter(|_| header.name == AFTER)?;
    str::from_utf8(value).ok()?.parse().ok()
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
