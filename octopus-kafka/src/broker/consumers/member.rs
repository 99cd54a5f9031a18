//! One member of a consumer group, and its way to the target.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use regex::{Regex, RegexBuilder};

use super::{Assignor, Beat, Partitions};
use crate::broker::code::{self, Code};

/// How large a regular expression may become.
const REGEX: usize = 1 << 20;

/// A member.
#[derive(Debug, Default)]
pub(crate) struct Member {
    pub(crate) client_id: String,
    pub(crate) instance: Option<String>,
    pub(crate) rack: Option<String>,
    pub(crate) topics: BTreeSet<String>,
    pub(crate) regex: Option<Regex>,
    pub(crate) assignor: Option<Assignor>,
    pub(crate) rebalance_timeout: Duration,
    pub(crate) epoch: i32,
    previous_epoch: i32,
    pub(crate) progress: Progress,
    /// What it may read.
    pub(crate) assigned: Partitions,
    /// What it is to give up.
    pub(crate) revoking: Partitions,
    /// When it is taken out unless it is heard of.
    pub(crate) deadline: Option<Instant>,
    /// When it is taken out unless it has given up what it is to give up.
    pub(crate) revoke_by: Option<Instant>,
}

/// What a member is on its way to the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Progress {
    /// It has all.
    #[default]
    Stable,
    /// It has to give up something first.
    Revoking,
    /// It waits for what others have to give up.
    Waiting,
}

/// What a member wants to read.
pub(crate) type Subscription = (BTreeSet<String>, Option<String>, Option<Assignor>);

impl Member {
    /// Takes over what a heartbeat says of it.
    pub(super) fn describe(&mut self, beat: &Beat) {
        if let Some(regex) = &beat.regex {
            self.regex.clone_from(regex);
        }
        if let Some(topics) = &beat.topics {
            self.topics.clone_from(topics);
        }
        if let Some(timeout) = beat.rebalance_timeout {
            self.rebalance_timeout = timeout;
        }
        if beat.assignor.is_some() {
            self.assignor = beat.assignor;
        }
        if beat.instance.is_some() {
            self.instance.clone_from(&beat.instance);
        }
        if beat.rack.is_some() {
            self.rack.clone_from(&beat.rack);
        }
        self.client_id.clone_from(&beat.client_id);
    }

    pub(super) fn subscription(&self) -> Subscription {
        let regex = self.regex.as_ref().map(|regex| regex.as_str().to_owned());
        (self.topics.clone(), regex, self.assignor)
    }

    /// Its regular expression, as it said it.
    pub(crate) fn pattern(&self) -> Option<&str> {
        let whole = self.regex.as_ref()?.as_str();
        whole.strip_prefix("^(?:")?.strip_suffix(")$")
    }

    /// Whether it has subscribed to a topic.
    pub(super) fn reads(&self, topic: &str) -> bool {
        self.topics.contains(topic) || self.regex.as_ref().is_some_and(|regex| regex.is_match(topic))
    }

    /// It begins anew, and has nothing.
    pub(super) fn rejoin(&mut self) {
        self.epoch = 0;
        self.previous_epoch = 0;
        self.progress = Progress::Stable;
        self.assigned.clear();
        self.revoking.clear();
        self.revoke_by = None;
    }

    /// Checks the epoch that a heartbeat comes with. The one before will do where its answer was lost.
    ///
    /// # Errors
    ///
    /// `FENCED_MEMBER_EPOCH`.
    pub(super) fn check_epoch(&self, epoch: i32, owned: Option<&Partitions>) -> Result<(), Code> {
        let is_within = |owned: &Partitions| {
            owned.iter().all(|(topic, partitions)| {
                let assigned = self.assigned.get(topic);
                partitions.is_empty() || assigned.is_some_and(|assigned| partitions.is_subset(assigned))
            })
        };
        let is_retry = epoch == self.previous_epoch && owned.is_some_and(is_within);
        if epoch == self.epoch || is_retry {
            Ok(())
        } else {
            Err(code::FENCED_MEMBER_EPOCH)
        }
    }

    /// Goes as far towards the target as what it owns, and what others hold, lets it.
    pub(super) fn advance(
        &mut self,
        target_epoch: i32,
        target: &Partitions,
        held: &Partitions,
        owned: Option<&Partitions>,
    ) {
        let epoch = match self.progress {
            Progress::Stable if self.epoch == target_epoch => return,
            Progress::Stable | Progress::Waiting => self.epoch,
            // It says nothing of what it owns, or owns what it is to give up.
            Progress::Revoking if owned.is_none_or(|owned| meets(owned, &self.revoking)) => return,
            Progress::Revoking => self.epoch + 1,
        };
        let mut held = held.clone();
        if self.progress == Progress::Revoking {
            for (topic, partitions) in &self.revoking {
                if let Some(held) = held.get_mut(topic) {
                    held.retain(|partition| !partitions.contains(partition));
                }
            }
        }
        let kept = common(&self.assigned, target);
        let revoking = without(&self.assigned, &kept);
        if !revoking.is_empty() && owned.is_none_or(|owned| meets(owned, &revoking)) {
            self.progress = Progress::Revoking;
            self.set_epoch(epoch);
            self.assigned = kept;
            self.revoking = revoking;
            return;
        }
        let wanted = without(target, &kept);
        let free = without(&wanted, &held);
        self.progress = if free == wanted {
            Progress::Stable
        } else {
            Progress::Waiting
        };
        self.set_epoch(target_epoch);
        self.assigned = kept;
        for (topic, partitions) in free {
            self.assigned.entry(topic).or_default().extend(partitions);
        }
        self.revoking.clear();
    }

    const fn set_epoch(&mut self, epoch: i32) {
        if epoch != self.epoch {
            self.previous_epoch = self.epoch;
            self.epoch = epoch;
        }
    }
}

/// A regular expression for whole names; `None` for an empty one, which takes a subscription back.
///
/// # Errors
///
/// `INVALID_REGULAR_EXPRESSION`.
pub(crate) fn regex(pattern: &str) -> Result<Option<Regex>, Code> {
    if pattern.is_empty() {
        return Ok(None);
    }
    let whole = RegexBuilder::new(&format!("^(?:{pattern})$"))
        .size_limit(REGEX)
        .build();
    whole.map(Some).map_err(|_| code::INVALID_REGULAR_EXPRESSION)
}

/// Whether there is a partition in both.
fn meets(one: &Partitions, other: &Partitions) -> bool {
    !common(one, other).is_empty()
}

/// The partitions in both.
fn common(one: &Partitions, other: &Partitions) -> Partitions {
    let both = one.iter().map(|(topic, partitions)| {
        let other = other.get(topic);
        let in_both = |partition: &&i32| other.is_some_and(|other| other.contains(partition));
        (*topic, partitions.iter().filter(in_both).copied().collect())
    });
    both.filter(|(_, partitions): &(_, BTreeSet<i32>)| !partitions.is_empty())
        .collect()
}

/// The partitions in the first and not in the second.
fn without(one: &Partitions, other: &Partitions) -> Partitions {
    let left = one.iter().map(|(topic, partitions)| {
        let other = other.get(topic);
        let stays = |partition: &&i32| other.is_none_or(|other| !other.contains(partition));
        (*topic, partitions.iter().filter(stays).copied().collect())
    });
    left.filter(|(_, partitions): &(_, BTreeSet<i32>)| !partitions.is_empty())
        .collect()
}
