//! What was acknowledged, what was read, and the verdict.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How many faults are told one by one.
const TOLD: usize = 40;

/// Both sides of the account, by topic. A record is what its offset and the hash of its key, value and headers are.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    topics: BTreeMap<String, Topic>,
    doubled: u64,
    different: u64,
    told: Vec<String>,
    replies: BTreeMap<String, u64>,
    slowest: BTreeMap<String, u128>,
}

#[derive(Debug, Default)]
struct Topic {
    acknowledged: BTreeMap<i64, String>,
    read: BTreeMap<i64, String>,
    unread: BTreeSet<i64>,
    /// Hashes of acknowledged records whose offset the writer was not told.
    somewhere: BTreeSet<String>,
    floor: i64,
}

/// How the account stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) acknowledged: usize,
    /// Offsets that were read, also of records whose acknowledgement was lost.
    pub(crate) read: usize,
    /// Acknowledged and never read.
    pub(crate) lost: usize,
    /// Given out again where nothing allowed it.
    pub(crate) doubled: u64,
    /// Not the bytes that were acknowledged.
    pub(crate) different: u64,
}

impl Ledger {
    /// A record was acknowledged.
    pub(crate) fn acknowledged(&self, topic: &str, offset: i64, hash: &str) {
        let mut state = self.state();
        let account = state.topic(topic);
        let before = account.acknowledged.insert(offset, hash.to_owned());
        let read = account.read.get(&offset).cloned();
        if read.is_none() {
            account.unread.insert(offset);
        }
        for (other, what) in [(before, "acknowledged twice"), (read, "read as another")] {
            if other.is_some_and(|other| other != hash) {
                state.different += 1;
                state.tell(format!("{topic} {offset}: {what}"));
            }
        }
    }

    /// A record was acknowledged, but not where it is: the broker had it already when the writer sent it again.
    pub(crate) fn acknowledged_somewhere(&self, topic: &str, hash: &str) {
        self.state().topic(topic).somewhere.insert(hash.to_owned());
    }

    /// A reader was given a record. One below `floor`, the offset that this reader may not be given again, is doubled,
    /// and so is one below what the group had committed.
    pub(crate) fn read(&self, reader: &str, topic: &str, offset: i64, hash: &str, floor: i64) {
        let mut state = self.state();
        let account = state.topic(topic);
        let floor = floor.max(account.floor);
        account.unread.remove(&offset);
        let acknowledged = account.acknowledged.get(&offset).cloned();
        let before = account.read.insert(offset, hash.to_owned());
        if [acknowledged, before]
            .into_iter()
            .flatten()
            .any(|other| other != hash)
        {
            state.different += 1;
            state.tell(format!("{topic} {offset}: other bytes for {reader}"));
        }
        if offset < floor {
            state.doubled += 1;
            state.tell(format!("{topic} {offset}: again for {reader}, below {floor}"));
        }
    }

    /// The group has committed: nothing below `position` may come again.
    pub(crate) fn committed(&self, topic: &str, position: i64) {
        let mut state = self.state();
        let account = state.topic(topic);
        account.floor = account.floor.max(position);
    }

    /// The group's last known commit.
    pub(crate) fn floor(&self, topic: &str) -> i64 {
        self.state().topic(topic).floor
    }

    /// The offset after the last one that anyone was given.
    pub(crate) fn next(&self, topic: &str) -> i64 {
        let mut state = self.state();
        let last = state.topic(topic).read.last_key_value();
        last.map_or(0, |(&offset, _)| offset + 1)
    }

    /// A reply other than a success.
    pub(crate) fn replied(&self, what: String) {
        *self.state().replies.entry(what).or_default() += 1;
    }

    /// The replies other than successes, and how often each came.
    pub(crate) fn replies(&self) -> BTreeMap<String, u64> {
        self.state().replies.clone()
    }

    /// A request took that long beyond what it may wait for records.
    pub(crate) fn took(&self, what: &str, over: Duration) {
        let mut state = self.state();
        let slowest = state.slowest.entry(what.to_owned()).or_default();
        *slowest = over.as_millis().max(*slowest);
    }

