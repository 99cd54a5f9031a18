//! What a coordinator says, and what of it counts.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bytes::Bytes as Shared;
use kafka_protocol::error::ResponseError;
use octopus_core::Error;
use uuid::Uuid;

use super::{
    super::{
        member::{Answer, Beaten, Joined, Owned, Request, Trouble},
        subscription,
    },
    Bytes,
};

/// The topics there are.
pub(super) const TOPICS: [&str; 4] = ["a", "b", "c", "d"];

/// A coordinator that says anything, but that keeps to what a generation was given.
#[derive(Debug, Default)]
pub(super) struct Coordinator {
    /// The generation, or the epoch, that was named last.
    generation: i32,
    /// What each generation was given.
    given: BTreeMap<i32, Shared>,
    /// The topics that a member told it of.
    told: BTreeSet<String>,
    assigned: Owned,
    /// The member and its generation that it took last.
    taken: Option<(String, i32)>,
    is_new: bool,
}

impl Coordinator {
    /// The answer to a request.
    pub(super) fn answer(&mut self, request: &Request, bytes: &mut Bytes<'_>) -> Answer {
        if let Request::Beat(beat) = request
            && let Some(topics) = &beat.topics
        {
            self.told.clone_from(topics);
        }
        if bytes.byte() < 48 {
            return refused(request, trouble(bytes));
        }
        match request {
            Request::Commit(_) => Answer::Commit,
            Request::Join { member_id, .. } => {
                let is_known = !member_id.is_empty() && bytes.byte() < 224;
                let id = if is_known {
                    member_id.clone()
                } else {
                    format!("m{}", bytes.byte() % 4)
                };
                if bytes.byte() < 64 {
                    return Answer::MemberId(id);
                }
                Answer::Join(Ok(self.joined(id, bytes)))
            }
            Request::Partitions(_) => Answer::Partitions(Ok(counts(bytes))),
            Request::Sync {
                member_id,
                generation,
                assignments,
                ..
            } => {
                let own = assignments.iter().find(|(id, _)| id == member_id);
                let given = match (own, bytes.byte()) {
                    (Some((_, own)), 0..160) => own.clone(),
                    (_, 160..176) => Shared::copy_from_slice(&[bytes.byte(), bytes.byte(), 0, 0, 0, 1]),
                    _ => assignment(bytes),
                };
                let given = self.given.entry(*generation).or_insert(given).clone();
                if subscription::assigned(&given).is_some() {
                    self.taken = Some((member_id.clone(), *generation));
                }
                Answer::Sync(Ok(given))
            }
            Request::Heartbeat { .. } => Answer::Heartbeat(Ok(())),
            Request::Leave { .. } => Answer::Leave,
            Request::Beat(beat) => {
                let epoch = self.next(bytes);
                let assigned = match bytes.byte() {
                    0..96 => None,
                    _ => Some(owned(bytes)),
                };
                if beat.epoch >= 0 {
                    self.taken = Some((beat.member_id.clone(), epoch));
                }
                if let Some(assigned) = &assigned {
                    self.is_new |= self.assigned != *assigned;
                    self.assigned.clone_from(assigned);
                }
                let interval = Duration::from_millis(bytes.pick(&[3_000, 0, 1, 5_000, 1_000_000]));
                Answer::Beat(Ok(Beaten {
                    epoch,
                    interval,
                    assigned,
                }))
            }
            Request::Ids { topics, .. } => {
                let bits = bytes.byte();
                let found = topics.iter().enumerate();
                let found = found.filter(|(place, _)| bits >> (place % 8) & 1 == 0);
                Answer::Ids(Ok(found.map(|(_, topic)| (topic.clone(), id(topic))).collect()))
            }
        }
    }

    /// As a coordinator does whose only member asks.
    pub(super) fn well(&mut self, request: &Request) -> Answer {
        match request {
            Request::Commit(_) => Answer::Commit,
            Request::Join { member_id, .. } if member_id.is_empty() => Answer::MemberId("only".to_owned()),
            Request::Join { member_id, topics } => {
                self.generation = self.generation.saturating_add(1);
                let metadata = subscription::subscription(topics);
                Answer::Join(Ok(Joined {
                    member_id: member_id.clone(),
                    generation: self.generation,
                    protocol: "roundrobin".to_owned(),
                    leader: member_id.clone(),
                    members: vec![(member_id.clone(), None, metadata)],
                    skip_assignment: false,
                }))
            }
            Request::Partitions(topics) => {
                Answer::Partitions(Ok(topics.iter().map(|topic| (topic.clone(), 1)).collect()))
            }
            Request::Sync {
                member_id,
                generation,
                assignments,
                ..
            } => {
                self.taken = Some((member_id.clone(), *generation));
                let own = assignments.iter().find(|(id, _)| id == member_id);
                let given = own.map(|(_, given)| given.clone()).unwrap_or_default();
                // One that did not lead gets it in the next generation.
                let given = self.given.entry(*generation).or_insert(given);
                Answer::Sync(Ok(given.clone()))
            }
            Request::Heartbeat { .. } => {
                Answer::Heartbeat(Err(Trouble::Code(ResponseError::RebalanceInProgress)))
            }
            Request::Leave { .. } => Answer::Leave,
            Request::Beat(beat) => {
                if let Some(topics) = &beat.topics {
                    self.told.clone_from(topics);
                }
                self.generation = self.generation.saturating_add(1);
                if beat.epoch >= 0 {
                    self.taken = Some((beat.member_id.clone(), self.generation));
                }
                let assigned = self.told.iter().map(|topic| (id(topic), BTreeSet::from([0])));
                Answer::Beat(Ok(Beaten {
                    epoch: self.generation,
                    interval: Duration::from_secs(3),
                    assigned: Some(assigned.collect()),
                }))
            }
            Request::Ids { topics, .. } => Answer::Ids(Ok(topics
                .iter()
                .map(|topic| (topic.clone(), id(topic)))
                .collect())),
        }
    }

