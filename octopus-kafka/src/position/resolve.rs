//! Finding where topics start, begin and end: OffsetFetch and ListOffsets.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kafka_protocol::{
    error::{ParseResponseErrorCode, ResponseError},
    messages::{
        BrokerId, ListOffsetsRequest, ListOffsetsResponse, TopicName,
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
    },
};
use octopus_core::{AutoOffsetReset, Bound, Error, Position};
use tokio::{task::JoinSet, time::Instant};
use uuid::Uuid;

use crate::{
    cluster::{Class, Cluster, Topic, TopicInfo},
    consumer::Names,
    error::Api,
    group::Group,
    pace::Pace,
    position::Sought,
};

/// The timestamps that stand for the ends of a partition.
const EARLIEST: i64 = -2;
const LATEST: i64 = -1;

/// What was found of one topic.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Found {
    /// The position, and the id of the topic that it is in.
    At(Position, Uuid),
    /// The position, or the one that takes its place where the leader's log parts from the one that it was taken in;
    /// and the leader's epoch.
    Checked(Position, i32),
    /// The cluster does not list the topic [NS-05].
    Missing,
    /// There is none, or it can't be told.
    Failed(Error),
}

/// Looks positions up for one consumer.
#[derive(Debug, Clone)]
pub(crate) struct Resolver {
    pub(crate) cluster: Cluster,
    pub(crate) group: Arc<Group>,
    pub(crate) names: Names,
    pub(crate) reset: AutoOffsetReset,
}

impl Resolver {
    /// Where reading starts: at the group's commit, or where `auto.offset.reset` says [FE-15] [LC-04]. A topic whose
    /// position was out of range comes with the id that it had then: while it has it, its commit is not looked at. Nor is
    /// that which this consumer sent for a topic of old [D-22].
    /// Each topic is told as soon as it is found, and every one until the deadline.
    pub(crate) async fn starts(
        &self,
        mut topics: BTreeMap<String, Sought>,
        deadline: Instant,
        mut tell: impl FnMut(&str, Found) + Send,
    ) {
        let held = topics.extract_if(.., |_, sought| matches!(sought, Sought::Check(_)));
        let held = held.filter_map(|(topic, sought)| match sought {
            Sought::Check(position) => Some((topic, position)),
            Sought::Anew(_) | Sought::Start | Sought::OutOfRange(_) => None,
        });
        let held: BTreeMap<_, _> = held.collect();
        let mut reset = self.check(held, deadline, &mut tell).await;
        let names = topics.keys().cloned().collect();
        let mut unread = BTreeMap::new();
        for (topic, info) in each_topic(&self.cluster, names, deadline).await {
            let sought = topics.get(&topic).copied();
            match info {
                Ok(Topic::Known(info)) if sought == Some(Sought::OutOfRange(info.id)) => {
                    _ = reset.insert(topic);
                }
                Ok(Topic::Known(info)) => _ = unread.insert(topic, info.id),
                Ok(Topic::Missing) => tell(&topic, Found::Missing),
                Ok(Topic::Denied) => tell(&topic, Found::Failed(Error::KafkaUnauthorized)),
                Err(error) => tell(&topic, Found::Failed(error.into())),
            }
        }
        if !unread.is_empty() {
            let names = unread.keys().cloned().collect();
            match self.group.committed(&names, deadline).await {
                Ok(mut committed) => {
                    for (topic, id) in unread {
                        let stored = committed.remove(&topic);
                        let is_void = |offset| topics.get(&topic) == Some(&Sought::Anew(Some(offset)));
                        match stored.filter(|stored| !is_void(stored.offset)) {
                            Some(stored) => {
                                let (offset, leader_epoch) = (stored.offset, stored.leader_epoch);
                                tell(&topic, Found::At(Position { offset, leader_epoch }, id));
                            }
                            None => _ = reset.insert(topic),
                        }
                    }
                }
                Err(error) => {
                    for topic in unread.keys() {
                        tell(topic, Found::Failed(error.clone()));
                    }
                }
            }
        }
        let bound = match self.reset {
            AutoOffsetReset::Earliest => Bound::Beginning,
            AutoOffsetReset::Latest => Bound::End,
            AutoOffsetReset::None => {
                for topic in &reset {
                    tell(topic, Found::Failed(Error::NoOffset(self.names.partition(topic))));
                }
                return;
            }
        };
        self.bounds(reset, bound, deadline, tell).await;
    }

