//! The topics that a registry names: a compacted Kafka topic, with one record a namespace that counts.

mod change;
mod journal;
mod state;

use std::{collections::BTreeSet, time::Duration};

use octopus_core::{Error, Namespace, TopicName};
use octopus_kafka::Cluster;

use self::{
    change::{Times, topics_of},
    journal::{Journal, Step},
    state::{Stage, Stages},
};
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
///
/// What is done to a topic on Kafka is announced in the registry first, and other servers wait for its end, so that none
/// deletes what another one has made since. One that is at work for longer than it may be is taken for dead, and its work
/// is taken over.
#[derive(Debug)]
pub struct RegistryTopics {
    kafka: Kafka,
    journal: Journal,
    /// Nobody else of this process changes a namespace meanwhile.
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
                .filter(|topic| all.get(*topic).is_some_and(Stage::is_held))
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
            Ok(all.is_some_and(|topics| topics.get(topic).is_some_and(Stage::is_held)))
        })
    }

    fn list<'a>(&'a self, namespace: &'a Namespace, within: Duration) -> Told<'a, Option<Vec<TopicName>>> {
        Box::pin(async move {
            let all = self.journal.topics(namespace, &Left::of(within)).await?;
            Ok(all.map(|topics| topics_of(Some(&topics))))
        })
    }

    fn open<'a>(&'a self, namespace: &'a Namespace, within: Duration) -> Told<'a, ()> {
        Box::pin(async move {
            let open = |topics: Option<&Stages>, _: &str| {
                Ok(match topics {
                    Some(_) => Step::Keep,
                    None => Step::Put(Stages::new()),
                })
            };
            let opened = self.journal.change(namespace, &Left::of(within), open).await;
            opened.map(drop)
        })
    }

    fn close<'a>(&'a self, namespace: &'a Namespace, within: Duration) -> Told<'a, ()> {
        Box::pin(async move {
            let left = Left::of(within);
            let _place = self.gates.enter(namespace, within).await?;
            // Again where another server made a topic meanwhile.
            while !self.close_once(namespace, Times::of(within), &left).await? {}
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
            let times = Times::of(within);
            let _place = self.gates.enter(namespace, within).await?;
            let mut is_done = false;
            loop {
                // It has its place before it is made: no two servers count the same one.
                let stage = self.reserve(namespace, topic, most, times, &left).await?;
                is_done |= stage != Stage::There;
                match self.kafka.make(namespace, topic, &left.at_most(times.turn)).await {
                    Ok(is_made) => is_done |= is_made,
                    Err(error) => {
                        let left = Left::of(within);
                        if stage != Stage::There {
                            self.shift_back(namespace, topic, &stage, None, &left).await;
                        }
                        return Err(error);
                    }
                }
                // Another server may have deleted it since it had its place: then what was made is none of the namespace's.
                let there = |_: &str| Some(Stage::There);
                let made = self.shift(namespace, topic, &stage, there, &left).await?;
                let topics = made.topics.unwrap_or_default();
                if topics.get(topic) == Some(&Stage::There) {
                    let topics = topics_of(Some(&topics));
                    return Ok(Changed { is_done, topics });
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
            let times = Times::of(within);
            let _place = self.gates.enter(namespace, within).await?;
            let mut turn = Left::of(times.turn);
            let mut is_done = false;
            let leave = |topics: Option<&Stages>, token: &str, is_free: &mut dyn FnMut(&Stage) -> bool| {
                let Some(mut topics) = topics.filter(|topics| topics.contains_key(topic)).cloned() else {
                    return Ok(Some(Step::Keep));
                };
                if !topics.get(topic).is_some_and(&mut *is_free) {
                    return Ok(None);
                }
                is_done = topics.get(topic).is_some_and(Stage::is_held);
                turn = Left::of(times.turn);
                topics.insert(topic.clone(), Stage::Leaving(token.into()));
                Ok(Some(Step::Put(topics)))
            };
            let made = self.change(namespace, times, &left, leave).await?;
            let Some(token) = made.token else {
                let topics = topics_of(made.topics.as_ref());
                return Ok(Changed {
                    is_done: false,
                    topics,
                });
            };
            let stage = Stage::Leaving(token);
            let turn = left.at_most(turn.time());
            if let Err(error) = self.kafka.remove(namespace, topic, &turn).await {
                let left = Left::of(within);
                self.shift_back(namespace, topic, &stage, Some(Stage::There), &left)
                    .await;
                return Err(error);
            }
            let made = self.shift(namespace, topic, &stage, |_| None, &left).await?;
            let topics = topics_of(made.topics.as_ref());
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
            // Its two steps have the time of one each.
            let times = Times::of(within / 2);
            let _place = self.gates.enter(namespace, within).await?;
            let mut turn = Left::of(times.turn);
            let renew = |topics: Option<&Stages>, token: &str, is_free: &mut dyn FnMut(&Stage) -> bool| {
                let stage = topics.and_then(|topics| topics.get(topic));
                let (Some(topics), Some(stage)) = (topics, stage.filter(|stage| stage.is_held())) else {
                    return Err(Error::TopicNotFound(topic.clone()));
                };
                if !is_free(stage) {
                    return Ok(None);
                }
                turn = Left::of(times.turn);
                let mut topics = topics.clone();
                topics.insert(topic.clone(), Stage::Renewing(token.into()));
                Ok(Some(Step::Put(topics)))
            };
            let made = self.change(namespace, times, &left, renew).await?;
            let Some(stage) = made.token.map(Stage::Renewing) else {
                return Err(Error::TopicNotFound(topic.clone()));
            };
            self.clear(namespace, topic, &stage, &left.at_most(turn.time()))
                .await?;
            // It is gone. What that took of the time is not missing here.
            let left = Left::of(within);
            let made = self.remake(namespace, topic, &stage, times, &left).await;
            made.map_err(|error| {
                tracing::warn!(%namespace, %error, "a topic was deleted and not made anew");
                Error::TopicNotRemade(topic.clone())
            })
        })
    }
}
