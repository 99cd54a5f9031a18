//! What a group has committed: OffsetCommit and OffsetFetch.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    sync::{Arc, MutexGuard, PoisonError},
};

use kafka_protocol::{
    error::{ParseResponseErrorCode, ResponseError},
    messages::{
        BrokerId, OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse,
        TopicName,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics},
    },
};
use octopus_core::Error;
use tokio::time::{Instant, timeout_at};

use super::{Group, Stored, member::Identity, send::group_id};
use crate::{
    GroupProtocol,
    cluster::{Class, Cluster, Origin, Topic, ask_on},
    error::Api,
    pace::Pace,
};

/// The generation of a commit without a member.
const NO_GENERATION: i32 = -1;
/// What stands for an epoch that is not known.
const NO_EPOCH: i32 = -1;

/// The versions of OffsetCommit and OffsetFetch that know a member's epoch.
const WITH_EPOCHS: RangeInclusive<i16> = 9..=9;

/// What came of one try that did not fail for good.
enum Tried<T> {
    Done(T),
    /// It may be tried again; the error counts if there is no time for that.
    Again(Error),
}

/// The committed positions, and whether the answer omitted a partition.
type Read = (BTreeMap<String, Stored>, bool);

impl Group {
    /// Commits positions: all or an error, the first by the order of the specification's table [CO-06] [ER-03]. While
    /// a join is under way it waits for that, and is refused where it is of what the join gave to another. At most one commit is in flight, also where the future of one before
    /// was dropped.
    pub(crate) async fn commit(
        self: &Arc<Self>,
        stored: Vec<Stored>,
        deadline: Instant,
    ) -> Result<(), Error> {
        let stored = Arc::new(stored);
        let owned = self.membership().member.owned();
        let mut pace = Pace::of_retries();
        loop {
            if self.settled(deadline).await.is_none() {
                return Err(Error::CommitFailed);
            }
            match self.try_commit(&stored, owned, deadline).await? {
                Tried::Done(()) => return Ok(()),
                Tried::Again(error) if !pace.wait(deadline).await => return Err(error),
                Tried::Again(_) => {}
            }
        }
    }

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

    async fn try_commit(
        self: &Arc<Self>,
        stored: &Arc<Vec<Stored>>,
        owned: Option<i32>,
        deadline: Instant,
    ) -> Result<Tried<()>, Error> {
        let turn = timeout_at(deadline, Arc::clone(&self.commits).lock_owned());
        let turn = turn.await.map_err(|_| Error::KafkaRetriable)?;
        let (member_id, generation) = {
            let membership = self.membership();
            match membership.member.identity() {
                Identity::Alone => (String::new(), NO_GENERATION),
                Identity::Member {
                    member_id,
                    generation,
                } => {
                    let mut topics = stored.iter().map(|stored| stored.topic.as_str());
                    if !membership.member.may_commit(owned, &mut topics) {
                        return Err(Error::CommitFailed);
                    }
                    (member_id, generation)
                }
                Identity::Joining => return Ok(Tried::Again(Error::CommitFailed)),
                Identity::Lost => return Err(Error::CommitFailed),
            }
        };
        let sent = tokio::spawn({
            let (group, stored) = (Arc::clone(self), Arc::clone(stored));
            async move {
                let _turn = turn;
                group.send_commit(member_id, generation, &stored, deadline).await
            }
        });
        match sent.await.map_err(|_| Error::Internal)? {
            Ok(response) => self.read_commit(generation, stored, &response, deadline).await,
            Err(error) => self.failed(error),
        }
    }

    async fn send_commit(
        &self,
        member_id: String,
        generation: i32,
        stored: &[Stored],
        deadline: Instant,
    ) -> Result<OffsetCommitResponse, crate::Error> {
        let topics = stored.iter().map(|stored| {
            let partition = OffsetCommitRequestPartition::default()
                .with_partition_index(0)
                .with_committed_offset(stored.offset)
                .with_committed_leader_epoch(stored.leader_epoch.unwrap_or(NO_EPOCH))
                .with_committed_metadata(Some(stored.metadata.to_string().into()));
            OffsetCommitRequestTopic::default()
                .with_name(name(&stored.topic))
                .with_partitions(vec![partition])
        });
        let request = OffsetCommitRequest::default()
            .with_group_id(group_id(self))
            .with_generation_id_or_member_epoch(generation)
            .with_member_id(member_id.into())
            .with_topics(topics.collect());
        let broker = self.cluster.coordinator(&self.id, deadline).await?;
        let owed = self.owed().take().filter(|(of, _)| *of == broker);
        let behind = owed.and_then(|(_, origin)| origin.behind());
        let lease = match behind {
            Some(lease) => lease,
            None => {
                self.cluster
                    .lease_for(broker, Class::Commit, "", Api::OffsetCommit, deadline)
                    .await?
            }
        };
        *self.owed() = Some((broker, lease.origin()));
        let versions = if generation != NO_GENERATION && self.has_epochs() {
            WITH_EPOCHS
        } else {
            6..=9
        };
        let sent = ask_on(&lease, &self.client_id, versions, |_| request, deadline).await;
        if sent.is_ok() {
            *self.owed() = None;
        }
        Ok(sent?.0)
    }

