//! Fetch, and the long poll behind it.

use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_protocol::messages::{
    FetchRequest, FetchResponse,
    fetch_request::{FetchPartition, FetchTopic},
    fetch_response::{EpochEndOffset, FetchableTopicResponse, PartitionData},
};

use crate::broker::{
    api::Response,
    code::{self, Code},
    id::ConnectionId,
    log::{Found, Log},
    machine::{Machine, Parked},
    refuse::no_records,
    topic::wire_name,
};

/// What a look for a partition's records finds.
enum Look {
    Records(Found),
    /// The client's log has parted from this one: the epoch that both have, and its end.
    Parted(i32, i64),
}

/// The session epochs of a fetch that names all its partitions.
const WHOLE: [i32; 2] = [-1, 0];

impl Machine {
    /// `None` where the fetch waits.
    pub(crate) fn fetch(
        &mut self,
        id: ConnectionId,
        request: FetchRequest,
        now: Instant,
    ) -> Option<Response> {
        if !WHOLE.contains(&request.session_epoch) {
            // No session is ever given out.
            let code = code::FETCH_SESSION_ID_NOT_FOUND;
            return Some(Response::Fetch(FetchResponse::default().with_error_code(code)));
        }
        let wait = u64::try_from(request.max_wait_ms).unwrap_or(0);
        if wait == 0 || self.has_enough(&request) {
            return Some(self.read(&request));
        }
        let deadline = now + Duration::from_millis(wait);
        self.park(id, Parked { request, deadline });
        None
    }

    /// Answers a fetch whose wait is over.
    pub(crate) fn end_fetch(&mut self, id: ConnectionId, now: Instant) {
        if let Some(fetch) = self.unpark(id) {
            let response = self.read(&fetch.request);
            self.answer(id, response, now);
        }
    }

    /// Answers the fetches that a topic's change has given enough to.
    pub(crate) fn wake_fetches(&mut self, topic: &str, now: Instant) {
        let mut enough = Vec::new();
        for (id, fetch) in &self.fetches {
            let asks = fetch
                .request
                .topics
                .iter()
                .any(|asked| asked.topic.as_str() == topic);
            if asks && self.has_enough(&fetch.request) {
                enough.push(*id);
            }
        }
        for id in enough {
            self.end_fetch(id, now);
        }
    }

    /// What a fetch returns at this moment.
    fn read(&self, request: &FetchRequest) -> Response {
        let answer = |topic: &FetchTopic| {
            FetchableTopicResponse::default()
                .with_topic(topic.topic.clone())
                .with_topic_id(topic.topic_id)
        };
        let mut topics: Vec<_> = request.topics.iter().map(answer).collect();
        self.look(request, |topic, asked, found| {
            let data = found.and_then(|(log, found)| {
                let mut data = PartitionData::default()
                    .with_partition_index(asked.partition)
                    .with_high_watermark(log.end())
                    .with_last_stable_offset(log.end())
                    .with_log_start_offset(log.start())
                    // A reader of uncommitted records is told of no transactions.
                    .with_aborted_transactions((request.isolation_level == 1).then(Vec::new))
                    .with_records(Some(Bytes::new()));
                match found {
                    Look::Records(found) => data.records = Some(log.load(&found)?),
                    Look::Parted(epoch, end) => {
                        data.diverging_epoch =
                            EpochEndOffset::default().with_epoch(epoch).with_end_offset(end);
                    }
                }
                Ok(data)
            });
            let data = data
                .unwrap_or_else(|code| no_records(asked.partition, code).with_records(Some(Bytes::new())));
            topics[topic].partitions.push(data);
        });
        Response::Fetch(FetchResponse::default().with_responses(topics))
    }

    /// Whether a fetch has nothing to wait for.
    fn has_enough(&self, request: &FetchRequest) -> bool {
        let (mut ready, mut is_due) = (0, request.topics.is_empty());
        self.look(request, |_, _, found| match found {
            Ok((_, Look::Records(found))) => ready += found.ready,
            // An error, or that its log has parted from this one, is to be heard at once.
            Ok((_, Look::Parted(..))) | Err(_) => is_due = true,
        });
        // As Kafka does: an answer with as much as it may have is not waited with.
        let least = request.min_bytes.min(request.max_bytes);
        is_due || ready >= usize::try_from(least).unwrap_or(0)
    }

    /// Looks up each partition of a fetch, within the limits of all; the topic comes by its place.
    fn look<'a>(
        &'a self,
        request: &FetchRequest,
        mut each: impl FnMut(usize, &FetchPartition, Result<(&'a Log, Look), Code>),
    ) {
        let most = self.settings.max_fetch_bytes;
        let mut left = usize::try_from(request.max_bytes).unwrap_or(0).min(most);
        let mut first_whole = true;
        for (index, topic) in request.topics.iter().enumerate() {
            for asked in &topic.partitions {
                let limit = usize::try_from(asked.partition_max_bytes).unwrap_or(0).min(left);
                let found = self.log_of(topic, asked.partition).and_then(|log| {
                    log.check_epoch(asked.current_leader_epoch)?;
                    if let Some((epoch, end)) = log.diverges(asked.last_fetched_epoch, asked.fetch_offset)? {
                        return Ok((log, Look::Parted(epoch, end)));
                    }
                    let found = log.find(asked.fetch_offset, limit, first_whole)?;
                    left = left.saturating_sub(found.bytes);
                    first_whole &= found.bytes == 0;
                    Ok((log, Look::Records(found)))
                });
                each(index, asked, found);
            }
        }
    }

    /// Gives the topics of a fetch their names where it has their ids.
    pub(crate) fn name_topics(&self, request: &mut FetchRequest) {
        for topic in request.topics.iter_mut().filter(|topic| topic.topic.is_empty()) {
            if let Some(name) = self.topics.name_of(topic.topic_id) {
                topic.topic = wire_name(name);
            }
        }
    }

    /// The log of a fetch's partition; by its id only as long as the topic of that name has it.
    fn log_of(&self, topic: &FetchTopic, partition: i32) -> Result<&Log, Code> {
        let found = self.topics.find(&topic.topic);
        if !topic.topic_id.is_nil() && found.is_none_or(|found| found.id != topic.topic_id) {
            return Err(code::UNKNOWN_TOPIC_ID);
        }
        self.topics
            .log(&topic.topic, partition)
            .ok_or(code::UNKNOWN_TOPIC_OR_PARTITION)
    }
}
