//! What a poll brought, and whether it may be so.

use std::time::Duration;

use octopus_core::{AutoOffsetReset, Error, FetchPlan, Fetched, Position, Records, TopicPartition};
use octopus_kafka::Polled;

use super::{Place, Reader};
use crate::{sim::State, truth::Seen};

/// The records that were read, and the position behind them.
pub(super) type Taken = (Vec<(i64, u64)>, Option<Position>);

/// What a poll brought, as far as the reply has room for it.
pub(super) struct Found {
    pub(super) failed: Vec<(TopicPartition, Error)>,
    pub(super) started: Vec<(TopicPartition, Position)>,
    pub(super) parts: Vec<(TopicPartition, Taken)>,
}

impl Found {
    /// How far it reaches.
    pub(super) fn fetched(&self) -> Fetched {
        let ends = self.parts.iter();
        Fetched {
            started: self.started.clone(),
            next: ends
                .filter_map(|(at, (_, end))| Some((at.clone(), (*end)?)))
                .collect(),
            ..Fetched::default()
        }
    }
}

impl Reader {
    /// Reads what a poll brought.
    pub(super) fn walked(&self, polled: Polled) -> Found {
        let parts = polled.parts.into_iter().map(|(at, mut records)| {
            let taken = self.walk(at.topic.as_str(), &mut records);
            (at, taken)
        });
        Found {
            failed: polled.failed,
            started: polled.started,
            parts: parts.collect(),
        }
    }

    /// Judges what a turn with this plan found, and moves where it was delivered.
    pub(super) async fn take(&mut self, found: Found, deliver: bool, plan: FetchPlan) {
        let next = plan.after(&found.fetched());
        let has_records = found.parts.iter().any(|(_, (read, _))| !read.is_empty());
        for (at, error) in found.failed {
            self.failed(at.topic.as_str(), &error, Duration::from_millis(40))
                .await;
        }
        for (at, start) in found.started {
            let topic = at.topic.as_str();
            let seen = self.starts(topic, start);
            self.undelivered.remove(topic);
            let place = Place {
                position: start,
                seen,
            };
            self.places.insert(topic.to_owned(), Some(place));
        }
        for (at, (read, position)) in found.parts {
            let topic = at.topic.as_str();
            let Some(Some(from)) = self.places.get(topic).cloned() else {
                self.sim
                    .fail(format_args!("{} read {topic} from nowhere", self.client_id));
                continue;
            };
            let to = position.unwrap_or(from.position);
            let seen = self.judge(topic, &from, &read, to.offset);
            let what = if deliver { "reads" } else { "does not get" };
            self.sim.note(format_args!(
                "{} {what} {topic} {}..{}: {read:?}",
                self.client_id, from.position.offset, to.offset
            ));
            if deliver {
                self.undelivered.remove(topic);
                self.places
                    .insert(topic.to_owned(), Some(Place { position: to, seen }));
            } else if !read.is_empty() {
                self.undelivered
                    .insert(topic.to_owned(), (from.position.offset, read));
            }
        }
        if has_records && self.kind.reads_ahead {
            self.take_ahead(next).await;
        }
    }

    /// Reads as many records as the reply has room for.
    fn walk(&self, topic: &str, records: &mut impl Records) -> Taken {
        let most = {
            let mut state = self.sim.lock();
            let often = if self.kind.reads_ahead { 400 } else { 700 };
            let all = state.quiet || state.chance.happens(often);
            if all {
                usize::MAX
            } else {
                1 + state.chance.below(4)
            }
        };
        let mut read = Vec::new();
        while read.len() < most {
            match records.next() {
                None => return (read, Some(records.position())),
                Some(Err(fault)) => {
                    self.sim
                        .fail(format_args!("{} can't read {topic}: {fault}", self.client_id));
                    break;
                }
                Some(Ok(record)) => {
                    let value = record.value.and_then(|value| value.first_chunk()).copied();
                    read.push((record.offset.0, value.map_or(0, u64::from_be_bytes)));
                }
            }
        }
        let position = Some(records.position()).filter(|_| !read.is_empty());
        (read, position)
    }

