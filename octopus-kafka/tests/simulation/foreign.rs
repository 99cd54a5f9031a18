//! A member of a group that is none of our clients: it speaks to the broker by itself, and does well or badly.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use kafka_protocol::{
    messages::{
        ApiKey, ConsumerProtocolAssignment, ConsumerProtocolSubscription, GroupId, HeartbeatRequest,
        JoinGroupRequest, LeaveGroupRequest, RequestHeader, SyncGroupRequest, TopicName,
        consumer_protocol_assignment::TopicPartition, join_group_request::JoinGroupRequestProtocol,
        leave_group_request::MemberIdentity, sync_group_request::SyncGroupRequestAssignment,
    },
    protocol::{Decodable as _, Encodable as _, HeaderVersion, Request, StrBytes},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream},
    time::{sleep, timeout},
};

use crate::sim::Sim;

/// How it behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manners {
    /// As it should.
    Well,
    /// It joins and syncs, and is not heard any more.
    Silent,
    /// It joins, and never syncs.
    NeverSyncs,
}

struct Foreign {
    stream: DuplexStream,
    group: String,
    topics: Vec<String>,
    id: String,
    generation: i32,
}

const JOIN: i16 = 5;
const SYNC: i16 = 3;
const BEAT: i16 = 3;
const LEAVE: i16 = 3;
const SESSION_MS: i32 = 6000;
const REBALANCE_MS: i32 = 8000;
const REBALANCE_IN_PROGRESS: i16 = 27;
const MEMBER_ID_REQUIRED: i16 = 79;

/// Is a member for so long, and leaves.
pub(crate) async fn live(
    sim: Arc<Sim>,
    group: String,
    topics: Vec<String>,
    manners: Manners,
    long: Duration,
) {
    sim.note(format_args!("a stranger joins {group}: {manners:?}"));
    let mut foreign = Foreign {
        stream: sim.broker.connect(),
        group,
        topics,
        id: String::new(),
        generation: -1,
    };
    let _ = timeout(long, foreign.take_part(&sim, manners)).await;
    // What it was asked may still be on its way here: it leaves on another stream.
    foreign.stream = sim.broker.connect();
    foreign.leave().await;
    sim.note(format_args!("a stranger left {}", foreign.group));
}

impl Foreign {
    async fn take_part(&mut self, sim: &Sim, manners: Manners) -> Option<()> {
        loop {
            if self.join(manners).await? {
                sim.note(format_args!(
                    "a stranger is in {} as of {}",
                    self.group, self.generation
                ));
                if manners != Manners::Well {
                    return std::future::pending().await;
                }
                while self.beat().await? == 0 && !sim.lock().quiet {
                    sleep(Duration::from_millis(700)).await;
                }
            }
            if sim.lock().quiet {
                return Some(());
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Whether it has come to be a member with an assignment, or does not want one.
    async fn join(&mut self, manners: Manners) -> Option<bool> {
        let mut metadata = BytesMut::new();
        metadata.put_i16(0);
        let topics = self.topics.iter().map(|topic| text(topic)).collect();
        let subscription = ConsumerProtocolSubscription::default().with_topics(topics);
        subscription.encode(&mut metadata, 0).ok()?;
        let protocol = JoinGroupRequestProtocol::default()
            .with_name(StrBytes::from_static_str("range"))
            .with_metadata(metadata.freeze());
        let request = JoinGroupRequest::default()
            .with_group_id(self.group())
            .with_session_timeout_ms(SESSION_MS)
            .with_rebalance_timeout_ms(REBALANCE_MS)
            .with_member_id(text(&self.id))
            .with_protocol_type(StrBytes::from_static_str("consumer"))
            .with_protocols(vec![protocol]);
        let joined = self.ask(JOIN, &request).await?;
        if joined.error_code == MEMBER_ID_REQUIRED {
            self.id = joined.member_id.to_string();
            return Some(false);
        }
        if joined.error_code != 0 {
            self.id.clear();
            return Some(false);
        }
        self.id = joined.member_id.to_string();
        self.generation = joined.generation_id;
        if manners == Manners::NeverSyncs {
            return Some(true);
        }
        let mut assignments = Vec::new();
        if joined.leader == joined.member_id {
            let mut given: BTreeMap<String, Vec<String>> = BTreeMap::new();
            let mut taken = Vec::new();
            for member in &joined.members {
                let mut bytes = member.metadata.clone();
                bytes.try_get_i16().ok()?;
                let subscription = ConsumerProtocolSubscription::decode(&mut bytes, 0).ok()?;
                let topics = given.entry(member.member_id.to_string()).or_default();
                for topic in subscription.topics.iter().map(ToString::to_string) {
                    if !taken.contains(&topic) {
                        taken.push(topic.clone());
                        topics.push(topic);
                    }
                }
            }
            for (id, topics) in given {
                let assignment = SyncGroupRequestAssignment::default()
                    .with_member_id(text(&id))
                    .with_assignment(assignment(&topics)?);
                assignments.push(assignment);
            }
        }
        let request = SyncGroupRequest::default()
            .with_group_id(self.group())
            .with_generation_id(self.generation)
            .with_member_id(text(&self.id))
            .with_assignments(assignments);
        let synced = self.ask(SYNC, &request).await?;
        Some(synced.error_code == 0)
    }

    async fn beat(&mut self) -> Option<i16> {
        let request = HeartbeatRequest::default()
            .with_group_id(self.group())
            .with_generation_id(self.generation)
            .with_member_id(text(&self.id));
        let code = self.ask(BEAT, &request).await?.error_code;
        if code != 0 && code != REBALANCE_IN_PROGRESS {
            self.id.clear();
        }
        Some(code)
    }

    async fn leave(&mut self) {
        let member = MemberIdentity::default().with_member_id(text(&self.id));
        let request = LeaveGroupRequest::default()
            .with_group_id(self.group())
            .with_members(vec![member]);
        let _ = self.ask(LEAVE, &request).await;
    }

    fn group(&self) -> GroupId {
        GroupId(text(&self.group))
    }

    async fn ask<R: Request>(&mut self, version: i16, request: &R) -> Option<R::Response> {
        let mut out = BytesMut::new();
        out.put_u32(0);
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_client_id(Some(StrBytes::from_static_str("stranger")));
        let api = ApiKey::try_from(R::KEY).ok()?;
        header
            .encode(&mut out, api.request_header_version(version))
            .ok()?;
        request.encode(&mut out, version).ok()?;
        let length = u32::try_from(out.len() - 4).ok()?;
        out[..4].copy_from_slice(&length.to_be_bytes());
        self.stream.write_all(&out).await.ok()?;
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).await.ok()?;
        let mut bytes = vec![0; usize::try_from(u32::from_be_bytes(length)).ok()?];
        self.stream.read_exact(&mut bytes).await.ok()?;
        let mut body = Bytes::from(bytes);
        body.advance(4 + usize::from(R::Response::header_version(version) >= 1));
        R::Response::decode(&mut body, version).ok()
    }
}

fn assignment(topics: &[String]) -> Option<Bytes> {
    let partitions = topics.iter().map(|topic| {
        TopicPartition::default()
            .with_topic(TopicName(text(topic)))
            .with_partitions(vec![0])
    });
    let assignment = ConsumerProtocolAssignment::default().with_assigned_partitions(partitions.collect());
    let mut out = BytesMut::new();
    out.put_i16(0);
    assignment.encode(&mut out, 0).ok()?;
    Some(out.freeze())
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}
