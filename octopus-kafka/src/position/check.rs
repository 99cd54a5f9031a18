//! Whether a position is of the leader's log: OffsetForLeaderEpoch. A leader that was elected uncleanly may lack what the
//! one before it had, and have other records at the same offsets.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::{
    error::{ParseResponseErrorCode, ResponseError},
    messages::{
        BrokerId, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, TopicName,
        offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic},
    },
};
use octopus_core::{AutoOffsetReset, Error, Position};
use tokio::time::Instant;

use super::{Found, Resolver, each_topic};
use crate::{
    cluster::{Class, Cluster, Topic, TopicInfo},
    error::{Api, Kind},
    pace::Pace,
};

/// What the leader's log says of a position.
#[derive(Debug, PartialEq)]
enum Told {
    /// It has the log up to there.
    Holds,
    /// It has it up to here only.
    EndsAt(Position),
    /// It knows nothing of the epoch.
    Nothing,
}

impl Resolver {
    /// Checks positions that were taken under earlier leaders. Each is told by the deadline, but for those that are
    /// returned: their log knows nothing of them, so that they start where `auto.offset.reset` says.
    pub(super) async fn check(
        &self,
        mut held: BTreeMap<String, Position>,
        deadline: Instant,
        tell: &mut (impl FnMut(&str, Found) + Send),
    ) -> BTreeSet<String> {
        let mut pace = Pace::of_retries();
        let mut reset = BTreeSet::new();
        while !held.is_empty() {
            for (topic, info) in each_topic(&self.cluster, held.keys().cloned().collect(), deadline).await {
                let Some(&position) = held.get(&topic) else {
                    continue;
                };
                let found = match info {
                    Ok(Topic::Known(info)) => match self.ask_end(&topic, &info, position, deadline).await {
                        Ok(Told::Holds) => Found::Checked(position, info.leader_epoch),
                        Ok(told) if self.reset == AutoOffsetReset::None => {
                            tracing::warn!(
                                topic,
                                position.offset,
                                ?told,
                                "the log was cut off below the position"
                            );
                            Found::Failed(Error::NoOffset(self.names.partition(&topic)))
                        }
                        Ok(Told::EndsAt(end)) => {
                            tracing::warn!(
                                topic,
                                position.offset,
                                end.offset,
                                "the log was cut off below the position"
                            );
                            Found::Checked(end, info.leader_epoch)
                        }
                        Ok(Told::Nothing) => {
                            tracing::warn!(topic, position.offset, "the log knows nothing of the position");
                            held.remove(&topic);
                            reset.insert(topic);
                            continue;
                        }
                        Err(None) => continue,
                        Err(Some(error)) => Found::Failed(error),
                    },
                    Ok(Topic::Missing) => Found::Missing,
                    Ok(Topic::Denied) => Found::Failed(Error::KafkaUnauthorized),
                    Err(error) => Found::Failed(error.into()),
                };
                held.remove(&topic);
                tell(&topic, found);
            }
            if !held.is_empty() && !pace.wait(deadline).await {
                for topic in held.keys() {
                    tell(topic, Found::Failed(Error::KafkaRetriable));
                }
                break;
            }
        }
        reset
    }

    /// Asks the leader about one position; `None` where it is to be asked again.
    async fn ask_end(
        &self,
        topic: &str,
        info: &TopicInfo,
        position: Position,
        deadline: Instant,
    ) -> Result<Told, Option<Error>> {
        let Some(leader) = info.leader else {
            self.cluster.stale(topic);
            return Err(None);
        };
        let request = request(topic, info.leader_epoch, position);
        let deadline = Cluster::one_try(deadline);
        let (cluster, client_id) = (&self.cluster, &self.group.client_id);
        let asked = cluster.request(leader, Class::Control, client_id, 2..=4, |_| request, deadline);
        match asked.await {
            Ok((response, _)) => read(topic, position, &response).map_err(|code| match code {
                Some(code) if code.is_retriable() && code != ResponseError::ThrottlingQuotaExceeded => {
                    cluster.stale(topic);
                    None
                }
                Some(code) => Some(crate::Error::response(Api::OffsetForLeaderEpoch, code).into()),
                None => Some(Error::KafkaFailed),
            }),
            // It can't be told; the position is read as it is.
            Err(error) if *error.kind() == Kind::Unsupported => Ok(Told::Holds),
            Err(error) => {
                tracing::debug!(%error, "checking a position failed");
                cluster.stale(topic);
                let error = Error::from(error);
                let passes = matches!(error, Error::KafkaRetriable | Error::KafkaUnreachable);
                Err(Some(error).filter(|_| !passes))
            }
        }
    }
}

