//! A consumer group of the protocol where the coordinator assigns (KIP-848): epochs, the target, and how each member
//! comes to it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use regex::Regex;
use uuid::Uuid;

use super::code::{self, Code};

mod assignor;
mod member;
#[cfg(test)]
mod tests;

pub(crate) use assignor::Assignor;
pub(crate) use member::{Member, Progress, regex};

/// Partitions by the ids of their topics.
pub(crate) type Partitions = BTreeMap<Uuid, BTreeSet<i32>>;

/// The epoch of a member that joins.
pub(crate) const JOIN: i32 = 0;
/// The epoch of a member that leaves.
pub(crate) const LEAVE: i32 = -1;
/// The epoch of a static member that leaves for a while.
pub(crate) const AWAY: i32 = -2;

/// The members of a group, and what each of them is to have.
#[derive(Debug, Default)]
pub(crate) struct Consumers {
    /// It grows with each change of members, subscriptions or topics.
    pub(crate) epoch: i32,
    /// The epoch that the target was made for.
    pub(crate) target_epoch: i32,
    target: BTreeMap<String, Partitions>,
    pub(crate) members: BTreeMap<String, Member>,
    /// The topics that the members have subscribed to, as they were when the epoch last grew.
    topics: BTreeMap<Uuid, i32>,
}

/// What a heartbeat says; `None` where it leaves out what has not changed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Beat {
    pub(crate) member_id: String,
    pub(crate) epoch: i32,
    pub(crate) instance: Option<String>,
    pub(crate) rack: Option<String>,
    pub(crate) rebalance_timeout: Option<Duration>,
    pub(crate) topics: Option<BTreeSet<String>>,
    pub(crate) regex: Option<Option<Regex>>,
    pub(crate) assignor: Option<Assignor>,
    pub(crate) owned: Option<Partitions>,
    pub(crate) client_id: String,
}

/// What a heartbeat is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) epoch: i32,
    /// `None` where the member knows it.
    pub(crate) assigned: Option<Partitions>,
}

/// Where a group stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Empty,
    /// The target is of an older epoch.
    Assigning,
    /// A member has not come to the target.
    Reconciling,
    Stable,
}

impl Consumers {
    pub(crate) fn stage(&self) -> Stage {
        let is_there = |member: &Member| {
            member.epoch == AWAY || (member.progress == Progress::Stable && member.epoch == self.target_epoch)
        };
        if self.members.is_empty() {
            Stage::Empty
        } else if self.epoch > self.target_epoch {
            Stage::Assigning
        } else if self.members.values().all(is_there) {
            Stage::Stable
        } else {
            Stage::Reconciling
        }
    }

    /// What a member is to have in the end.
    pub(crate) fn target_of(&self, member: &str) -> Partitions {
        self.target.get(member).cloned().unwrap_or_default()
    }

    /// The assignor that most members want, and the first one that is left.
    pub(crate) fn assignor(&self) -> Assignor {
        let wanted = |assignor| {
            let members = self.members.values();
            members.filter(|member| member.assignor == Some(assignor)).count()
        };
        if wanted(Assignor::Range) > wanted(Assignor::Uniform) {
            Assignor::Range
        } else {
            Assignor::Uniform
        }
    }

    /// A member joins, goes on or leaves. `topics` are all those of the broker, by name.
    ///
    /// # Errors
    ///
    /// Kafka's code where it is not who it says, or where it was overtaken.
    pub(crate) fn beat(
        &mut self,
        beat: &Beat,
        topics: &BTreeMap<String, (Uuid, i32)>,
        session: Duration,
        now: Instant,
    ) -> Result<Answer, Code> {
        if matches!(beat.epoch, LEAVE | AWAY) {
            self.leave(beat)?;
            return Ok(Answer {
                epoch: beat.epoch,
                assigned: None,
            });
        }
        let (known, was_subscribed) = self.admit(beat)?;
        let member = self.members.entry(beat.member_id.clone()).or_default();
        member.describe(beat);
        if !known || was_subscribed != member.subscription() {
            self.epoch += 1;
        }
        self.look_at(topics);
        self.aim(topics);
        let target = self.target_of(&beat.member_id);
        let held = self.held();
        let is_full = beat.epoch == JOIN
            || (beat.rebalance_timeout.is_some()
                && (beat.topics.is_some() || beat.regex.is_some())
                && beat.owned.is_some());
        let target_epoch = self.target_epoch;
        let member = self.members.entry(beat.member_id.clone()).or_default();
        let before = member.assigned.clone();
        member.advance(target_epoch, &target, &held, beat.owned.as_ref());
        member.deadline = Some(now + session);
        match (member.progress, member.revoke_by) {
            (Progress::Revoking, None) => member.revoke_by = Some(now + member.rebalance_timeout),
            (Progress::Revoking, Some(_)) => {}
            (Progress::Stable | Progress::Waiting, _) => member.revoke_by = None,
        }
        Ok(Answer {
            epoch: member.epoch,
            assigned: (is_full || member.assigned != before).then(|| member.assigned.clone()),
        })
    }

