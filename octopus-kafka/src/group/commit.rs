//! Committing positions: OffsetCommit, one at a time.

use std::sync::Arc;

use kafka_protocol::{
    error::{ParseResponseErrorCode, ResponseError},
    messages::{
        OffsetCommitRequest, OffsetCommitResponse,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
    },
};
use octopus_core::Error;
use tokio::{
    sync::OwnedMutexGuard,
    time::{Instant, timeout_at},
};

use super::{
    Group, Stored,
    member::Identity,
    offsets::{Tried, WITH_EPOCHS, is_again, name},
    protocol::Member,
    send::group_id,
};
use crate::{
    cluster::{Class, Topic, ask_on},
    error::Api,
    pace::Pace,
};

/// The generation of a commit without a member.
const NO_GENERATION: i32 = -1;
/// What stands for an epoch that is not known.
const NO_EPOCH: i32 = -1;

/// As who a commit was begun.
#[derive(Debug, Clone, Copy)]
struct Claim {
    /// What its owner held.
    owned: Option<i32>,
    /// It was no member.
    is_alone: bool,
}

impl Claim {
    fn of(member: &Member) -> Self {
        Self {
            owned: member.owned(),
            is_alone: member.identity() == Identity::Alone,
        }
    }

    /// Who commits for these topics at present; `None` if another member may have had them since. All that was a
    /// member's who has left may be another's.
    fn committer<'a>(self, member: &Member, topics: impl Iterator<Item = &'a str>) -> Option<Identity> {
        let identity = member.identity();
        let may = match identity {
            Identity::Alone => self.is_alone,
            Identity::Member { .. } => member.may_commit(self.owned, topics),
            Identity::Joining | Identity::Lost => true,
        };
        may.then_some(identity)
    }
}

/// A commit that was to be sent.
enum Sent {
    /// It was, in this generation.
    Answered(i32, OffsetCommitResponse),
    /// It was not: a join is under way.
    Joining,
    /// It was not: what it is of may be another's.
    Refused,
}

impl Group {
    /// Commits positions: all or an error, the first by the order of the specification's table [CO-06] [ER-03]. While
    /// a join is under way it waits for that, and is refused where it is of what the join gave to another. At most one
    /// commit is in flight, also where one before was left, or its time was over: none overtakes another [D-38].
    pub(crate) async fn commit(
        self: &Arc<Self>,
        stored: Vec<Stored>,
        deadline: Instant,
    ) -> Result<(), Error> {
        let stored = Arc::new(stored);
        let claim = Claim::of(&self.membership().member);
        let mut pace = Pace::of_retries();
        loop {
            if self.settled(deadline).await.is_none() {
                return Err(Error::CommitFailed);
            }
            match self.try_commit(&stored, claim, deadline).await? {
                Tried::Done(()) => return Ok(()),
                Tried::Again(error) if !pace.wait(deadline).await => return Err(error),
                Tried::Again(_) => {}
            }
        }
    }

    async fn try_commit(
        self: &Arc<Self>,
        stored: &Arc<Vec<Stored>>,
        claim: Claim,
        deadline: Instant,
    ) -> Result<Tried<()>, Error> {
        let turn = timeout_at(deadline, Arc::clone(&self.commits).lock_owned());
        let turn = turn.await.map_err(|_| Error::KafkaRetriable)?;
        let sent = tokio::spawn({
            let (group, stored) = (Arc::clone(self), Arc::clone(stored));
            async move { group.send_commit(turn, claim, &stored, deadline).await }
        });
        match sent.await.map_err(|_| Error::Internal)? {
            Ok(Sent::Answered(generation, response)) => {
                self.read_commit(generation, stored, &response, deadline).await
            }
            Ok(Sent::Joining) => Ok(Tried::Again(Error::CommitFailed)),
            Ok(Sent::Refused) => Err(Error::CommitFailed),
            Err(error) => self.failed(error),
        }
    }

    /// Sends a commit as who the member is once there is a connection to send it on. Its turn is over when the answer
    /// came or never will, which may be long after the deadline.
    async fn send_commit(
        &self,
        turn: OwnedMutexGuard<()>,
        claim: Claim,
        stored: &[Stored],
        deadline: Instant,
    ) -> Result<Sent, crate::Error> {
        let broker = self.cluster.coordinator(&self.id, deadline).await?;
        let lease = self
            .cluster
            .lease_for(broker, Class::Commit, "", Api::OffsetCommit, deadline)
            .await?
            .holding(turn);
        let committer = {
            let topics = stored.iter().map(|stored| stored.topic.as_str());
            claim.committer(&self.membership().member, topics)
        };
        let (member_id, generation) = match committer {
            Some(Identity::Alone) => (String::new(), NO_GENERATION),
            Some(Identity::Member {
                member_id,
                generation,
            }) => (member_id, generation),
            Some(Identity::Joining) => return Ok(Sent::Joining),
            Some(Identity::Lost) | None => return Ok(Sent::Refused),
        };
        let request = request(self, member_id, generation, stored);
        let versions = if generation != NO_GENERATION && self.has_epochs() {
            WITH_EPOCHS
        } else {
            6..=9
        };
        let sent = ask_on(&lease, &self.client_id, versions, |_| request, deadline);
        Ok(Sent::Answered(generation, sent.await?.0))
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
}

fn request(group: &Group, member_id: String, generation: i32, stored: &[Stored]) -> OffsetCommitRequest {
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
    OffsetCommitRequest::default()
        .with_group_id(group_id(group))
        .with_generation_id_or_member_epoch(generation)
        .with_member_id(member_id.into())
        .with_topics(topics.collect())
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, time::Duration};

    use super::*;
    use crate::{GroupProtocol, group::member::Timing};

    /// [D-23] what a member that left had may be another's by now; who never was one commits as it likes.
    #[test]
    fn a_commit_is_not_made_by_who_has_left_meanwhile() {
        let now = std::time::Instant::now();
        let timing = Timing {
            session: Duration::from_secs(10),
            rebalance: Duration::from_secs(60),
            heartbeat: Duration::from_secs(3),
        };
        for protocol in [GroupProtocol::Classic, GroupProtocol::Consumer] {
            let mut member = Member::new(protocol, timing, now, || 7);
            let alone = Claim::of(&member);
            let who = |claim: Claim, member: &Member| claim.committer(member, ["a"].into_iter());
            assert_eq!(who(alone, &member), Some(Identity::Alone));
            member.want(BTreeSet::from(["a".to_owned()]), Vec::new(), now);
            let joining = Claim::of(&member);
            assert_eq!(who(joining, &member), Some(Identity::Joining));
            let left = Member::new(protocol, timing, now, || 7);
            assert_eq!(who(joining, &left), None);
        }
    }
}