    /// The first or the last position of each topic. Each is told as soon as it is found, and every one until the
    /// deadline.
    pub(crate) async fn bounds(
        &self,
        mut topics: BTreeSet<String>,
        bound: Bound,
        deadline: Instant,
        mut tell: impl FnMut(&str, Found) + Send,
    ) {
        let mut pace = Pace::of_retries();
        let mut trouble = Error::KafkaRetriable;
        while !topics.is_empty() {
            let mut by_leader: BTreeMap<BrokerId, Vec<(String, TopicInfo)>> = BTreeMap::new();
            for (topic, info) in each_topic(&self.cluster, topics.clone(), deadline).await {
                let found = match info {
                    Ok(Topic::Known(info)) => match info.leader {
                        Some(leader) => {
                            by_leader.entry(leader).or_default().push((topic, info));
                            continue;
                        }
                        None => {
                            self.cluster.stale(&topic);
                            trouble = Error::KafkaRetriable;
                            continue;
                        }
                    },
                    Ok(Topic::Missing) => Found::Missing,
                    Ok(Topic::Denied) => Found::Failed(Error::KafkaUnauthorized),
                    Err(error) => Found::Failed(error.into()),
                };
                topics.remove(&topic);
                tell(&topic, found);
            }
            let mut sent = JoinSet::new();
            for (leader, asked) in by_leader {
                let (cluster, client_id) = (self.cluster.clone(), self.group.client_id.clone());
                sent.spawn(async move {
                    let request = list_offsets(&asked, bound);
                    let deadline = Cluster::one_try(deadline);
                    let answer = cluster
                        .request(leader, Class::Control, &client_id, 4..=8, |_| request, deadline)
                        .await;
                    (asked, answer)
                });
            }
            while let Some(answer) = sent.join_next().await {
                let Ok((asked, answer)) = answer else {
                    trouble = Error::Internal;
                    continue;
                };
                let response = match answer {
                    Ok((response, _)) => response,
                    Err(error) => {
                        tracing::debug!(%error, "listing offsets failed");
                        asked.iter().for_each(|(topic, _)| self.cluster.stale(topic));
                        trouble = error.into();
                        continue;
                    }
                };
                for (topic, info) in asked {
                    match listed(&topic, &response) {
                        Ok(offset) => {
                            topics.remove(&topic);
                            tell(&topic, Found::At(Position::at(offset), info.id));
                        }
                        Err(Some(code))
                            if code.is_retriable() && code != ResponseError::ThrottlingQuotaExceeded =>
                        {
                            self.cluster.stale(&topic);
                            let told = Error::from(crate::Error::response(Api::ListOffsets, code));
                            // Whether there is such a topic is for the cluster's metadata to say.
                            trouble = if told == Error::KafkaTopicUnknown {
                                Error::KafkaRetriable
                            } else {
                                told
                            };
                        }
                        Err(code) => {
                            let error = code.map_or(Error::KafkaFailed, |code| {
                                crate::Error::response(Api::ListOffsets, code).into()
                            });
                            topics.remove(&topic);
                            tell(&topic, Found::Failed(error));
                        }
                    }
                }
            }
            if !topics.is_empty() && !pace.wait(deadline).await {
                for topic in &topics {
                    tell(topic, Found::Failed(trouble.clone()));
                }
                return;
            }
        }
    }
}

/// What the cluster says of each topic; those that are not known yet are asked for together.
pub(crate) async fn each_topic(
    cluster: &Cluster,
    topics: BTreeSet<String>,
    deadline: Instant,
) -> Vec<(String, Result<Topic, crate::Error>)> {
    let mut found = Vec::new();
    let mut asked = JoinSet::new();
    for topic in topics {
        if let Some(known) = cluster.known(&topic) {
            found.push((topic, Ok(known)));
            continue;
        }
        let cluster = cluster.clone();
        asked.spawn(async move {
            let info = cluster.topic(&topic, deadline).await;
            (topic, info)
        });
    }
    found.extend(asked.join_all().await);
    found
}

fn list_offsets(asked: &[(String, TopicInfo)], bound: Bound) -> ListOffsetsRequest {
    let topics = asked.iter().map(|(topic, info)| {
        let partition = ListOffsetsPartition::default()
            .with_partition_index(0)
            .with_current_leader_epoch(info.leader_epoch)
            .with_timestamp(match bound {
                Bound::Beginning => EARLIEST,
                Bound::End => LATEST,
            });
        ListOffsetsTopic::default()
            .with_name(TopicName(topic.clone().into()))
            .with_partitions(vec![partition])
    });
    ListOffsetsRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_topics(topics.collect())
}

/// The offset in an answer; `None` where it holds none that can be used.
fn listed(topic: &str, response: &ListOffsetsResponse) -> Result<i64, Option<ResponseError>> {
    let answers = response.topics.iter().filter(|answer| *answer.name == *topic);
    let partition = answers
        .flat_map(|answer| &answer.partitions)
        .find(|partition| partition.partition_index == 0)
        .ok_or(None)?;
    match partition.error_code.err() {
        Some(code) => Err(Some(code)),
        None if partition.offset < 0 => Err(None),
        None => Ok(partition.offset),
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::list_offsets_response::{
        ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
    };

    use super::*;

    #[test]
    fn a_negative_or_missing_offset_is_no_position() {
        let answer = |index: i32, offset: i64, code: i16| {
            let partition = ListOffsetsPartitionResponse::default()
                .with_partition_index(index)
                .with_offset(offset)
                .with_error_code(code);
            let topic = ListOffsetsTopicResponse::default()
                .with_name(TopicName("ns.a".to_owned().into()))
                .with_partitions(vec![partition]);
            ListOffsetsResponse::default().with_topics(vec![topic])
        };
        assert_eq!(listed("ns.a", &answer(0, 7, 0)), Ok(7));
        assert_eq!(listed("ns.a", &answer(0, -1, 0)), Err(None));
        assert_eq!(listed("ns.a", &answer(1, 7, 0)), Err(None));
        assert_eq!(listed("ns.b", &answer(0, 7, 0)), Err(None));
        let moved = Err(Some(ResponseError::NotLeaderOrFollower));
        assert_eq!(listed("ns.a", &answer(0, 7, 6)), moved);
    }
}