    /// Whether a commit or a look-up by a member of this epoch is taken.
    ///
    /// # Errors
    ///
    /// `UNKNOWN_MEMBER_ID`, `STALE_MEMBER_EPOCH`.
    pub(crate) fn check(&self, member: &str, epoch: i32) -> Result<(), Code> {
        let member = self.members.get(member).ok_or(code::UNKNOWN_MEMBER_ID)?;
        if member.epoch == epoch {
            Ok(())
        } else {
            Err(code::STALE_MEMBER_EPOCH)
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let members = self.members.values();
        members
            .flat_map(|member| [member.deadline, member.revoke_by])
            .flatten()
            .min()
    }

    /// Takes out who was not heard of, or has not given up what it was to give up.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        let is_late = |member: &Member| {
            let deadlines = [member.deadline, member.revoke_by];
            deadlines.into_iter().flatten().any(|deadline| deadline <= now)
        };
        let late = self.members.iter().filter(|(_, member)| is_late(member));
        let late: Vec<String> = late.map(|(id, _)| id.clone()).collect();
        for id in late {
            self.remove(&id);
        }
    }

    /// Whether the member was known, and what it had subscribed to.
    fn admit(&mut self, beat: &Beat) -> Result<(bool, member::Subscription), Code> {
        let id = &beat.member_id;
        if let Some(instance) = &beat.instance {
            let holder = self
                .members
                .iter()
                .find(|(_, member)| member.instance.as_ref() == Some(instance));
            let holder = holder.map(|(holder, member)| (holder.clone(), member.epoch));
            match holder {
                Some((holder, AWAY)) if beat.epoch == JOIN => {
                    // Its successor has what it had, and nobody else notices.
                    let subscription = self.succeed(&holder, id);
                    return Ok((true, subscription));
                }
                Some((holder, _)) if holder != *id => {
                    return Err(if beat.epoch == JOIN {
                        code::UNRELEASED_INSTANCE_ID
                    } else {
                        code::FENCED_INSTANCE_ID
                    });
                }
                Some(_) => {}
                None if beat.epoch == JOIN => {}
                None => return Err(code::UNKNOWN_MEMBER_ID),
            }
        }
        let Some(member) = self.members.get_mut(id) else {
            return if beat.epoch == JOIN {
                Ok((false, member::Subscription::default()))
            } else {
                Err(code::UNKNOWN_MEMBER_ID)
            };
        };
        let subscription = member.subscription();
        if beat.epoch == JOIN {
            member.rejoin();
        } else {
            member.check_epoch(beat.epoch, beat.owned.as_ref())?;
        }
        Ok((true, subscription))
    }

    /// Gives the place of a static member to its successor.
    fn succeed(&mut self, old: &str, new: &str) -> member::Subscription {
        let mut member = self.members.remove(old).unwrap_or_default();
        let subscription = member.subscription();
        member.rejoin();
        self.members.insert(new.to_owned(), member);
        if let Some(target) = self.target.remove(old) {
            self.target.insert(new.to_owned(), target);
        }
        subscription
    }

    fn leave(&mut self, beat: &Beat) -> Result<(), Code> {
        let member = self
            .members
            .get_mut(&beat.member_id)
            .ok_or(code::UNKNOWN_MEMBER_ID)?;
        if beat.instance.is_some() && member.instance != beat.instance {
            return Err(code::FENCED_INSTANCE_ID);
        }
        if beat.epoch == AWAY {
            member.epoch = AWAY;
            member.revoke_by = None;
        } else {
            let id = beat.member_id.clone();
            self.remove(&id);
        }
        Ok(())
    }

    fn remove(&mut self, id: &str) {
        if self.members.remove(id).is_some() {
            self.target.remove(id);
            self.epoch += 1;
        }
    }

    /// Grows the epoch if the topics that the members read are not what they were.
    fn look_at(&mut self, topics: &BTreeMap<String, (Uuid, i32)>) {
        let is_read = |name: &String| self.members.values().any(|member| member.reads(name));
        let read = topics.iter().filter(|(name, _)| is_read(name));
        let read: BTreeMap<Uuid, i32> = read.map(|(_, found)| *found).collect();
        if read != self.topics {
            self.topics = read;
            // The first look of a new group follows its first member.
            if self.epoch == self.target_epoch {
                self.epoch += 1;
            }
        }
    }

    /// Makes a target for the epoch.
    fn aim(&mut self, topics: &BTreeMap<String, (Uuid, i32)>) {
        if self.epoch <= self.target_epoch {
            return;
        }
        let read = |member: &Member| {
            let topics = topics.iter().filter(|(name, _)| member.reads(name));
            topics.map(|(_, (id, _))| *id).collect::<BTreeSet<Uuid>>()
        };
        let readers = self.members.iter();
        let readers = readers.map(|(id, member)| (id.clone(), read(member))).collect();
        self.target = self.assignor().assign(&readers, &self.topics, &self.target);
        self.target_epoch = self.epoch;
    }

    /// Which partitions somebody has, or has to give up still.
    fn held(&self) -> Partitions {
        let mut held = Partitions::new();
        for member in self.members.values() {
            for (topic, partitions) in member.assigned.iter().chain(&member.revoking) {
                held.entry(*topic).or_default().extend(partitions);
            }
        }
        held
    }
}
