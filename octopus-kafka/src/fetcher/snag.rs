//! What stands in the way of reading at a position: an answer over the bound, or bytes that can't be read. Nothing of it
//! outlives the position.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;

use crate::cluster::Origin;

/// How long a partition whose answer is over the bound is left alone: it closes its connection each time.
const LEFT_ALONE: Duration = Duration::from_secs(10);

/// What is known of one consumer's topics.
#[derive(Debug, Default)]
pub(super) struct Snags {
    of: BTreeMap<String, Snag>,
    /// Where the records of each topic came from last.
    origins: BTreeMap<String, Origin>,
}

#[derive(Debug)]
struct Snag {
    offset: i64,
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum What {
    /// An answer with it and others was over the bound: it is asked for alone.
    Suspect,
    /// An answer with it alone was over the bound, at this time.
    TooLarge(Instant),
    /// What came could not be read. It is asked for behind the others, whose room in an answer it might take.
    Damaged,
}

impl Snags {
    /// Keeps only what concerns these topics.
    pub(super) fn only(&mut self, topics: &BTreeSet<String>) {
        self.of.retain(|topic, _| topics.contains(topic));
        self.origins.retain(|topic, _| topics.contains(topic));
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.of.clear();
        self.origins.clear();
    }

    /// Records of a topic came from here.
    pub(super) fn came(&mut self, topic: &str, origin: &Origin) {
        self.origins.insert(topic.to_owned(), origin.clone());
    }

    /// The leader answered for this position within the bound; whether that was in doubt.
    pub(super) fn passed(&mut self, topic: &str, offset: i64) -> bool {
        let was_suspect = self.is_suspect(topic, offset);
        if was_suspect {
            self.of.remove(topic);
        }
        was_suspect
    }

    /// An answer for these positions was over the bound. The partition at fault is told by asking for each alone.
    pub(super) fn too_large(&mut self, asked: &[(&str, i64)], now: Instant) {
        for &(topic, offset) in asked {
            let what = match asked {
                [_] if self.is_suspect(topic, offset) => What::TooLarge(now),
                _ => What::Suspect,
            };
            self.of.insert(topic.to_owned(), Snag { offset, what });
        }
    }

    /// Whether this position is to be asked for alone.
    pub(super) fn is_suspect(&self, topic: &str, offset: i64) -> bool {
        matches!(self.at(topic, offset), Some(What::Suspect | What::TooLarge(_)))
    }

    /// Whether this position is left alone, for its answer is over the bound.
    pub(super) fn is_too_large(&self, topic: &str, offset: i64, now: Instant) -> bool {
        matches!(self.at(topic, offset), Some(What::TooLarge(at)) if now < at + LEFT_ALONE)
    }

    /// Whether what was read at this position could not be understood.
    pub(super) fn is_damaged(&self, topic: &str, offset: i64) -> bool {
        self.at(topic, offset) == Some(What::Damaged)
    }

    /// Whether something stands in the way at this position.
    pub(super) fn is_any(&self, topic: &str, offset: i64) -> bool {
        self.at(topic, offset).is_some()
    }

    /// What was read at this position is damaged; whether it was so before. If not, the connection that it came on is
    /// left, in case it was damaged on its way.
    pub(super) fn damaged(&mut self, topic: &str, offset: i64) -> bool {
        let is_again = self.at(topic, offset) == Some(What::Damaged);
        let what = What::Damaged;
        self.of.insert(topic.to_owned(), Snag { offset, what });
        if let Some(origin) = self.origins.remove(topic).filter(|_| !is_again) {
            origin.poison("the records of an answer can't be read");
        }
        is_again
    }

    fn at(&self, topic: &str, offset: i64) -> Option<What> {
        let snag = self.of.get(topic).filter(|snag| snag.offset == offset);
        snag.map(|snag| snag.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [KF-18] the one whose answer is over the bound is found among many, left alone for a while, and no longer than it
    /// is asked for.
    #[test]
    fn the_partition_at_fault_is_found_by_asking_for_each_alone() {
        let (mut snags, now) = (Snags::default(), Instant::now());
        snags.too_large(&[("a", 1), ("b", 2)], now);
        assert!(snags.is_suspect("a", 1) && snags.is_suspect("b", 2));
        assert!(!snags.is_too_large("a", 1, now));
        assert!(snags.passed("a", 1));
        assert!(!snags.is_suspect("a", 1) && !snags.passed("a", 1));
        snags.too_large(&[("b", 2)], now);
        assert!(snags.is_too_large("b", 2, now));
        assert!(!snags.is_too_large("b", 3, now), "a seek");
        let later = now + LEFT_ALONE;
        assert!(!snags.is_too_large("b", 2, later) && snags.is_suspect("b", 2));
        snags.too_large(&[("b", 2)], later);
        assert!(snags.is_too_large("b", 2, later), "at once, the next time");
        snags.only(&BTreeSet::new());
        assert!(!snags.is_suspect("b", 2));
    }

    /// [KF-13] damage counts when it is seen twice at one place.
    #[test]
    fn damage_counts_the_second_time() {
        let mut snags = Snags::default();
        assert!(!snags.damaged("a", 1));
        assert!(!snags.damaged("a", 2));
        assert!(!snags.damaged("b", 2));
        assert!(snags.is_damaged("a", 2) && !snags.is_damaged("a", 1));
        assert!(snags.damaged("a", 2));
        assert!(snags.damaged("a", 2));
        assert!(!snags.is_suspect("a", 2));
    }
}
