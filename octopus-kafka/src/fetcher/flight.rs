//! One Fetch on its way to one broker, and what its answer says of each partition.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use kafka_protocol::{
    error::{ParseResponseErrorCode, ResponseError},
    messages::BrokerId,
};
use octopus_core::{Error, Position, limits::FETCH_BYTES};
use tokio::{task::AbortHandle, time::Instant};
use uuid::Uuid;

use super::{Resolver, Shared, budget::Room, lock};
use crate::{
    api::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchedPartition},
    cluster::{Origin, TopicInfo},
    error::Api,
};

/// How long an answer is kept for the next turn.
pub(super) const KEPT_FOR: Duration = Duration::from_secs(2);
/// How long past its wait on the broker's side an answer may take.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// How long an answer may take that the broker is asked for at once.
const AT_ONCE: Duration = Duration::from_millis(500);
/// How long an answer with records may take that the broker is asked to wait for.
const SILENCE: Duration = Duration::from_millis(100);

/// One partition of a Fetch.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Asked {
    pub(super) topic: String,
    pub(super) position: Position,
    pub(super) id: Uuid,
    pub(super) leader_epoch: i32,
}

impl Asked {
    pub(super) fn new(topic: &str, position: Position, info: &TopicInfo) -> Self {
        Self {
            topic: topic.to_owned(),
            position,
            id: info.id,
            leader_epoch: info.leader_epoch,
        }
    }

    /// Of which log its answer is.
    pub(super) const fn source(&self) -> super::Source {
        super::Source {
            id: self.id,
            leader_epoch: self.leader_epoch,
        }
    }
}

/// How long a broker may wait with its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wait {
    /// For so many bytes,
    pub(super) min_bytes: i32,
    /// and for no longer than this.
    pub(super) most: Duration,
}

/// What came of a Fetch, and on which connection.
type Came = Result<(FetchResponse, Origin), crate::Error>;

/// A Fetch on its way. It goes on when a turn ends; dropped, it is given up.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) asked: Vec<Asked>,
    since: Instant,
    wait: Wait,
    /// The turn in hand has not asked for it, and who did let the broker wait for nothing.
    is_ahead: bool,
    answer: Arc<Mutex<Answer>>,
    task: AbortHandle,
}

#[derive(Debug)]
enum Answer {
    Awaited,
    Here(Came),
    /// It came and was taken, or was kept for too long.
    Gone,
}

impl Flight {
    /// Sends a Fetch for these partitions, and counts a change when its answer came. `room` is what it has of a budget,
    /// for as long as the answer may be kept.
    pub(super) fn start(
        resolver: &Resolver,
        broker: BrokerId,
        asked: Vec<Asked>,
        wait: Wait,
        room: Option<Room>,
        shared: &Arc<Shared>,
    ) -> Self {
        let request = request(&asked, wait);
        let answer = Arc::new(Mutex::new(Answer::Awaited));
        let (cluster, client_id) = (resolver.cluster.clone(), resolver.group.client_id.clone());
        let (kept, shared) = (Arc::clone(&answer), Arc::clone(shared));
        let is_ahead = room.is_some();
        let task = tokio::spawn(async move {
            let mut room = room;
            let deadline = Instant::now() + wait.most + ANSWER_WAIT;
            let mut came = cluster.fetch(broker, &client_id, &request, deadline).await;
            if let (Some(room), Ok((response, _))) = (&mut room, &mut came)
                && !room.grow_to(response.record_bytes())
            {
                response.drop_records();
            }
            *lock(&kept) = Answer::Here(came);
            shared.changes.tell();
            tokio::time::sleep(KEPT_FOR).await;
            *lock(&kept) = Answer::Gone;
        });
        Self {
            asked,
            since: Instant::now(),
            wait,
            is_ahead,
            answer,
            task: task.abort_handle(),
        }
    }

    /// Whether it asks what would be asked for these.
    pub(super) fn is_for(&self, asked: &[Asked], min_bytes: i32) -> bool {
        let by_topic = |asked: &Asked| (asked.topic.clone(), asked.position.offset, asked.id);
        let mut ours: Vec<_> = self.asked.iter().map(by_topic).collect();
        let mut theirs: Vec<_> = asked.iter().map(by_topic).collect();
        ours.sort();
        theirs.sort();
        self.wait.min_bytes == min_bytes && ours == theirs && !matches!(*lock(&self.answer), Answer::Gone)
    }

    /// Whether the answer has not come yet.
    pub(super) fn is_awaited(&self) -> bool {
        matches!(*lock(&self.answer), Answer::Awaited)
    }

    /// Whether the broker has not waited for as many bytes as a turn asks for, and gave fewer.
    pub(super) fn is_less_than_asked(&self, response: &FetchResponse) -> bool {
        self.is_ahead && (1..least_bytes(self.wait.min_bytes)).contains(&response.record_bytes())
    }

