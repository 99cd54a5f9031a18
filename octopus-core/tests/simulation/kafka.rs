//! A cluster in a few lines: how far each log goes, and what each group committed.

use std::collections::BTreeMap;

use octopus_core::{
    AutoOffsetReset, Commit, InstanceKey, Name, Position, Subject, TopicName, TopicPartition,
};

use crate::step::TOPICS;

/// The logs of the topics, whose first record is 0, and the commits of the groups.
#[derive(Debug, Default)]
pub(crate) struct Kafka {
    ends: BTreeMap<TopicName, i64>,
    commits: BTreeMap<(Subject, Name, TopicPartition), Commit>,
}

impl Kafka {
    pub(crate) fn holds(topic: &TopicName) -> bool {
        TOPICS[..4].contains(&topic.as_str())
    }

    pub(crate) fn produce(&mut self, topic: usize, count: i64) {
        *self.ends.entry(TOPICS[topic].into()).or_default() += count;
    }

    pub(crate) fn end(&self, partition: &TopicPartition) -> i64 {
        self.ends.get(&partition.topic).copied().unwrap_or_default()
    }

    pub(crate) fn commit(&mut self, key: &InstanceKey, commits: &[Commit]) {
        for commit in commits {
            let at = (key.subject, key.group.clone(), commit.partition.clone());
            self.commits.insert(at, commit.clone());
        }
    }

    pub(crate) fn committed(&self, key: &InstanceKey, partition: &TopicPartition) -> Option<&Commit> {
        self.commits
            .get(&(key.subject, key.group.clone(), partition.clone()))
    }

    /// Where reading starts.
    pub(crate) fn start(
        &self,
        key: &InstanceKey,
        reset: AutoOffsetReset,
        partition: &TopicPartition,
    ) -> Position {
        if let Some(commit) = self.committed(key, partition) {
            return commit.position;
        }
        Position::at(match reset {
            AutoOffsetReset::Earliest => 0,
            AutoOffsetReset::Latest | AutoOffsetReset::None => self.end(partition),
        })
    }
}