fn request(topic: &str, current_leader_epoch: i32, position: Position) -> OffsetForLeaderEpochRequest {
    let partition = OffsetForLeaderPartition::default()
        .with_partition(0)
        .with_current_leader_epoch(current_leader_epoch)
        .with_leader_epoch(position.leader_epoch.unwrap_or(-1));
    let topic = OffsetForLeaderTopic::default()
        .with_topic(TopicName(topic.to_owned().into()))
        .with_partitions(vec![partition]);
    OffsetForLeaderEpochRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_topics(vec![topic])
}

/// What an answer says; `None` where it says nothing of the topic.
fn read(
    topic: &str,
    position: Position,
    response: &OffsetForLeaderEpochResponse,
) -> Result<Told, Option<ResponseError>> {
    let answers = response.topics.iter().filter(|answer| *answer.topic == *topic);
    let partition = answers
        .flat_map(|answer| &answer.partitions)
        .find(|partition| partition.partition == 0)
        .ok_or(None)?;
    if let Some(code) = partition.error_code.err() {
        return Err(Some(code));
    }
    Ok(if partition.end_offset < 0 || partition.leader_epoch < 0 {
        Told::Nothing
    } else if partition.end_offset < position.offset {
        Told::EndsAt(Position {
            offset: partition.end_offset,
            leader_epoch: Some(partition.leader_epoch),
        })
    } else {
        Told::Holds
    })
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::offset_for_leader_epoch_response::{
        EpochEndOffset, OffsetForLeaderTopicResult,
    };

    use super::*;

    /// [KF-21] what is said of other topics and partitions counts for nothing, nor does a negative offset.
    #[test]
    fn an_end_below_the_position_takes_its_place() {
        let answer = |index, code, leader_epoch, end_offset| {
            let partition = EpochEndOffset::default()
                .with_partition(index)
                .with_error_code(code)
                .with_leader_epoch(leader_epoch)
                .with_end_offset(end_offset);
            let topic = OffsetForLeaderTopicResult::default()
                .with_topic(TopicName("ns.a".to_owned().into()))
                .with_partitions(vec![partition]);
            OffsetForLeaderEpochResponse::default().with_topics(vec![topic])
        };
        let held = Position {
            offset: 50,
            leader_epoch: Some(3),
        };
        let told = |topic, response| read(topic, held, &response);
        assert_eq!(told("ns.a", answer(0, 0, 3, 50)), Ok(Told::Holds));
        assert_eq!(told("ns.a", answer(0, 0, 3, 90)), Ok(Told::Holds));
        let end = Position {
            offset: 40,
            leader_epoch: Some(2),
        };
        assert_eq!(told("ns.a", answer(0, 0, 2, 40)), Ok(Told::EndsAt(end)));
        assert_eq!(told("ns.a", answer(0, 0, -1, -1)), Ok(Told::Nothing));
        assert_eq!(told("ns.a", answer(0, 0, 3, -1)), Ok(Told::Nothing));
        assert_eq!(told("ns.b", answer(0, 0, 3, 50)), Err(None));
        assert_eq!(told("ns.a", answer(1, 0, 3, 50)), Err(None));
        let fenced = Err(Some(ResponseError::FencedLeaderEpoch));
        assert_eq!(told("ns.a", answer(0, 74, 3, 50)), fenced);
    }
}
