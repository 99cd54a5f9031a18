//! The task of one topic: it finds the leader and sends the batches.

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    hash::{BuildHasher as _, RandomState},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use kafka_protocol::{
    error::ParseResponseErrorCode as _, messages::produce_response::PartitionProduceResponse,
};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, oneshot},
    time::{Instant, sleep_until},
};

use super::{
    NewRecord, NotWritten, Shared, Written,
    batch::{Identity, Queued},
    partition::{Answer, Partition, Want},
};
use crate::{
    Cluster,
    error::{Error, Kind},
};

/// How long a topic's task waits for a record before it ends, and its producer id with it.
const IDLE: Duration = Duration::from_secs(600);
/// The least time to find a connection, or a producer id, before what is wrong is looked at again.
const LEAST: Duration = Duration::from_millis(250);
/// The time before the end of a try by which Kafka is to have answered itself.
const MARGIN: Duration = Duration::from_millis(500);
/// The silence after which a connection is given up, for it may be gone without a word.
const SILENCE: Duration = Duration::from_secs(3);
/// The most time that one request is waited for.
const LONGEST_TRY: Duration = Duration::from_secs(8);
/// The least and the most time that Kafka has for a batch, in milliseconds.
const TIMEOUT_MS: (i32, i32) = (500, 30_000);

/// The records for one topic, and who waits for them.
pub(super) struct Lane {
    topic: Arc<str>,
    cluster: Cluster,
    state: Mutex<State>,
    /// Told of records to send, and of the end.
    changed: Notify,
}

