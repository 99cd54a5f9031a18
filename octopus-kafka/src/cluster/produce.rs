//! Writing a batch.

use bytes::Bytes;
use kafka_protocol::{
    error::{ParseResponseErrorCode, ResponseError},
    messages::{
        ProduceRequest, TopicName as KafkaTopic,
        produce_request::{PartitionProduceData, TopicProduceData},
    },
    protocol::StrBytes,
};
use tokio::time::{Instant, sleep_until};

use super::{Class, Cluster, Topic, TopicInfo};
use crate::{
    backoff,
    error::{Api, Error, Kind},
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
                | Kind::InvalidTopic => false,
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
        let refused = |code| Err(Error::response(Api::Produce, code));
        let leader = match self.topic(topic, deadline).await? {
            Topic::Known(TopicInfo {
                leader: Some(leader), ..
            }) => leader,
            Topic::Known(_) => return refused(ResponseError::LeaderNotAvailable),
            Topic::Missing => return refused(ResponseError::UnknownTopicOrPartition),
            Topic::Denied => return refused(ResponseError::TopicAuthorizationFailed),
        };
        let make = |_| request(topic, batch);
        let (response, _) = self
            .request(leader, Class::Produce, "octopus", 3..=9, make, deadline)
            .await?;
        let written = response
            .responses
            .first()
            .and_then(|topic| topic.partition_responses.first());
        let Some(written) = written else {
            return Err(Error::new(Api::Produce, Kind::Malformed));
        };
        match written.error_code.err() {
            None => Ok(written.base_offset),
            Some(code) => Err(Error::response(Api::Produce, code)),
        }
    }
}

fn request(topic: &str, batch: &Bytes) -> ProduceRequest {
    let partition = PartitionProduceData::default()
        .with_index(0)
        .with_records(Some(batch.clone()));
    let topic = TopicProduceData::default()
        .with_name(KafkaTopic::from(StrBytes::from_string(topic.to_owned())))
        .with_partition_data(vec![partition]);
    ProduceRequest::default()
        .with_acks(-1)
        .with_timeout_ms(TIMEOUT_MS)
        .with_topic_data(vec![topic])
}