    async fn read_commit(
        self: &Arc<Self>,
        generation: i32,
        stored: &[Stored],
        response: &OffsetCommitResponse,
        deadline: Instant,
    ) -> Result<Tried<()>, Error> {
        let mut worst: Option<Error> = None;
        let mut again = None;
        for Stored { topic, .. } in stored {
            let answers = response.topics.iter().filter(|answer| *answer.name == **topic);
            let code = answers
                .flat_map(|answer| &answer.partitions)
                .find(|partition| partition.partition_index == 0)
                .map(|partition| partition.error_code.err());
            let refused = match code {
                Some(None) => continue,
                Some(Some(ResponseError::UnknownTopicOrPartition | ResponseError::UnknownTopicId)) => {
                    self.cluster.stale(topic);
                    match self.cluster.topic(topic, deadline).await {
                        Ok(Topic::Known(_)) => {
                            again = Some(Error::KafkaTopicUnknown);
                            continue;
                        }
                        Ok(Topic::Missing) => Error::KafkaTopicUnknown,
                        Ok(Topic::Denied) => Error::KafkaUnauthorized,
                        Err(error) => error.into(),
                    }
                }
                Some(Some(code)) if is_again(code) => {
                    self.moved(code);
                    again = Some(Error::KafkaRetriable);
                    continue;
                }
                Some(Some(code @ ResponseError::StaleMemberEpoch)) if generation != NO_GENERATION => {
                    self.tell(|member, now| member.refused(code, generation, now));
                    again = Some(Error::CommitFailed);
                    continue;
                }
                Some(Some(code)) => {
                    tracing::debug!(group = self.id, topic, %code, "a commit was refused");
                    let contradicts = matches!(
                        code,
                        ResponseError::RebalanceInProgress
                            | ResponseError::IllegalGeneration
                            | ResponseError::UnknownMemberId
                            | ResponseError::FencedInstanceId
                            | ResponseError::FencedMemberEpoch
                    );
                    if contradicts && generation != NO_GENERATION {
                        self.tell(|member, now| member.refused(code, generation, now));
                    }
                    crate::Error::response(Api::OffsetCommit, code).into()
                }
                None => Error::KafkaFailed,
            };
            if worst.as_ref().is_none_or(|worst| refused.code() < worst.code()) {
                worst = Some(refused);
            }
        }
        match (worst, again) {
            (Some(worst), _) => Err(worst),
            (None, Some(again)) => Ok(Tried::Again(again)),
            (None, None) => Ok(Tried::Done(())),
        }
    }

    /// Whether members have epochs rather than generations.
    fn has_epochs(&self) -> bool {
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

    /// The connection of the last commit, while its answer is owed: the next one goes behind it, for on another one it
    /// might overtake it and then be undone by it.
    fn owed(&self) -> MutexGuard<'_, Option<(BrokerId, Origin)>> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a request that failed on its way means.
    fn failed<T>(&self, error: crate::Error) -> Result<Tried<T>, Error> {
        tracing::debug!(group = self.id, %error, "a request to the group's coordinator failed");
        self.cluster.forget_coordinator(&self.id);
        let error = Error::from(error);
        if matches!(error, Error::KafkaRetriable | Error::KafkaUnreachable) {
            Ok(Tried::Again(error))
        } else {
            Err(error)
        }
    }

    fn moved(&self, code: ResponseError) {
        if code != ResponseError::CoordinatorLoadInProgress {
            self.cluster.forget_coordinator(&self.id);
        }
    }
}

/// Whether the request is to be sent again.
fn is_again(code: ResponseError) -> bool {
    code.is_retriable()
        && !matches!(
            code,
            ResponseError::UnknownTopicOrPartition
                | ResponseError::UnknownTopicId
                | ResponseError::ThrottlingQuotaExceeded
        )
}

fn name(topic: &str) -> TopicName {
    TopicName(topic.to_owned().into())
}
