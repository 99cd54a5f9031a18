//! Making and deleting topics.

use std::{ops::RangeInclusive, time::Duration};

use kafka_protocol::{
    error::{ParseResponseErrorCode, ResponseError},
    messages::{
        CreateTopicsRequest, DeleteTopicsRequest, TopicName as KafkaTopic,
        create_topics_request::{CreatableTopic, CreatableTopicConfig},
    },
    protocol::{Request, StrBytes},
};
use octopus_core::{Namespace, TopicName};
use tokio::time::{Instant, sleep_until};

use super::{Class, Cluster, Topic, ask::CLIENT_ID, can_be_a_topic};
use crate::{
    answer::Aside,
    backoff,
    error::{Api, Error, Kind},
};

/// The time between two looks whether all brokers know.
const LOOK: Duration = Duration::from_millis(50);
/// The longest that one broker is asked for: one that is down learns of topics before it serves again.
const ONE_BROKER: Duration = Duration::from_secs(1);

/// A topic to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct NewTopic {
    name: String,
    partitions: i32,
    configs: Vec<(String, String)>,
}

impl NewTopic {
    /// A topic by its name on Kafka: of one partition, with the cluster's own number of replicas and settings.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            partitions: 1,
            configs: Vec::new(),
        }
    }

    /// With so many partitions.
    pub const fn partitions(mut self, partitions: i32) -> Self {
        self.partitions = partitions;
        self
    }

    /// With a setting of Kafka's, such as `cleanup.policy`.
    pub fn config(mut self, name: &str, value: &str) -> Self {
        self.configs.push((name.to_owned(), value.to_owned()));
        self
    }
}

impl Cluster {
    /// Makes a topic of one partition by its name on Kafka, and waits until all brokers know its leader.
    ///
    /// # Errors
    ///
    /// Where Kafka refuses it, as one that is there, or it has no leader within the time.
    pub async fn create_topic(&self, topic: &str, within: Duration) -> Result<(), Error> {
        if self.ensure_topic(&NewTopic::named(topic), within).await? {
            Ok(())
        } else {
            Err(Error::response(
                Api::CreateTopics,
                ResponseError::TopicAlreadyExists,
            ))
        }
    }

    /// Makes a topic unless it is there, and waits until all brokers that can be asked know its leader, so that whoever
    /// comes next finds it. Gives whether it was made.
    ///
    /// # Errors
    ///
    /// Where Kafka refuses it, or it has no leader within the time.
    pub async fn ensure_topic(&self, topic: &NewTopic, within: Duration) -> Result<bool, Error> {
        let deadline = Instant::now() + within;
        if !can_be_a_topic(&topic.name) {
            return Err(Error::new(Api::CreateTopics, Kind::InvalidTopic));
        }
        let mut is_new = false;
        for tries in 1.. {
            let make = |version| create(topic, version, left_ms(deadline));
            let response = self.ask_controller(3..=7, make, deadline).await?;
            let Some(made) = response.topics.first() else {
                return Err(Error::new(Api::CreateTopics, Kind::Malformed));
            };
            match made.error_code.err() {
                None => {
                    is_new = true;
                    break;
                }
                Some(code @ ResponseError::TopicAlreadyExists) => {
                    // One that is being deleted is not listed any more and can't be made again yet.
                    let listed = self
                        .ask_topics(std::slice::from_ref(&topic.name), deadline)
                        .await?;
                    if listed.first() != Some(&Topic::Missing) {
                        break;
                    }
                    let next = Instant::now() + backoff::of_a_member(tries);
                    if next >= deadline {
                        return Err(Error::response(Api::CreateTopics, code));
                    }
                    sleep_until(next).await;
                }
                Some(code) => return Err(Error::response(Api::CreateTopics, code)),
            }
        }
        self.settle(Api::CreateTopics, &topic.name, true, deadline)
            .await?;
        Ok(is_new)
    }

    /// Deletes a topic by its name on Kafka, and waits until no broker that can be asked lists it. Gives whether it was
    /// there.
    ///
    /// # Errors
    ///
    /// Where Kafka refuses it, or it is still listed when the time is over.
    pub async fn delete_topic(&self, topic: &str, within: Duration) -> Result<bool, Error> {
        let deleted = self.delete_topics(&[topic.to_owned()], within).await?;
        Ok(deleted > 0)
    }

    /// As [`delete_topic`](Self::delete_topic), for several at once. Gives how many of them were there.
    ///
    /// # Errors
    ///
    /// As there, for the first of them; the others may be deleted.
    pub async fn delete_topics(&self, topics: &[String], within: Duration) -> Result<usize, Error> {
        let deadline = Instant::now() + within;
        let topics: Vec<&str> = topics
            .iter()
            .map(String::as_str)
            .filter(|name| can_be_a_topic(name))
            .collect();
        if topics.is_empty() {
            return Ok(0);
        }
        let make = |_| {
            DeleteTopicsRequest::default()
                .with_topic_names(topics.iter().map(|topic| named(topic)).collect())
                .with_timeout_ms(left_ms(deadline))
        };
        let response = self.ask_controller(1..=5, make, deadline).await?;
        if response.responses.len() != topics.len() {
            return Err(Error::new(Api::DeleteTopics, Kind::Malformed));
        }
        let mut count = 0;
        for deleted in response.responses {
            match deleted.error_code.err() {
                None => count += 1,
                Some(ResponseError::UnknownTopicOrPartition) => {}
                Some(code) => return Err(Error::response(Api::DeleteTopics, code)),
            }
        }
        for topic in topics {
            self.settle(Api::DeleteTopics, topic, false, deadline).await?;
        }
        Ok(count)
    }