    /// I1: what the log held, in order, nothing left out, nothing twice, and going on where it was. I11: what was not
    /// delivered comes again as it was.
    fn judge(&self, topic: &str, from: &Place, read: &[(i64, u64)], to: i64) -> Option<Seen> {
        let mut state = self.sim.lock();
        let (id, offset) = (&self.client_id, from.position.offset);
        let Some(truth) = state.topics.get(topic) else {
            state.fail(format_args!("I1: {id} reads {topic}, which is not there"));
            return None;
        };
        if to == offset && read.is_empty() {
            return from.seen.clone();
        }
        let mut wrong = None;
        let mut seen = truth.held(offset, to, read);
        if seen.is_none() {
            wrong = Some(format!(
                "I1: {id} reads {read:?} of {topic} from {offset} to {to}, which was never all there"
            ));
        } else if let (Some(before), Some(then)) = (&from.seen, &seen) {
            let then = truth.going_on(offset, before, then);
            // A commit names its topic, and may come when there is another of that name: it counts there.
            let committed = state.committed(&self.kind.group, topic);
            let is_anew = !truth.is_of_it(before) && committed.iter().any(|(at, _)| *at == offset);
            if then.is_some() || !is_anew {
                seen = then;
            }
            if seen.is_none() {
                wrong = Some(format!(
                    "I1: {id} reads {read:?} of {topic} from {offset} on in another log than before"
                ));
            }
        }
        if truth.is_steady()
            && let Some((before, records)) = self.undelivered.get(topic)
            && *before == offset
        {
            let (start, _) = truth.bounds();
            let kept = |records: &[(i64, u64)]| -> Vec<_> {
                let kept = records.iter().filter(|(offset, _)| *offset >= start);
                kept.copied().collect()
            };
            let (old, new) = (kept(records), kept(read));
            let common = old.len().min(new.len());
            if old[..common] != new[..common] {
                wrong = Some(format!(
                    "I11: {id} read {old:?} of {topic} before, and {new:?} then"
                ));
            }
        }
        if let Some(wrong) = wrong {
            state.fail(wrong);
        }
        seen
    }

    /// A start is where the group committed, or the end that the reset says, or where the log parts from the one that was
    /// read; and one that had a position keeps it, unless it may have been out of the log.
    fn starts(&self, topic: &str, start: Position) -> Option<Seen> {
        let mut state = self.sim.lock();
        let id = &self.client_id;
        let before = self.places.get(topic).and_then(Option::as_ref);
        state.note(format_args!("{id} starts {topic} at {}", start.offset));
        let truth = state.topics.get(topic)?;
        let moved = before.is_some_and(|before| !truth.may_lack(before.position.offset));
        let reasons = self.reasons(&state, topic, start.offset, before);
        if moved {
            state.fail(format_args!(
                "{id}: {topic} starts again at {} for {before:?}",
                start.offset
            ));
        } else if reasons.is_empty() {
            state.fail(format_args!(
                "{id}: {topic} starts at {}, which nobody committed",
                start.offset
            ));
        }
        let mut all: Option<Seen> = None;
        for reason in reasons {
            let reason = reason?;
            match &mut all {
                Some(all) => all.or(&reason),
                None => all = Some(reason),
            }
        }
        all
    }

    /// Why a topic may start there, and for each reason what was read up to there, if that can be told.
    fn reasons(&self, state: &State, topic: &str, offset: i64, before: Option<&Place>) -> Vec<Option<Seen>> {
        let Some(truth) = state.topics.get(topic) else {
            return Vec::new();
        };
        let mut reasons = Vec::new();
        let is_end = match self.kind.reset {
            AutoOffsetReset::Earliest => truth.began_at(offset),
            AutoOffsetReset::Latest => truth.ended_at(offset),
            AutoOffsetReset::None => false,
        };
        if is_end {
            reasons.push(None);
        }
        for (committed, seen) in state.committed(&self.kind.group, topic) {
            // A commit names its topic, and may come when there is another of that name.
            let seen = seen.filter(|seen| truth.is_of_it(seen));
            let parted = truth.parted_at(offset, committed, seen.as_ref());
            let is_lost = seen.is_none() && offset < committed && truth.ended_at(offset);
            if committed == offset || parted || is_lost {
                reasons.push(seen);
            }
        }
        if let Some(before) = before
            && truth.parted_at(offset, before.position.offset, before.seen.as_ref())
        {
            reasons.push(before.seen.clone());
        }
        reasons
    }
}
