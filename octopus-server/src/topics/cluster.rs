//! The topics that the cluster lists.

use std::{collections::BTreeSet, time::Duration};

use octopus_core::{Error, Namespace, TopicName};
use octopus_kafka::Cluster;

use super::{
    Changed, Told, Topics,
    gates::Gates,
    kafka::{Kafka, Left},
};

/// A namespace holds the topics on Kafka whose name starts with it, whoever made them [NS-02] [NS-04]. Each namespace is
/// there, and nothing is kept of it but its topics: servers on one cluster agree without a word.
#[derive(Debug)]
pub struct ClusterTopics {
    kafka: Kafka,
    /// A count and what was counted for are one step here.
    gates: Gates,
}

impl ClusterTopics {
    /// The topics of this cluster.
    #[must_use]
    pub fn new(cluster: Cluster) -> Self {
        Self {
            kafka: Kafka(cluster),
            gates: Gates::default(),
        }
    }
}

impl Topics for ClusterTopics {
    fn held<'a>(
        &'a self,
        namespace: &'a Namespace,
        topics: &'a [TopicName],
        within: Duration,
    ) -> Told<'a, BTreeSet<TopicName>> {
        Box::pin(async move { self.kafka.held(namespace, topics, &Left::of(within)).await })
    }

    fn takes<'a>(
        &'a self,
        namespace: &'a Namespace,
        topic: &'a TopicName,
        within: Duration,
    ) -> Told<'a, bool> {
        Box::pin(async move { self.kafka.takes(namespace, topic, &Left::of(within)).await })
    }

    fn list<'a>(&'a self, namespace: &'a Namespace, within: Duration) -> Told<'a, Option<Vec<TopicName>>> {
        Box::pin(async move {
            let left = Left::of(within);
            let _place = self.gates.enter(namespace, within).await?;
            self.kafka.all(namespace, &left).await.map(Some)
        })
    }

    fn open<'a>(&'a self, _: &'a Namespace, within: Duration) -> Told<'a, ()> {
        Box::pin(async move { self.kafka.reach(&Left::of(within)).await })
    }

    fn close<'a>(&'a self, namespace: &'a Namespace, within: Duration) -> Told<'a, ()> {
        Box::pin(async move {
            let left = Left::of(within);
            let _place = self.gates.enter(namespace, within).await?;
            let topics = self.kafka.all(namespace, &left).await?;
            self.kafka.remove_all(namespace, &topics, &left).await
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
            let topics = self.kafka.all(namespace, &left).await?;
            if topics.contains(topic) {
                let is_done = false;
                return Ok(Changed { is_done, topics });
            }
            if topics.len() >= most {
                return Err(Error::NamespaceFull(most));
            }
            let is_done = self.kafka.make(namespace, topic, &left).await?;
            let topics = self.kafka.all(namespace, &left).await?;
            // Another server counted in the same moment: whoever counts last takes its own back.
            if is_done && topics.len() > most {
                self.kafka.remove(namespace, topic, &left).await?;
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
            let is_done = self.kafka.remove(namespace, topic, &left).await?;
            let topics = self.kafka.all(namespace, &left).await?;
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
            let topics = std::slice::from_ref(topic);
            if self.kafka.held(namespace, topics, &left).await?.is_empty() {
                return Err(Error::TopicNotFound(topic.clone()));
            }
            self.kafka.remove(namespace, topic, &left).await?;
            // What the deletion took of the time is not missing here.
            self.kafka.remake(namespace, topic, &Left::of(within / 2)).await
        })
    }
}
