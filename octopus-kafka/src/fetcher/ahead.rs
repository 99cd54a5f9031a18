//! Reading ahead: while a reply is sent, what the next turn will ask for is on its way. Nothing depends on it: a turn that
//! asks for something else drops it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kafka_protocol::messages::BrokerId;
use octopus_core::{FetchPlan, Position, TopicPartition, limits::FETCH_BYTES};
use tokio::time::Instant;

use super::{
    Fetcher,
    budget::Room,
    flight::{Asked, Flight, Wait},
    kept::{Rest, Source},
    lock,
};
use crate::cluster::{Topic, TopicInfo};

/// How soon a turn must go on behind the one before it, for a client to be one that reads a backlog and will soon want more.
const SOON: Duration = Duration::from_secs(1);

/// A topic, and the offset that it is read from.
type Place = (String, Option<i64>);

/// What is known of one consumer's reading.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The end of each topic's log, as far as its last answer tells.
    ends: BTreeMap<String, i64>,
    /// When records were last handed out.
    read_at: Option<Instant>,
    /// Where reading goes on behind them.
    next: Vec<Place>,
    /// The turn in hand goes on there, and soon.
    follows: bool,
    /// The offsets that the last reply passed, where it was of one partition.
    took: i64,
}

impl Ahead {
    /// A turn begins, of these topics.
    pub(super) fn begin(&mut self, topics: &[(String, Option<Position>)], now: Instant) {
        self.ends
            .retain(|topic, _| topics.iter().any(|(begun, _)| begun == topic));
        let is_soon = self.read_at.is_some_and(|at| now < at + SOON);
        let next = self.next.iter();
        let goes_on = topics
            .iter()
            .map(|(topic, position)| (&**topic, position.map(|at| at.offset)));
        self.follows = is_soon && goes_on.eq(next.map(|(topic, offset)| (&**topic, *offset)));
    }

