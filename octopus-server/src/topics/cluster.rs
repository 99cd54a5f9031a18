//! The topics that the cluster lists.

use std::{collections::BTreeSet, time::Duration};

use octopus_core::{Error, Namespace, TopicName};
use octopus_kafka::{Cluster, NewTopic};
use tokio::time::Instant;

use super::{Changed, Told, Topics, gates::Gates};

/// A namespace holds the topics on Kafka whose name starts with it, whoever made them [NS-02] [NS-04]. Each namespace is
/// there, and nothing is kept of it but its topics: servers on one cluster agree without a word.
#[derive(Debug)]
pub struct ClusterTopics {
    cluster: Cluster,
    /// A count and what was counted for are one step here.
    gates: Gates,
}

impl ClusterTopics {
    /// The topics of this cluster.
    #[must_use]
    pub fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            gates: Gates::default(),
        }
    }

    async fn all(&self, namespace: &Namespace, within: Duration) -> Result<Vec<TopicName>, Error> {
        self.cluster
            .topics_of(namespace, within)
            .await
            .map_err(|error| failed(&error))
    }

    async fn has(&self, namespace: &Namespace, topic: &TopicName, left: &Left) -> Result<bool, Error> {
        let topics = std::slice::from_ref(topic);
        let held = self.cluster.topics(namespace, topics, left.time()).await;
        held.map(|held| !held.is_empty()).map_err(|error| failed(&error))
    }

    async fn make(&self, namespace: &Namespace, topic: &TopicName, left: &Left) -> Result<bool, Error> {
        let new = NewTopic::named(namespace.qualify(topic.as_str()));
        let made = self.cluster.ensure_topic(&new, left.time()).await;
        made.map_err(|error| failed(&error))
    }

    async fn remove(&self, namespace: &Namespace, topic: &TopicName, left: &Left) -> Result<bool, Error> {
        let name = namespace.qualify(topic.as_str());
        let deleted = self.cluster.delete_topic(&name, left.time()).await;
        deleted.map_err(|error| failed(&error))
    }
}

impl Topics for ClusterTopics {
    fn held<'a>(
        &'a self,
        namespace: &'a Namespace,
        topics: &'a [TopicName],
        within: Duration,
    ) -> Told<'a, BTreeSet<TopicName>> {
        Box::pin(async move {
            let held = self.cluster.topics(namespace, topics, within).await;
            held.map_err(|error| failed(&error))
        })
    }

    fn takes<'a>(
        &'a self,
        namespace: &'a Namespace,
        topic: &'a TopicName,
        within: Duration,
    ) -> Told<'a, bool> {
        Box::pin(async move {
            let name = namespace.qualify(topic.as_str());
            let there = self.cluster.has_topic(&name, within).await;
            there.map_err(|error| failed(&error))
        })
    }

    fn list<'a>(&'a self, namespace: &'a Namespace, within: Duration) -> Told<'a, Option<Vec<TopicName>>> {
        Box::pin(async move {
            let left = Left::of(within);
            let _place = self.gates.enter(namespace, within).await?;
            self.all(namespace, left.time()).await.map(Some)
        })
    }

    fn open<'a>(&'a self, _: &'a Namespace, within: Duration) -> Told<'a, ()> {
        Box::pin(async move {
            let reached = self.cluster.reach(within).await;
            reached.map_err(|error| failed(&error))
        })
    }

    fn close<'a>(&'a self, namespace: &'a Namespace, within: Duration) -> Told<'a, ()> {
        Box::pin(async move {
            let left = Left::of(within);
            let _place = self.gates.enter(namespace, within).await?;
            for topic in self.all(namespace, left.time()).await? {
                self.remove(namespace, &topic, &left).await?;
            }
            Ok(())
        })
    }

    fn create<'a>(
        &'a self,
        namespace: &'a Namespace,
        topic: &'a TopicName,
        most: usize,
        within: Duration,
    ) -> Told<'a, Changed> {
        Box::pin(async move {
            let left = Left::of(within);
            let _place = self.gates.enter(namespace, within).await?;
            let topics = self.all(namespace, left.time()).await?;
            if topics.contains(topic) {
                let is_done = false;
                return Ok(Changed { is_done, topics });
            }
            if topics.len() >= most {
                return Err(Error::NamespaceFull(most));
            }
            let is_done = self.make(namespace, topic, &left).await?;
            let topics = self.all(namespace, left.time()).await?;
            // Another server counted in the same moment: whoever counts last takes its own back.
            if is_done && topics.len() > most {
                self.remove(namespace, topic, &left).await?;
                return Err(Error::NamespaceFull(most));
            }
            Ok(Changed { is_done, topics })
        })
    }

    fn delete<'a>(
        &'a self,
        namespace: &'a Namespace,
        topic: &'a TopicName,
        within: Duration,
    ) -> Told<'a, Changed> {
        Box::pin(async move {
            let left = Left::of(within);
            let _place = self.gates.enter(namespace, within).await?;
            let is_done = self.remove(namespace, topic, &left).await?;
            let topics = self.all(namespace, left.time()).await?;
            Ok(Changed { is_done, topics })
        })
    }

    fn recreate<'a>(
        &'a self,
        namespace: &'a Namespace,
        topic: &'a TopicName,
        within: Duration,
    ) -> Told<'a, ()> {
        Box::pin(async move {
            let left = Left::of(within);
            let _place = self.gates.enter(namespace, within).await?;
            if !self.has(namespace, topic, &left).await? {
                return Err(Error::TopicNotFound(topic.clone()));
            }
            self.remove(namespace, topic, &left).await?;
            self.make(namespace, topic, &left).await.map(drop)
        })
    }
}

/// What is left of the time of several steps.
#[derive(Debug)]
struct Left(Option<Instant>);

impl Left {
    fn of(within: Duration) -> Self {
        Self(Instant::now().checked_add(within))
    }

    fn time(&self) -> Duration {
        self.0
            .map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()))
    }
}

/// What a caller is told; the rest is for the log.
fn failed(error: &octopus_kafka::Error) -> Error {
    tracing::debug!(%error, "Kafka failed a request about topics");
    error.clone().into()
}
