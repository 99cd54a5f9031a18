//! What a member does as its group's leader: it says who reads what, and sees whether the topics change.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use octopus_core::Error;

use super::{Member, State};
use crate::group::{
    assignor::{Assignor, Subscriber},
    subscription,
    topics::Topics,
};

impl Member {
    /// As the leader: the topics of all members, to see whether the cluster lists others of them.
    pub(crate) fn watched(&self) -> Option<BTreeSet<String>> {
        matches!(self.state, State::Stable(_)).then_some(())?;
        self.led.as_ref().map(|(topics, _)| topics.to_set())
    }

    /// What the cluster lists of the [`watched`](Self::watched) topics.
    pub(crate) fn listed(&mut self, counts: &BTreeMap<String, i32>, now: Instant) {
        let changed = self.led.as_ref().is_some_and(|(topics, before)| {
            let now = topics.iter().map(|topic| counts.get(topic).copied());
            !now.eq(before.iter().copied())
        });
        if changed && matches!(self.state, State::Stable(_)) {
            self.unsettled(now);
        }
    }

    pub(super) fn subscribers(&self) -> Vec<Subscriber> {
        let members = self.joined.members.iter();
        members
            .map(|(member_id, group_instance_id, metadata)| Subscriber {
                member_id: member_id.clone(),
                group_instance_id: group_instance_id.clone(),
                topics: subscription::subscribed(metadata).unwrap_or_else(|| {
                    tracing::warn!(member_id, "a member's subscription can't be read");
                    BTreeSet::new()
                }),
            })
            .collect()
    }

    pub(super) fn lead(&mut self, counts: BTreeMap<String, i32>, now: Instant) {
        let Some(assignor) = Assignor::named(&self.joined.protocol) else {
            tracing::warn!(
                protocol = self.joined.protocol,
                "the group chose an assignor that was not offered"
            );
            return self.fail(Error::KafkaFailed);
        };
        let members = self.subscribers();
        let given = assignor.assign(&members, &counts);
        let topics = members.iter().flat_map(|member| member.topics.iter().cloned());
        let topics = Topics::new(topics, &self.topics);
        let listed = topics.iter().map(|topic| counts.get(topic).copied()).collect();
        self.led = Some((topics, listed));
        let assignments = members.into_iter().zip(&given);
        let assignments =
            assignments.map(|(member, given)| (member.member_id, subscription::assignment(given)));
        self.sync(assignments.collect(), now);
    }
}
