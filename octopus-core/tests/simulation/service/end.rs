//! How calls end.

use octopus_core::{
    Bound, CallId, Effect, Error, Event, FetchPlan, Fetched, InstanceId, Outcome, Position, TopicPartition,
};

use super::{Body, Service};
use crate::{kafka::Kafka, reader::Range, step::How};

impl Service {
    /// Ends a call, and takes note of what that means for the client.
    pub(super) fn end(&mut self, call: CallId, how: &How) {
        let Some(running) = self.running.remove(&call) else {
            return;
        };
        let instance = running.instance;
        let outcome = self.outcome(call, instance, &running.effect, how);
        match (&running.effect, &outcome) {
            (Effect::Open(_), Err(_)) | (Effect::Close, _) => self.closed(instance),
            _ => {}
        }
        self.feed(Event::Done { call, outcome });
    }

    fn outcome(
        &mut self,
        call: CallId,
        instance: InstanceId,
        effect: &Effect,
        how: &How,
    ) -> Result<Outcome, Error> {
        if let How::Fails(error) = how {
            return Err(error.clone());
        }
        if let Effect::Topics(topics) = effect {
            let held = topics.iter().filter(|topic| Kafka::holds(topic));
            return Ok(Outcome::Topics(held.cloned().collect()));
        }
        let Some(reader) = self.readers.get_mut(&instance) else {
            return Ok(Outcome::Done);
        };
        let key = reader.key.clone();
        let reset = reader.settings.auto_offset_reset;
        match effect {
            Effect::Open(_) | Effect::Close | Effect::Leave | Effect::Topics(_) => Ok(Outcome::Done),
            Effect::Join(join) => {
                self.kafka.commit(&key, &join.commit);
                let How::Well { bits, .. } = how else {
                    return Ok(Outcome::Joining);
                };
                let given = join.topics.iter().enumerate();
                let given = given.filter(|(place, _)| bits >> place & 1 == 1);
                let mut given: Vec<_> = given
                    .map(|(_, topic)| TopicPartition::only(topic.clone()))
                    .collect();
                given.reverse();
                reader.joined(&given);
                Ok(Outcome::Joined(given))
            }
            Effect::Fetch(plan) => Ok(Outcome::Fetched(self.poll(call, instance, plan, how))),
            Effect::Commit(commits) => {
                self.kafka.commit(&key, commits);
                Ok(Outcome::Done)
            }
            Effect::Committed(partitions) => {
                let held = partitions.iter().filter_map(|at| self.kafka.committed(&key, at));
                Ok(Outcome::Committed(held.cloned().collect()))
            }
            Effect::Start(partitions) => {
                let start = |at| self.kafka.start(&key, reset, at);
                let found: Vec<_> = partitions.iter().map(|at| (at.clone(), start(at))).collect();
                found
                    .iter()
                    .for_each(|(at, position)| reader.starts_at(at, *position));
                Ok(Outcome::Positions(found))
            }
            Effect::Bounds(partitions, bound) => {
                let bounds = partitions.iter().map(|at| {
                    let offset = match bound {
                        Bound::Beginning => 0,
                        Bound::End => self.kafka.end(at),
                    };
                    (at.clone(), Position::at(offset))
                });
                let found: Vec<_> = bounds.collect();
                found
                    .iter()
                    .for_each(|(at, position)| reader.seeks(at, *position));
                Ok(Outcome::Positions(found))
            }
        }
    }

    /// One turn of a fetch.
    fn poll(&mut self, call: CallId, instance: InstanceId, plan: &FetchPlan, how: &How) -> Fetched {
        let mut fetched = Fetched::default();
        let Some(reader) = self.readers.get_mut(&instance) else {
            return fetched;
        };
        let (key, reset) = (reader.key.clone(), reader.settings.auto_offset_reset);
        let mut ranges: Vec<Range> = Vec::new();
        for (place, (partition, position)) in plan.positions.iter().enumerate() {
            let from = position.unwrap_or_else(|| self.kafka.start(&key, reset, partition));
            if position.is_none() {
                fetched.started.push((partition.clone(), from));
                reader.goes_to(partition, from);
            }
            let there = self.kafka.end(partition) - from.offset;
            let reaches = |most: i64| Position::at(from.offset + there.min(most));
            match how {
                How::Well { most, cut, .. } if there > 0 && (ranges.is_empty() || !*cut) => {
                    let to = reaches(*most);
                    fetched.next.push((partition.clone(), to));
                    if *cut {
                        fetched.cut = Some(partition.clone());
                    }
                    ranges.push(Range {
                        partition: partition.clone(),
                        from,
                        to,
                    });
                }
                How::Skip if there > 0 => {
                    fetched.skipped.push((partition.clone(), reaches(2)));
                    reader.goes_to(partition, reaches(2));
                }
                How::NotUtf8 if there > 0 && fetched.not_utf8.is_none() => {
                    fetched.not_utf8 = Some(partition.clone());
                    reader.blocks(partition.clone());
                }
                How::Failed { bits } if bits >> place & 1 == 1 => {
                    fetched
                        .failed
                        .push((partition.clone(), Error::NoOffset(partition.clone())));
                }
                How::Well { .. }
                | How::Skip
                | How::NotUtf8
                | How::Failed { .. }
                | How::Empty
                | How::Fails(_) => {}
            }
        }
        if !ranges.is_empty() {
            let cut = fetched.cut.clone();
            self.bodies.insert(call, Body { ranges, cut });
        }
        fetched
    }
}