    /// The turn that asked for it ends, or has done without it.
    pub(super) fn carry_over(&mut self) {
        self.is_ahead |= self.wait.most.is_zero();
    }

    /// Whether it asks for this topic.
    pub(super) fn is_about(&self, topic: &str) -> bool {
        self.asked.iter().any(|asked| asked.topic == topic)
    }

    /// Until when its answer is due if there are records: a broker that waits for some has said by its silence that it
    /// has none.
    pub(super) fn due(&self) -> Instant {
        let time = if self.wait.most.is_zero() {
            AT_ONCE
        } else {
            SILENCE
        };
        self.since + time
    }

    /// The answer, once.
    pub(super) fn take(&self) -> Option<Came> {
        let mut answer = lock(&self.answer);
        if matches!(*answer, Answer::Awaited) {
            return None;
        }
        match std::mem::replace(&mut *answer, Answer::Gone) {
            Answer::Here(answer) => Some(answer),
            Answer::Awaited | Answer::Gone => None,
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What an answer says of one partition.
#[derive(Debug, PartialEq)]
pub(super) enum What {
    /// Its records, or none at present, and where its log ends.
    Records(Bytes, i64),
    /// The position is not in the log.
    OutOfRange,
    /// The broker is not its leader any more: this one is, since this epoch.
    Moved(i32, i32),
    /// The broker is not its leader, or knows another topic: what is known of it is stale.
    Stale,
    /// It can't be read.
    Failed(Error),
}

/// What an answer says of each partition that was asked for; nothing of others, and of each once. One that it does not
/// name is not known to the broker.
pub(super) fn sort(asked: &[Asked], response: FetchResponse) -> Vec<(Asked, What)> {
    if let Some(code) = response.error_code.err() {
        tracing::debug!(%code, "a fetch was refused");
        let what = || {
            let error = Error::from(crate::Error::response(Api::Fetch, code));
            if code.is_retriable() {
                What::Stale
            } else {
                What::Failed(error)
            }
        };
        return asked.iter().map(|asked| (asked.clone(), what())).collect();
    }
    let mut open: BTreeMap<&str, &Asked> = asked.iter().map(|asked| (&*asked.topic, asked)).collect();
    let mut sorted = Vec::new();
    for part in response.partitions {
        let topic = named(&part, asked);
        let Some(asked) = topic
            .filter(|_| part.partition == 0)
            .and_then(|topic| open.remove(topic))
        else {
            tracing::debug!(
                partition = part.partition,
                "a fetch brought a partition that was not asked for"
            );
            continue;
        };
        let what = match part.error_code.err() {
            None => What::Records(part.records, part.high_watermark),
            Some(ResponseError::OffsetOutOfRange) => What::OutOfRange,
            Some(ResponseError::TopicAuthorizationFailed) => What::Failed(Error::KafkaUnauthorized),
            Some(ResponseError::UnknownTopicOrPartition | ResponseError::UnknownTopicId) => What::Stale,
            Some(code) if code.is_retriable() && code != ResponseError::CorruptMessage => part
                .current_leader
                .map_or(What::Stale, |(leader, epoch)| What::Moved(leader, epoch)),
            Some(code) => {
                tracing::warn!(topic = asked.topic, %code, "a partition can't be fetched");
                What::Failed(crate::Error::response(Api::Fetch, code).into())
            }
        };
        sorted.push((asked.clone(), what));
    }
    sorted.extend(open.into_values().map(|asked| (asked.clone(), What::Stale)));
    sorted
}

/// The name of a partition's topic, which the answer gives by name or by id.
fn named<'a>(part: &FetchedPartition, asked: &'a [Asked]) -> Option<&'a str> {
    let is_it =
        |asked: &&Asked| *asked.topic == *part.topic || (part.topic.is_empty() && asked.id == part.topic_id);
    asked.iter().find(is_it).map(|asked| &*asked.topic)
}

/// The bytes that a broker waits for: no answer has more than it may.
pub(super) fn least_bytes(min_bytes: i32) -> usize {
    min_bytes.clamp(0, FETCH_BYTES).unsigned_abs() as usize
}

fn request(asked: &[Asked], wait: Wait) -> FetchRequest {
    let partitions = asked.iter().map(|asked| FetchPartition {
        topic: asked.topic.clone(),
        topic_id: asked.id,
        partition: 0,
        fetch_offset: asked.position.offset,
        current_leader_epoch: asked.leader_epoch,
        partition_max_bytes: FETCH_BYTES,
    });
    FetchRequest {
        max_wait_ms: i32::try_from(wait.most.as_millis()).unwrap_or(i32::MAX),
        min_bytes: wait.min_bytes,
        max_bytes: FETCH_BYTES,
        partitions: partitions.collect(),
    }
}
