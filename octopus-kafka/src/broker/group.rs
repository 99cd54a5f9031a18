//! One consumer group: the classic protocol, as Kafka's coordinator keeps it.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use bytes::Bytes;
use kafka_protocol::messages::{
    HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, OffsetCommitRequest, SyncGroupRequest,
    SyncGroupResponse,
};

use super::{
    api::{Head, Response, text},
    code::{self, Code},
    consumers::Consumers,
    coordinator::Rules,
    id::{ConnectionId, Ids},
};

mod member;
mod rebalance;
#[cfg(test)]
mod tests;

use member::Member;
use rebalance::{Rebalance, Syncing};

/// Responses with those who wait for them.
pub(crate) type Answers = Vec<(ConnectionId, Response)>;

/// What a group holds for a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) metadata: String,
}

/// Where a group stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupState {
    /// The group has no members.
    Empty,
    /// Members are waited for.
    PreparingRebalance,
    /// The leader's assignment is waited for.
    CompletingRebalance,
    /// Every member has its assignment.
    Stable,
}

/// One group.
#[derive(Debug)]
pub(crate) struct Group {
    rules: Rules,
    pub(crate) state: GroupState,
    pub(crate) generation: i32,
    protocol_type: Option<String>,
    protocol: Option<String>,
    leader: Option<String>,
    pub(crate) members: BTreeMap<String, Member>,
    /// The member of each `group.instance.id`.
    statics: BTreeMap<String, String>,
    /// Ids given to members that have not joined with them yet, and until when.
    pending: BTreeMap<String, Instant>,
    rebalance: Option<Rebalance>,
    syncing: Option<Syncing>,
    pub(crate) offsets: BTreeMap<(String, i32), Committed>,
    /// Its members if the coordinator assigns to them.
    pub(crate) consumers: Option<Consumers>,
    /// When it stands in the coordinator's list.
    pub(super) listed: Option<Instant>,
}

impl Group {
    pub(super) const fn new(rules: Rules) -> Self {
        Self {
            rules,
            state: GroupState::Empty,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            statics: BTreeMap::new(),
            pending: BTreeMap::new(),
            rebalance: None,
            syncing: None,
            offsets: BTreeMap::new(),
            consumers: None,
            listed: None,
        }
    }

    /// The refusal comes with the member id to answer.
    pub(super) fn join(
        &mut self,
        from: ConnectionId,
        head: &Head,
        request: &JoinGroupRequest,
        ids: &mut Ids,
        answers: &mut Answers,
        now: Instant,
    ) -> Result<(), (Code, String)> {
        let id = request.member_id.to_string();
        let assigns = self
            .consumers
            .as_ref()
            .is_some_and(|consumers| !consumers.members.is_empty());
        if assigns || !self.supports(request) {
            return Err((code::INCONSISTENT_GROUP_PROTOCOL, id));
        }
        self.consumers = None;
        let instance = request.group_instance_id.as_deref();
        if id.is_empty() {
            let new = format!("{}-{}", instance.unwrap_or(&head.client_id), ids.uuid());
            if let Some(known) = instance.and_then(|instance| self.statics.get(instance)).cloned() {
                self.replace(&known, new, from, head, request, answers, now);
            } else if instance.is_none() && head.version >= 4 {
                let session = u64::try_from(request.session_timeout_ms).unwrap_or(0);
                self.pending
                    .insert(new.clone(), now + Duration::from_millis(session));
                return Err((code::MEMBER_ID_REQUIRED, new));
            } else {
                self.add(new, from, head, request, answers, now);
            }
            return Ok(());
        }
        if self.pending.remove(&id).is_some() {
            self.add(id, from, head, request, answers, now);
            return Ok(());
        }
        if let Err(code) = self.check_member(&id, instance) {
            return Err((code, id));
        }
        let leads = self.leader.as_ref() == Some(&id);
        let says_nothing_new = self
            .members
            .get(&id)
            .is_some_and(|member| member.matches(request));
        let stays = match self.state {
            GroupState::Empty | GroupState::PreparingRebalance => false,
            GroupState::CompletingRebalance => says_nothing_new,
            GroupState::Stable => says_nothing_new && !leads,
        };
        if stays {
            answers.push((from, self.joined(&id)));
            if let Some(member) = self.members.get_mut(&id) {
                member.heard(now);
            }
        } else {
            if let Some(member) = self.members.get_mut(&id) {
                member.describe(request);
                member.joining = Some(from);
                member.deadline = None;
            }
            self.prepare(answers, now);
        }
        Ok(())
    }

