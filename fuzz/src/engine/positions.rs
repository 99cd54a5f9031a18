//! Where each instance reads on, as its client and Kafka have it: told by the same facts as the engine.

use std::collections::BTreeMap;

use octopus_core::{
    CallId, Command, Commit, Effect, Error, InstanceId, InstanceKey, Outcome, Position, Reply, TopicPartition,
};

type Place = (InstanceId, TopicPartition);

/// The last position that each partition of an instance came to. The engine has the same one, or none.
#[derive(Debug, Default)]
pub(super) struct Positions {
    last: BTreeMap<Place, Position>,
    /// Where a reply leads that is not delivered yet.
    packed: BTreeMap<CallId, Vec<(Place, Position)>>,
    /// The instance that has a name.
    names: BTreeMap<InstanceKey, InstanceId>,
}

impl Positions {
    /// What a call brought is about to be told.
    pub(super) fn come(
        &mut self,
        call: CallId,
        instance: InstanceId,
        effect: &Effect,
        outcome: &Result<Outcome, Error>,
    ) {
        match (effect, outcome) {
            (Effect::Fetch(_), Ok(Outcome::Fetched(fetched))) => {
                for (at, position) in fetched.started.iter().chain(&fetched.skipped) {
                    self.last.insert((instance, at.clone()), *position);
                }
                let next = fetched.next.iter();
                let next = next.map(|(at, position)| ((instance, at.clone()), *position));
                self.packed.insert(call, next.collect());
            }
            (Effect::Start(asked) | Effect::Bounds(asked, _), Ok(Outcome::Positions(found))) => {
                // The first of each counts.
                for (at, position) in found.iter().rev().filter(|(at, _)| asked.contains(at)) {
                    self.last.insert((instance, at.clone()), *position);
                }
            }
            _ => {}
        }
    }

    /// The records that this call packed count as read [AK-04].
    pub(super) fn delivered(&mut self, call: CallId) {
        let packed = self.packed.remove(&call).expect("records that were packed");
        self.last.extend(packed);
    }

    /// A request was answered: a seek counts from here on.
    pub(super) fn answered(&mut self, key: &InstanceKey, command: &Command, reply: &Result<Reply, Error>) {
        if let (Command::Seek(list), Ok(_)) = (command, reply)
            && let Some(instance) = self.names.get(key)
        {
            for (at, position) in list {
                self.last.insert((*instance, at.clone()), *position);
            }
        }
    }

    /// A call begins: what it reads from or commits is where the client is [FE-11] [CO-01] [AK-04].
    pub(super) fn asked(&mut self, instance: InstanceId, effect: &Effect) {
        match effect {
            Effect::Open(open) => _ = self.names.insert(open.key.clone(), instance),
            Effect::Fetch(plan) => {
                let mut seen = Vec::new();
                for (at, position) in &plan.positions {
                    assert!(at.partition == 0 && !seen.contains(&at), "{at:?} is read once");
                    seen.push(at);
                    if let Some(position) = position {
                        self.is_last(instance, at, *position);
                    }
                }
            }
            // A client's own says so.
            Effect::Commit(commits) => {
                self.all_last(instance, commits.iter().filter(|own| &*own.metadata != "m"))
            }
            Effect::Join(join) => self.all_last(instance, join.commit.iter()),
            Effect::Close
            | Effect::Topics(_)
            | Effect::Leave
            | Effect::Committed(_)
            | Effect::Start(_)
            | Effect::Bounds(..) => {}
        }
    }

    fn all_last<'a>(&self, instance: InstanceId, commits: impl Iterator<Item = &'a Commit>) {
        commits.for_each(|commit| self.is_last(instance, &commit.partition, commit.position));
    }

    fn is_last(&self, instance: InstanceId, at: &TopicPartition, position: Position) {
        let last = self.last.get(&(instance, at.clone())).copied();
        assert_eq!(
            last,
            Some(position),
            "{at:?} was skipped, repeated or never begun"
        );
    }
}
