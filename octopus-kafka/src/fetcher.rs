//! One turn of a fetch over all brokers: a sessionless Fetch to each leader in parallel. What has not answered when
//! the turn ends is carried over to the next one.

mod advance;
mod ahead;
mod budget;
mod flight;
mod harvest;
mod kept;
mod look;
mod order;
mod snag;
mod turn;

use std::{
    collections::BTreeMap,
    future::Future,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kafka_protocol::messages::BrokerId;
use octopus_core::{Error, FetchPlan, Position, TopicPartition};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until, timeout_at},
};

pub use self::budget::Room;
pub(crate) use self::budget::budget;
#[cfg(feature = "testing")]
pub(crate) use self::budget::taken;
use self::{
    ahead::Ahead,
    flight::{Flight, KEPT_FOR},
    kept::{Kept, Source},
    order::Order,
    snag::Snags,
    turn::Turn,
};
use crate::{
    changes::{self, Changes},
    cluster::{Cluster, Topic},
    group::Stored,
    pace::Pace,
    position::{Resolver, Starts},
    records::Reader,
};

/// What a turn found.
#[derive(Debug, Default)]
pub struct Polled {
    /// Where partitions without a position start, and where those start again whose position is out of range or
    /// whose topic was made anew [D-22]. The latter are read from once the plan has them there.
    pub started: Vec<(TopicPartition, Position)>,
    /// The partitions that can't be read, and why [D-20].
    pub failed: Vec<(TopicPartition, Error)>,
    /// What was read of each partition that has something, in the plan's order.
    pub parts: Vec<(TopicPartition, Reader)>,
    /// It is fewer bytes than a broker waits for [CR-07], and none of what the last reply left out.
    pub is_short: bool,
}

/// How long the answers of other brokers are waited for once there are records.
const GRACE: Duration = Duration::from_millis(10);
/// What a Fetch may wait on the broker's side is this much less than the turn, so that its answer comes in it.
const MARGIN: Duration = Duration::from_millis(20);
/// The least that an answer is waited for where the turn does not wait [D-19].
const LEAST_WAIT: Duration = Duration::from_millis(100);
/// The waits between answers that brought nothing.
const PACE: Pace = Pace::new(Duration::from_millis(20), Duration::from_millis(250));

/// Reads one consumer's topics.
#[derive(Debug)]
pub(crate) struct Fetcher {
    pub(crate) resolver: Resolver,
    shared: Arc<Shared>,
    flights: Mutex<Flights>,
    /// The brokers that said until when this consumer should leave them alone. Others of the service are asked still:
    /// a quota may be a client id's.
    throttled: Mutex<BTreeMap<BrokerId, Instant>>,
    snags: Mutex<Snags>,
    ahead: Mutex<Ahead>,
    order: Mutex<Order>,
    /// What all consumers of the cluster may keep and read ahead.
    budget: Arc<Semaphore>,
    /// Held by a turn, so that there is one at a time.
    turn: tokio::sync::Mutex<()>,
}

/// The Fetch on its way to each broker, in a box, since a map has room for many.
type Flights = BTreeMap<BrokerId, Box<Flight>>;

/// What its tasks in the background have a part in.
#[derive(Debug, Default)]
struct Shared {
    starts: Mutex<Starts>,
    look: Mutex<Look>,
    kept: Mutex<Kept>,
    /// Counts what came in, for the turn that waits for it.
    changes: Changes,
}

/// Topics that are looked up.
#[derive(Debug, Default)]
struct Look {
    /// Some are, at present.
    busy: bool,
}

