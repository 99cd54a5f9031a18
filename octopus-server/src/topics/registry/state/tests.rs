use proptest::prelude::*;

use super::*;

const NS: &str = "ns-1";

fn topics(names: &[&str]) -> Stages {
    let names = names.iter();
    names.map(|name| (TopicName::from(*name), Stage::There)).collect()
}

fn put(state: &mut State, token: &str, version: u64, names: &[&str]) -> bool {
    state.watch(token);
    state.apply(&key(NS, token), Some(&value(version, Some(&topics(names)))));
    state.counted(token)
}

#[test]
fn of_two_changes_in_one_moment_the_later_one_does_not_count() {
    let mut state = State::default();
    assert_eq!((state.topics(NS), state.next_version(NS)), (None, 1));
    assert!(put(&mut state, "a", 1, &["a"]));
    // Both are of the first one.
    assert!(put(&mut state, "b", 2, &["a", "b"]));
    assert!(!put(&mut state, "c", 2, &["a", "c"]));
    assert_eq!(state.topics(NS), Some(&topics(&["a", "b"])));
    assert_eq!(state.stale(NS).collect::<Vec<_>>(), ["a", "c"]);
    // The second one again, of what there is.
    let version = state.next_version(NS);
    assert!(put(&mut state, "d", version, &["a", "b", "c"]));
    assert_eq!(state.topics(NS), Some(&topics(&["a", "b", "c"])));
    state.apply(&key(NS, "a"), None);
    assert_eq!(state.stale(NS).collect::<Vec<_>>(), ["b", "c"]);
    // Other namespaces have a line of their own.
    state.apply("ns-2/a", Some(&value(1, Some(&topics(&[])))));
    assert_eq!(state.topics("ns-2"), Some(&topics(&[])));
    assert_eq!(state.topics(NS), Some(&topics(&["a", "b", "c"])));
}

#[test]
fn a_record_that_counted_and_was_followed_by_another_one_has_counted() {
    let mut state = State::default();
    state.watch("a");
    state.apply(&key(NS, "a"), Some(&value(1, Some(&topics(&["a"])))));
    state.apply(&key(NS, "b"), Some(&value(2, Some(&topics(&["b"])))));
    assert!(state.counted("a"));
    assert!(!state.counted("a"));
}

#[test]
fn a_deleted_namespace_is_none_and_goes_on_where_it_ended() {
    let mut state = State::default();
    assert!(put(&mut state, "a", 1, &["a"]));
    state.apply(&key(NS, "b"), Some(&value(2, None)));
    assert_eq!((state.topics(NS), state.next_version(NS)), (None, 3));
    assert!(put(&mut state, "c", 3, &[]));
    assert_eq!(state.topics(NS), Some(&topics(&[])));
}

#[test]
fn a_value_that_is_none_of_ours_changes_nothing() {
    let mut state = State::default();
    put(&mut state, "a", 1, &["a"]);
    for value in [
        &b""[..],
        b"[]",
        b"{}",
        br#"{"topics": ["b"]}"#,
        br#"{"version": 2, "topics": {"b": "here"}}"#,
        br#"{"version": -1, "topics": null}"#,
        b"\xff",
    ] {
        state.apply(&key(NS, "b"), Some(value));
        state.apply(NS, Some(value));
    }
    state.apply(NS, None);
    assert_eq!(state.topics(NS), Some(&topics(&["a"])));
    assert_eq!((state.next_version(NS), state.stale(NS).count()), (2, 0));
}

#[test]
fn each_stage_is_read_as_it_was_written() {
    let stages: Stages = [
        ("a", Stage::There),
        ("b", Stage::Coming("x".into())),
        ("c", Stage::Leaving("y".into())),
        ("d", Stage::Renewing("z".into())),
    ]
    .map(|(topic, stage)| (TopicName::from(topic), stage))
    .into();
    assert_eq!(read(&value(7, Some(&stages))), Some((7, Some(stages.clone()))));
    assert_eq!(read(&value(8, None)), Some((8, None)));
    let held: Vec<_> = held(&stages).map(TopicName::as_str).collect();
    assert_eq!(held, ["a", "b", "d"]);
}