    pub(super) fn sync(
        &mut self,
        from: ConnectionId,
        request: &SyncGroupRequest,
        answers: &mut Answers,
        now: Instant,
    ) -> Result<(), Code> {
        let id = request.member_id.to_string();
        self.check_member(&id, request.group_instance_id.as_deref())?;
        if request.generation_id != self.generation {
            return Err(code::ILLEGAL_GENERATION);
        }
        let differs = |named: Option<&str>, ours: &Option<String>| {
            named.is_some_and(|named| ours.as_deref().is_some_and(|ours| ours != named))
        };
        if differs(request.protocol_type.as_deref(), &self.protocol_type)
            || differs(request.protocol_name.as_deref(), &self.protocol)
        {
            return Err(code::INCONSISTENT_GROUP_PROTOCOL);
        }
        match self.state {
            GroupState::Empty => return Err(code::UNKNOWN_MEMBER_ID),
            GroupState::PreparingRebalance => return Err(code::REBALANCE_IN_PROGRESS),
            GroupState::CompletingRebalance => {
                if let Some(member) = self.members.get_mut(&id) {
                    member.syncing = Some(from);
                    member.deadline = None;
                }
                if self.leader.as_ref() == Some(&id) {
                    for member in self.members.values_mut() {
                        member.assignment = Bytes::new();
                    }
                    for given in &request.assignments {
                        if let Some(member) = self.members.get_mut(&*given.member_id) {
                            member.assignment = Bytes::copy_from_slice(&given.assignment);
                        }
                    }
                    self.state = GroupState::Stable;
                    let waiting: Vec<String> = self
                        .members
                        .iter()
                        .filter(|(_, member)| member.syncing.is_some())
                        .map(|(id, _)| id.clone())
                        .collect();
                    for id in waiting {
                        self.answer_sync(&id, answers, now);
                    }
                }
            }
            GroupState::Stable => {
                if let Some(member) = self.members.get_mut(&id) {
                    member.syncing = Some(from);
                }
                self.answer_sync(&id, answers, now);
            }
        }
        self.synced(&id);
        Ok(())
    }

    pub(super) fn heartbeat(&mut self, request: &HeartbeatRequest, now: Instant) -> Code {
        if let Err(code) = self.check_member(&request.member_id, request.group_instance_id.as_deref()) {
            return code;
        }
        if request.generation_id != self.generation {
            return code::ILLEGAL_GENERATION;
        }
        self.heard(&request.member_id, now);
        match self.state {
            GroupState::Empty => code::UNKNOWN_MEMBER_ID,
            GroupState::PreparingRebalance => code::REBALANCE_IN_PROGRESS,
            GroupState::CompletingRebalance | GroupState::Stable => code::NONE,
        }
    }

    pub(super) fn leave(
        &mut self,
        id: &str,
        instance: Option<&str>,
        answers: &mut Answers,
        now: Instant,
    ) -> Code {
        let known = instance.and_then(|instance| self.statics.get(instance)).cloned();
        let id = match known {
            Some(known) if id.is_empty() || id == known => known,
            Some(_) => return code::FENCED_INSTANCE_ID,
            None => id.to_owned(),
        };
        if self.pending.remove(&id).is_some() {
            self.complete_if_all_joined(answers, now);
        } else if self.members.contains_key(&id) {
            self.remove(&id, answers, now);
        } else {
            return code::UNKNOWN_MEMBER_ID;
        }
        code::NONE
    }

