//! The coordinator of consumer groups: the classic protocol, as Kafka's coordinator keeps it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use bytes::Bytes;
use kafka_protocol::messages::{
    HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest,
    LeaveGroupResponse, OffsetCommitRequest, SyncGroupRequest, SyncGroupResponse,
    leave_group_response::MemberResponse,
};

use super::{
    api::{Head, Response, text},
    code::{self, Code},
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

/// The coordinator's settings.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// How long the first generation of an empty group waits for more members.
    pub(crate) initial_rebalance_delay: Duration,
    pub(crate) min_session_timeout: Duration,
    pub(crate) max_session_timeout: Duration,
}

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

/// All groups.
#[derive(Debug)]
pub(crate) struct Groups {
    rules: Rules,
    groups: BTreeMap<String, Group>,
    /// When which group has something to do.
    due: BTreeSet<(Instant, String)>,
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
    /// When it stands in the coordinator's list.
    listed: Option<Instant>,
}

impl Groups {
    pub(crate) const fn new(rules: Rules) -> Self {
        Self {
            rules,
            groups: BTreeMap::new(),
            due: BTreeSet::new(),
        }
    }

    pub(crate) fn find(&self, group: &str) -> Option<&Group> {
        self.groups.get(group)
    }

    /// The group, made if there is none.
    pub(crate) fn open(&mut self, group: &str) -> &mut Group {
        self.groups
            .entry(group.to_owned())
            .or_insert_with(|| Group::new(self.rules.clone()))
    }

    /// Forgets what all groups committed for a topic.
    pub(crate) fn forget_topic(&mut self, topic: &str) {
        for group in self.groups.values_mut() {
            group.offsets.retain(|(name, _), _| name != topic);
        }
    }

    pub(crate) fn join(
        &mut self,
        from: ConnectionId,
        head: &Head,
        request: &JoinGroupRequest,
        ids: &mut Ids,
        answers: &mut Answers,
        now: Instant,
    ) {
        let session = Duration::from_millis(u64::try_from(request.session_timeout_ms).unwrap_or(0));
        let sessions = self.rules.min_session_timeout..=self.rules.max_session_timeout;
        let known = self.groups.contains_key(&**request.group_id);
        let refused = if request.group_id.is_empty() {
            Some(code::INVALID_GROUP_ID)
        } else if !sessions.contains(&session) {
            Some(code::INVALID_SESSION_TIMEOUT)
        } else if !known && !request.member_id.is_empty() {
            Some(code::UNKNOWN_MEMBER_ID)
        } else {
            None
        };
        if let Some(code) = refused {
            answers.push((from, not_joined(code, &request.member_id)));
            return;
        }
        let group = self.open(&request.group_id);
        if let Err((code, member)) = group.join(from, head, request, ids, answers, now) {
            answers.push((from, not_joined(code, &member)));
        }
        self.list(&request.group_id);
    }

    pub(crate) fn sync(
        &mut self,
        from: ConnectionId,
        request: &SyncGroupRequest,
        answers: &mut Answers,
        now: Instant,
    ) {
        let group = self.groups.get_mut(&**request.group_id);
        let result = group.map_or(Err(code::UNKNOWN_MEMBER_ID), |group| {
            group.sync(from, request, answers, now)
        });
        if let Err(code) = result {
            let response = SyncGroupResponse::default().with_error_code(code);
            answers.push((from, Response::SyncGroup(response)));
        }
        self.list(&request.group_id);
    }

    pub(crate) fn heartbeat(&mut self, request: &HeartbeatRequest, now: Instant) -> Response {
        let group = self.groups.get_mut(&**request.group_id);
        let code = group.map_or(code::UNKNOWN_MEMBER_ID, |group| group.heartbeat(request, now));
        self.list(&request.group_id);
        Response::Heartbeat(HeartbeatResponse::default().with_error_code(code))
    }

    pub(crate) fn leave(
        &mut self,
        version: i16,
        request: &LeaveGroupRequest,
        answers: &mut Answers,
        now: Instant,
    ) -> Response {
        let mut response = LeaveGroupResponse::default();
        let mut group = self.groups.get_mut(&**request.group_id);
        let mut leave = |member: &str, instance: Option<&str>| {
            let group = group.as_deref_mut();
            group.map_or(code::UNKNOWN_MEMBER_ID, |group| {
                group.leave(member, instance, answers, now)
            })
        };
        if version < 3 {
            response.error_code = leave(&request.member_id, None);
        }
        for member in &request.members {
            let instance = member.group_instance_id.as_deref();
            response.members.push(
                MemberResponse::default()
                    .with_member_id(text(&member.member_id))
                    .with_group_instance_id(instance.map(text))
                    .with_error_code(leave(&member.member_id, instance)),
            );
        }
        self.list(&request.group_id);
        Response::LeaveGroup(response)
    }

    /// Whether a commit is taken now: Kafka's code, 0 if it is.
    pub(crate) fn may_commit(&mut self, request: &OffsetCommitRequest, now: Instant) -> Code {
        let code = match self.groups.get_mut(&**request.group_id) {
            Some(group) => group.may_commit(request, now),
            None if request.generation_id_or_member_epoch < 0 => code::NONE,
            None => code::ILLEGAL_GENERATION,
        };
        self.list(&request.group_id);
        code
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    pub(crate) fn handle_timeout(&mut self, answers: &mut Answers, now: Instant) {
        while let Some((at, name)) = self.due.first().cloned()
            && at <= now
        {
            if let Some(group) = self.groups.get_mut(&name) {
                group.handle_timeout(answers, now);
            }
            self.due.remove(&(at, name.clone()));
            if let Some(group) = self.groups.get_mut(&name) {
                group.listed = None;
            }
            self.list(&name);
        }
    }

    /// Brings the list of what is due up to date for one group.
    fn list(&mut self, name: &str) {
        let Some(group) = self.groups.get_mut(name) else {
            return;
        };
        let next = group.poll_timeout();
        if next == group.listed {
            return;
        }
        if let Some(at) = group.listed.take() {
            self.due.remove(&(at, name.to_owned()));
        }
        if let Some(at) = next {
            self.due.insert((at, name.to_owned()));
        }
        group.listed = next;
    }
}

impl Group {
    const fn new(rules: Rules) -> Self {
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
            listed: None,
        }
    }

    /// The refusal comes with the member id to answer.
    fn join(
        &mut self,
        from: ConnectionId,
        head: &Head,
        request: &JoinGroupRequest,
        ids: &mut Ids,
        answers: &mut Answers,
        now: Instant,
    ) -> Result<(), (Code, String)> {
        let id = request.member_id.to_string();
        if !self.supports(request) {
            return Err((code::INCONSISTENT_GROUP_PROTOCOL, id));
        }
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

    fn sync(
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

    fn heartbeat(&mut self, request: &HeartbeatRequest, now: Instant) -> Code {
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

    fn leave(&mut self, id: &str, instance: Option<&str>, answers: &mut Answers, now: Instant) -> Code {
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

    fn may_commit(&mut self, request: &OffsetCommitRequest, now: Instant) -> Code {
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

fn not_joined(code: Code, member: &str) -> Response {
    let response = JoinGroupResponse::default()
        .with_error_code(code)
        .with_generation_id(-1)
        .with_protocol_name(None)
        .with_member_id(text(member));
    Response::JoinGroup(response)
}
