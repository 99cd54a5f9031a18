//! A cluster in a few lines: how far each log goes, what each group committed, and how calls are answered.

use std::collections::BTreeMap;

use octopus_core::{
    AutoOffsetReset, Bound, Commit, Effect, Error, FetchPlan, Fetched, InstanceKey, Name, Outcome, Position,
    Settings, Subject, TopicName, TopicPartition,
};

use crate::step::{How, TOPICS};

/// The logs of the topics that the cluster lists, whose first record is 0, and the commits of the groups.
pub(crate) struct Kafka {
    ends: BTreeMap<TopicName, i64>,
    commits: BTreeMap<(Subject, Name, TopicPartition), Commit>,
}

/// Who asks.
pub(crate) struct Consumer {
    pub(crate) key: InstanceKey,
    pub(crate) settings: Settings,
}

impl Kafka {
    pub(crate) fn new() -> Self {
        Self {
            ends: TOPICS[..3]
                .iter()
                .map(|topic| (TopicName::from(*topic), 0))
                .collect(),
            commits: BTreeMap::new(),
        }
    }

    pub(crate) fn produce(&mut self, topic: usize, count: i64) {
        *self.ends.entry(TOPICS[topic].into()).or_default() += count;
    }

    /// The answer to a call.
    pub(crate) fn answer(&mut self, of: &Consumer, effect: &Effect, how: &How) -> Result<Outcome, Error> {
        if let How::Fails(error) = how {
            return Err(error.clone());
        }
        if let How::Wrong = how {
            let done = matches!(
                effect,
                Effect::Open(_) | Effect::Close | Effect::Leave | Effect::Commit(_)
            );
            return Ok(if done { Outcome::Joining } else { Outcome::Done });
        }
        match effect {
            Effect::Open(_) | Effect::Close | Effect::Leave => Ok(Outcome::Done),
            Effect::Topics(topics) => {
                let held = topics
                    .iter()
                    .filter(|topic| TOPICS[..4].contains(&topic.as_str()));
                Ok(Outcome::Topics(held.cloned().collect()))
            }
            Effect::Join(join) => {
                self.commit(of, &join.commit);
                let How::Well { bits, .. } = how else {
                    return Ok(Outcome::Joining);
                };
                let given = join.topics.iter().enumerate();
                let given = given.filter(|(place, _)| bits >> place & 1 == 1);
                let mut given: Vec<_> = given
                    .map(|(_, topic)| TopicPartition::only(topic.clone()))
                    .collect();
                if bits >> 4 == 1 {
                    // What is not asked for, and a partition that no topic of ours has.
                    given.push(TopicPartition::only(TOPICS[0].into()));
                    given.push(TopicPartition {
                        topic: TOPICS[1].into(),
                        partition: 1,
                    });
                    given.dedup();
                }
                given.reverse();
                Ok(Outcome::Joined(given))
            }
            Effect::Fetch(plan) => Ok(Outcome::Fetched(self.poll(of, plan, how))),
            Effect::Commit(commits) => {
                self.commit(of, commits);
                Ok(Outcome::Done)
            }
            Effect::Committed(partitions) => {
                let held = partitions.iter().filter_map(|at| self.committed(of, at));
                Ok(Outcome::Committed(held.cloned().collect()))
            }
            Effect::Start(partitions) => {
                let mut found = Vec::new();
                for at in partitions.iter().filter(|at| self.ends.contains_key(&at.topic)) {
                    let start = self.start(of, at).ok_or_else(|| Error::NoOffset(at.clone()))?;
                    found.push((at.clone(), start));
                }
                Ok(Outcome::Positions(found))
            }
            Effect::Bounds(partitions, bound) => {
                let bounds = partitions.iter().filter_map(|at| {
                    let end = self.ends.get(&at.topic)?;
                    let offset = if *bound == Bound::Beginning { 0 } else { *end };
                    Some((at.clone(), Position::at(offset)))
                });
                Ok(Outcome::Positions(bounds.collect()))
            }
        }
    }

    fn commit(&mut self, of: &Consumer, commits: &[Commit]) {
        for commit in commits {
            let at = (of.key.subject, of.key.group.clone(), commit.partition.clone());
            self.commits.insert(at, commit.clone());
        }
    }

    fn committed(&self, of: &Consumer, partition: &TopicPartition) -> Option<&Commit> {
        self.commits
            .get(&(of.key.subject, of.key.group.clone(), partition.clone()))
    }

    /// Where reading starts.
    fn start(&self, of: &Consumer, partition: &TopicPartition) -> Option<Position> {
        let commit = self.committed(of, partition).map(|commit| commit.position);
        commit.or_else(|| self.reset(of, partition))
    }

    fn reset(&self, of: &Consumer, partition: &TopicPartition) -> Option<Position> {
        match of.settings.auto_offset_reset {
            AutoOffsetReset::Earliest => Some(Position::at(0)),
            AutoOffsetReset::Latest => self.ends.get(&partition.topic).copied().map(Position::at),
            AutoOffsetReset::None => None,
        }
    }

    /// One turn of a fetch.
    fn poll(&self, of: &Consumer, plan: &FetchPlan, how: &How) -> Fetched {
        let mut fetched = Fetched::default();
        for (place, (partition, position)) in plan.positions.iter().enumerate() {
            let Some(end) = self.ends.get(&partition.topic) else {
                continue;
            };
            let in_range = position.filter(|position| position.offset <= *end);
            let start = || {
                if position.is_none() {
                    self.start(of, partition)
                } else {
                    self.reset(of, partition)
                }
            };
            let Some(from) = in_range.or_else(start) else {
                let error = Error::NoOffset(partition.clone());
                fetched.failed.push((partition.clone(), error));
                continue;
            };
            if in_range.is_none() {
                fetched.started.push((partition.clone(), from));
            }
            let there = end - from.offset;
            let reaches = |most: i64| Position {
                offset: from.offset + there.min(most),
                leader_epoch: Some(7),
            };
            match how {
                How::Well { most, cut, .. } if there > 0 && (fetched.next.is_empty() || !*cut) => {
                    fetched.next.push((partition.clone(), reaches(*most)));
                    if *cut {
                        fetched.cut = Some(partition.clone());
                    }
                }
                How::Skip if there > 0 => fetched.skipped.push((partition.clone(), reaches(2))),
                How::NotUtf8 if there > 0 && fetched.not_utf8.is_none() => {
                    fetched.not_utf8 = Some(partition.clone());
                }
                How::Failed { bits } if bits >> place & 1 == 1 => {
                    let error = Error::RecordUnreadable(partition.clone());
                    fetched.failed.push((partition.clone(), error));
                }
                How::Well { .. }
                | How::Skip
                | How::NotUtf8
                | How::Failed { .. }
                | How::Empty
                | How::Wrong
                | How::Fails(_) => {}
            }
        }
        fetched
    }
}
