//! The topics that a registry names: a compacted Kafka topic, with one record a namespace.

mod journal;
mod state;

use std::{collections::BTreeSet, time::Duration};

use octopus_core::{Error, Namespace, TopicName};
use octopus_kafka::Cluster;

use self::journal::{Journal, Step};
use super::{
    Changed, Told, Topics,
    gates::Gates,
    kafka::{Kafka, Left},
};

/// The registry's name on Kafka. It is made where it is not there.
pub const REGISTRY: &str = "octopus-namespaces";

/// A namespace holds the topics that its record in the registry names, whether the cluster lists them or not [NS-05].
///
/// Any number of servers share a registry: each reads it to its end before it answers, and a change counts only where it
/// was made of the namespace's last record, so that of two changes in one moment the later one is made again, of what the
/// first one left.
#[derive(Debug)]
pub struct RegistryTopics {
    kafka: Kafka,
    journal: Journal,
    /// A change of the registry and that of Kafka are one step here.
    gates: Gates,
}

impl RegistryTopics {
    /// The topics of the registry on this cluster.
    #[must_use]
    pub fn new(cluster: Cluster) -> Self {
        Self {
            journal: Journal::new(cluster.clone()),
            kafka: Kafka(cluster),
            gates: Gates::default(),
        }
    }

    /// Has a namespace no longer hold a topic.
    async fn strike(
        &self,
        namespace: &Namespace,
        topic: &TopicName,
        left: &Left,
    ) -> Result<Vec<TopicName>, Error> {
        let without = |topics: Option<&BTreeSet<TopicName>>| {
            let mut rest = topics.cloned().unwrap_or_default();
            Ok(if rest.remove(topic) {
                Step::Put(rest)
            } else {
                Step::Keep
            })
        };
        let (_, topics) = self.journal.change(namespace, left, without).await?;
        Ok(topics.unwrap_or_default().into_iter().collect())
    }
}

impl Topics for RegistryTopics {
    fn held<'a>(
        &'a self,
        namespace: &'a Namespace,
        topics: &'a [TopicName],
        within: Duration,
    ) -> Told<'a, BTreeSet<TopicName>> {
        Box::pin(async move {
            let all = self.journal.topics(namespace, &Left::of(within)).await?;
            let all = all.unwrap_or_default();
            Ok(topics
                .iter()
                .filter(|topic| all.contains(*topic))
                .cloned()
                .collect())
        })
    }

    fn takes<'a>(
        &'a self,
        namespace: &'a Namespace,
        topic: &'a TopicName,
        within: Duration,
    ) -> Told<'a, bool> {
        Box::pin(async move {
            if self.journal.knew(namespace, topic) {
                return Ok(true);
            }
            let all = self.journal.topics(namespace, &Left::of(within)).await?;
            Ok(all.is_some_and(|topics| topics.contains(topic)))
        })
    }

    fn list<'a>(&'a self, namespace: &'a Namespace, within: Duration) -> Told<'a, Option<Vec<TopicName>>> {
        Box::pin(async move {
            let all = self.journal.topics(namespace, &Left::of(within)).await?;
            Ok(all.map(|topics| topics.into_iter().collect()))
        })
    }

    fn open<'a>(&'a self, namespace: &'a Namespace, within: Duration) -> Told<'a, ()> {
        Box::pin(async move {
            let open = |topics: Option<&BTreeSet<TopicName>>| {
                Ok(match topics {
                    Some(_) => Step::Keep,
                    None => Step::Put(BTreeSet::new()),
                })
            };
            self.journal.change(namespace, &Left::of(within), open).await?;
            Ok(())
        })
    }

    fn close<'a>(&'a self, namespace: &'a Namespace, within: Duration) -> Told<'a, ()> {
        Box::pin(async move {
            let left = Left::of(within);
            let _place = self.gates.enter(namespace, within).await?;
            loop {
                let gone = self.journal.topics(namespace, &left).await?.unwrap_or_default();
                self.kafka.remove_all(namespace, &gone, &left).await?;
                // Not one that another server made meanwhile.
                let close = |topics: Option<&BTreeSet<TopicName>>| {
                    Ok(match topics {
                        Some(topics) if topics.is_subset(&gone) => Step::Delete,
                        Some(_) | None => Step::Keep,
                    })
                };
                let (_, rest) = self.journal.change(namespace, &left, close).await?;
                if rest.is_none() {
                    return Ok(());
                }
            }
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
            // It has its place before it is made: no two servers count the same one.
            let with = |topics: Option<&BTreeSet<TopicName>>| {
                let mut all = topics.cloned().unwrap_or_default();
                let count = all.len();
                Ok(if !all.insert(topic.clone()) {
                    Step::Keep
                } else if count < most {
                    Step::Put(all)
                } else {
                    return Err(Error::NamespaceFull(most));
                })
            };
            let (is_registered, topics) = self.journal.change(namespace, &left, with).await?;
            // One that is registered and not there is made whenever it is asked for again.
            match self.kafka.make(namespace, topic, &left).await {
                Ok(is_made) => Ok(Changed {
                    is_done: is_registered || is_made,
                    topics: topics.unwrap_or_default().into_iter().collect(),
                }),
                Err(error) => {
                    if is_registered {
                        let struck = self.strike(namespace, topic, &Left::of(within)).await;
                        if struck.is_err() {
                            tracing::warn!(%namespace, "a topic that could not be made stays registered");
                        }
                    }
                    Err(error)
                }
            }
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
            let all = self.journal.topics(namespace, &left).await?.unwrap_or_default();
            if !all.contains(topic) {
                return Ok(Changed {
                    is_done: false,
                    topics: all.into_iter().collect(),
                });
            }
            self.kafka.remove(namespace, topic, &left).await?;
            Ok(Changed {
                is_done: true,
                topics: self.strike(namespace, topic, &left).await?,
            })
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
            let all = self.journal.topics(namespace, &left).await?.unwrap_or_default();
            if !all.contains(topic) {
                return Err(Error::TopicNotFound(topic.clone()));
            }
            self.kafka.remove(namespace, topic, &left).await?;
            self.kafka.make(namespace, topic, &left).await.map(drop)
        })
    }
}
