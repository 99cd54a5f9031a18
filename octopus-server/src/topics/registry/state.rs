//! What the records of a registry come to. Nothing here waits, so that any log can be tried on it.

use std::collections::{BTreeSet, HashMap};

use octopus_core::TopicName;
use serde::{Deserialize, Serialize};

/// All namespaces, as far as the registry was read.
#[derive(Debug, Default)]
pub(super) struct State(HashMap<Box<str>, Entry>);

/// A namespace that the registry has a record of.
#[derive(Debug)]
struct Entry {
    /// `None` where it is deleted.
    topics: Option<BTreeSet<TopicName>>,
    /// The offset of its last record.
    last: i64,
    /// Whether that one did not count.
    is_void: bool,
}

/// A record of the registry: its key is the namespace, its value this, and null where the namespace is deleted.
#[derive(Debug, Serialize, Deserialize)]
struct Registered<'a> {
    #[serde(borrow)]
    topics: Vec<std::borrow::Cow<'a, str>>,
}

/// No record.
pub(super) const NONE: i64 = -1;

impl State {
    /// Takes the next record in, whose writer had read all of its namespace up to the record at `after`. Gives whether it
    /// counts: one whose writer did not know the one before it does not. What compaction took away can only make a writer
    /// know more than is there.
    pub(super) fn apply(&mut self, offset: i64, namespace: &str, value: Option<&[u8]>, after: i64) -> bool {
        let entry = self.0.entry(namespace.into()).or_insert(Entry {
            topics: None,
            last: NONE,
            is_void: false,
        });
        let topics = match value {
            None => Some(None),
            Some(value) => read(value).map(Some),
        };
        let counts = after >= entry.last;
        entry.last = offset;
        match topics.filter(|_| counts) {
            Some(topics) => {
                entry.topics = topics;
                entry.is_void = false;
                true
            }
            None => {
                entry.is_void = true;
                false
            }
        }
    }

    /// The topics of a namespace; `None` where there is no such namespace.
    pub(super) fn topics(&self, namespace: &str) -> Option<&BTreeSet<TopicName>> {
        self.0.get(namespace)?.topics.as_ref()
    }

    /// The offset of a namespace's last record, which whoever changes it knows.
    pub(super) fn last(&self, namespace: &str) -> i64 {
        self.0.get(namespace).map_or(NONE, |entry| entry.last)
    }

    /// Whether a namespace's last record did not count. Compaction would keep that one: what counts is to be written
    /// behind it.
    pub(super) fn is_void(&self, namespace: &str) -> bool {
        self.0.get(namespace).is_some_and(|entry| entry.is_void)
    }
}

/// The value of a record that names these topics.
pub(super) fn value(topics: &BTreeSet<TopicName>) -> Vec<u8> {
    let topics = topics.iter().map(|topic| topic.as_str().into()).collect();
    serde_json::to_vec(&Registered { topics }).expect("a list of text")
}

/// The topics that a value names; `None` where it is none of ours.
fn read(value: &[u8]) -> Option<BTreeSet<TopicName>> {
    let registered: Registered<'_> = serde_json::from_slice(value).ok()?;
    Some(
        registered
            .topics
            .iter()
            .map(|topic| TopicName::from(&**topic))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NS: &str = "ns-1";

    fn topics(names: &[&str]) -> BTreeSet<TopicName> {
        names.iter().map(|name| TopicName::from(*name)).collect()
    }

    fn put(state: &mut State, offset: i64, names: &[&str], after: i64) -> bool {
        state.apply(offset, NS, Some(&value(&topics(names))), after)
    }

    #[test]
    fn of_two_changes_in_one_moment_the_later_one_does_not_count() {
        let mut state = State::default();
        assert_eq!((state.topics(NS), state.last(NS)), (None, NONE));
        assert!(put(&mut state, 3, &["a"], NONE));
        // Both know the record at 3.
        assert!(put(&mut state, 4, &["a", "b"], 3));
        assert!(!put(&mut state, 5, &["a", "c"], 3));
        assert!(state.is_void(NS));
        assert_eq!(state.topics(NS), Some(&topics(&["a", "b"])));
        // The second one again, of what there is.
        assert_eq!(state.last(NS), 5);
        assert!(put(&mut state, 9, &["a", "b", "c"], 5));
        assert!(!state.is_void(NS));
        assert_eq!(state.topics(NS), Some(&topics(&["a", "b", "c"])));
        // Other namespaces have a line of their own.
        assert!(state.apply(10, "ns-2", Some(&value(&topics(&[]))), NONE));
        assert_eq!(state.topics("ns-2"), Some(&topics(&[])));
    }

    #[test]
    fn a_deleted_namespace_is_none() {
        let mut state = State::default();
        assert!(put(&mut state, 0, &["a"], NONE));
        assert!(!state.apply(1, NS, None, NONE));
        assert!(state.apply(2, NS, None, 1));
        assert_eq!(state.topics(NS), None);
        assert!(put(&mut state, 3, &[], 2));
        assert_eq!(state.topics(NS), Some(&topics(&[])));
    }

    #[test]
    fn a_value_that_is_none_of_ours_does_not_count() {
        let mut state = State::default();
        put(&mut state, 0, &["a"], NONE);
        for (offset, value) in (1..).zip([&b""[..], b"[]", b"{}", b"{\"topics\": [1]}", b"\xff"]) {
            assert!(!state.apply(offset, NS, Some(value), offset - 1));
        }
        assert_eq!(state.topics(NS), Some(&topics(&["a"])));
        assert!(state.is_void(NS));
    }

    proptest! {
        /// Writers that write again what did not count, whatever they knew when they wrote first: all that was told is in,
        /// and who reads what compaction left reads the same.
        #[test]
        fn nothing_that_was_told_is_lost(knows in proptest::collection::vec(any::<bool>(), 1..30)) {
            let mut log = Log::default();
            let mut told = BTreeSet::new();
            let mut late = log.known();
            for (number, knows) in knows.into_iter().enumerate() {
                let name = TopicName::from(&*format!("topic-{number}"));
                // What the writer read: the end, or what was the end when another one read it.
                let known = log.known();
                let known = if knows { known } else { std::mem::replace(&mut late, known) };
                if !log.write(known, &name) {
                    let known = log.known();
                    prop_assert!(log.write(known, &name));
                }
                told.insert(name);
                prop_assert_eq!(log.state.topics(NS), Some(&told));
                // Compaction takes from the front, up to a record that is not the last one.
                for cleaned in 0..log.records.len() {
                    let mut compacted = State::default();
                    for (offset, value, after) in &log.records[cleaned..] {
                        compacted.apply(*offset, NS, Some(value), *after);
                    }
                    prop_assert_eq!(compacted.topics(NS), Some(&told), "from {} on", cleaned);
                }
            }
        }
    }

    /// A log of one namespace, and what its reader has read.
    #[derive(Default)]
    struct Log {
        records: Vec<(i64, Vec<u8>, i64)>,
        state: State,
    }

    impl Log {
        fn known(&self) -> (BTreeSet<TopicName>, i64) {
            let topics = self.state.topics(NS).cloned();
            (topics.unwrap_or_default(), self.state.last(NS))
        }

        fn write(&mut self, (mut topics, after): (BTreeSet<TopicName>, i64), name: &TopicName) -> bool {
            topics.insert(name.clone());
            let offset = i64::try_from(self.records.len()).unwrap();
            let value = value(&topics);
            let counts = self.state.apply(offset, NS, Some(&value), after);
            self.records.push((offset, value, after));
            counts
        }
    }
}
