//! What a group has committed: OffsetFetch.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    sync::Arc,
};

use kafka_protocol::{
    error::{ParseResponseErrorCode, ResponseError},
    messages::{
        OffsetFetchRequest, OffsetFetchResponse, TopicName,
        offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics},
    },
};
use octopus_core::Error;
use tokio::time::Instant;

use super::{Group, Stored, member::Identity, send::group_id};
use crate::{
    GroupProtocol,
    cluster::{Class, Cluster},
    error::Api,
    pace::Pace,
};

/// The versions of OffsetCommit and OffsetFetch that know a member's epoch.
pub(super) const WITH_EPOCHS: RangeInclusive<i16> = 9..=9;

/// What came of one try that did not fail for good.
pub(super) enum Tried<T> {
    Done(T),
    /// It may be tried again; the error counts if there is no time for that.
    Again(Error),
}

/// The committed positions, and whether the answer omitted a partition.
type Read = (BTreeMap<String, Stored>, bool);

impl Group {
    /// What the group has committed for these topics, without those that it never committed [CO-04].
    pub(crate) async fn committed(
        self: &Arc<Self>,
        topics: &BTreeSet<String>,
        deadline: Instant,
    ) -> Result<BTreeMap<String, Stored>, Error> {
        let mut pace = Pace::of_retries();
        let mut complete = false;
        loop {
            let asker = self.asker();
            let epoch = asker.as_ref().map(|(_, epoch)| *epoch);
            let tried = match self.fetch_committed(topics, asker, deadline).await {
                Ok(response) => self.read_committed(topics, epoch, response, complete)?,
                Err(error) => self.failed(error)?,
            };
            match tried {
                Tried::Done((found, omitted)) if !omitted || complete => return Ok(found),
                // A partition may be omitted once by mistake; then it counts as never committed.
                Tried::Done(_) => complete = true,
                Tried::Again(error) if !pace.wait(deadline).await => return Err(error),
                Tried::Again(_) => {}
            }
        }
    }

    /// Whether members have epochs rather than generations.
    pub(super) fn has_epochs(&self) -> bool {
        self.cluster.config().group_protocol == GroupProtocol::Consumer
    }

    /// The member that asks what is committed, where the coordinator wants to know it: its id and its epoch.
    fn asker(&self) -> Option<(String, i32)> {
        if !self.has_epochs() {
            return None;
        }
        match self.membership().member.identity() {
            Identity::Member {
                member_id,
                generation,
            } => Some((member_id, generation)),
            Identity::Alone | Identity::Joining | Identity::Lost => None,
        }
    }

    async fn fetch_committed(
        &self,
        topics: &BTreeSet<String>,
        asker: Option<(String, i32)>,
        deadline: Instant,
    ) -> Result<OffsetFetchResponse, crate::Error> {
        let versions = if asker.is_some() { WITH_EPOCHS } else { 5..=9 };
        let make = |version| {
            if version < 8 {
                let topics = topics.iter().map(|topic| {
                    OffsetFetchRequestTopic::default()
                        .with_name(name(topic))
                        .with_partition_indexes(vec![0])
                });
                return OffsetFetchRequest::default()
                    .with_group_id(group_id(self))
                    .with_topics(Some(topics.collect()))
                    .with_require_stable(version >= 7);
            }
            let topics = topics.iter().map(|topic| {
                OffsetFetchRequestTopics::default()
                    .with_name(name(topic))
                    .with_partition_indexes(vec![0])
            });
            let mut group = OffsetFetchRequestGroup::default()
                .with_group_id(group_id(self))
                .with_topics(Some(topics.collect()));
            if let Some((member_id, epoch)) = asker {
                group = group
                    .with_member_id(Some(member_id.into()))
                    .with_member_epoch(epoch);
            }
            OffsetFetchRequest::default()
                .with_groups(vec![group])
                .with_require_stable(true)
        };
        let deadline = Cluster::one_try(deadline);
        self.request(Class::Control, versions, make, deadline).await
    }

