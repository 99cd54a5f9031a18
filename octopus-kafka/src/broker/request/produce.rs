//! Produce.

use std::time::Instant;

use kafka_protocol::messages::{
    ProduceRequest, ProduceResponse,
    produce_response::{PartitionProduceResponse, TopicProduceResponse},
};

use crate::broker::{
    api::{Head, Request, Response},
    code::{self, Code},
    machine::Machine,
    refuse,
};

/// The version that brought zstd.
const ZSTD: i16 = 7;

impl Machine {
    /// `None` where the producer wants no answer.
    pub(crate) fn produce(
        &mut self,
        head: &Head,
        request: &ProduceRequest,
        now: Instant,
    ) -> Option<Response> {
        if !matches!(request.acks, -1..=1) {
            let refused = Request::Produce(request.clone());
            return Some(refuse::refuse(
                &refused,
                head.version,
                code::INVALID_REQUIRED_ACKS,
            ));
        }
        let mut response = ProduceResponse::default();
        for topic in &request.topic_data {
            let mut answer = TopicProduceResponse::default().with_name(topic.name.clone());
            for partition in &topic.partition_data {
                let records = partition.records.as_deref().unwrap_or_default();
                let appended =
                    self.append_checked(&topic.name, partition.index, records, head.version >= ZSTD);
                let mut partition = PartitionProduceResponse::default().with_index(partition.index);
                match appended {
                    Ok((base, start)) => {
                        partition.base_offset = base;
                        partition.log_start_offset = start;
                    }
                    Err(code) => {
                        partition.error_code = code;
                        partition.base_offset = -1;
                    }
                }
                answer.partition_responses.push(partition);
            }
            response.responses.push(answer);
        }
        for topic in &request.topic_data {
            self.wake_fetches(&topic.name, now);
        }
        (request.acks != 0).then_some(Response::Produce(response))
    }

    fn append_checked(
        &mut self,
        topic: &str,
        partition: i32,
        records: &[u8],
        zstd: bool,
    ) -> Result<(i64, i64), Code> {
        let (default, kept) = (self.settings.max_message_bytes, self.settings.retention_bytes);
        let unknown = code::UNKNOWN_TOPIC_OR_PARTITION;
        let max_bytes = self.topics.find(topic).ok_or(unknown)?.max_message_bytes(default);
        let log = self.topics.log_mut(topic, partition).ok_or(unknown)?;
        let base = log.produce(records, max_bytes, zstd)?;
        log.retain(kept);
        Ok((base, log.start()))
    }

    /// Appends a batch that is not checked.
    pub(crate) fn append_unchecked(&mut self, topic: &str, batch: &[u8], now: Instant) -> Result<i64, Code> {
        let log = self.topics.log_mut(topic, 0);
        let log = log.ok_or(code::UNKNOWN_TOPIC_OR_PARTITION)?;
        let base = log.append(batch)?;
        log.retain(self.settings.retention_bytes);
        self.wake_fetches(topic, now);
        Ok(base)
    }
}
