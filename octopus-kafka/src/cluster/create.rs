//! Making a topic.

use kafka_protocol::{
    error::{ParseResponseErrorCode, ResponseError},
    messages::{CreateTopicsRequest, TopicName as KafkaTopic, create_topics_request::CreatableTopic},
    protocol::StrBytes,
};
use tokio::time::Instant;

use super::{Class, Cluster, Topic};
use crate::{
    backoff,
    error::{Api, Error, Kind},
};

/// The time that Kafka has for it, in milliseconds.
const TIMEOUT_MS: i32 = 10_000;

impl Cluster {
    pub(super) async fn create(&self, topic: &str, deadline: Instant) -> Result<(), Error> {
        for tries in 1.. {
            let controller = self.controller(deadline).await?;
            let make = |version| request(topic, version);
            let sent = self
                .request(controller, Class::Control, "octopus", 3..=7, make, deadline)
                .await;
            let code = match sent {
                Ok((response, _)) => match response.topics.first() {
                    Some(made) => made.error_code.err(),
                    None => return Err(Error::new(Api::CreateTopics, Kind::Malformed)),
                },
                Err(error) => return Err(error),
            };
            match code {
                None => break,
                Some(code @ ResponseError::NotController) if Instant::now() < deadline => {
                    tracing::debug!(?code, "another broker makes topics");
                    self.forget_controller();
                    tokio::time::sleep(backoff::wait(tries, 0)).await;
                }
                Some(code) => return Err(Error::response(Api::CreateTopics, code)),
            }
        }
        loop {
            self.stale(topic);
            match self.topic(topic, deadline).await? {
                Topic::Known(info) if info.leader.is_some() => return Ok(()),
                Topic::Known(_) | Topic::Missing | Topic::Denied => {}
            }
        }
    }
}

fn request(topic: &str, version: i16) -> CreateTopicsRequest {
    // The cluster's own number of replicas can be asked for from version 4.
    let replicas = if version >= 4 { -1 } else { 1 };
    let topic = CreatableTopic::default()
        .with_name(KafkaTopic::from(StrBytes::from_string(topic.to_owned())))
        .with_num_partitions(1)
        .with_replication_factor(replicas);
    CreateTopicsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(TIMEOUT_MS)
}
