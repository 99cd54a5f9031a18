//! Writing a batch.

use bytes::Bytes;
use kafka_protocol::{
    error::{ParseResponseErrorCode, ResponseError},
    messages::{
        InitProducerIdRequest, ProduceRequest, TopicName as KafkaTopic,
        produce_request::{PartitionProduceData, TopicProduceData},
        produce_response::PartitionProduceResponse,
    },
    protocol::StrBytes,
};
use tokio::time::{Instant, sleep_until};

use super::{Class, Cluster, Topic, TopicInfo, ask::CLIENT_ID, ask_on};
use crate::{
    backoff,
    error::{Api, Error, Kind},
    pool::Lease,
};

/// The time that Kafka has for it, in milliseconds.
const TIMEOUT_MS: i32 = 10_000;

impl Cluster {
    pub(super) async fn write(&self, topic: &str, batch: Bytes, deadline: Instant) -> Result<i64, Error> {
        for tries in 1.. {
            let error = match self.write_once(topic, &batch, deadline).await {
                Ok(offset) => return Ok(offset),
                Err(error) => error,
            };
            let again = match error.kind() {
                Kind::Unreachable(_) | Kind::Closed { .. } | Kind::TooLarge => true,
                Kind::Response(code) => code.is_retriable(),
                Kind::Timeout
                | Kind::Malformed
                | Kind::SignIn(_)
                | Kind::Unsupported
                | Kind::InvalidTopic
                | Kind::Full => false,
            };
            let next = Instant::now() + backoff::wait(tries, u64::from(tries));
            if !again || next >= deadline {
                return Err(error);
            }
            self.stale(topic);
            sleep_until(next).await;
        }
        Err(Error::new(Api::Produce, Kind::Timeout))
    }

    async fn write_once(&self, topic: &str, batch: &Bytes, deadline: Instant) -> Result<i64, Error> {
        let lease = self.lease_to_leader(topic, deadline).await?;
        let written = self
            .produce_on(&lease, topic, batch, TIMEOUT_MS, deadline)
            .await?;
        match written.error_code.err() {
            None => Ok(written.base_offset),
            Some(code) => Err(Error::response(Api::Produce, code)),
        }
    }

    /// A connection to the leader of a topic's partition 0, to write on.
    pub(crate) async fn lease_to_leader(&self, topic: &str, deadline: Instant) -> Result<Lease, Error> {
        let refused = |code| Err(Error::response(Api::Produce, code));
        let leader = match self.topic(topic, deadline).await? {
            Topic::Known(TopicInfo {
                leader: Some(leader), ..
            }) => leader,
            Topic::Known(_) => return refused(ResponseError::LeaderNotAvailable),
            Topic::Missing => return refused(ResponseError::UnknownTopicOrPartition),
            Topic::Denied => return refused(ResponseError::TopicAuthorizationFailed),
        };
        self.lease_for(leader, Class::Produce, "", Api::Produce, deadline)
            .await
    }

    /// Asks for a batch to be appended to a topic's partition 0, and acknowledged within so many milliseconds by all
    /// replicas in sync. Gives what is said of the partition, which may be a refusal. Not tried again.
    pub(crate) async fn produce_on(
        &self,
        lease: &Lease,
        topic: &str,
        batch: &Bytes,
        timeout_ms: i32,
        deadline: Instant,
    ) -> Result<PartitionProduceResponse, Error> {
        let make = |_| request(topic, batch, timeout_ms);
        let (response, _) = ask_on(lease, CLIENT_ID, 3..=9, make, deadline).await?;
        let answers = response.responses.into_iter();
        answers
            .filter(|answer| answer.name.as_str() == topic)
            .flat_map(|answer| answer.partition_responses)
            .find(|answer| answer.index == 0)
            .ok_or_else(|| Error::new(Api::Produce, Kind::Malformed))
    }

    /// A producer id that nobody had before, and its first epoch.
    pub(crate) async fn producer_id(&self, deadline: Instant) -> Result<(i64, i16), Error> {
        let make = || {
            InitProducerIdRequest::default()
                .with_transactional_id(None)
                .with_transaction_timeout_ms(i32::MAX)
        };
        let answer = self.ask_any(0..=4, make, deadline).await?;
        match answer.error_code.err() {
            Some(code) => Err(Error::response(Api::InitProducerId, code)),
            None if answer.producer_id.0 < 0 || answer.producer_epoch < 0 => {
                Err(Error::new(Api::InitProducerId, Kind::Malformed))
            }
            None => Ok((answer.producer_id.0, answer.producer_epoch)),
        }
    }
}

fn request(topic: &str, batch: &Bytes, timeout_ms: i32) -> ProduceRequest {
    let partition = PartitionProduceData::default()
        .with_index(0)
        .with_records(Some(batch.clone()));
    let topic = TopicProduceData::default()
        .with_name(KafkaTopic::from(StrBytes::from_string(topic.to_owned())))
        .with_partition_data(vec![partition]);
    ProduceRequest::default()
        .with_acks(-1)
        .with_timeout_ms(timeout_ms)
        .with_topic_data(vec![topic])
}
