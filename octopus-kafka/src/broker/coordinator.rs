//! The coordinator of all consumer groups: which group a request is for, and when it has something to do.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use kafka_protocol::messages::{
    HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, LeaveGroupRequest, LeaveGroupResponse,
    OffsetCommitRequest, SyncGroupRequest, SyncGroupResponse, leave_group_response::MemberResponse,
};

use uuid::Uuid;

use super::{
    api::{Head, Response, text},
    code::{self, Code},
    consumers::{Answer, Beat, Consumers, JOIN},
    group::{Answers, Group, not_joined},
    id::{ConnectionId, Ids},
};

/// The version of OffsetCommit that brought a member's epoch.
const MEMBER_EPOCH: i16 = 9;

/// The coordinator's settings.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// How long the first generation of an empty group waits for more members.
    pub(crate) initial_rebalance_delay: Duration,
    pub(crate) min_session_timeout: Duration,
    pub(crate) max_session_timeout: Duration,
    /// The session of a member that the coordinator assigns to.
    pub(crate) consumer_session_timeout: Duration,
    /// How often such a member is to be heard of.
    pub(crate) consumer_heartbeat_interval: Duration,
}

/// All groups.
#[derive(Debug)]
pub(crate) struct Groups {
    rules: Rules,
    groups: BTreeMap<String, Group>,
    /// When which group has something to do.
    due: BTreeSet<(Instant, String)>,
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
    pub(crate) fn may_commit(&mut self, version: i16, request: &OffsetCommitRequest, now: Instant) -> Code {
        let code = match self.groups.get_mut(&**request.group_id) {
            Some(Group {
                consumers: Some(consumers),
                ..
            }) => may_commit(consumers, version, request),
            Some(group) => group.may_commit(request, now),
            None if request.generation_id_or_member_epoch < 0 => code::NONE,
            None => code::ILLEGAL_GENERATION,
        };
        self.list(&request.group_id);
        code
    }

    /// A heartbeat of a member that the coordinator assigns to.
    ///
    /// # Errors
    ///
    /// `GROUP_ID_NOT_FOUND` where members of the classic protocol are in the group, and those of
    /// [`Consumers::beat`].
    pub(crate) fn beat(
        &mut self,
        group: &str,
        beat: &Beat,
        topics: &BTreeMap<String, (Uuid, i32)>,
        now: Instant,
    ) -> Result<Answer, Code> {
        let session = self.rules.consumer_session_timeout;
        let is_known = |group: &Group| group.consumers.is_some();
        if beat.epoch != JOIN && !self.groups.get(group).is_some_and(is_known) {
            return Err(code::UNKNOWN_MEMBER_ID);
        }
        let found = self.open(group);
        if found.is_classic() {
            return Err(code::GROUP_ID_NOT_FOUND);
        }
        let consumers = found.consumers.get_or_insert_default();
        let answer = consumers.beat(beat, topics, session, now);
        self.list(group);
        answer
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

/// Whether a commit is taken in a group that the coordinator assigns in.
fn may_commit(consumers: &Consumers, version: i16, request: &OffsetCommitRequest) -> Code {
    let epoch = request.generation_id_or_member_epoch;
    if epoch < 0 && consumers.members.is_empty() {
        return code::NONE;
    }
    match consumers.check(&request.member_id, epoch) {
        Err(code::UNKNOWN_MEMBER_ID) => code::UNKNOWN_MEMBER_ID,
        // An older version has no way to say the member's epoch.
        Ok(()) | Err(_) if version < MEMBER_EPOCH => code::UNSUPPORTED_VERSION,
        Ok(()) => code::NONE,
        Err(code) => code,
    }
}