struct State {
    partition: Partition,
    waiting: HashMap<u64, oneshot::Sender<Result<Written, NotWritten>>>,
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Lane {
    pub(super) fn new(topic: Arc<str>, cluster: Cluster, most_bytes: usize) -> Self {
        let chance = RandomState::new().hash_one(&topic);
        Self {
            topic,
            cluster,
            state: Mutex::new(State {
                partition: Partition::new(most_bytes, chance),
                waiting: HashMap::new(),
            }),
            changed: Notify::new(),
        }
    }

    pub(super) const fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    pub(super) fn push(
        &self,
        record: NewRecord,
        size: usize,
        deadline: Instant,
        hold: OwnedSemaphorePermit,
    ) -> (u64, oneshot::Receiver<Result<Written, NotWritten>>) {
        let (answer, answered) = oneshot::channel();
        let mut state = self.lock();
        let id = state.partition.push(|id| Queued {
            id,
            record,
            size,
            deadline,
            _hold: Some(hold),
        });
        state.waiting.insert(id, answer);
        drop(state);
        self.wake();
        (id, answered)
    }

    /// Nobody waits for a record any more.
    pub(super) fn withdraw(&self, id: u64) {
        let mut state = self.lock();
        if state.waiting.remove(&id).is_some() {
            state.partition.withdraw(id);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().partition.is_empty()
    }

    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }

    /// Sends what comes, until nothing has come for long or the producer is gone.
    pub(super) async fn run(self: Arc<Self>, producer: Weak<Shared>) {
        let mut work: Option<Work> = None;
        let mut idle_from = Instant::now();
        loop {
            let now = Instant::now();
            let (want, next) = self.turn(work.is_none(), now);
            match want {
                Want::Nothing => {}
                Want::Identity => work = Some(Box::pin(Arc::clone(&self).identify())),
                Want::Connection => work = Some(Box::pin(Arc::clone(&self).write())),
            }
            let until = if work.is_none() && next.is_none() {
                let is_over = match producer.upgrade() {
                    Some(shared) => now.duration_since(idle_from) >= IDLE && shared.retire(&self),
                    None => self.is_empty(),
                };
                if is_over {
                    return;
                }
                idle_from + IDLE
            } else {
                idle_from = now;
                next.unwrap_or(now + IDLE)
            };
            tokio::select! {
                () = done(&mut work) => work = None,
                () = self.changed.notified() => {}
                () = sleep_until(until) => {}
            }
        }
    }

    /// Tells those whose records are settled; what is needed next, unless something is being done already, and when to
    /// look again.
    fn turn(&self, is_free: bool, now: Instant) -> (Want, Option<Instant>) {
        let mut state = self.lock();
        state.partition.handle_timeout(now);
        state.tell();
        let want = if is_free {
            state.partition.poll_want(now)
        } else {
            Want::Nothing
        };
        (want, state.partition.poll_timeout())
    }

    /// Asks for a producer id.
    async fn identify(self: Arc<Self>) {
        let Some(deadline) = self.soon() else { return };
        let identity = self.cluster.producer_id(deadline).await;
        let identity = identity.map(|(producer_id, epoch)| Identity { producer_id, epoch });
        self.log(identity.as_ref().err());
        let mut state = self.lock();
        state.partition.handle_identity(identity, Instant::now());
        state.tell();
    }

    /// Finds a connection to the leader, and sends a batch on it.
    async fn write(self: Arc<Self>) {
        let Some(deadline) = self.soon() else { return };
        let lease = match self.cluster.lease_to_leader(&self.topic, deadline).await {
            Ok(lease) => lease,
            Err(error) => {
                self.log(Some(&error));
                self.cluster.stale(&self.topic);
                let mut state = self.lock();
                state.partition.handle_no_connection(error, Instant::now());
                state.tell();
                return;
            }
        };
        let asked = Instant::now();
        let taken = self.lock().partition.take(asked);
        let Some((batch, deadline)) = taken else { return };
        let bytes = batch.encode();
        drop(batch);
        // Sent again it writes nothing twice, so a connection that died without a word takes little of the time.
        let deadline = Cluster::one_try(deadline).min(asked + LONGEST_TRY);
        let timeout_ms = timeout_ms(deadline.saturating_duration_since(asked));
        let answer = self
            .cluster
            .produce_on(&lease, &self.topic, &bytes, timeout_ms, deadline)
            .await;
        drop(bytes);
        self.log(answer.as_ref().err());
        if let Err(error) = &answer
            && *error.kind() == Kind::Timeout
            && asked.elapsed() >= SILENCE
            && lease.heard() < asked
        {
            lease.poison("it does not answer to a batch");
        }
        let answer = said(answer);
        if !matches!(answer, Answer::Written { .. }) {
            self.cluster.stale(&self.topic);
        }
        let mut state = self.lock();
        state.partition.handle_answer(answer, Instant::now());
        state.tell();
    }

    /// Until when a connection or a producer id is looked for at once: half the time that is left, so that what is
    /// wrong is known before all of it is over.
    fn soon(&self) -> Option<Instant> {
        let now = Instant::now();
        let left = self.lock().partition.deadline()?.saturating_duration_since(now);
        Some(now + (left / 2).max(LEAST))
    }

    fn log(&self, error: Option<&Error>) {
        if let Some(error) = error {
            tracing::debug!(topic = &*self.topic, %error, "a batch is not written yet");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn tell(&mut self) {
        while let Some((id, result)) = self.partition.poll_settled() {
            if let Some(waiting) = self.waiting.remove(&id) {
                // Who left while it was settled does not want to know.
                let _ = waiting.send(result);
            }
        }
    }
}

/// Ends when the work does, if there is any.
async fn done(work: &mut Option<Work>) {
    match work {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
}

/// What an answer to a batch says.
fn said(answer: Result<PartitionProduceResponse, Error>) -> Answer {
    match answer {
        Ok(said) => match said.error_code.err() {
            None => Answer::Written {
                base_offset: Some(said.base_offset).filter(|offset| *offset >= 0),
                append_time: Some(said.log_append_time_ms).filter(|time| *time >= 0),
            },
            Some(code) => Answer::Refused(code),
        },
        Err(error) => match error.kind() {
            Kind::Closed { sent: false, .. }
            | Kind::Unreachable(_)
            | Kind::SignIn(_)
            | Kind::Unsupported
            | Kind::InvalidTopic
            | Kind::Full => Answer::NotSent(error),
            Kind::Closed { sent: true, .. }
            | Kind::Timeout
            | Kind::Malformed
            | Kind::TooLarge
            | Kind::Response(_) => Answer::Lost(error),
        },
    }
}

/// The time that Kafka has for a batch, in milliseconds, where so much is left to wait for it.
fn timeout_ms(left: Duration) -> i32 {
    let (least, most) = TIMEOUT_MS;
    let time = left.saturating_sub(MARGIN).as_millis();
    i32::try_from(time).unwrap_or(most).clamp(least, most)
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lane").field(&self.topic).finish()
    }
}
