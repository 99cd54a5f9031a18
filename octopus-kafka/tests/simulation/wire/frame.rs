//! A request's frame, and what it is about.

use std::collections::BTreeMap;

use bytes::{Buf as _, Bytes};
use kafka_protocol::{
    messages::{
        ApiKey, ConsumerGroupHeartbeatRequest, FetchRequest, HeartbeatRequest, JoinGroupRequest,
        LeaveGroupRequest, ListOffsetsRequest, MetadataRequest, OffsetCommitRequest, OffsetFetchRequest,
        OffsetForLeaderEpochRequest, SyncGroupRequest,
    },
    protocol::Decodable,
};
use uuid::Uuid;

/// A request's frame, without its length.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) bytes: Bytes,
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    pub(crate) client_id: String,
}

/// What a request is about, as far as it decides who may answer it.
#[derive(Debug)]
pub(crate) enum About {
    Topics(Vec<String>),
    Group(String),
    Any,
}

/// A commit on its way to the broker.
#[derive(Debug)]
pub(crate) struct Committing {
    pub(crate) group: String,
    pub(crate) client_id: String,
    pub(crate) member_id: String,
    pub(crate) generation: i32,
    pub(crate) offsets: Vec<(String, i64)>,
}

impl Frame {
    pub(crate) fn read(bytes: Bytes) -> Option<Self> {
        let mut rest = bytes.clone();
        let api = ApiKey::try_from(rest.try_get_i16().ok()?).ok()?;
        let version = rest.try_get_i16().ok()?;
        rest.try_get_i32().ok()?;
        let length = usize::try_from(rest.try_get_i16().ok()?).ok()?;
        let client_id = String::from_utf8(rest.get(..length)?.to_vec()).ok()?;
        Some(Self {
            bytes,
            api,
            version,
            client_id,
        })
    }

    /// The same request of another client.
    pub(crate) fn renamed(&self, client_id: &str) -> Bytes {
        let mut out = self.bytes[..8].to_vec();
        let length = i16::try_from(client_id.len()).expect("a short name");
        out.extend(length.to_be_bytes());
        out.extend(client_id.as_bytes());
        out.extend(&self.bytes[10 + self.client_id.len()..]);
        out.into()
    }

    /// What it is about, where `ids` are the topics' names; or what is wrong with it.
    #[expect(clippy::wildcard_enum_match_arm, reason = "any node may answer the others")]
    pub(crate) fn about(&self, ids: &BTreeMap<Uuid, String>) -> Result<About, String> {
        Ok(match self.api {
            ApiKey::Metadata => {
                if self.decode::<MetadataRequest>()?.allow_auto_topic_creation {
                    return Err("I12: a Metadata request that may make topics".to_owned());
                }
                About::Any
            }
            ApiKey::Fetch => {
                let request = self.decode::<FetchRequest>()?;
                let topics = request.topics.iter().map(|topic| {
                    if topic.topic_id.is_nil() {
                        Some(topic.topic.to_string())
                    } else {
                        ids.get(&topic.topic_id).cloned()
                    }
                });
                About::Topics(topics.flatten().collect())
            }
            ApiKey::ListOffsets => {
                let request = self.decode::<ListOffsetsRequest>()?;
                let topics = request.topics.iter().map(|topic| topic.name.to_string());
                About::Topics(topics.collect())
            }
            ApiKey::OffsetForLeaderEpoch => {
                let request = self.decode::<OffsetForLeaderEpochRequest>()?;
                let topics = request.topics.iter().map(|topic| topic.topic.to_string());
                About::Topics(topics.collect())
            }
            ApiKey::JoinGroup => About::Group(self.decode::<JoinGroupRequest>()?.group_id.to_string()),
            ApiKey::SyncGroup => About::Group(self.decode::<SyncGroupRequest>()?.group_id.to_string()),
            ApiKey::Heartbeat => About::Group(self.decode::<HeartbeatRequest>()?.group_id.to_string()),
            ApiKey::ConsumerGroupHeartbeat => About::Group(
                self.decode::<ConsumerGroupHeartbeatRequest>()?
                    .group_id
                    .to_string(),
            ),
            ApiKey::LeaveGroup => About::Group(self.decode::<LeaveGroupRequest>()?.group_id.to_string()),
            ApiKey::OffsetCommit => About::Group(self.committing()?.group),
            ApiKey::OffsetFetch => {
                let request = self.decode::<OffsetFetchRequest>()?;
                let group = request.groups.first();
                About::Group(
                    group
                        .map_or(&request.group_id, |group| &group.group_id)
                        .to_string(),
                )
            }
            _ => About::Any,
        })
    }

    /// The member id that a JoinGroup comes with.
    pub(crate) fn joins_as(&self) -> Result<String, String> {
        Ok(self.decode::<JoinGroupRequest>()?.member_id.to_string())
    }

    /// The member id that a ConsumerGroupHeartbeat comes with, and its epoch.
    pub(crate) fn beats_as(&self) -> Result<(String, i32), String> {
        let request = self.decode::<ConsumerGroupHeartbeatRequest>()?;
        Ok((request.member_id.to_string(), request.member_epoch))
    }

    /// The commit that it is.
    pub(crate) fn committing(&self) -> Result<Committing, String> {
        let request = self.decode::<OffsetCommitRequest>()?;
        let mut offsets = Vec::new();
        for topic in &request.topics {
            for partition in &topic.partitions {
                offsets.push((topic.name.to_string(), partition.committed_offset));
            }
        }
        Ok(Committing {
            group: request.group_id.to_string(),
            client_id: self.client_id.clone(),
            member_id: request.member_id.to_string(),
            generation: request.generation_id_or_member_epoch,
            offsets,
        })
    }

    fn decode<R: Decodable>(&self) -> Result<R, String> {
        let flexible = self.api.request_header_version(self.version) >= 2;
        let head = 10 + self.client_id.len() + usize::from(flexible);
        R::decode(&mut self.bytes.slice(head..), self.version).map_err(|error| error.to_string())
    }
}