    /// The committed positions, and whether one was omitted. `epoch` is that of the member that asked.
    fn read_committed(
        self: &Arc<Self>,
        topics: &BTreeSet<String>,
        epoch: Option<i32>,
        response: OffsetFetchResponse,
        complete: bool,
    ) -> Result<Tried<Read>, Error> {
        let mut codes = vec![response.error_code];
        let mut partitions = Vec::new();
        for topic in response.topics {
            for part in topic
                .partitions
                .into_iter()
                .filter(|part| part.partition_index == 0)
            {
                codes.push(part.error_code);
                let metadata = part.metadata.map(|text| text.as_str().into()).unwrap_or_default();
                partitions.push((
                    topic.name.to_string(),
                    part.committed_offset,
                    part.committed_leader_epoch,
                    metadata,
                ));
            }
        }
        for group in response.groups {
            codes.push(group.error_code);
            for topic in group.topics {
                for part in topic
                    .partitions
                    .into_iter()
                    .filter(|part| part.partition_index == 0)
                {
                    codes.push(part.error_code);
                    let metadata = part.metadata.map(|text| text.as_str().into()).unwrap_or_default();
                    partitions.push((
                        topic.name.to_string(),
                        part.committed_offset,
                        part.committed_leader_epoch,
                        metadata,
                    ));
                }
            }
        }
        let mut worst: Option<Error> = None;
        let mut again = false;
        for code in codes.into_iter().filter_map(ParseResponseErrorCode::err) {
            if is_again(code) || code == ResponseError::UnstableOffsetCommit {
                self.moved(code);
                again = true;
                continue;
            }
            if let Some(epoch) = epoch
                && matches!(
                    code,
                    ResponseError::StaleMemberEpoch
                        | ResponseError::UnknownMemberId
                        | ResponseError::FencedMemberEpoch
                )
            {
                // With its next epoch, or as nobody's, it is answered.
                self.tell(|member, now| member.refused(code, epoch, now));
                again = true;
                continue;
            }
            let refused: Error = crate::Error::response(Api::OffsetFetch, code).into();
            if worst.as_ref().is_none_or(|worst| refused.code() < worst.code()) {
                worst = Some(refused);
            }
        }
        if let Some(worst) = worst {
            return Err(worst);
        }
        if again {
            return Ok(Tried::Again(Error::KafkaRetriable));
        }
        let mut answered = BTreeSet::new();
        let mut found = BTreeMap::new();
        for (topic, offset, leader_epoch, metadata) in partitions {
            if !topics.contains(&topic) || !answered.insert(topic.clone()) || offset < 0 {
                continue;
            }
            let leader_epoch = (leader_epoch >= 0).then_some(leader_epoch);
            found.insert(
                topic.clone(),
                Stored {
                    topic,
                    offset,
                    leader_epoch,
                    metadata,
                },
            );
        }
        let omitted = answered.len() < topics.len() && !complete;
        Ok(Tried::Done((found, omitted)))
    }

    /// What a request that failed on its way means.
    pub(super) fn failed<T>(&self, error: crate::Error) -> Result<Tried<T>, Error> {
        tracing::debug!(group = self.id, %error, "a request to the group's coordinator failed");
        self.cluster.forget_coordinator(&self.id);
        let error = Error::from(error);
        if matches!(error, Error::KafkaRetriable | Error::KafkaUnreachable) {
            Ok(Tried::Again(error))
        } else {
            Err(error)
        }
    }

    pub(super) fn moved(&self, code: ResponseError) {
        if code != ResponseError::CoordinatorLoadInProgress {
            self.cluster.forget_coordinator(&self.id);
        }
    }
}

/// Whether the request is to be sent again.
pub(super) fn is_again(code: ResponseError) -> bool {
    code.is_retriable()
        && !matches!(
            code,
            ResponseError::UnknownTopicOrPartition
                | ResponseError::UnknownTopicId
                | ResponseError::ThrottlingQuotaExceeded
        )
}

pub(super) fn name(topic: &str) -> TopicName {
    TopicName(topic.to_owned().into())
}
