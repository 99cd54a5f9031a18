//! A producer: records of many callers, batched by topic, each written once.
//!
//! It is idempotent (KIP-98): Kafka knows each batch by a producer id and a sequence number, so that a batch whose answer
//! was lost is sent again without being there twice. Every topic has a producer id of its own, and one batch on its way at
//! a time; what comes meanwhile goes into the next one, so that a topic that is quiet waits for nothing and a busy one
//! sends large batches. All replicas in sync acknowledge a batch before anyone is told that it is written.
//!
//! Like the rest of this client it writes to partition 0 of a topic. It has no transactions.

mod batch;
mod lane;
mod partition;
mod verdict;

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use kafka_protocol::error::ResponseError;
use octopus_core::limits;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::Instant,
};

use self::lane::Lane;
use crate::{
    Cluster,
    cluster::can_be_a_topic,
    error::{Api, Error, Kind},
};

/// What a record takes in a batch beside its parts, at most, in bytes.
const RECORD_HEAD: usize = 40;
/// What a header takes beside its name and its value, at most, in bytes.
const HEADER_HEAD: usize = 10;

/// The settings of a [`Producer`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// The bytes of records that wait or are on their way at once, over all topics: 32 MiB. The batches that are being
    /// sent are made of them, and come on top.
    pub memory: usize,
    /// The bytes of records that go into one batch, unless one record alone has more: 512 KiB.
    pub batch: usize,
    /// The largest record, in bytes; as large as what is read again [FE-13].
    pub record: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            memory: 32 << 20,
            batch: 512 << 10,
            record: limits::RECORD_BYTES,
        }
    }
}

/// A record to write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewRecord {
    /// Its key, `None` for null.
    pub key: Option<Bytes>,
    /// Its value, `None` for null.
    pub value: Option<Bytes>,
    /// Its headers in their order, each a name and a value that may be null. Names may come twice.
    pub headers: Vec<(String, Option<Bytes>)>,
    /// When it was made, in milliseconds since 1970 UTC; when it is sent where there is none.
    pub timestamp: Option<i64>,
}

/// Where a record stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// Its partition.
    pub partition: i32,
    /// Its offset; `None` where Kafka had the batch already and does not say where.
    pub offset: Option<i64>,
    /// Its timestamp, in milliseconds since 1970 UTC: Kafka's where the topic goes by the time of the append.
    pub timestamp: i64,
}

/// Why a record is not known to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotWritten {
    sent: bool,
    error: Error,
}

/// Writes records to the topics of a [`Cluster`]; its clones are the same producer.
///
/// Made by [`Cluster::producer`]. It needs a tokio runtime.
#[derive(Clone)]
pub struct Producer(Arc<Shared>);

/// A record that was given to a [`Producer`]: ends with what became of it.
///
/// Dropped earlier, a record that waits for its batch is withdrawn. One that is on its way is written all the same.
#[derive(Debug)]
#[must_use = "a record that nobody waits for is withdrawn"]
pub struct Sending(State);

#[derive(Debug)]
enum State {
    Refused(Option<NotWritten>),
    Waiting {
        lane: Arc<Lane>,
        id: u64,
        answer: oneshot::Receiver<Result<Written, NotWritten>>,
    },
    Over,
}

struct Shared {
    cluster: Cluster,
    config: Config,
    memory: Arc<Semaphore>,
    lanes: Mutex<HashMap<Arc<str>, Arc<Lane>>>,
}

impl Cluster {
    /// A producer of records for this cluster.
    #[must_use]
    pub fn producer(&self, config: Config) -> Producer {
        Producer(Arc::new(Shared {
            cluster: self.clone(),
            memory: Arc::new(Semaphore::new(config.memory.min(Semaphore::MAX_PERMITS))),
            config,
            lanes: Mutex::default(),
        }))
    }
}

impl Producer {
    /// Has a record written to a topic by its name on Kafka, behind those that were given for it before, and
    /// acknowledged by all replicas in sync. It is taken at once, whenever the future is asked; within this time it
    /// is sent as often as it takes, and stands in the topic once at most.
    ///
    /// # Errors
    ///
    /// [`NotWritten`], which says whether the record may be there all the same. At once and surely not where the
    /// producer holds as many bytes as it may ([`Kind::Full`]), the record is too large, or no topic has such a name.
    pub fn send(&self, topic: &str, record: NewRecord, within: Duration) -> Sending {
        let deadline = Instant::now() + within;
        let sending = self
            .admit(topic, &record)
            .map(|(size, hold)| self.0.enqueue(topic, stamped(record), size, deadline, hold));
        Sending(sending.unwrap_or_else(|kind| {
            State::Refused(Some(NotWritten {
                sent: false,
                error: Error::new(Api::Produce, kind),
            }))
        }))
    }

