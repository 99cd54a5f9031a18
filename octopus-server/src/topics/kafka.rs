//! The steps that each way of knowing topics takes on Kafka.

use std::{collections::BTreeSet, time::Duration};

use octopus_core::{Error, Namespace, TopicName};
use octopus_kafka::{Cluster, NewTopic};
use tokio::time::{Instant, sleep};

/// The time between two tries to make a topic that is gone.
const PAUSE: Duration = Duration::from_millis(200);

/// The cluster, asked in the names of namespaces and answering in the words for callers.
#[derive(Debug)]
pub(super) struct Kafka(pub(super) Cluster);

impl Kafka {
    pub(super) async fn reach(&self, left: &Left) -> Result<(), Error> {
        self.0.reach(left.time()).await.map_err(failed)
    }

    /// Those of `topics` that the cluster lists.
    pub(super) async fn held(
        &self,
        namespace: &Namespace,
        topics: &[TopicName],
        left: &Left,
    ) -> Result<BTreeSet<TopicName>, Error> {
        let held = self.0.topics(namespace, topics, left.time()).await;
        held.map_err(failed)
    }

    /// Whether the cluster listed a topic a while ago, or does at present.
    pub(super) async fn takes(
        &self,
        namespace: &Namespace,
        topic: &TopicName,
        left: &Left,
    ) -> Result<bool, Error> {
        let name = namespace.qualify(topic.as_str());
        let there = self.0.has_topic(&name, left.time()).await;
        there.map_err(failed)
    }

    /// All topics of a namespace that the cluster lists.
    pub(super) async fn all(&self, namespace: &Namespace, left: &Left) -> Result<Vec<TopicName>, Error> {
        let all = self.0.topics_of(namespace, left.time()).await;
        all.map_err(failed)
    }

    /// Makes a topic; gives whether it was not there.
    pub(super) async fn make(
        &self,
        namespace: &Namespace,
        topic: &TopicName,
        left: &Left,
    ) -> Result<bool, Error> {
        let new = NewTopic::named(namespace.qualify(topic.as_str()));
        let made = self.0.ensure_topic(&new, left.time()).await;
        made.map_err(failed)
    }

    /// Makes a topic that was just deleted to be made anew: again and again while the error may pass, since its caller
    /// lost it.
    ///
    /// # Errors
    ///
    /// [`Error::TopicNotRemade`].
    pub(super) async fn remake(
        &self,
        namespace: &Namespace,
        topic: &TopicName,
        left: &Left,
    ) -> Result<(), Error> {
        loop {
            let Err(error) = self.make(namespace, topic, left).await else {
                return Ok(());
            };
            let may_pass = matches!(
                error,
                Error::KafkaRetriable | Error::KafkaUnreachable | Error::Throttled
            );
            if !may_pass || left.time() <= PAUSE {
                tracing::warn!(%namespace, %error, "a topic was deleted and could not be made anew");
                return Err(Error::TopicNotRemade(topic.clone()));
            }
            sleep(PAUSE).await;
        }
    }

    /// Deletes topics, in one request.
    pub(super) async fn remove_all<'a>(
        &self,
        namespace: &Namespace,
        topics: impl IntoIterator<Item = &'a TopicName>,
        left: &Left,
    ) -> Result<(), Error> {
        let topics = topics.into_iter();
        let names: Vec<_> = topics.map(|topic| namespace.qualify(topic.as_str())).collect();
        let deleted = self.0.delete_topics(&names, left.time()).await;
        deleted.map(drop).map_err(failed)
    }

    /// Deletes a topic; gives whether it was there.
    pub(super) async fn remove(
        &self,
        namespace: &Namespace,
        topic: &TopicName,
        left: &Left,
    ) -> Result<bool, Error> {
        let name = namespace.qualify(topic.as_str());
        let deleted = self.0.delete_topic(&name, left.time()).await;
        deleted.map_err(failed)
    }
}

/// What is left of the time of several steps.
#[derive(Debug)]
pub(super) struct Left(Option<Instant>);

impl Left {
    pub(super) fn of(within: Duration) -> Self {
        Self(Instant::now().checked_add(within))
    }

    /// So much, but no more than is left.
    pub(super) fn at_most(&self, time: Duration) -> Self {
        Self::of(self.time().min(time))
    }

    pub(super) fn time(&self) -> Duration {
        self.0
            .map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()))
    }
}

/// What a caller is told; the rest is for the log.
pub(super) fn failed(error: octopus_kafka::Error) -> Error {
    tracing::debug!(%error, "Kafka failed a request about topics");
    error.into()
}