    /// The slowest of each kind of request, in milliseconds.
    pub(crate) fn slowest(&self) -> BTreeMap<String, u128> {
        self.state().slowest.clone()
    }

    /// How the account stands.
    pub(crate) fn verdict(&self) -> Verdict {
        let state = self.state();
        let sum = |of: fn(&Topic) -> usize| state.topics.values().map(of).sum();
        Verdict {
            acknowledged: sum(|topic| topic.acknowledged.len() + topic.somewhere.len()),
            read: sum(|topic| topic.read.len()),
            lost: sum(|topic| topic.unread.len() + topic.nowhere().len()),
            doubled: state.doubled,
            different: state.different,
        }
    }

    /// What is wrong, one line a record.
    pub(crate) fn told(&self) -> Vec<String> {
        let state = self.state();
        let lost = state.topics.iter().flat_map(|(name, topic)| {
            let lost = topic.unread.iter().map(i64::to_string);
            let lost = lost.chain(topic.nowhere().into_iter().cloned()).take(TOLD);
            lost.map(move |which| format!("{name} {which}: never read"))
        });
        state.told.iter().cloned().chain(lost).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Topic {
    /// The hashes of records that are somewhere, but were not read.
    fn nowhere(&self) -> BTreeSet<&String> {
        if self.somewhere.is_empty() {
            return BTreeSet::new();
        }
        let read: BTreeSet<_> = self.read.values().collect();
        self.somewhere
            .iter()
            .filter(|hash| !read.contains(hash))
            .collect()
    }
}

impl State {
    fn topic(&mut self, topic: &str) -> &mut Topic {
        if !self.topics.contains_key(topic) {
            self.topics.insert(topic.to_owned(), Topic::default());
        }
        self.topics.get_mut(topic).unwrap()
    }

    fn tell(&mut self, what: String) {
        if self.told.len() < TOLD {
            self.told.push(what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(of: impl Fn(&Ledger)) -> (usize, u64, u64) {
        let ledger = Ledger::default();
        of(&ledger);
        let Verdict {
            lost,
            doubled,
            different,
            ..
        } = ledger.verdict();
        assert_eq!(
            ledger.told().is_empty(),
            lost == 0 && doubled == 0 && different == 0
        );
        (lost, doubled, different)
    }

    #[test]
    fn the_checker_sees_what_is_lost_doubled_and_different() {
        assert_eq!(verdict(|l| l.acknowledged("t", 1, "a")), (1, 0, 0));
        let somewhere = |l: &Ledger| {
            l.acknowledged_somewhere("t", "a");
            l.acknowledged_somewhere("t", "b");
            l.read("r", "t", 1, "a", 0);
        };
        assert_eq!(verdict(somewhere), (1, 0, 0));
        let in_order = |l: &Ledger| {
            l.acknowledged("t", 1, "a");
            l.read("r", "t", 1, "a", 0);
            l.read("r", "t", 2, "b", 2);
            l.acknowledged("t", 2, "b");
        };
        assert_eq!(verdict(in_order), (0, 0, 0));
        let again = |l: &Ledger| {
            in_order(l);
            l.read("r", "t", 2, "b", 3);
        };
        assert_eq!(verdict(again), (0, 1, 0));
        let above_the_commit = |l: &Ledger| {
            in_order(l);
            l.committed("t", 2);
            l.read("r", "t", 2, "b", 0);
        };
        assert_eq!(verdict(above_the_commit), (0, 0, 0));
        let below_the_commit = |l: &Ledger| {
            in_order(l);
            l.committed("t", 3);
            l.read("r", "t", 2, "b", 0);
        };
        assert_eq!(verdict(below_the_commit), (0, 1, 0));
        let other_bytes = |l: &Ledger| {
            l.acknowledged("t", 1, "a");
            l.read("r", "t", 1, "b", 0);
        };
        assert_eq!(verdict(other_bytes), (0, 0, 1));
        let other_bytes_before = |l: &Ledger| {
            l.read("r", "t", 1, "b", 0);
            l.acknowledged("t", 1, "a");
        };
        assert_eq!(verdict(other_bytes_before), (0, 0, 1));
    }
}
