//! One member of a consumer group.

use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_protocol::messages::{JoinGroupRequest, join_group_response::JoinGroupResponseMember};

use crate::broker::{api::text, id::ConnectionId};

/// How long a member may wait for its first generation.
const FIRST_JOIN: Duration = Duration::from_secs(300);

/// A member as its last JoinGroup described it.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) client_id: String,
    pub(crate) instance: Option<String>,
    pub(crate) session_timeout: Duration,
    pub(crate) rebalance_timeout: Duration,
    /// Names and metadata, the preferred one first.
    pub(crate) protocols: Vec<(String, Bytes)>,
    pub(crate) assignment: Bytes,
    /// Who waits for the answer to a JoinGroup.
    pub(crate) joining: Option<ConnectionId>,
    /// Who waits for the answer to a SyncGroup.
    pub(crate) syncing: Option<ConnectionId>,
    /// When it is removed unless it is heard of; none while it waits for the group.
    pub(crate) deadline: Option<Instant>,
}

impl Member {
    pub(crate) fn new(client_id: &str, request: &JoinGroupRequest, from: ConnectionId, now: Instant) -> Self {
        let mut member = Self {
            client_id: client_id.to_owned(),
            instance: request.group_instance_id.as_ref().map(ToString::to_string),
            session_timeout: Duration::ZERO,
            rebalance_timeout: Duration::ZERO,
            protocols: Vec::new(),
            assignment: Bytes::new(),
            joining: Some(from),
            syncing: None,
            deadline: Some(now + FIRST_JOIN),
        };
        member.describe(request);
        member
    }

    /// Takes over what a JoinGroup says of the member; copied, so that no frame is held by it.
    pub(crate) fn describe(&mut self, request: &JoinGroupRequest) {
        let milliseconds = |ms: i32| Duration::from_millis(u64::try_from(ms).unwrap_or(0));
        self.session_timeout = milliseconds(request.session_timeout_ms);
        self.rebalance_timeout = if request.rebalance_timeout_ms < 0 {
            self.session_timeout
        } else {
            milliseconds(request.rebalance_timeout_ms)
        };
        self.protocols = protocols(request);
    }

    /// Whether a JoinGroup says nothing new.
    pub(crate) fn matches(&self, request: &JoinGroupRequest) -> bool {
        self.protocols == protocols(request)
    }

    /// Starts its session anew.
    pub(crate) fn heard(&mut self, now: Instant) {
        self.deadline = Some(now + self.session_timeout);
    }

    pub(crate) fn supports(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|(name, _)| name == protocol)
    }

    /// How the leader sees it.
    pub(crate) fn shown(&self, id: &str, protocol: &str) -> JoinGroupResponseMember {
        let metadata = self.protocols.iter().find(|(name, _)| name == protocol);
        JoinGroupResponseMember::default()
            .with_member_id(text(id))
            .with_group_instance_id(self.instance.as_deref().map(text))
            .with_metadata(metadata.map_or_else(Bytes::new, |(_, metadata)| metadata.clone()))
    }
}

fn protocols(request: &JoinGroupRequest) -> Vec<(String, Bytes)> {
    request
        .protocols
        .iter()
        .map(|protocol| {
            (
                protocol.name.to_string(),
                Bytes::copy_from_slice(&protocol.metadata),
            )
        })
        .collect()
}