    /// Records are handed out, and reading goes on here.
    fn read(&mut self, next: Vec<Place>, now: Instant) {
        self.read_at = Some(now);
        self.next = next;
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

/// What comes behind what is kept, by the broker that has it.
#[derive(Default)]
pub(super) struct Behind {
    asked: BTreeMap<BrokerId, Vec<Asked>>,
    /// Those with more kept of some partition than the next reply has room for.
    full: BTreeSet<BrokerId>,
}

impl Behind {
    /// A partition has this kept from its position on.
    pub(super) fn add(
        &mut self,
        leader: BrokerId,
        topic: &str,
        position: Position,
        info: &TopicInfo,
        rest: &Rest,
    ) {
        if !rest.is_little {
            self.full.insert(leader);
        }
        let end = Position {
            offset: rest.end,
            ..position
        };
        let asked = Asked::new(topic, end, info);
        self.asked.entry(leader).or_default().push(asked);
    }

    /// What a broker is asked for ahead, if each of its partitions is nearly read up.
    pub(super) fn of(&self, broker: BrokerId) -> Option<&[Asked]> {
        let asked = self.asked.get(&broker)?;
        (!self.full.contains(&broker)).then_some(asked)
    }

    fn into_asked(self) -> impl Iterator<Item = (BrokerId, Vec<Asked>)> {
        let Self { asked, full } = self;
        asked
            .into_iter()
            .filter(move |(broker, _)| !full.contains(broker))
    }
}

impl Fetcher {
    /// Asks for what the next turn will ask for, if it has this plan: of the brokers that are known to have more, and for
    /// a client that reads on soon. What a reply has taken whole is let go of. Whether there is more on its way, or kept.
    pub(crate) fn read_ahead(&self, plan: &FetchPlan) -> bool {
        let next = plan.positions.iter().map(|(at, position)| {
            let topic = self.resolver.names.topic(&at.topic);
            (topic, position.map(|position| position.offset))
        });
        let next = next.collect();
        let follows = {
            let mut ahead = lock(&self.ahead);
            ahead.read(next, Instant::now());
            ahead.follows
        };
        let mut by_leader: BTreeMap<BrokerId, Vec<Asked>> = BTreeMap::new();
        let mut behind = Behind::default();
        let (mut is_clear, mut comes) = (follows, false);
        for (at, position) in &plan.positions {
            let topic = self.resolver.names.topic(&at.topic);
            let info = match self.resolver.cluster.known(&topic) {
                Some(Topic::Known(info)) => info,
                Some(Topic::Missing | Topic::Denied) => continue,
                None => {
                    is_clear = false;
                    continue;
                }
            };
            let Some(position) = *position else {
                is_clear = false;
                continue;
            };
            let left_out = {
                let mut kept = lock(&self.shared.kept);
                if let Some(from) = kept.from(&topic) {
                    lock(&self.ahead).took = position.offset - from;
                }
                kept.left_out(&topic, Source::of(&info), position.offset)
            };
            is_clear &=
                self.stands(&topic, position, &info) && !lock(&self.snags).is_any(&topic, position.offset);
            let Some(leader) = info.leader else { continue };
            match left_out {
                Some(rest) => {
                    comes = true;
                    behind.add(leader, &topic, position, &info, &rest);
                }
                None => {
                    let asked = Asked::new(&topic, position, &info);
                    by_leader.entry(leader).or_default().push(asked);
                }
            }
        }
        if !is_clear {
            return false;
        }
        for (broker, asked) in behind.into_asked() {
            by_leader.entry(broker).or_insert(asked);
        }
        for (broker, asked) in by_leader {
            comes |= self.ask_ahead(broker, asked, plan.min_bytes);
        }
        comes
    }

    /// What the turn with this plan has found is not given out, and may be found again.
    pub(crate) fn give_back(&self, plan: &FetchPlan) {
        for (at, position) in &plan.positions {
            let topic = self.resolver.names.topic(&at.topic);
            if let (Some(position), Some(Topic::Known(info))) =
                (position, self.resolver.cluster.known(&topic))
            {
                lock(&self.shared.kept).left_out(&topic, Source::of(&info), position.offset);
            }
        }
    }

    /// Asks for what comes behind what a turn has read, before it is known how far the reply will reach: if it reaches as far
    /// as the last one, the next one will have room for what it leaves, and ask for just that. Only for a consumer of one
    /// partition, since what others would ask for depends on the reply.
    pub(super) fn read_on(&self, plan: &FetchPlan) {
        let (follows, took) = {
            let ahead = lock(&self.ahead);
            (ahead.follows, ahead.took)
        };
        let [(at, Some(position))] = &*plan.positions else {
            return;
        };
        let topic = self.resolver.names.topic(&at.topic);
        let end = lock(&self.shared.kept).end(&topic, position.offset);
        let (Some(end), Some(Topic::Known(info))) = (end, self.resolver.cluster.known(&topic)) else {
            return;
        };
        let is_clear = self.stands(&topic, *position, &info)
            && !lock(&self.snags).is_any(&topic, position.offset)
            && !lock(&self.snags).is_any(&topic, end);
        let leaves_little = end - position.offset <= took.saturating_mul(2);
        if let Some(leader) = info.leader.filter(|_| follows && leaves_little && is_clear) {
            let end = Position {
                offset: end,
                ..*position
            };
            self.ask_ahead(leader, vec![Asked::new(&topic, end, &info)], plan.min_bytes);
        }
    }

    /// Asks a broker that is known to have more, if there is room for it. Whether that is on its way.
    fn ask_ahead(&self, broker: BrokerId, mut asked: Vec<Asked>, min_bytes: i32) -> bool {
        let has_more = {
            let ahead = lock(&self.ahead);
            let mut asked = asked.iter();
            asked.any(|asked| ahead.has_more(&asked.topic, asked.position.offset))
        };
        let now = Instant::now();
        let is_left_alone = lock(&self.throttled)
            .get(&broker)
            .is_some_and(|until| *until > now);
        if !has_more || is_left_alone {
            return false;
        }
        let mut flights = lock(&self.flights);
        if let Some(flight) = flights.get(&broker) {
            return flight.is_for(&asked, min_bytes);
        }
        let Some(room) = Room::of(FETCH_BYTES.unsigned_abs() as usize, &self.budget) else {
            return false;
        };
        self.sort(&mut asked);
        let wait = Wait {
            min_bytes,
            most: Duration::ZERO,
        };
        let flight = Flight::start(&self.resolver, broker, asked, wait, Some(room), &self.shared);
        flights.insert(broker, Box::new(flight));
        true
    }

    /// Room of the budget for so many bytes.
    pub(crate) fn room(&self, bytes: usize) -> Option<Room> {
        Room::of(bytes, &self.budget)
    }

    /// Whether a partition is still read from this position without further ado.
    pub(crate) fn is_current(&self, at: &TopicPartition, position: Position) -> bool {
        let topic = self.resolver.names.topic(&at.topic);
        match self.resolver.cluster.known(&topic) {
            Some(Topic::Known(info)) => self.stands(&topic, position, &info),
            Some(Topic::Missing | Topic::Denied) | None => false,
        }
    }

    fn stands(&self, topic: &str, position: Position, info: &TopicInfo) -> bool {
        lock(&self.shared.starts).stands(topic, position, info.id, info.leader_epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_reads_on_if_its_next_turn_goes_on_behind_the_last_one_and_soon() {
        let (mut ahead, now) = (Ahead::default(), Instant::now());
        let topics = |offset: i64| {
            [
                ("t".to_owned(), Some(Position::at(offset))),
                ("u".to_owned(), None),
            ]
        };
        let next = vec![("t".to_owned(), Some(5)), ("u".to_owned(), None)];
        ahead.begin(&topics(5), now);
        assert!(!ahead.follows, "the first one");
        for (offset, after, follows) in [
            (5, SOON / 2, true),
            (5, SOON, false),
            (4, SOON / 2, false),
            (6, SOON / 2, false),
        ] {
            ahead.read(next.clone(), now);
            ahead.begin(&topics(offset), now + after);
            assert_eq!(ahead.follows, follows, "{offset} {after:?}");
        }
        ahead.read(next, now);
        ahead.begin(&topics(5)[..1], now);
        assert!(!ahead.follows, "of another list of topics");
    }

    #[test]
    fn more_is_known_of_what_an_answer_told_the_end_of() {
        let mut ahead = Ahead::default();
        assert!(!ahead.has_more("t", 0));
        ahead.ends_at("t", 5);
        assert!(ahead.has_more("t", 4) && !ahead.has_more("t", 5) && !ahead.has_more("u", 4));
        ahead.ends_at("t", 6);
        assert!(ahead.has_more("t", 5));
        ahead.begin(&[], Instant::now());
        assert!(!ahead.has_more("t", 5));
    }
}
