//! In which order a broker is asked for partitions: it fills an answer from the first one on, and one with a backlog takes
//! it all.

use std::collections::{BTreeMap, BTreeSet};

use octopus_core::limits::FETCH_BYTES;

/// The answer's records from which on it may have had no room for more partitions, in bytes: brokers end an answer at its
/// bound, or at the batch before that.
const FULL: usize = FETCH_BYTES.unsigned_abs() as usize / 2;

/// When each topic last took of an answer that was full.
#[derive(Debug, Default)]
pub(super) struct Order {
    served: BTreeMap<String, u64>,
    answers: u64,
}

impl Order {
    /// Keeps only what concerns these topics.
    pub(super) fn only(&mut self, topics: &BTreeSet<String>) {
        self.served.retain(|topic, _| topics.contains(topic));
    }

    /// An answer had so many bytes of records of each of these topics.
    pub(super) fn came<'a>(&mut self, topics: impl Iterator<Item = (&'a str, usize)> + Clone) {
        let bytes: usize = topics.clone().map(|(_, bytes)| bytes).sum();
        if bytes < FULL {
            return;
        }
        self.answers += 1;
        for (topic, _) in topics.filter(|(_, bytes)| *bytes > 0) {
            self.served.insert(topic.to_owned(), self.answers);
        }
    }

    /// What a topic is sorted by, those that wait longest first; topics of which nothing was kept out stay as they are.
    pub(super) fn key(&self, topic: &str) -> u64 {
        self.served.get(topic).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [FE-12] what was served goes behind what was kept out, and nothing moves where all had room.
    #[test]
    fn those_that_a_full_answer_served_come_last() {
        let mut order = Order::default();
        let sorted = |order: &Order| {
            let mut topics = ["a", "b", "c"];
            topics.sort_by_key(|topic| order.key(topic));
            topics.concat()
        };
        order.came([("a", 1000), ("b", 0), ("c", 0)].into_iter());
        assert_eq!(sorted(&order), "abc");
        order.came([("a", FULL), ("b", 0)].into_iter());
        assert_eq!(sorted(&order), "bca");
        order.came([("b", FULL - 1), ("c", 1), ("a", 0)].into_iter());
        assert_eq!(sorted(&order), "abc");
        order.came([("a", FULL)].into_iter());
        assert_eq!(sorted(&order), "bca");
        order.only(&BTreeSet::from(["b".to_owned()]));
        assert_eq!(sorted(&order), "acb");
    }
}
