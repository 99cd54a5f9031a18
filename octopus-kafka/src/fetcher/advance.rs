//! What a turn takes in as it goes on, and what it asks for.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kafka_protocol::messages::BrokerId;
use octopus_core::{Error, Position};
use tokio::time::Instant;

use super::{
    Fetcher, MARGIN, PACE,
    ahead::Behind,
    flight::{Asked, Flight, Wait},
    kept::{Rest, Source},
    lock,
    turn::{Part, Turn},
};
use crate::{cluster::Topic, position::Place};

impl Fetcher {
    /// Takes in what came and sends what can be sent. Returns whether something is on its way.
    pub(super) fn advance(&self, turn: &mut Turn<'_>, topics: &[(String, Option<Position>)]) -> bool {
        let mut by_leader: BTreeMap<BrokerId, Vec<Asked>> = BTreeMap::new();
        let (mut asks, mut unknown) = (Vec::new(), BTreeSet::new());
        let mut behind = Behind::default();
        turn.failed.clone_from(&turn.refused);
        for (topic, position) in topics {
            let info = match self.resolver.cluster.known(topic) {
                Some(Topic::Known(info)) => info,
                Some(Topic::Missing) => continue,
                Some(Topic::Denied) => {
                    turn.failed.insert(topic.clone(), Error::KafkaUnauthorized);
                    continue;
                }
                None => {
                    unknown.insert(topic.clone());
                    continue;
                }
            };
            let now = Instant::now();
            let place =
                lock(&self.shared.starts).place(topic, *position, info.id, info.leader_epoch, now.into_std());
            match place {
                Place::At(_) if turn.parts.contains_key(topic) => {}
                Place::At(position) if lock(&self.snags).is_too_large(topic, position.offset, now) => {
                    let at = self.resolver.names.partition(topic);
                    turn.failed.insert(topic.clone(), Error::RecordUnreadable(at));
                }
                Place::At(position) => match info.leader {
                    Some(leader) => match self.take_kept(turn, topic, position, Source::of(&info)) {
                        Some(rest) => {
                            turn.reads.insert(topic.clone(), rest.end);
                            behind.add(leader, topic, position, &info, &rest);
                        }
                        None if turn.refused.contains_key(topic) => {}
                        None => {
                            turn.reads.insert(topic.clone(), position.offset);
                            let asked = Asked::new(topic, position, &info);
                            by_leader.entry(leader).or_default().push(asked);
                        }
                    },
                    None => self.resolver.cluster.stale(topic),
                },
                Place::Moved => turn.moved = true,
                Place::Ask(ask) => asks.push((topic.clone(), ask)),
                // It is tried again, and no matter of the client's.
                Place::Wait | Place::Failed(Error::KafkaRetriable | Error::KafkaUnreachable) => {}
                Place::Failed(error) => _ = turn.failed.insert(topic.clone(), error),
            }
        }
        self.look_up(unknown);
        self.look_for(asks);
        let mut alone = BTreeSet::new();
        for (broker, asked) in &mut by_leader {
            self.sort(asked);
            let is_suspect =
                |asked: &&Asked| lock(&self.snags).is_suspect(&asked.topic, asked.position.offset);
            if let Some(suspect) = asked.iter().find(is_suspect) {
                *asked = vec![suspect.clone()];
                alone.insert(*broker);
            }
        }
        let mut flights = lock(&self.flights);
        let min_bytes = turn.plan.min_bytes;
        flights.retain(|broker, flight| {
            let asked = by_leader.get(broker).map(Vec::as_slice);
            let asked = asked.or_else(|| behind.of(*broker));
            asked.is_some_and(|asked| flight.is_for(asked, min_bytes))
        });
        self.harvest(turn, &mut flights);
        let now = Instant::now();
        lock(&self.throttled).retain(|_, until| *until > now);
        for (broker, asked) in by_leader {
            if lock(&self.throttled).contains_key(&broker) {
                continue;
            }
            let may_ask = match turn.asked.get(&broker) {
                None => now < turn.limit,
                Some((at, _)) => turn.parts.is_empty() && *at <= now && now + MARGIN < turn.end,
            };
            if may_ask && !flights.contains_key(&broker) {
                // One that is asked for alone does not hold the others up.
                let max_wait = if turn.left_out || alone.contains(&broker) {
                    Duration::ZERO
                } else {
                    turn.end.saturating_duration_since(now).saturating_sub(MARGIN)
                };
                let pace = turn.asked.remove(&broker).map_or(PACE, |(_, pace)| pace);
                turn.asked.insert(broker, (now, pace));
                let wait = Wait {
                    min_bytes,
                    most: max_wait,
                };
                let flight = Flight::start(&self.resolver, broker, asked, wait, None, &self.shared);
                flights.insert(broker, Box::new(flight));
            }
        }
        let waits = topics
            .iter()
            .any(|(topic, _)| lock(&self.shared.starts).is_pending(topic));
        !flights.is_empty() || waits || lock(&self.shared.look).busy
    }

    /// Puts partitions in the order in which a broker shall fill its answer.
    pub(super) fn sort(&self, asked: &mut [Asked]) {
        let (snags, order) = (lock(&self.snags), lock(&self.order));
        asked.sort_by_key(|asked| {
            let is_damaged = snags.is_damaged(&asked.topic, asked.position.offset);
            (is_damaged, order.key(&asked.topic))
        });
    }

    /// Reads what the last reply left out, if it was kept, and says what there is of it.
    fn take_kept(
        &self,
        turn: &mut Turn<'_>,
        topic: &str,
        position: Position,
        source: Source,
    ) -> Option<Rest> {
        let kept = lock(&self.shared.kept).take(topic, source, position.offset, Instant::now());
        let (records, rest) = kept?;
        turn.left_out = true;
        let part = Part {
            position,
            kept: records,
            fetched: None,
        };
        turn.parts.insert(topic.to_owned(), part);
        Some(rest)
    }
}