impl Fetcher {
    pub(crate) fn new(resolver: Resolver, budget: Arc<Semaphore>) -> Self {
        Self {
            resolver,
            shared: Arc::default(),
            flights: Mutex::default(),
            throttled: Mutex::default(),
            snags: Mutex::default(),
            ahead: Mutex::default(),
            order: Mutex::default(),
            budget,
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Forgets the starts that were found: what they stood for is over.
    pub(crate) fn forget(&self) {
        lock(&self.shared.starts).clear();
        lock(&self.shared.kept).clear();
        lock(&self.snags).clear();
    }

    /// Those of these commits that are not of a topic that is gone, as far as the cluster says: a position in it is none
    /// in the topic of the same name that was made since [D-22].
    pub(crate) async fn valid(&self, mut commits: Vec<Stored>, deadline: Instant) -> Vec<Stored> {
        let cluster = &self.resolver.cluster;
        let (mut found, mut asked) = (Vec::new(), Vec::new());
        for commit in &commits {
            match cluster.known(&commit.topic) {
                _ if !lock(&self.shared.starts).is_known(&commit.topic) => {}
                Some(known @ (Topic::Known(_) | Topic::Denied)) => found.push((commit.topic.clone(), known)),
                Some(Topic::Missing) | None => asked.push(commit.topic.clone()),
            }
        }
        if !asked.is_empty() {
            // Where the cluster does not say, it is for the group's coordinator to refuse the commit.
            let topics = cluster.ask_topics(&asked, Cluster::one_try(deadline)).await;
            found.extend(asked.into_iter().zip(topics.unwrap_or_default()));
        }
        let mut starts = lock(&self.shared.starts);
        for (topic, info) in found {
            if let Topic::Known(info) = info
                && starts.is_void(&topic, info.id)
            {
                tracing::info!(topic, "the topic was made anew: its position is not committed");
                commits.retain(|commit| commit.topic != topic);
            }
        }
        for commit in &commits {
            starts.sending(&commit.topic, commit.offset);
        }
        commits
    }

    /// One turn of a fetch. It returns before its time only with records, when a position was replaced, or when no
    /// partition can be read; its time also ends once `hurried` is ready. Dropped, it has done nothing but prepare the next one.
    pub(crate) async fn poll(
        &self,
        plan: &FetchPlan,
        within: Duration,
        hurried: impl Future<Output = ()>,
    ) -> Result<Polled, Error> {
        // One that was given up may not have ended yet.
        let _turn = self.turn.lock().await;
        let mut hurried = pin!(hurried);
        let now = Instant::now();
        let end = now + within;
        let limit = if within <= MARGIN { now + LEAST_WAIT } else { end };
        let mut turn = Turn::new(plan, end, limit);
        let topics: Vec<(String, Option<Position>)> = plan
            .positions
            .iter()
            .map(|(at, position)| (self.resolver.names.topic(&at.topic), *position))
            .collect();
        let names = topics.iter().map(|(topic, _)| topic.clone()).collect();
        lock(&self.shared.starts).keep(&names);
        lock(&self.shared.kept).only(&names);
        lock(&self.snags).only(&names);
        lock(&self.ahead).begin(&topics, now);
        lock(&self.order).only(&names);
        let mut changes = self.shared.changes.watch();
        loop {
            changes.mark_seen();
            let pending = self.advance(&mut turn, &topics);
            if !turn.parts.is_empty() {
                self.gather(&mut turn, &topics, &mut changes).await;
                break;
            }
            let now = Instant::now();
            let hopeless = !topics.is_empty() && turn.failed.len() >= topics.len();
            if turn.moved || hopeless || now >= turn.limit || (now >= turn.end && !pending) {
                break;
            }
            let throttled = lock(&self.throttled).values().copied().collect::<Vec<_>>();
            let asked = turn.asked.values().map(|(at, _)| *at);
            let again = asked.chain(throttled).filter(|at| *at > now).min();
            let until = again.map_or(turn.limit, |at| at.min(turn.limit));
            let until = if pending || now >= turn.end {
                until
            } else {
                until.min(turn.end)
            };
            tokio::select! {
                biased;
                () = changes.changed() => {}
                () = &mut hurried => turn.end_at(now),
                () = sleep_until(until) => {}
            }
        }
        self.polled(turn)
    }

    /// Once there are records: takes what other brokers answer within the grace. Behind records that the last reply
    /// left out, it also takes what comes before them in the order, so that nothing is passed over whose turn it is to
    /// come first [FE-12] [D-45].
    async fn gather(
        &self,
        turn: &mut Turn<'_>,
        topics: &[(String, Option<Position>)],
        changes: &mut changes::Watch<'_>,
    ) {
        let grace = Instant::now() + GRACE;
        loop {
            let first = topics
                .iter()
                .position(|(topic, _)| turn.parts.contains_key(topic));
            let passed_over = &topics[..first.filter(|_| turn.left_out).unwrap_or(0)];
            let until = lock(&self.flights)
                .values()
                .filter(|flight| flight.is_awaited())
                .map(|flight| {
                    let is_next = passed_over.iter().any(|(topic, _)| flight.is_about(topic));
                    if is_next {
                        grace.max(flight.due().min(turn.limit))
                    } else {
                        grace
                    }
                })
                .max();
            let Some(until) = until else {
                return;
            };
            if timeout_at(until, changes.changed()).await.is_err() {
                return;
            }
            self.harvest(turn, &mut lock(&self.flights));
        }
    }

    fn polled(&self, mut turn: Turn<'_>) -> Result<Polled, Error> {
        let mut polled = Polled::default();
        lock(&self.flights)
            .values_mut()
            .for_each(|flight| flight.carry_over());
        for (at, position) in &turn.plan.positions {
            let topic = self.resolver.names.topic(&at.topic);
            if let Some(start) = lock(&self.shared.starts).started(&topic, *position) {
                polled.started.push((at.clone(), start));
            }
            if let Some(error) = turn.failed.remove(&topic).or_else(|| turn.refused.remove(&topic)) {
                polled.failed.push((at.clone(), error));
            }
            let Some(part) = turn.parts.remove(&topic) else {
                continue;
            };
            let (mut kept, from) = (lock(&self.shared.kept), part.position.offset);
            match &part.fetched {
                Some(fetched) if part.kept.is_empty() => {
                    kept.keep(&topic, from, fetched, &self.budget, Instant::now());
                }
                Some(fetched) => kept.keep_behind(&topic, fetched, &self.budget),
                None => {}
            }
            polled
                .parts
                .extend(part.into_reader().map(|reader| (at.clone(), reader)));
        }
        let bytes: usize = polled
            .parts
            .iter()
            .map(|(_, records)| records.stored_bytes())
            .sum();
        polled.is_short = !turn.left_out && bytes < flight::least_bytes(turn.plan.min_bytes);
        self.read_on(turn.plan);
        self.sweep();
        let nothing = polled.started.is_empty() && polled.failed.is_empty() && polled.parts.is_empty();
        let idle = turn.plan.positions.is_empty();
        if nothing && !idle && !turn.reached && !self.resolver.cluster.is_live() {
            return Err(Error::KafkaUnreachable);
        }
        Ok(polled)
    }

    /// Has what is kept dropped in time, whether or not another turn comes.
    fn sweep(&self) {
        let mut kept = lock(&self.shared.kept);
        if kept.is_swept || !kept.sweep(Instant::now()) {
            return;
        }
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(KEPT_FOR).await;
                if !lock(&shared.kept).sweep(Instant::now()) {
                    return;
                }
            }
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