    /// The size of a record, and its share of the memory; why it is refused at once.
    fn admit(&self, topic: &str, record: &NewRecord) -> Result<(usize, OwnedSemaphorePermit), Kind> {
        let config = &self.0.config;
        if !can_be_a_topic(topic) {
            return Err(Kind::InvalidTopic);
        }
        let size = size(record);
        if size > config.record.min(config.memory) {
            return Err(Kind::Response(ResponseError::MessageTooLarge));
        }
        let permits = u32::try_from(size).map_err(|_| Kind::Response(ResponseError::MessageTooLarge))?;
        let hold = Arc::clone(&self.0.memory).try_acquire_many_owned(permits);
        Ok((size, hold.map_err(|_| Kind::Full)?))
    }
}

impl Shared {
    fn enqueue(
        self: &Arc<Self>,
        topic: &str,
        record: NewRecord,
        size: usize,
        deadline: Instant,
        hold: OwnedSemaphorePermit,
    ) -> State {
        let mut lanes = self.lanes();
        let lane = if let Some(lane) = lanes.get(topic) {
            Arc::clone(lane)
        } else {
            let topic: Arc<str> = topic.into();
            let lane = Arc::new(Lane::new(
                Arc::clone(&topic),
                self.cluster.clone(),
                self.config.batch,
            ));
            lanes.insert(topic, Arc::clone(&lane));
            tokio::spawn(Arc::clone(&lane).run(Arc::downgrade(self)));
            lane
        };
        // Within the lock of the lanes: a lane that is idle for long must not end meanwhile.
        let (id, answer) = lane.push(record, size, deadline, hold);
        State::Waiting { lane, id, answer }
    }

    fn lanes(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Lane>>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a lane that has nothing to do; false where it has.
    fn retire(&self, lane: &Lane) -> bool {
        let mut lanes = self.lanes();
        let is_idle = lane.is_empty();
        if is_idle {
            lanes.remove(lane.topic());
        }
        is_idle
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for lane in self.lanes().values() {
            lane.wake();
        }
    }
}

impl Future for Sending {
    type Output = Result<Written, NotWritten>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = match &mut self.0 {
            State::Refused(refused) => refused.take().map_or_else(|| Err(NotWritten::lost()), Err),
            State::Waiting { answer, .. } => {
                ready!(Pin::new(answer).poll(cx)).unwrap_or_else(|_| Err(NotWritten::lost()))
            }
            State::Over => Err(NotWritten::lost()),
        };
        self.0 = State::Over;
        Poll::Ready(result)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if let State::Waiting { lane, id, .. } = &self.0 {
            lane.withdraw(*id);
        }
    }
}

impl NotWritten {
    /// Nothing more is known of it.
    fn lost() -> Self {
        Self {
            sent: true,
            error: Error::new(
                Api::Produce,
                Kind::Closed {
                    sent: true,
                    why: "its task ended".into(),
                },
            ),
        }
    }

    /// Whether the record may stand in the topic all the same: it was sent, and its fate is not known. Where it may not,
    /// to send it again writes it once.
    #[must_use]
    pub const fn may_be_written(&self) -> bool {
        self.sent
    }

    /// What went wrong last.
    #[must_use]
    pub const fn error(&self) -> &Error {
        &self.error
    }
}

impl fmt::Display for NotWritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.sent {
            "the record may have been written"
        } else {
            "the record was not written"
        };
        write!(f, "{what}: {}", self.error)
    }
}

impl std::error::Error for NotWritten {}

/// What a caller is shown. Status 429 and 503 say that to send the record again writes it once, 500 that it may write it
/// twice. A record of a topic that is gone is nowhere, whatever became of it.
impl From<NotWritten> for octopus_core::Error {
    fn from(why: NotWritten) -> Self {
        let shown = Self::from(why.error);
        if shown == Self::KafkaTopicUnknown {
            shown
        } else if why.sent {
            Self::MayBeWritten
        } else if shown == Self::KafkaRetriable {
            Self::NotWritten
        } else {
            shown
        }
    }
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lanes = self.0.lanes();
        f.debug_struct("Producer")
            .field("config", &self.0.config)
            .field("topics", &lanes.len())
            .finish_non_exhaustive()
    }
}

/// What a record takes in a batch, at most, in bytes.
fn size(record: &NewRecord) -> usize {
    let length = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
    let headers = record.headers.iter();
    let headers: usize = headers
        .map(|(name, value)| HEADER_HEAD + name.len() + length(value))
        .sum();
    RECORD_HEAD + length(&record.key) + length(&record.value) + headers
}

/// The record with a timestamp.
fn stamped(mut record: NewRecord) -> NewRecord {
    record.timestamp.get_or_insert_with(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    });
    record
}

#[cfg(test)]
mod tests;