/// What a writer knows when it writes.
#[derive(Debug, Clone, Copy)]
enum Knows {
    /// All, from the time before anything was compacted on.
    All,
    /// What was there when another one read it.
    Late,
    /// What a server finds that starts after compaction.
    Left,
}

#[derive(Debug, Clone)]
enum Step {
    Write {
        knows: Knows,
        deletes: bool,
    },
    /// Compaction, of those of the records that it may take by chance.
    Compact(Vec<bool>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let knows = prop_oneof![Just(Knows::All), Just(Knows::Late), Just(Knows::Left)];
    let write = (knows, proptest::bool::weighted(0.2));
    let step = prop_oneof![
        3 => write.prop_map(|(knows, deletes)| Step::Write { knows, deletes }),
        1 => proptest::collection::vec(any::<bool>(), 40).prop_map(Step::Compact),
    ];
    proptest::collection::vec(step, 1..40)
}

proptest! {
    /// [NS-05] writers that write again nothing, whatever they knew when they wrote, and servers that started whenever:
    /// they agree after each record on what was told, whatever compaction took and left.
    #[test]
    fn every_reader_agrees_on_what_was_told(steps in steps()) {
        let mut log = Log::default();
        let mut late = State::default();
        let mut told: Option<Stages> = None;
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Compact(chance) => log.compact(&chance),
                Step::Write { knows, deletes } => {
                    let writer = match knows {
                        Knows::All => log.reader.clone(),
                        Knows::Late => std::mem::replace(&mut late, log.reader.clone()),
                        Knows::Left => log.fresh(),
                    };
                    let name = format!("topic-{number}");
                    let mut new = writer.topics(NS).cloned().unwrap_or_default();
                    new.insert(TopicName::from(&*name), Stage::There);
                    let new = (!deletes).then_some(new);
                    let counts = log.write(&writer, &name, new.as_ref());
                    if !matches!(knows, Knows::Late) {
                        prop_assert!(counts, "nobody was quicker");
                    }
                    if counts {
                        told = new;
                    }
                }
            }
            prop_assert_eq!(log.reader.topics(NS), told.as_ref());
            let fresh = log.fresh();
            prop_assert_eq!(fresh.topics(NS), told.as_ref());
            prop_assert_eq!(fresh.next_version(NS), log.reader.next_version(NS));
        }
    }
}

/// A log of one namespace, and a reader that was there from the start.
#[derive(Default)]
struct Log {
    records: Vec<(String, Option<Vec<u8>>)>,
    reader: State,
}

impl Log {
    fn write(&mut self, writer: &State, token: &str, topics: Option<&Stages>) -> bool {
        self.reader.watch(token);
        let record = (key(NS, token), Some(value(writer.next_version(NS), topics)));
        let tombstones = writer.stale(NS).map(|token| (key(NS, token), None));
        for (key, value) in std::iter::once(record).chain(tombstones) {
            self.reader.apply(&key, value.as_deref());
            self.records.push((key, value));
        }
        self.reader.counted(token)
    }

    /// Takes of the records that have a tombstone behind them, and of the tombstones that have nothing left before them.
    fn compact(&mut self, chance: &[bool]) {
        let mut chance = chance.iter().cycle();
        let mut at = 0;
        while at < self.records.len() {
            let (key, value) = &self.records[at];
            let same = |(other, _): &&(String, Option<Vec<u8>>)| other == key;
            let may_go = match value {
                Some(_) => self.records[at + 1..].iter().find(same).is_some(),
                None => self.records[..at].iter().find(same).is_none(),
            };
            if may_go && *chance.next().expect("a cycle") {
                self.records.remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// What who starts at present reads.
    fn fresh(&self) -> State {
        let mut state = State::default();
        for (key, value) in &self.records {
            state.apply(key, value.as_deref());
        }
        state
    }
}
