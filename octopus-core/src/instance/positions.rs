//! Where each assigned partition is read next, and which comes first in the next reply.

use crate::{Commit, Position, TopicPartition};

/// The assigned partitions of an instance.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    /// Sorted. Most instances have one, and a tree would have room for eleven.
    at: Vec<(TopicPartition, Option<Position>)>,
    order: Vec<TopicPartition>,
    blocked: Option<TopicPartition>,
}

impl Positions {
    /// Takes an assignment in place of the earlier one. Partitions that stay keep their place in the order, and with
    /// `keep` their positions [D-12]; others start anew.
    pub(crate) fn install(&mut self, partitions: &[TopicPartition], keep: bool) {
        let mut at: Vec<_> = partitions
            .iter()
            .map(|partition| (partition.clone(), self.of(partition).filter(|_| keep)))
            .collect();
        at.sort_by(|(a, _), (b, _)| a.cmp(b));
        at.dedup_by(|(a, _), (b, _)| a == b);
        self.at = at;
        let mut order = std::mem::take(&mut self.order);
        order.retain(|partition| self.contains(partition));
        for partition in partitions {
            if !order.contains(partition) {
                order.push(partition.clone());
            }
        }
        self.order = order;
        let blocked = self.blocked.take();
        self.blocked = blocked.filter(|blocked| keep && self.contains(blocked));
    }

    /// Drops every partition that `stays` does not name.
    pub(crate) fn retain(&mut self, stays: impl Fn(&TopicPartition) -> bool) {
        let stay: Vec<_> = self.assigned().into_iter().filter(stays).collect();
        self.install(&stay, true);
    }

    /// Whether a partition is assigned.
    pub(crate) fn contains(&self, partition: &TopicPartition) -> bool {
        self.find(partition).is_ok()
    }

    /// The assigned partitions, sorted by topic [D-15].
    pub(crate) fn assigned(&self) -> Vec<TopicPartition> {
        self.at.iter().map(|(partition, _)| partition.clone()).collect()
    }

    /// How many partitions are assigned.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// The partitions in the order in which the next reply takes them, each with its position.
    pub(crate) fn plan(&self) -> Vec<(TopicPartition, Option<Position>)> {
        self.order
            .iter()
            .map(|partition| (partition.clone(), self.of(partition)))
            .collect()
    }

    /// The partitions in the order of the next reply.
    pub(crate) fn order(&self) -> &[TopicPartition] {
        &self.order
    }

    /// Every known position, as a commit without a body commits it [CO-02].
    pub(crate) fn known(&self) -> Vec<Commit> {
        self.at
            .iter()
            .filter_map(|(partition, position)| {
                Some(Commit {
                    partition: partition.clone(),
                    position: (*position)?,
                    metadata: "".into(),
                })
            })
            .collect()
    }

    /// The partitions that have no position yet.
    pub(crate) fn unknown(&self) -> Vec<TopicPartition> {
        let unknown = self.at.iter().filter(|(_, position)| position.is_none());
        unknown.map(|(partition, _)| partition.clone()).collect()
    }

    /// Moves partitions; those that are not assigned are passed over.
    pub(crate) fn advance(&mut self, moved: Vec<(TopicPartition, Position)>) {
        for (partition, position) in moved {
            if let Some(at) = self.at_mut(&partition) {
                *at = Some(position);
            }
        }
    }

    /// Sets those that have no position yet.
    pub(crate) fn fill(&mut self, started: Vec<(TopicPartition, Position)>) {
        for (partition, position) in started {
            if let Some(at) = self.at_mut(&partition) {
                at.get_or_insert(position);
            }
        }
    }

    /// Goes to a place that the client chose, or with `None` to where reading starts. The partition is no longer
    /// blocked.
    pub(crate) fn seek(&mut self, partition: &TopicPartition, position: Option<Position>) {
        if let Some(at) = self.at_mut(partition) {
            *at = position;
            if self.blocked.as_ref() == Some(partition) {
                self.blocked = None;
            }
        }
    }