    /// All topics of a namespace that the cluster lists, in the order of their names [NS-02]. Asks the cluster each time,
    /// for all its topics: Kafka has no question by prefix.
    ///
    /// # Errors
    ///
    /// Where the cluster does not say within the time.
    pub async fn topics_of(&self, namespace: &Namespace, within: Duration) -> Result<Vec<TopicName>, Error> {
        let names = self.ask_names(Instant::now() + within).await?;
        let own = names.iter().filter_map(|name| namespace.strip(name));
        let mut topics: Vec<_> = own.filter(|name| !name.is_empty()).map(TopicName::from).collect();
        topics.sort_unstable();
        Ok(topics)
    }

    /// How many partitions a topic has, by its name on Kafka; `None` where the cluster does not list it. Asks the cluster.
    ///
    /// # Errors
    ///
    /// Where the cluster does not say within the time, or denies the topic.
    pub async fn partitions(&self, topic: &str, within: Duration) -> Result<Option<i32>, Error> {
        if !can_be_a_topic(topic) {
            return Ok(None);
        }
        let asked = self
            .ask_topics(&[topic.to_owned()], Instant::now() + within)
            .await?;
        match asked.first() {
            Some(Topic::Known(info)) => Ok(Some(info.partitions)),
            Some(Topic::Missing) | None => Ok(None),
            Some(Topic::Denied) => Err(Error::response(
                Api::Metadata,
                ResponseError::TopicAuthorizationFailed,
            )),
        }
    }

    /// A request to the broker that changes the cluster. It goes to another one where that moved, as long as nothing was
    /// done.
    pub(super) async fn ask_controller<R: Request<Response: Aside>>(
        &self,
        range: RangeInclusive<i16>,
        make: impl Fn(i16) -> R + Send + Sync,
        deadline: Instant,
    ) -> Result<R::Response, Error> {
        let api = Api::of(R::KEY);
        for tries in 1.. {
            let controller = self.controller(deadline).await?;
            let sent = self.request(
                controller,
                Class::Control,
                CLIENT_ID,
                range.clone(),
                &make,
                deadline,
            );
            let error = match sent.await {
                Ok((response, _)) => match response.code().err() {
                    Some(code @ ResponseError::NotController) => Error::response(api, code),
                    Some(_) | None => return Ok(response),
                },
                Err(error) => error,
            };
            let moved = matches!(
                error.kind(),
                Kind::Response(_) | Kind::Unreachable(_) | Kind::Closed { sent: false, .. }
            );
            let next = Instant::now() + backoff::wait(tries, u64::from(tries));
            self.forget_controller();
            if !moved || next >= deadline {
                return Err(error);
            }
            tracing::debug!(%error, "another broker changes the cluster");
            sleep_until(next).await;
        }
        Err(Error::new(api, Kind::Timeout))
    }

    /// Waits until all brokers say that a topic is there, and led, or that it is not.
    async fn settle(&self, api: Api, topic: &str, is_there: bool, deadline: Instant) -> Result<(), Error> {
        loop {
            self.changed(topic);
            if self.all_say(topic, is_there, deadline).await? {
                return Ok(());
            }
            let next = Instant::now() + LOOK;
            if next >= deadline {
                return Err(Error::new(api, Kind::Timeout));
            }
            sleep_until(next).await;
        }
    }

    async fn all_say(&self, topic: &str, is_there: bool, deadline: Instant) -> Result<bool, Error> {
        let says = |found: Topic| match found {
            Topic::Known(info) => is_there && info.leader.is_some(),
            Topic::Missing => !is_there,
            Topic::Denied => false,
        };
        let asked = self.ask_topics(&[topic.to_owned()], deadline).await?;
        if asked.contains(&Topic::Denied) {
            return Err(Error::response(
                Api::Metadata,
                ResponseError::TopicAuthorizationFailed,
            ));
        }
        if !asked.into_iter().all(says) {
            return Ok(false);
        }
        for broker in self.brokers() {
            let limit = deadline.min(Instant::now() + ONE_BROKER);
            match self.topic_at(broker, topic, limit).await {
                Ok(found) if says(found) => {}
                Ok(_) => return Ok(false),
                Err(error) => tracing::debug!(broker = broker.0, %error, "a broker is not waited for"),
            }
        }
        Ok(true)
    }
}

/// The time that Kafka has, in milliseconds.
fn left_ms(deadline: Instant) -> i32 {
    let left = deadline.saturating_duration_since(Instant::now());
    i32::try_from(left.as_millis()).unwrap_or(i32::MAX)
}

fn create(topic: &NewTopic, version: i16, timeout_ms: i32) -> CreateTopicsRequest {
    // The cluster's own number of replicas can be asked for from version 4.
    let replicas = if version >= 4 { -1 } else { 1 };
    let configs = topic.configs.iter().map(|(name, value)| {
        CreatableTopicConfig::default()
            .with_name(StrBytes::from_string(name.clone()))
            .with_value(Some(StrBytes::from_string(value.clone())))
    });
    let topic = CreatableTopic::default()
        .with_name(named(&topic.name))
        .with_num_partitions(topic.partitions)
        .with_replication_factor(replicas)
        .with_configs(configs.collect());
    CreateTopicsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(timeout_ms)
}

fn named(topic: &str) -> KafkaTopic {
    KafkaTopic::from(StrBytes::from_string(topic.to_owned()))
}
