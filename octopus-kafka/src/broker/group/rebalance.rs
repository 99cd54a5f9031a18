//! How a group goes from one generation to the next.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use bytes::Bytes;
use kafka_protocol::messages::{JoinGroupRequest, SyncGroupResponse};

use super::{Answers, Group, GroupState, Member, not_joined};
use crate::broker::{
    api::{Head, Response, text},
    code,
    consumers::Consumers,
    id::ConnectionId,
};

/// The members are waited for.
#[derive(Debug)]
pub(crate) struct Rebalance {
    deadline: Instant,
    /// For the first generation of an empty group: how much longer its start may be put off.
    initial: Option<Duration>,
    /// Whether a member came since the deadline was set.
    grown: bool,
}

/// The members' SyncGroups are waited for.
#[derive(Debug)]
pub(crate) struct Syncing {
    deadline: Instant,
    missing: BTreeSet<String>,
}

impl Group {
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let members = self.members.values().filter_map(|member| member.deadline);
        members
            .chain(self.pending.values().copied())
            .chain(self.rebalance.as_ref().map(|rebalance| rebalance.deadline))
            .chain(self.syncing.as_ref().map(|syncing| syncing.deadline))
            .chain(self.consumers.as_ref().and_then(Consumers::poll_timeout))
            .min()
    }

    pub(crate) fn handle_timeout(&mut self, answers: &mut Answers, now: Instant) {
        if let Some(consumers) = &mut self.consumers {
            consumers.handle_timeout(now);
        }
        let pending = self.pending.len();
        self.pending.retain(|_, until| *until > now);
        if self.pending.len() < pending {
            self.complete_if_all_joined(answers, now);
        }
        let silent: Vec<String> = self
            .members
            .iter()
            .filter(|(_, member)| member.deadline.is_some_and(|deadline| deadline <= now))
            .map(|(id, _)| id.clone())
            .collect();
        for id in silent {
            self.remove(&id, answers, now);
        }
        if let Some(syncing) = self.syncing.take_if(|syncing| syncing.deadline <= now) {
            for id in &syncing.missing {
                self.forget(id, answers);
            }
            self.prepare(answers, now);
        }
        self.start_if_due(answers, now);
    }

    /// Puts a new member into the group.
    pub(super) fn add(
        &mut self,
        id: String,
        from: ConnectionId,
        head: &Head,
        request: &JoinGroupRequest,
        answers: &mut Answers,
        now: Instant,
    ) {
        if self.members.is_empty() {
            self.protocol_type = Some(request.protocol_type.to_string());
        }
        if self.leader.is_none() {
            self.leader = Some(id.clone());
        }
        if let Some(instance) = &request.group_instance_id {
            self.statics.insert(instance.to_string(), id.clone());
        }
        let member = Member::new(&head.client_id, request, from, now);
        self.members.insert(id, member);
        if let Some(rebalance) = &mut self.rebalance {
            rebalance.grown = true;
        }
        self.prepare(answers, now);
    }

    /// Gives the place of a static member to its successor, who has joined without an id.
    #[expect(clippy::too_many_arguments, reason = "a JoinGroup and whom it replaces")]
    pub(super) fn replace(
        &mut self,
        known: &str,
        new: String,
        from: ConnectionId,
        head: &Head,
        request: &JoinGroupRequest,
        answers: &mut Answers,
        now: Instant,
    ) {
        let Some(mut member) = self.members.remove(known) else {
            return;
        };
        if let Some(waiting) = member.joining.take() {
            answers.push((waiting, not_joined(code::FENCED_INSTANCE_ID, known)));
        }
        if let Some(waiting) = member.syncing.take() {
            answers.push((waiting, not_synced(code::FENCED_INSTANCE_ID)));
        }
        member.client_id.clone_from(&head.client_id);
        member.describe(request);
        member.joining = Some(from);
        member.deadline = None;
        if let Some(instance) = &request.group_instance_id {
            self.statics.insert(instance.to_string(), new.clone());
        }
        let led = self.leader.as_deref() == Some(known);
        if led {
            self.leader = Some(new.clone());
        }
        if let Some(syncing) = &mut self.syncing
            && syncing.missing.remove(known)
        {
            syncing.missing.insert(new.clone());
        }
        self.members.insert(new.clone(), member);
        if self.state != GroupState::Stable || self.selected() != self.protocol {
            self.prepare(answers, now);
            return;
        }
        // A stable group takes it without a rebalance, so it must not assign: from version 9 on the answer
        // says so, before it named the old leader.
        if let Response::JoinGroup(mut response) = self.joined(&new) {
            if led && head.version >= 9 {
                response.skip_assignment = true;
            } else if led {
                response.leader = text(known);
                response.members.clear();
            }
            answers.push((from, Response::JoinGroup(response)));
        }
        if let Some(member) = self.members.get_mut(&new) {
            member.joining = None;
            member.heard(now);
        }
    }

    /// Takes a member out, and goes on without it.
    pub(super) fn remove(&mut self, id: &str, answers: &mut Answers, now: Instant) {
        self.forget(id, answers);
        match self.state {
            GroupState::Empty => {}
            GroupState::PreparingRebalance => self.complete_if_all_joined(answers, now),
            GroupState::CompletingRebalance | GroupState::Stable => self.prepare(answers, now),
        }
    }

    /// Starts a rebalance unless one is being prepared.
    pub(super) fn prepare(&mut self, answers: &mut Answers, now: Instant) {
        match self.state {
            GroupState::PreparingRebalance => {}
            GroupState::Empty => {
                let delay = self.rules.initial_rebalance_delay;
                self.rebalance = Some(Rebalance {
                    deadline: now + delay,
                    initial: Some(self.rebalance_timeout().saturating_sub(delay)),
                    grown: false,
                });
            }
            GroupState::CompletingRebalance | GroupState::Stable => {
                if self.state == GroupState::CompletingRebalance {
                    for member in self.members.values_mut() {
                        member.assignment = Bytes::new();
                        if let Some(waiting) = member.syncing.take() {
                            answers.push((waiting, not_synced(code::REBALANCE_IN_PROGRESS)));
                            member.heard(now);
                        }
                    }
                }
                self.rebalance = Some(Rebalance {
                    deadline: now + self.rebalance_timeout(),
                    initial: None,
                    grown: false,
                });
            }
        }
        self.state = GroupState::PreparingRebalance;
        self.syncing = None;
        self.complete_if_all_joined(answers, now);
        self.start_if_due(answers, now);
    }

    /// Starts the next generation if nobody has to be waited for.
    pub(super) fn complete_if_all_joined(&mut self, answers: &mut Answers, now: Instant) {
        let waits_for_more = self
            .rebalance
            .as_ref()
            .is_none_or(|rebalance| rebalance.initial.is_some());
        let all_joined = self.members.values().all(|member| member.joining.is_some());
        if !waits_for_more && all_joined && self.pending.is_empty() {
            self.complete(answers, now);
        }
    }

    /// Notes that a member has its assignment, or waits for it.
    pub(super) fn synced(&mut self, id: &str) {
        if let Some(syncing) = &mut self.syncing {
            syncing.missing.remove(id);
            if syncing.missing.is_empty() {
                self.syncing = None;
            }
        }
    }

    /// Starts the next generation when its time has come.
    fn start_if_due(&mut self, answers: &mut Answers, now: Instant) {
        let Some(rebalance) = &mut self.rebalance else {
            return;
        };
        if rebalance.deadline > now {
            return;
        }
        if let Some(left) = &mut rebalance.initial {
            let delay = self.rules.initial_rebalance_delay.min(*left);
            if rebalance.grown && !delay.is_zero() {
                rebalance.grown = false;
                rebalance.deadline = now + delay;
                *left -= delay;
                return;
            }
        }
        self.complete(answers, now);
    }

    fn complete(&mut self, answers: &mut Answers, now: Instant) {
        let absent: Vec<String> = self
            .members
            .iter()
            .filter(|(_, member)| member.joining.is_none() && member.instance.is_none())
            .map(|(id, _)| id.clone())
            .collect();
        for id in absent {
            self.forget(&id, answers);
        }
        let joined = |id: &String| {
            self.members
                .get(id)
                .is_some_and(|member| member.joining.is_some())
        };
        if !self.leader.as_ref().is_some_and(joined) {
            let first = self.members.keys().find(|id| joined(id)).cloned();
            if first.is_none() && !self.members.is_empty() {
                // Static members alone, and all are away: they keep their places.
                self.rebalance = Some(Rebalance {
                    deadline: now + self.rebalance_timeout().max(Duration::from_secs(1)),
                    initial: None,
                    grown: false,
                });
                return;
            }
            self.leader = first;
        }
        self.rebalance = None;
        self.generation = self.generation.saturating_add(1);
        self.protocol = self.selected();
        if self.members.is_empty() {
            self.state = GroupState::Empty;
            return;
        }
        self.state = GroupState::CompletingRebalance;
        self.syncing = Some(Syncing {
            deadline: now + self.rebalance_timeout(),
            missing: self.members.keys().cloned().collect(),
        });
        let waiting: Vec<_> = self
            .members
            .iter_mut()
            .filter_map(|(id, member)| {
                member.heard(now);
                Some((id.clone(), member.joining.take()?))
            })
            .collect();
        for (id, connection) in waiting {
            answers.push((connection, self.joined(&id)));
        }
    }

    /// Takes a member out and answers what it waits for.
    fn forget(&mut self, id: &str, answers: &mut Answers) {
        let Some(member) = self.members.remove(id) else {
            return;
        };
        if let Some(waiting) = member.joining {
            answers.push((waiting, not_joined(code::UNKNOWN_MEMBER_ID, "")));
        }
        if let Some(waiting) = member.syncing {
            answers.push((waiting, not_synced(code::UNKNOWN_MEMBER_ID)));
        }
        if let Some(instance) = &member.instance {
            self.statics.remove(instance);
        }
        if let Some(syncing) = &mut self.syncing {
            syncing.missing.remove(id);
        }
        if self.leader.as_deref() == Some(id) {
            self.leader = self.members.keys().next().cloned();
        }
    }

    fn rebalance_timeout(&self) -> Duration {
        let timeouts = self.members.values().map(|member| member.rebalance_timeout);
        timeouts.max().unwrap_or_default()
    }

    /// The protocol that all members support and most of them prefer to the other ones.
    fn selected(&self) -> Option<String> {
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values() {
            let common = |name: &str| self.members.values().all(|other| other.supports(name));
            let vote = member.protocols.iter().find(|(name, _)| common(name));
            if let Some((name, _)) = vote {
                *votes.entry(name).or_default() += 1;
            }
        }
        let most = votes.into_iter().max_by_key(|(_, votes)| *votes)?;
        Some(most.0.to_owned())
    }
}

fn not_synced(code: code::Code) -> Response {
    Response::SyncGroup(SyncGroupResponse::default().with_error_code(code))
}