    pub(super) fn may_commit(&mut self, request: &OffsetCommitRequest, now: Instant) -> Code {
        let generation = request.generation_id_or_member_epoch;
        let (id, instance) = (&*request.member_id, request.group_instance_id.as_deref());
        let empty = self.state == GroupState::Empty;
        if generation < 0 && empty {
            return code::NONE;
        }
        if generation >= 0 || !id.is_empty() || instance.is_some() {
            if let Err(code) = self.check_member(id, instance) {
                return code;
            }
            if generation != self.generation {
                return code::ILLEGAL_GENERATION;
            }
        } else if !empty {
            return code::UNKNOWN_MEMBER_ID;
        }
        if self.state == GroupState::CompletingRebalance {
            return code::REBALANCE_IN_PROGRESS;
        }
        self.heard(id, now);
        code::NONE
    }

    /// Whether it has members of the classic protocol.
    pub(super) fn is_classic(&self) -> bool {
        self.state != GroupState::Empty || !self.members.is_empty() || !self.pending.is_empty()
    }

    /// Whether there is a member of this id, and it is its instance's.
    fn check_member(&self, id: &str, instance: Option<&str>) -> Result<(), Code> {
        if let Some(instance) = instance {
            match self.statics.get(instance) {
                Some(known) if known == id => {}
                Some(_) => return Err(code::FENCED_INSTANCE_ID),
                None => return Err(code::UNKNOWN_MEMBER_ID),
            }
        }
        if self.members.contains_key(id) {
            Ok(())
        } else {
            Err(code::UNKNOWN_MEMBER_ID)
        }
    }

    /// Whether a member of these protocols could be in the group.
    fn supports(&self, request: &JoinGroupRequest) -> bool {
        if request.protocol_type.is_empty() || request.protocols.is_empty() {
            return false;
        }
        if self.members.is_empty() {
            return true;
        }
        let same_type = self.protocol_type.as_deref() == Some(&*request.protocol_type);
        let common = |name: &str| self.members.values().all(|member| member.supports(name));
        same_type && request.protocols.iter().any(|protocol| common(&protocol.name))
    }

    /// Starts a member's session anew, unless the group owes it an answer.
    fn heard(&mut self, id: &str, now: Instant) {
        if let Some(member) = self.members.get_mut(id)
            && member.joining.is_none()
            && member.syncing.is_none()
        {
            member.heard(now);
        }
    }

    fn answer_sync(&mut self, id: &str, answers: &mut Answers, now: Instant) {
        let Some(member) = self.members.get_mut(id) else {
            return;
        };
        member.heard(now);
        if let Some(waiting) = member.syncing.take() {
            let response = SyncGroupResponse::default()
                .with_protocol_type(self.protocol_type.as_deref().map(text))
                .with_protocol_name(self.protocol.as_deref().map(text))
                .with_assignment(member.assignment.clone());
            answers.push((waiting, Response::SyncGroup(response)));
        }
    }

    /// The answer to a member's JoinGroup in this generation.
    fn joined(&self, id: &str) -> Response {
        let protocol = self.protocol.as_deref().unwrap_or("");
        let mut response = JoinGroupResponse::default()
            .with_generation_id(self.generation)
            .with_protocol_type(self.protocol_type.as_deref().map(text))
            .with_protocol_name(Some(text(protocol)))
            .with_leader(text(self.leader.as_deref().unwrap_or("")))
            .with_member_id(text(id));
        if self.leader.as_deref() == Some(id) {
            response.members = self
                .members
                .iter()
                .map(|(id, member)| member.shown(id, protocol))
                .collect();
        }
        Response::JoinGroup(response)
    }
}

pub(super) fn not_joined(code: Code, member: &str) -> Response {
    let response = JoinGroupResponse::default()
        .with_error_code(code)
        .with_generation_id(-1)
        .with_protocol_name(None)
        .with_member_id(text(member));
    Response::JoinGroup(response)
}
