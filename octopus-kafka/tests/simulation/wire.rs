//! What goes over the connections, read beside the client: who asks what where, and what may not be.

mod frame;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use bytes::Bytes;
use kafka_protocol::{
    messages::{ApiKey, ConsumerGroupHeartbeatResponse, SaslAuthenticateResponse},
    protocol::Decodable as _,
};
use tokio::time::Instant;
use uuid::Uuid;

pub(crate) use self::frame::{About, Committing, Frame};

/// All connections that stand, and what they carried.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    lines: BTreeMap<u64, Line>,
    /// Where each client stands in its group, as its own requests and their answers say.
    standings: BTreeMap<String, Standing>,
    /// Who joined with a member id.
    members: BTreeMap<String, String>,
    /// What each client asked to commit: the topic on Kafka and the offset.
    pub(crate) asked: BTreeMap<String, BTreeSet<(String, i64)>>,
    /// What reached the broker of each group's commits.
    pub(crate) committed: BTreeMap<String, BTreeSet<(String, i64)>>,
    /// The clients that left their group, or are about to.
    pub(crate) leaving: BTreeSet<String>,
    /// The topics by their ids.
    pub(crate) ids: BTreeMap<Uuid, String>,
    requests: u64,
}

/// A connection.
#[derive(Debug, Default)]
struct Line {
    class: Option<&'static str>,
    waiting: VecDeque<Sent>,
    /// Since when and until when the broker does not read from it.
    throttled: Option<(Instant, Instant)>,
    expires: Option<Instant>,
}

/// A request without its answer.
#[derive(Debug, Clone)]
struct Sent {
    number: u64,
    api: ApiKey,
    version: i16,
    client_id: String,
}

/// Where a client stands in its group.
#[derive(Debug)]
struct Standing {
    /// The last request that was to make it a member.
    asked: u64,
    generation: i32,
    is_member: bool,
    since: Instant,
}

/// An answer that gets to a client.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) api: ApiKey,
    pub(crate) client_id: String,
    /// The error of an answer about a group.
    pub(crate) code: Option<i16>,
}

impl Wire {
    pub(crate) fn open(&mut self, number: u64) {
        self.lines.insert(number, Line::default());
    }

    /// The client closed it, or it broke.
    pub(crate) fn close(&mut self, number: u64) {
        self.lines.remove(&number);
    }

    /// The client sent this: what it is about, or what is wrong with it.
    pub(crate) fn sent(&mut self, number: u64, frame: &Frame) -> Result<About, String> {
        self.requests += 1;
        let sent = Sent {
            number: self.requests,
            api: frame.api,
            version: frame.version,
            client_id: frame.client_id.clone(),
        };
        self.lines.entry(number).or_default().carry(sent)?;
        if frame.api == ApiKey::OffsetCommit {
            self.may_commit(frame)?;
        }
        self.stands(frame)?;
        frame.about(&self.ids)
    }

    /// I10: no other commit of its client is on its way. I3: and it is of the generation that the client is a member of.
    fn may_commit(&self, frame: &Frame) -> Result<(), String> {
        let waiting = self.lines.values().flat_map(|line| &line.waiting);
        let commits =
            waiting.filter(|sent| sent.api == ApiKey::OffsetCommit && sent.client_id == frame.client_id);
        if commits.count() > 1 {
            return Err(format!("I10: two commits of {} in flight", frame.client_id));
        }
        let committing = self.committing(frame)?;
        if committing.member_id.is_empty() {
            return Ok(());
        }
        match self.standings.get(&frame.client_id) {
            Some(standing) if standing.is_member && standing.generation == committing.generation => Ok(()),
            // What the client has not seen yet it can't know of.
            Some(standing) if standing.since == Instant::now() => Ok(()),
            standing => Err(format!("I3: {standing:?} commits {committing:?}")),
        }
    }

    /// Keeps where the client of a request stands in its group.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others say nothing of it")]
    fn stands(&mut self, frame: &Frame) -> Result<(), String> {
        match frame.api {
            ApiKey::JoinGroup => {
                let id = frame.joins_as()?;
                if !id.is_empty() {
                    self.members.insert(id, frame.client_id.clone());
                }
            }
            ApiKey::ConsumerGroupHeartbeat => {
                let (id, epoch) = frame.beats_as()?;
                self.members.insert(id, frame.client_id.clone());
                if epoch > 0 {
                    return Ok(());
                }
            }
            ApiKey::SyncGroup | ApiKey::LeaveGroup => {}
            _ => return Ok(()),
        }
        let generation = self.standings.get(&frame.client_id).map(|old| old.generation);
        let standing = Standing {
            asked: self.requests,
            generation: generation.unwrap_or(-1),
            is_member: false,
            since: Instant::now(),
        };
        self.standings.insert(frame.client_id.clone(), standing);
        Ok(())
    }

    /// A commit, judged by what its client asked for.
    pub(crate) fn committing(&self, frame: &Frame) -> Result<Committing, String> {
        let committing = frame.committing()?;
        let asked = self.asked.get(&committing.client_id);
        for offset in &committing.offsets {
            if !asked.is_some_and(|asked| asked.contains(offset)) {
                return Err(format!("I2: a commit that nobody asked for: {committing:?}"));
            }
        }
        let owner = self.members.get(&committing.member_id);
        if !committing.member_id.is_empty() && owner != Some(&committing.client_id) {
            return Err(format!("I3: a commit as {owner:?}: {committing:?}"));
        }
        Ok(committing)
    }