    /// A reply that this partition came first in was cut: it comes last in the next one [FE-12].
    pub(crate) fn rotate(&mut self, cut: &TopicPartition) {
        if let Some(place) = self.order.iter().position(|partition| partition == cut) {
            let first = self.order.remove(place);
            self.order.push(first);
        }
    }

    /// The partition's next record is not UTF-8: no fetch gets past it [FE-06] [D-37].
    pub(crate) fn block(&mut self, partition: TopicPartition) {
        if self.contains(&partition) {
            self.blocked = Some(partition);
        }
    }

    /// The partition that no fetch gets past.
    pub(crate) const fn blocked(&self) -> Option<&TopicPartition> {
        self.blocked.as_ref()
    }

    fn find(&self, partition: &TopicPartition) -> Result<usize, usize> {
        self.at.binary_search_by(|(known, _)| known.cmp(partition))
    }

    fn of(&self, partition: &TopicPartition) -> Option<Position> {
        self.find(partition).ok().and_then(|at| self.at[at].1)
    }

    fn at_mut(&mut self, partition: &TopicPartition) -> Option<&mut Option<Position>> {
        self.find(partition).ok().map(|at| &mut self.at[at].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(name: &str) -> TopicPartition {
        TopicPartition::only(name.into())
    }

    fn read(names: &[&str]) -> Positions {
        let mut positions = Positions::default();
        positions.install(&names.iter().map(|name| only(name)).collect::<Vec<_>>(), true);
        positions
    }

    /// [D-12]
    #[test]
    fn partitions_that_stay_keep_their_positions() {
        let mut positions = read(&["a", "b"]);
        positions.advance(vec![
            (only("a"), Position::at(4)),
            (only("b"), Position::at(7)),
            (only("x"), Position::at(1)),
        ]);
        positions.install(&[only("c"), only("b")], true);
        assert_eq!(
            positions.plan(),
            [(only("b"), Some(Position::at(7))), (only("c"), None)]
        );
        assert_eq!(positions.unknown(), [only("c")]);
        positions.install(&[only("b")], false);
        assert_eq!(positions.plan(), [(only("b"), None)]);
        positions.retain(|_| false);
        assert_eq!(positions.len(), 0);
        assert!(positions.plan().is_empty());
    }

    /// [FE-12]
    #[test]
    fn a_cut_reply_sends_its_first_partition_to_the_end() {
        let mut positions = read(&["a", "b", "c"]);
        positions.rotate(&only("a"));
        assert_eq!(positions.order(), [only("b"), only("c"), only("a")]);
        positions.rotate(&only("b"));
        positions.rotate(&only("x"));
        assert_eq!(positions.order(), [only("c"), only("a"), only("b")]);
        assert_eq!(positions.assigned(), [only("a"), only("b"), only("c")]);
    }

    /// [D-37]
    #[test]
    fn a_block_ends_with_a_seek_or_the_assignment() {
        let mut positions = read(&["a", "b"]);
        positions.block(only("x"));
        assert_eq!(positions.blocked(), None);
        positions.block(only("a"));
        positions.seek(&only("b"), Some(Position::at(1)));
        positions.install(&[only("a"), only("c")], true);
        assert_eq!(positions.blocked(), Some(&only("a")));
        positions.seek(&only("a"), Some(Position::at(1)));
        assert_eq!(positions.blocked(), None);
        positions.block(only("a"));
        positions.install(&[only("c")], true);
        assert_eq!(positions.blocked(), None);
    }

    /// [CO-02]
    #[test]
    fn what_is_committed_is_every_known_position() {
        let mut positions = read(&["b", "a", "c"]);
        positions.advance(vec![(only("b"), Position::at(2)), (only("a"), Position::at(1))]);
        let known: Vec<_> = positions
            .known()
            .into_iter()
            .map(|commit| (commit.partition, commit.position.offset))
            .collect();
        assert_eq!(known, [(only("a"), 1), (only("b"), 2)]);
    }
}
