//! An instance as its client knows it.

use std::{collections::BTreeMap, time::Instant};

use octopus_core::{
    Commit, Error, InstanceKey, Namespace, Position, RequestId, Settings, TopicName, TopicPartition,
};

use super::Call;

pub(super) struct Instance {
    pub(super) key: InstanceKey,
    pub(super) settings: Settings,
    pub(super) state: State,
    /// Whether it holds its name and its places [D-29] [LC-02].
    pub(super) is_named: bool,
    /// The request that has it, and those that wait for it [LK-01].
    pub(super) holder: Option<RequestId>,
    pub(super) line: Vec<RequestId>,
    /// When the last request ended [D-30].
    pub(super) idle_since: Instant,
    pub(super) reads: Reads,
    /// The next record of each assigned partition, where reading has started, in the order of the next reply [FE-12].
    pub(super) next: Vec<(TopicPartition, Option<Position>)>,
    /// The partition whose next record is not UTF-8 [D-37].
    pub(super) blocked: Option<TopicPartition>,
    /// Its commit that goes alongside a fetch, and when it last committed by itself [D-38].
    pub(super) alongside: Option<Call>,
    pub(super) own_commit: Instant,
    /// Whether the group may know it: it has sent a join.
    pub(super) is_member: bool,
    /// Whether it must join (again), and whether it was told so since it last sent a join.
    pub(super) must_join: bool,
    pub(super) told: bool,
    /// Whether the group put it out.
    pub(super) is_lost: bool,
    /// The join without a fetch: when it is due, and the one that runs [D-23].
    pub(super) rejoin_at: Option<Instant>,
    pub(super) rejoin: Option<Call>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum State {
    Opening,
    Open,
    /// Nobody finds it; it closes once nobody holds it, with or without a commit.
    Doomed {
        commits: bool,
    },
    Closing {
        delete: Option<RequestId>,
        commits: bool,
        until: Instant,
    },
}

/// What an instance reads [SU-03].
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Reads {
    Nothing,
    Topics(Vec<TopicName>),
    Partitions,
}

impl Instance {
    pub(super) fn new(key: InstanceKey, settings: Settings, now: Instant) -> Self {
        Self {
            key,
            settings,
            state: State::Opening,
            is_named: true,
            holder: None,
            line: Vec::new(),
            idle_since: now,
            reads: Reads::Nothing,
            next: Vec::new(),
            blocked: None,
            alongside: None,
            own_commit: now,
            is_member: false,
            must_join: false,
            told: false,
            is_lost: false,
            rejoin_at: None,
            rejoin: None,
        }
    }

    pub(super) fn namespace(&self) -> Namespace {
        Namespace::of(self.key.subject)
    }

    /// Whether something is to be done with it once nobody holds it.
    pub(super) fn is_wanted(&self) -> bool {
        matches!(self.state, State::Doomed { .. }) || !self.line.is_empty()
    }

    pub(super) fn topics(&self) -> Vec<TopicName> {
        match &self.reads {
            Reads::Topics(topics) => topics.clone(),
            Reads::Nothing | Reads::Partitions => Vec::new(),
        }
    }

    /// Sorted by topic [D-15].
    pub(super) fn assigned(&self) -> Vec<TopicPartition> {
        let mut assigned: Vec<_> = self.next.iter().map(|(at, _)| at.clone()).collect();
        assigned.sort_unstable();
        assigned
    }

    /// Reads these: what stays keeps its place and, unless the instance was put out, its position; what is new comes
    /// behind [D-12] [D-39].
    pub(super) fn installs(&mut self, partitions: &[TopicPartition], keeps: bool) {
        self.next.retain(|(at, _)| partitions.contains(at));
        for at in partitions {
            if !self.next.iter().any(|(old, _)| old == at) {
                self.next.push((at.clone(), None));
            }
        }
        if !keeps {
            self.next.iter_mut().for_each(|(_, next)| *next = None);
        }
        self.blocked = self.blocked.take().filter(|at| keeps && partitions.contains(at));
    }

    /// 40903 for the first that is not assigned [SK-01] [CO-05].
    pub(super) fn needs(&self, partitions: &[TopicPartition]) -> Result<(), Error> {
        let assigned = |at: &TopicPartition| self.next.iter().any(|(other, _)| other == at);
        match partitions.iter().find(|at| !assigned(at)) {
            Some(at) => Err(Error::NotAssigned(at.clone())),
            None => Ok(()),
        }
    }

    pub(super) fn goes_to(&mut self, partition: &TopicPartition, position: Option<Position>) {
        if let Some((_, next)) = self.next.iter_mut().find(|(at, _)| at == partition) {
            *next = position;
        }
    }

    /// A seek, behind which a record that is not UTF-8 no longer matters [FE-06].
    pub(super) fn seeks(&mut self, partition: &TopicPartition, position: Option<Position>) {
        self.goes_to(partition, position);
        self.blocked = self.blocked.take().filter(|at| at != partition);
    }

    /// Every position that is known: the record after the last one that the client got [CO-02] [AK-04].
    pub(super) fn known(&self) -> Vec<Commit> {
        let known = self.next.iter().filter_map(|(at, next)| {
            Some(Commit {
                partition: at.clone(),
                position: (*next)?,
                metadata: "".into(),
            })
        });
        known.collect()
    }

    pub(super) fn unknown(&self) -> Vec<TopicPartition> {
        let unknown = self.next.iter().filter(|(_, next)| next.is_none());
        unknown.map(|(at, _)| at.clone()).collect()
    }

    /// What it commits by itself: nothing unless it was told to [AK-06], nor what may be another member's.
    pub(super) fn own(&self) -> Vec<Commit> {
        if self.settings.auto_commit && !self.is_lost {
            self.known()
        } else {
            Vec::new()
        }
    }

    /// The group assigned these, of which it reads partition 0 of the topics that it subscribes to.
    pub(super) fn joined(&mut self, partitions: &[TopicPartition]) {
        let topics = self.topics();
        let mut partitions = partitions.to_vec();
        partitions.retain(|at| at.partition == 0 && topics.contains(&at.topic));
        partitions.sort_unstable();
        self.installs(&partitions, !self.is_lost);
        self.must_join = self.told;
        self.is_lost = false;
    }

    /// It left its group, or was never in one.
    pub(super) fn reads_nothing(&mut self) {
        self.installs(&[], false);
        self.reads = Reads::Nothing;
        self.is_member = false;
        self.must_join = false;
        self.told = false;
        self.is_lost = false;
    }

    /// What a client receives is the next of each partition: none left out, none again [FE-11].
    pub(super) fn receives(
        &mut self,
        from: &BTreeMap<TopicPartition, Option<Position>>,
        to: &[(TopicPartition, Position)],
    ) {
        for (partition, position) in to {
            let next = self
                .next
                .iter()
                .find(|(at, _)| at == partition)
                .map(|(_, next)| *next);
            assert_eq!(
                next,
                from.get(partition).copied(),
                "{partition:?} was skipped or repeated"
            );
            self.goes_to(partition, Some(*position));
        }
    }
}
