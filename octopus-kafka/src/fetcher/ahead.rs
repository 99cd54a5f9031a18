//! Reading ahead: while a reply is sent, what the next turn will ask for is on its way. Nothing depends on it: a turn that
//! asks for something else drops it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kafka_protocol::messages::BrokerId;
use octopus_core::{FetchPlan, limits::FETCH_BYTES};
use tokio::time::Instant;

use super::{
    Fetcher,
    flight::{Asked, Flight, Wait},
    kept::{Source, room_for},
    lock,
};
use crate::cluster::Topic;

/// How soon a turn must follow on the one before it, for a client to be one that reads a backlog and will soon want more.
const SOON: Duration = Duration::from_secs(1);

/// What is known of one consumer's reading.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The end of each topic's log, as far as its last answer tells.
    ends: BTreeMap<String, i64>,
    /// When records were last handed out.
    read_at: Option<Instant>,
    /// The turn in hand followed soon.
    follows: bool,
}

impl Ahead {
    /// A turn begins, of these topics.
    pub(super) fn begin(&mut self, topics: &BTreeSet<String>, now: Instant) {
        self.ends.retain(|topic, _| topics.contains(topic));
        self.follows = self.read_at.is_some_and(|at| now < at + SOON);
    }

    /// An answer named the end of a topic's log.
    pub(super) fn ends_at(&mut self, topic: &str, end: i64) {
        match self.ends.get_mut(topic) {
            Some(known) => *known = end,
            None => _ = self.ends.insert(topic.to_owned(), end),
        }
    }

    /// Whether there were records at this position when the topic was last read.
    fn has_more(&self, topic: &str, offset: i64) -> bool {
        self.ends.get(topic).is_some_and(|end| offset < *end)
    }
}

impl Fetcher {
    /// Asks for what the next turn will ask for, if it has this plan: of the brokers that are known to have more, and for
    /// a client that reads on soon. What a reply has taken whole is let go of.
    pub(crate) fn read_ahead(&self, plan: &FetchPlan) {
        let now = Instant::now();
        let follows = {
            let mut ahead = lock(&self.ahead);
            ahead.read_at = Some(now);
            ahead.follows
        };
        let mut by_leader: BTreeMap<BrokerId, Vec<Asked>> = BTreeMap::new();
        let mut is_clear = follows;
        for (at, position) in &plan.positions {
            let topic = self.resolver.names.topic(&at.topic);
            let info = match self.resolver.cluster.known(&topic) {
                Some(Topic::Known(info)) => info,
                Some(Topic::Missing | Topic::Denied) => continue,
                None => return,
            };
            let Some(position) = *position else { return };
            if lock(&self.shared.kept).left_out(&topic, Source::of(&info), position.offset) {
                continue;
            }
            let stands = lock(&self.shared.starts).stands(&topic, position, info.id, info.leader_epoch);
            is_clear &= stands && !lock(&self.snags).is_any(&topic, position.offset);
            if let Some(leader) = info.leader {
                let asked = Asked::new(&topic, position, &info);
                by_leader.entry(leader).or_default().push(asked);
            }
        }
        if !is_clear {
            return;
        }
        for (broker, mut asked) in by_leader {
            let has_more = {
                let ahead = lock(&self.ahead);
                let mut asked = asked.iter();
                asked.any(|asked| ahead.has_more(&asked.topic, asked.position.offset))
            };
            let is_left_alone = lock(&self.throttled)
                .get(&broker)
                .is_some_and(|until| *until > now);
            if !has_more || is_left_alone {
                continue;
            }
            let mut flights = lock(&self.flights);
            if flights.contains_key(&broker) {
                continue;
            }
            let Some(room) = room_for(FETCH_BYTES.unsigned_abs() as usize, &self.budget) else {
                return;
            };
            self.sort(&mut asked);
            let wait = Wait {
                min_bytes: plan.min_bytes,
                most: Duration::ZERO,
            };
            let flight = Flight::start(&self.resolver, broker, asked, wait, Some(room), &self.shared);
            flights.insert(broker, Box::new(flight));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_reads_on_if_its_next_turn_comes_soon() {
        let (mut ahead, topics, now) = (Ahead::default(), BTreeSet::from(["t".to_owned()]), Instant::now());
        ahead.begin(&topics, now);
        assert!(!ahead.follows, "the first one");
        ahead.read_at = Some(now);
        ahead.begin(&topics, now + SOON / 2);
        assert!(ahead.follows);
        ahead.begin(&topics, now + SOON);
        assert!(!ahead.follows);
    }

    #[test]
    fn more_is_known_of_what_an_answer_told_the_end_of() {
        let mut ahead = Ahead::default();
        assert!(!ahead.has_more("t", 0));
        ahead.ends_at("t", 5);
        assert!(ahead.has_more("t", 4) && !ahead.has_more("t", 5) && !ahead.has_more("u", 4));
        ahead.ends_at("t", 6);
        assert!(ahead.has_more("t", 5));
        ahead.begin(&BTreeSet::new(), Instant::now());
        assert!(!ahead.has_more("t", 5));
    }
}