    /// What follows may lead to more requests.
    pub(super) const fn news(&mut self) {
        self.is_new = true;
    }

    /// Whether the last answer was news.
    pub(super) const fn has_news(&mut self) -> bool {
        std::mem::replace(&mut self.is_new, false)
    }

    /// A commit is a member's that was taken, in its generation.
    pub(super) fn is_member(&self, member_id: &str, generation: i32) {
        let taken = self
            .taken
            .as_ref()
            .map(|(id, generation)| (id.as_str(), *generation));
        assert_eq!(taken, Some((member_id, generation)), "who commits was taken");
    }

    /// The next generation, mostly.
    fn next(&mut self, bytes: &mut Bytes<'_>) -> i32 {
        let steps = bytes.pick(&[1, 1, 1, 1, 1, 1, 0, 2, 3, 1_000]);
        self.generation = self.generation.saturating_add(steps);
        self.generation
    }

    fn joined(&mut self, member_id: String, bytes: &mut Bytes<'_>) -> Joined {
        let generation = self.next(bytes);
        let bits = bytes.byte();
        let mut members = Vec::new();
        if bits & 1 == 0 {
            let own = subscription::subscription(&bytes.topics());
            members.push((member_id.clone(), None, own));
        }
        if bits & 2 == 0 {
            let metadata = if bits & 4 == 0 {
                subscription::subscription(&bytes.topics())
            } else {
                Shared::copy_from_slice(&[0, bytes.byte(), 0, 0, 0, bytes.byte(), 0, 1, b'a'])
            };
            members.push(("other".to_owned(), Some("fixed".to_owned()), metadata));
        }
        let leads = bits & 8 == 0;
        Joined {
            leader: if leads {
                member_id.clone()
            } else {
                "other".to_owned()
            },
            member_id,
            generation,
            protocol: bytes.pick(&["roundrobin", "range", "sticky", ""]).to_owned(),
            members,
            skip_assignment: bits & 240 == 240,
        }
    }
}

/// The answer where none came in time.
pub(super) fn silence(request: &Request) -> Answer {
    refused(request, Trouble::Silent)
}

/// How many partitions some topics have.
pub(super) fn counts(bytes: &mut Bytes<'_>) -> BTreeMap<String, i32> {
    let topics = bytes.topics();
    topics
        .into_iter()
        .map(|topic| (topic, i32::from(bytes.byte() % 4)))
        .collect()
}

/// A topic's id.
pub(super) fn id(topic: &str) -> Uuid {
    Uuid::from_u128(u128::from(topic.as_bytes().first().copied().unwrap_or_default()))
}

fn refused(request: &Request, trouble: Trouble) -> Answer {
    match request {
        Request::Commit(_) => Answer::Commit,
        Request::Join { .. } => Answer::Join(Err(trouble)),
        Request::Partitions(_) => Answer::Partitions(Err(trouble)),
        Request::Sync { .. } => Answer::Sync(Err(trouble)),
        Request::Heartbeat { .. } => Answer::Heartbeat(Err(trouble)),
        Request::Leave { .. } => Answer::Leave,
        Request::Beat(_) => Answer::Beat(Err(trouble)),
        Request::Ids { .. } => Answer::Ids(Err(trouble)),
    }
}

fn trouble(bytes: &mut Bytes<'_>) -> Trouble {
    bytes.pick(&[
        Trouble::Silent,
        Trouble::Unreachable,
        Trouble::Fatal(Error::KafkaUnauthorized),
        Trouble::Code(ResponseError::RebalanceInProgress),
        Trouble::Code(ResponseError::IllegalGeneration),
        Trouble::Code(ResponseError::UnknownMemberId),
        Trouble::Code(ResponseError::FencedInstanceId),
        Trouble::Code(ResponseError::FencedMemberEpoch),
        Trouble::Code(ResponseError::StaleMemberEpoch),
        Trouble::Code(ResponseError::UnreleasedInstanceId),
        Trouble::Code(ResponseError::CoordinatorLoadInProgress),
        Trouble::Code(ResponseError::CoordinatorNotAvailable),
        Trouble::Code(ResponseError::NotCoordinator),
        Trouble::Code(ResponseError::GroupAuthorizationFailed),
        Trouble::Code(ResponseError::InconsistentGroupProtocol),
        Trouble::Code(ResponseError::GroupMaxSizeReached),
        Trouble::Code(ResponseError::UnsupportedVersion),
    ])
}

fn assignment(bytes: &mut Bytes<'_>) -> Shared {
    let topics = bytes.topics();
    let odd = bytes.byte();
    let partitions = topics.into_iter().map(|topic| {
        let partitions = if odd == 255 { vec![1] } else { vec![0] };
        (topic, partitions)
    });
    subscription::assignment(&partitions.collect())
}

fn owned(bytes: &mut Bytes<'_>) -> Owned {
    let topics = bytes.topics();
    let odd = bytes.byte();
    let partitions = topics.into_iter().map(|topic| {
        let partitions = if odd == 255 { [1].into() } else { [0].into() };
        (id(&topic), partitions)
    });
    partitions.collect()
}
