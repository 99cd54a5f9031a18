//! What a consumer does beside reading: commits, seeks, questions, and leaving.

use std::time::Duration;

use octopus_core::{Bound, Commit, Effect, Error, Outcome, Position};
use tokio::time::timeout;

use super::{Place, Reader, at};
use crate::truth::Truth;

impl Reader {
    pub(super) async fn commit(&mut self) {
        self.hear();
        let commits = self.commits();
        if self.lost || commits.is_empty() {
            return;
        }
        self.ask(&commits);
        let (within, cancel) = {
            let mut state = self.sim.lock();
            let within = state.chance.wait(500, 10_000);
            (within, state.happens(150).then(|| state.chance.wait(0, 100)))
        };
        let offsets: Vec<_> = commits
            .iter()
            .map(|commit| (commit.partition.topic.to_string(), commit.position.offset))
            .collect();
        let patience = cancel.unwrap_or(Duration::from_secs(60));
        let run = self.consumer.run(Effect::Commit(commits), within);
        let Ok(done) = timeout(patience, run).await else {
            return self.sim.note(format_args!("{} left its commit", self.client_id));
        };
        self.sim
            .note(format_args!("{} committed {offsets:?}: {done:?}", self.client_id));
        match done {
            Ok(_) => {
                let mut state = self.sim.lock();
                let seen = state.wire.committed.get(&self.kind.group);
                // A position in a topic that is gone is none in the one of the same name that was made since.
                let is_void = |topic: &str| state.topics.get(topic).is_some_and(Truth::was_made_anew);
                let all = offsets
                    .iter()
                    .all(|offset| seen.is_some_and(|seen| seen.contains(offset)) || is_void(&offset.0));
                if !all {
                    state.fail(format_args!(
                        "{}: {offsets:?} is committed and was never sent",
                        self.client_id
                    ));
                }
            }
            Err(
                Error::CommitFailed
                | Error::KafkaRetriable
                | Error::KafkaUnreachable
                | Error::KafkaTopicUnknown,
            ) => {}
            Err(error) => self
                .sim
                .fail(format_args!("{}: a commit failed: {error:?}", self.client_id)),
        }
    }

    pub(super) fn seek(&mut self) {
        let mut state = self.sim.lock();
        let topics: Vec<_> = self.places.keys().cloned().collect();
        if topics.is_empty() {
            return;
        }
        let topic = state.chance.pick(&topics).clone();
        let Some((start, end)) = state.topics.get(&topic).map(|truth| truth.bounds()) else {
            return;
        };
        let span = usize::try_from(end - start).unwrap_or(0) + 1;
        let offset = start + i64::try_from(state.chance.below(span)).expect("an offset");
        state.note(format_args!("{} seeks {offset} of {topic}", self.client_id));
        self.undelivered.remove(&topic);
        let place = Place {
            position: Position::at(offset),
            seen: None,
        };
        self.places.insert(topic, Some(place));
    }

    /// Asks where its topics begin or end, and what its group has committed.
    pub(super) async fn look(&self) {
        let partitions: Vec<_> = self.kind.topics.iter().map(|topic| at(topic)).collect();
        let (bound, which) = {
            let mut state = self.sim.lock();
            (
                *state.chance.pick(&[Bound::Beginning, Bound::End]),
                state.chance.happens(500),
            )
        };
        let effect = if which {
            Effect::Bounds(partitions, bound)
        } else {
            Effect::Committed(partitions)
        };
        let found = self.consumer.run(effect, Duration::from_secs(3)).await;
        self.sim.note(format_args!("{} found {found:?}", self.client_id));
        let mut state = self.sim.lock();
        let wrong = match found {
            Ok(Outcome::Positions(found)) => found.into_iter().find(|(at, position)| {
                let truth = state.topics.get(at.topic.as_str());
                !truth.is_some_and(|truth| match bound {
                    Bound::Beginning => truth.began_at(position.offset),
                    Bound::End => truth.ended_at(position.offset),
                })
            }),
            Ok(Outcome::Committed(found)) => {
                let seen = state.wire.committed.get(&self.kind.group);
                let of = |commit: &Commit| (commit.partition.topic.to_string(), commit.position.offset);
                let wrong = found
                    .into_iter()
                    .find(|commit| !seen.is_some_and(|seen| seen.contains(&of(commit))));
                wrong.map(|commit| (commit.partition, commit.position))
            }
            Ok(outcome) => return state.fail(format_args!("a question came to {outcome:?}")),
            Err(Error::KafkaRetriable | Error::KafkaUnreachable) => None,
            Err(error) => {
                return state.fail(format_args!("{}: a question failed: {error:?}", self.client_id));
            }
        };
        if let Some(wrong) = wrong {
            state.fail(format_args!("{}: it never was {wrong:?}", self.client_id));
        }
    }

    pub(super) async fn leave(&mut self) {
        self.sim.lock().wire.leaving.insert(self.client_id.clone());
        let left = self.consumer.run(Effect::Leave, Duration::from_secs(5)).await;
        self.sim.note(format_args!("{} left: {left:?}", self.client_id));
        self.hear();
        self.places.clear();
        self.undelivered.clear();
        (self.wants_join, self.lost) = (true, false);
    }

    /// Ends, with or without a close, and another one comes in its place.
    pub(super) async fn born_again(self, lives: usize) -> Self {
        let closes = {
            let mut state = self.sim.lock();
            state.wire.leaving.insert(self.client_id.clone());
            state.stands.remove(&self.client_id);
            state.chance.happens(600)
        };
        self.sim.note(format_args!("{} ends", self.client_id));
        if closes {
            let _ = self.consumer.run(Effect::Close, Duration::from_secs(5)).await;
        }
        drop(self.consumer);
        let name = self.client_id.rsplit_once('-').map_or("again", |(_, name)| name);
        let name = name.split('.').next().unwrap_or(name);
        Self::new(&self.sim, &self.cluster, &format!("{name}.{lives}"), self.kind)
    }
}
