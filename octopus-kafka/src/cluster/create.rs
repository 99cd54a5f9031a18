//! Making a topic.

use std::time::Duration;

use kafka_protocol::{
    error::{ParseResponseErrorCode, ResponseError},
    messages::{CreateTopicsRequest, TopicName as KafkaTopic, create_topics_request::CreatableTopic},
    protocol::StrBytes,
};
use tokio::time::{Instant, sleep_until};

use super::{Class, Cluster, Topic};
use crate::{
    backoff,
    error::{Api, Error, Kind},
};

/// The time that Kafka has for it, in milliseconds.
const TIMEOUT_MS: i32 = 10_000;
/// The time between two looks whether it has a leader.
const LOOK: Duration = Duration::from_millis(50);

impl Cluster {
    pub(super) async fn create(&self, topic: &str, deadline: Instant) -> Result<(), Error> {
        for tries in 1.. {
            let controller = self.controller(deadline).await?;
            let make = |version| request(topic, version);
            let sent = self
                .request(controller, Class::Control, "octopus", 3..=7, make, deadline)
                .await;
            let error = match sent {
                Ok((response, _)) => match response.topics.first().map(|made| made.error_code.err()) {
                    Some(None) => break,
                    Some(Some(code)) => Error::response(Api::CreateTopics, code),
                    None => Error::new(Api::CreateTopics, Kind::Malformed),
                },
                Err(error) => error,
            };
            let moved = matches!(
                error.kind(),
                Kind::Response(ResponseError::NotController)
                    | Kind::Unreachable(_)
                    | Kind::Closed { sent: false, .. }
            );
            let next = Instant::now() + backoff::wait(tries, u64::from(tries));
            self.forget_controller();
            if !moved || next >= deadline {
                return Err(error);
            }
            tracing::debug!(%error, "another broker makes topics");
            sleep_until(next).await;
        }
        loop {
            self.made(topic);
            match self.topic(topic, deadline).await? {
                Topic::Known(info) if info.leader.is_some() => return Ok(()),
                Topic::Known(_) | Topic::Missing | Topic::Denied => {
                    sleep_until(deadline.min(Instant::now() + LOOK)).await
                }
            }
            if Instant::now() >= deadline {
                return Err(Error::new(Api::CreateTopics, Kind::Timeout));
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
