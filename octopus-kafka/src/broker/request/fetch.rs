//! Fetch, and the long poll behind it.

use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_protocol::messages::{
    FetchRequest, FetchResponse,
    fetch_request::FetchTopic,
    fetch_response::{EpochEndOffset, FetchableTopicResponse, PartitionData},
};

use crate::broker::{
    api::Response,
    code::{self, Code},
    id::ConnectionId,
    log::{Log, Slice},
    machine::{Machine, Parked},
    refuse::no_records,
    topic::wire_name,
};

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
        let (response, enough) = self.read(&request);
        let wait = u64::try_from(request.max_wait_ms).unwrap_or(0);
        if enough || wait == 0 {
            return Some(Response::Fetch(response));
        }
        let deadline = now + Duration::from_millis(wait);
        self.park(id, Parked { request, deadline });
        None
    }

    /// Answers a fetch whose wait is over.
    pub(crate) fn end_fetch(&mut self, id: ConnectionId, now: Instant) {
        if let Some(fetch) = self.unpark(id) {
            let (response, _) = self.read(&fetch.request);
            self.answer(id, Response::Fetch(response), now);
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
            if asks {
                let (response, done) = self.read(&fetch.request);
                if done {
                    enough.push((*id, response));
                }
            }
        }
        for (id, response) in enough {
            self.unpark(id);
            self.answer(id, Response::Fetch(response), now);
        }
    }

    /// What a fetch returns at this moment, and whether it has nothing to wait for.
    fn read(&self, request: &FetchRequest) -> (FetchResponse, bool) {
        let mut response = FetchResponse::default();
        let mut left = usize::try_from(request.max_bytes).unwrap_or(0);
        let (mut ready, mut failed, mut first_whole) = (0, false, true);
        for topic in &request.topics {
            let mut answer = FetchableTopicResponse::default()
                .with_topic(topic.topic.clone())
                .with_topic_id(topic.topic_id);
            for asked in &topic.partitions {
                let limit = usize::try_from(asked.partition_max_bytes).unwrap_or(0).min(left);
                let data = self.log_of(topic, asked.partition).and_then(|log| {
                    log.check_epoch(asked.current_leader_epoch)?;
                    let mut data = PartitionData::default()
                        .with_partition_index(asked.partition)
                        .with_high_watermark(log.end())
                        .with_last_stable_offset(log.end())
                        .with_log_start_offset(log.start());
                    if let Some((epoch, end)) = log.diverges(asked.last_fetched_epoch, asked.fetch_offset)? {
                        data.diverging_epoch =
                            EpochEndOffset::default().with_epoch(epoch).with_end_offset(end);
                        return Ok((data, Slice::default()));
                    }
                    let slice = log.read(asked.fetch_offset, limit, first_whole)?;
                    Ok((data, slice))
                });
                match data {
                    Ok((mut data, slice)) => {
                        // A client whose log has parted from this one is to hear of it at once.
                        failed |= data.diverging_epoch.epoch >= 0;
                        ready += slice.ready;
                        left = left.saturating_sub(slice.records.len());
                        first_whole &= slice.records.is_empty();
                        data.records = Some(slice.records);
                        // A reader of uncommitted records is told of no transactions.
                        data.aborted_transactions = (request.isolation_level == 1).then(Vec::new);
                        answer.partitions.push(data);
                    }
                    Err(code) => {
                        failed = true;
                        let empty = no_records(asked.partition, code).with_records(Some(Bytes::new()));
                        answer.partitions.push(empty);
                    }
                }
            }
            response.responses.push(answer);
        }
        let min_bytes = usize::try_from(request.min_bytes).unwrap_or(0);
        let enough = failed || ready >= min_bytes || request.topics.is_empty();
        (response, enough)
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
