//! What the client of one instance is owed: written from the specification, not from the engine.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use octopus_core::{Commit, InstanceKey, Position, Settings, TopicName, TopicPartition};

/// An instance as its client knows it.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) key: InstanceKey,
    pub(crate) settings: Settings,
    pub(crate) reads: Reads,
    /// The next record of each assigned partition, where reading has started.
    pub(crate) next: BTreeMap<TopicPartition, Option<Position>>,
    /// The group put it out.
    pub(crate) is_lost: bool,
    /// The partition whose next record is not UTF-8.
    blocked: Option<TopicPartition>,
    /// The partition that a cut reply sent to the end of the order.
    last: Option<TopicPartition>,
    own_commit: Instant,
    /// A caller left in the middle of a change, so nobody outside knows what is read.
    pub(crate) is_unknown: bool,
}

/// What an instance reads.
#[derive(Debug, PartialEq)]
pub(crate) enum Reads {
    Nothing,
    Topics(Vec<TopicName>),
    Assigned,
}

/// What a reply holds of one partition.
#[derive(Debug, Clone)]
pub(crate) struct Range {
    pub(crate) partition: TopicPartition,
    pub(crate) from: Position,
    pub(crate) to: Position,
}

impl Reader {
    pub(crate) fn new(key: InstanceKey, settings: Settings, now: Instant) -> Self {
        Self {
            key,
            settings,
            reads: Reads::Nothing,
            next: BTreeMap::new(),
            is_lost: false,
            blocked: None,
            last: None,
            own_commit: now,
            is_unknown: false,
        }
    }

    /// Reads these from here on; what stays goes on where it is [D-12].
    pub(crate) fn install(&mut self, partitions: &[TopicPartition], keep: bool) {
        let old = std::mem::take(&mut self.next);
        for partition in partitions {
            let position = old.get(partition).copied().flatten().filter(|_| keep);
            self.next.insert(partition.clone(), position);
        }
        self.blocked = self
            .blocked
            .take()
            .filter(|at| keep && self.next.contains_key(at));
        self.last = None;
    }

    pub(crate) fn subscribed(&mut self, topics: &[TopicName]) {
        let stay: Vec<_> = self
            .next
            .keys()
            .filter(|at| topics.contains(&at.topic))
            .cloned()
            .collect();
        self.install(&stay, true);
        self.reads = Reads::Topics(topics.to_vec());
    }

    pub(crate) fn joined(&mut self, partitions: &[TopicPartition]) {
        self.install(partitions, !self.is_lost);
        self.is_lost = false;
    }

    pub(crate) fn assigned(&mut self, partitions: &[TopicPartition]) {
        self.install(partitions, true);
        self.reads = if partitions.is_empty() {
            Reads::Nothing
        } else {
            Reads::Assigned
        };
    }

    pub(crate) fn unsubscribed(&mut self) {
        self.install(&[], false);
        self.reads = Reads::Nothing;
        self.is_lost = false;
    }

    pub(crate) fn goes_to(&mut self, partition: &TopicPartition, position: Position) {
        if let Some(next) = self.next.get_mut(partition) {
            *next = Some(position);
        }
    }

    pub(crate) fn starts_at(&mut self, partition: &TopicPartition, position: Position) {
        if let Some(next) = self.next.get_mut(partition) {
            next.get_or_insert(position);
        }
    }

    pub(crate) fn seeks(&mut self, partition: &TopicPartition, position: Position) {
        self.goes_to(partition, position);
        if self.blocked.as_ref() == Some(partition) {
            self.blocked = None;
        }
    }

    pub(crate) fn blocks(&mut self, partition: TopicPartition) {
        self.blocked = Some(partition);
    }

    /// The client received a reply: of each partition the next records, none left out, none again [FE-11].
    pub(crate) fn receives(&mut self, ranges: &[Range], cut: Option<&TopicPartition>) {
        for range in ranges {
            assert!(range.to > range.from, "a reply moves on");
            if !self.is_unknown {
                let next = self.next.get(&range.partition).copied().flatten();
                assert_eq!(
                    next,
                    Some(range.from),
                    "{:?} was skipped or repeated",
                    range.partition
                );
            }
            self.goes_to(&range.partition, range.to);
        }
        if let Some(cut) = cut {
            self.last = Some(cut.clone());
        }
    }

    /// A poll reads what is assigned, from where the client is, in the order that is due [FE-12] [D-37].
    pub(crate) fn check_poll(&self, plan: &[(TopicPartition, Option<Position>)]) {
        if self.is_unknown {
            return;
        }
        let planned: BTreeMap<_, _> = plan.iter().cloned().collect();
        assert_eq!(
            planned, self.next,
            "a poll reads what is assigned, from where the client is"
        );
        assert_eq!(planned.len(), plan.len(), "each once");
        assert_eq!(self.blocked, None, "no poll gets past a record that is not UTF-8");
        assert!(
            !self.is_lost,
            "an instance that was put out joins before it polls"
        );
        if let Some(last) = &self.last {
            assert_eq!(
                plan.last().map(|(at, _)| at),
                Some(last),
                "whose reply was cut comes last"
            );
        }
    }

    /// Every known position and nothing else, as the client left them [CO-02] [AK-04].
    pub(crate) fn check_positions(&self, commits: &[Commit]) {
        if self.is_unknown {
            return;
        }
        let committed: BTreeMap<_, _> = commits
            .iter()
            .map(|commit| (commit.partition.clone(), commit.position))
            .collect();
        assert_eq!(committed, self.known(), "what is committed is what was delivered");
    }

    pub(crate) fn known(&self) -> BTreeMap<TopicPartition, Position> {
        let known = self
            .next
            .iter()
            .filter_map(|(at, next)| Some((at.clone(), (*next)?)));
        known.collect()
    }

    /// An instance commits by itself only if it was told to, and only what is still its own [AK-06].
    pub(crate) fn commits_by_itself(&mut self, now: Instant) {
        assert!(self.settings.auto_commit, "nothing is committed unasked");
        assert!(
            !self.is_lost || self.is_unknown,
            "an instance that was put out commits nothing"
        );
        self.own_commit = now;
    }

    /// How long ago it committed by itself [AK-01].
    pub(crate) fn since_own_commit(&self, now: Instant) -> Duration {
        now - self.own_commit
    }
}
