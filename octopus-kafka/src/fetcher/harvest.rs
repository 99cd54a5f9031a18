//! What the answers of a turn come to.

use bytes::Bytes;
use kafka_protocol::messages::BrokerId;
use octopus_core::{Error, Position, TopicPartition};
use tokio::time::Instant;

use super::{
    Fetcher, Flights, PACE,
    flight::{self, Flight, What},
    lock,
    turn::{Fetched, Part, Turn},
};
use crate::{api::fetch::FetchResponse, cluster::Origin, error::Kind, position::Ask};

/// What an answer came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// There is nothing at present.
    Quiet,
    /// It said something else.
    Told,
    /// There is reason to ask again soon.
    Soon,
}

impl Fetcher {
    /// Takes the answers that came.
    pub(super) fn harvest(&self, turn: &mut Turn<'_>, flights: &mut Flights) {
        let mut asks = Vec::new();
        flights.retain(|&broker, flight| {
            let Some(answer) = flight.take() else {
                return true;
            };
            let end = match answer {
                // The turn has the broker wait for more [CR-07], unless it has some already.
                Ok((response, _))
                    if turn.parts.is_empty() && turn.waits() && flight.is_less_than_asked(&response) =>
                {
                    self.heard(turn, broker, &response);
                    return false;
                }
                Ok((response, origin)) => self.answered(turn, broker, flight, response, &origin, &mut asks),
                Err(error) => self.unanswered(turn, flight, error),
            };
            // What an earlier turn asked tells nothing of what has come since: this one asks for itself, at once.
            if end == End::Quiet && !turn.asked.contains_key(&broker) {
                return false;
            }
            let now = Instant::now();
            let (at, pace) = turn.asked.entry(broker).or_insert((now, PACE));
            if end == End::Soon {
                *pace = PACE;
            }
            *at = now + pace.next();
            false
        });
        self.look_for(asks);
    }

    /// Takes one answer.
    pub(super) fn answered(
        &self,
        turn: &mut Turn<'_>,
        broker: BrokerId,
        flight: &Flight,
        response: FetchResponse,
        origin: &Origin,
        asks: &mut Vec<(String, Ask)>,
    ) -> End {
        let cluster = &self.resolver.cluster;
        self.heard(turn, broker, &response);
        let mut end = End::Quiet;
        let bytes = response.record_bytes();
        let mut sorted = flight::sort(&flight.asked, response);
        // A turn that was given up may have asked late for what comes behind its own reply.
        sorted.retain(|(asked, _)| turn.reads.get(&asked.topic) == Some(&asked.position.offset));
        lock(&self.order).came(sorted.iter().filter_map(|(asked, what)| match what {
            What::Records(records, _) => Some((&*asked.topic, records.len())),
            What::OutOfRange | What::Moved(..) | What::Stale | What::Failed(_) => None,
        }));
        for (asked, what) in sorted {
            let source = asked.source();
            let fetched = |records: Bytes| Fetched {
                source,
                is_small_part: records.len() < bytes / 2,
                records,
            };
            let (topic, position) = (asked.topic, asked.position);
            if let Some(part) = turn.parts.get_mut(&topic) {
                // It was asked ahead for what comes behind what was kept. Whatever else it says is for the turn that asks there.
                if let What::Records(records, end_offset) = what
                    && !records.is_empty()
                    && part.fetched.is_none()
                {
                    lock(&self.ahead).ends_at(&topic, end_offset);
                    lock(&self.snags).came(&topic, origin);
                    part.fetched = Some(fetched(records));
                }
                continue;
            }
            if end == End::Quiet && !matches!(&what, What::Records(records, _) if records.is_empty()) {
                end = End::Told;
            }
            match what {
                What::Records(records, end_offset) => {
                    lock(&self.ahead).ends_at(&topic, end_offset);
                    lock(&self.shared.starts).read(&topic, asked.leader_epoch);
                    if lock(&self.snags).passed(&topic, position.offset) {
                        end = End::Soon;
                    }
                    if records.is_empty() {
                        continue;
                    }
                    end = End::Soon;
                    lock(&self.snags).came(&topic, origin);
                    let part = Part {
                        position,
                        kept: Vec::new(),
                        fetched: Some(fetched(records)),
                    };
                    turn.parts.insert(topic, part);
                }
                What::OutOfRange => {
                    tracing::info!(topic, position.offset, "the position is out of range");
                    cluster.stale(&topic);
                    let ask = lock(&self.shared.starts).out_of_range(&topic, position);
                    asks.push((topic, ask));
                }
                What::Moved(leader, leader_epoch) => {
                    if !cluster.moved(&topic, leader.into(), leader_epoch) {
                        cluster.stale(&topic);
                    }
                }
                What::Stale => cluster.stale(&topic),
                What::Failed(error) => _ = turn.refused.insert(topic, error),
            }
        }
        end
    }

    /// Takes what an answer says besides of its partitions.
    fn heard(&self, turn: &mut Turn<'_>, broker: BrokerId, response: &FetchResponse) {
        turn.reached = true;
        if let Some(time) = response.throttled() {
            lock(&self.throttled).insert(broker, Instant::now() + time);
        }
        for (id, host, port) in &response.nodes {
            self.resolver.cluster.learn((*id).into(), host, *port);
        }
    }

    /// No answer came, or none that is one.
    fn unanswered(&self, turn: &mut Turn<'_>, flight: &Flight, error: crate::Error) -> End {
        tracing::debug!(%error, "a fetch failed");
        if *error.kind() == Kind::TooLarge {
            turn.reached = true;
            let asked = flight.asked.iter();
            let asked: Vec<_> = asked
                .map(|asked| (&*asked.topic, asked.position.offset))
                .collect();
            if let [(topic, offset)] = *asked {
                let limit = self.resolver.cluster.config().fetch_frame;
                tracing::warn!(topic, offset, limit, "the answer to a fetch is over the bound");
            }
            lock(&self.snags).too_large(&asked, Instant::now());
            return End::Soon;
        }
        let topics = || flight.asked.iter().map(|asked| &asked.topic);
        topics().for_each(|topic| self.resolver.cluster.stale(topic));
        let error = Error::from(error);
        turn.reached |= error != Error::KafkaUnreachable;
        if !matches!(error, Error::KafkaUnreachable | Error::KafkaRetriable) {
            turn.refused
                .extend(topics().map(|topic| (topic.clone(), error.clone())));
        }
        End::Told
    }

    /// What was read at this position can't be understood. False the first time: it may have been damaged on its way,
    /// and is fetched again by the next turn, on another connection.
    pub(crate) fn is_damaged(&self, at: &TopicPartition, position: Position) -> bool {
        let topic = self.resolver.names.topic(&at.topic);
        lock(&self.shared.kept).forget(&topic);
        lock(&self.snags).damaged(&topic, position.offset)
    }
}
