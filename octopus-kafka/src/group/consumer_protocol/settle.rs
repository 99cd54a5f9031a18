//! How a join ends: what the member owns comes to its target, and gets its topics' names.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use uuid::Uuid;

use super::{LOOK_UP_WAIT, Member, Progress, State, is_read};
use crate::{
    consumer::Signal,
    group::member::{Output, Request, Trouble},
};

impl Member {
    /// The member may give partitions up, and take others.
    pub(super) fn settle(&mut self, now: Instant) {
        self.result = None;
        self.beside = None;
        self.look_at = None;
        self.progress = Progress::Settling;
        self.soon = 0;
        self.advance(now);
    }

    /// Does what the state of things asks for.
    pub(super) fn advance(&mut self, now: Instant) {
        match self.progress {
            Progress::Committing => {}
            Progress::Settling if self.state != State::In || self.flight.is_some() => {}
            Progress::Settling => {
                self.accept();
                if self.has_told() {
                    self.name(now);
                } else {
                    self.beat(now);
                }
            }
            Progress::Naming { .. } if self.target != self.owned => self.settle(now),
            Progress::Naming { .. } => {}
            Progress::Done if self.target != self.owned || !self.is_given() => self.unsettled(now),
            Progress::Done if self.has_nameless() && self.beside.is_none() => self.ask(true, now),
            Progress::Done => {}
        }
    }

    /// The member should join again: its owner is told once; if no one took the assignment, it just does.
    pub(super) fn unsettled(&mut self, now: Instant) {
        if self.result.is_some() {
            self.settle(now);
        } else if !self.signalled {
            self.signalled = true;
            self.outputs.push_back(Output::Signal(Signal::Rebalance));
        }
    }

    /// Makes what it owns the target.
    fn accept(&mut self) {
        let mut gave_up = false;
        for (id, partitions) in &self.owned {
            let target = self.target.get(id);
            gave_up |= target.is_none_or(|target| !partitions.is_subset(target));
            if target.is_some_and(is_read) {
                continue;
            }
            if let Some(name) = self.names.get(id)
                && self.since.remove(name).is_some()
            {
                self.given_up.insert(name.clone());
            }
        }
        if gave_up {
            self.tenure = self.tenure.wrapping_add(1);
        }
        self.owned.clone_from(&self.target);
        self.names.retain(|id, _| self.owned.contains_key(id));
    }

    pub(super) fn has_told(&self) -> bool {
        self.told.as_ref() == Some(&self.topics) && self.told_owned.as_ref() == Some(&self.owned)
    }

    fn name(&mut self, now: Instant) {
        if self.has_nameless() {
            self.progress = Progress::Naming { anew: false };
            self.ask(false, now);
        } else {
            self.finish();
        }
    }

    /// Whether there is a topic to read whose name is not known.
    fn has_nameless(&self) -> bool {
        let mut owned = self.owned.iter();
        owned.any(|(id, partitions)| is_read(partitions) && !self.names.contains_key(id))
    }

    fn ask(&mut self, anew: bool, now: Instant) {
        self.look_at = None;
        let topics = self.topics.clone();
        self.send_beside(Request::Ids { topics, anew }, now + LOOK_UP_WAIT);
    }

    /// Looks topics up again.
    pub(super) fn look_up(&mut self, now: Instant) {
        self.ask(true, now);
    }

    pub(super) fn looked_up(&mut self, result: Result<BTreeMap<String, Uuid>, Trouble>, now: Instant) {
        match result {
            Ok(ids) => {
                let known = ids.into_iter().filter(|(_, id)| self.owned.contains_key(id));
                self.names.extend(known.map(|(name, id)| (id, name)));
            }
            Err(trouble) => {
                tracing::debug!(
                    ?trouble,
                    "the topics that the group assigned could not be looked up"
                );
                if self.progress != Progress::Done {
                    self.look_at = Some(now + self.backoff());
                }
                return;
            }
        }
        match self.progress {
            Progress::Naming { anew: false } if self.has_nameless() => {
                self.progress = Progress::Naming { anew: true };
                self.ask(true, now);
            }
            // What is nameless still is looked up with each heartbeat.
            Progress::Naming { .. } => self.finish(),
            Progress::Done if !self.is_given() => self.unsettled(now),
            Progress::Done | Progress::Committing | Progress::Settling => {}
        }
    }

    fn finish(&mut self) {
        for (id, partitions) in &self.owned {
            let name = self.names.get(id).filter(|name| self.topics.contains(*name));
            if name.is_none() || partitions.iter().any(|&partition| partition != 0) {
                tracing::warn!(%id, topic = name, ?partitions, "the group assigned what was not asked for");
            }
        }
        let given: BTreeSet<String> = self.readable().cloned().collect();
        self.since.retain(|topic, _| given.contains(topic));
        for topic in &given {
            self.since.entry(topic.clone()).or_insert(self.tenure);
        }
        self.result = Some(Ok(given.iter().cloned().collect()));
        self.given = given;
        self.progress = Progress::Done;
        self.signalled = false;
        self.failures = 0;
    }

    /// The topics that its owner may read. One that it had and that was given up meanwhile is left to the next join:
    /// another member may have read on there, so that its owner has to see it go.
    fn readable(&self) -> impl Iterator<Item = &String> {
        let read = self.owned.iter().filter(|(_, partitions)| is_read(partitions));
        read.filter_map(|(id, _)| self.names.get(id))
            .filter(|name| self.topics.contains(*name) && !self.given_up.contains(*name))
    }

    /// Whether the last answer holds all that its owner may read.
    fn is_given(&self) -> bool {
        self.readable().count() == self.given.len() && self.readable().all(|name| self.given.contains(name))
    }
}