    /// The broker's answer gets to the client.
    pub(crate) fn answered(&mut self, number: u64, frame: &Bytes) -> Option<Answered> {
        let line = self.lines.get_mut(&number)?;
        let sent = line.waiting.pop_front()?;
        let head = 4 + usize::from(sent.api.response_header_version(sent.version) >= 1);
        let code = line.hear(&sent, frame.get(head..).map(|_| frame.slice(head..))?);
        if let (Some(code), Some(body)) = (code, frame.get(head..)) {
            self.told(&sent, code, body);
        }
        Some(Answered {
            api: sent.api,
            client_id: sent.client_id,
            code,
        })
    }

    /// What an answer about a group says of where its client stands.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others say nothing of it")]
    fn told(&mut self, sent: &Sent, code: i16, body: &[u8]) {
        let Some(standing) = self.standings.get_mut(&sent.client_id) else {
            return;
        };
        let is_last = standing.asked == sent.number;
        match sent.api {
            ApiKey::JoinGroup if is_last && code == 0 => {
                if let Some(generation) = body.get(6..).and_then(<[u8]>::first_chunk) {
                    standing.generation = i32::from_be_bytes(*generation);
                }
            }
            ApiKey::SyncGroup if is_last && code == 0 => standing.is_member = true,
            ApiKey::ConsumerGroupHeartbeat if sent.number >= standing.asked && code == 0 => {
                let answer = ConsumerGroupHeartbeatResponse::decode(&mut &*body, sent.version);
                if let Ok(answer) = answer {
                    standing.generation = answer.member_epoch;
                    standing.is_member = answer.member_epoch > 0;
                }
            }
            _ => return,
        }
        standing.since = Instant::now();
    }
}

impl Line {
    /// I7: nothing quick goes behind anything slow. I9: nothing is sent where the broker does not read, or no more.
    fn carry(&mut self, sent: Sent) -> Result<(), String> {
        let now = Instant::now();
        let api = sent.api;
        // What the client has not seen yet it can't know of.
        if let Some((_, until)) = self
            .throttled
            .filter(|(since, until)| *since < now && now < *until)
        {
            let left = until.duration_since(now);
            return Err(format!("I9: {api:?} on a connection throttled for {left:?}"));
        }
        let signs_in = matches!(api, ApiKey::SaslHandshake | ApiKey::SaslAuthenticate);
        if self.expires.is_some_and(|at| at <= now) && !signs_in {
            return Err(format!("I9: {api:?} on a connection whose session is over"));
        }
        #[expect(clippy::wildcard_enum_match_arm, reason = "all others are answered at once")]
        let class = match api {
            ApiKey::ApiVersions | ApiKey::SaslHandshake | ApiKey::SaslAuthenticate => None,
            ApiKey::Fetch => Some("fetch"),
            ApiKey::JoinGroup | ApiKey::SyncGroup => Some("join"),
            ApiKey::Heartbeat | ApiKey::ConsumerGroupHeartbeat => Some("beat"),
            ApiKey::OffsetCommit => Some("commit"),
            ApiKey::Produce => Some("produce"),
            _ => Some("control"),
        };
        if let (Some(class), Some(before)) = (class, self.class)
            && class != before
        {
            return Err(format!("I7: {api:?} on a connection for {before}"));
        }
        self.class = self.class.or(class);
        let exclusive = matches!(class, Some("fetch" | "join"));
        if exclusive && !self.waiting.is_empty() {
            return Err(format!("I7: {api:?} behind {:?}", self.waiting));
        }
        self.waiting.push_back(sent);
        Ok(())
    }

    /// Keeps what an answer says of the connection; gives its error, where it is about a group.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "all others say first how long they throttle"
    )]
    fn hear(&mut self, sent: &Sent, mut body: Bytes) -> Option<i16> {
        match sent.api {
            ApiKey::SaslAuthenticate => {
                let answer = SaslAuthenticateResponse::decode(&mut body, sent.version).ok()?;
                let lifetime = u64::try_from(answer.session_lifetime_ms).ok()?;
                if lifetime > 0 {
                    self.expires = Some(Instant::now() + Duration::from_millis(lifetime));
                }
                return None;
            }
            ApiKey::ApiVersions | ApiKey::SaslHandshake | ApiKey::Produce | ApiKey::CreateTopics => {
                return None;
            }
            _ => {}
        }
        let millis = i32::from_be_bytes(*body.first_chunk()?);
        if let Ok(millis) = u64::try_from(millis)
            && millis > 0
        {
            let now = Instant::now();
            self.throttled = Some((now, now + Duration::from_millis(millis)));
        }
        matches!(
            sent.api,
            ApiKey::JoinGroup | ApiKey::SyncGroup | ApiKey::Heartbeat | ApiKey::ConsumerGroupHeartbeat
        )
        .then(|| body.get(4..)?.first_chunk().copied().map(i16::from_be_bytes))
        .flatten()
    }
}
