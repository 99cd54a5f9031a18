//! One turn of a fetch over all brokers: a sessionless Fetch to each leader in parallel. What has not answered when
//! the turn ends is carried over to the next one.

mod ahead;
mod budget;
mod flight;
mod harvest;
mod kept;
mod order;
mod snag;
mod turn;

use std::{
    collections::{BTreeMap, BTreeSet},
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
    ahead::{Ahead, Behind},
    flight::{Asked, Flight, KEPT_FOR, Wait},
    kept::{Kept, Rest, Source},
    order::Order,
    snag::Snags,
    turn::{Part, Turn},
};
use crate::{
    changes::{self, Changes},
    cluster::{Cluster, Topic},
    group::Stored,
    pace::Pace,
    position::{Ask, Place, Resolver, Starts, each_topic},
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
}

/// How long the answers of other brokers are waited for once there are records.
const GRACE: Duration = Duration::from_millis(10);
/// What a Fetch may wait on the broker's side is this much less than the turn, so that its answer comes in it.
const MARGIN: Duration = Duration::from_millis(20);
/// The least that an answer is waited for where the turn does not wait [D-19].
const LEAST_WAIT: Duration = Duration::from_millis(100);
/// The waits between answers that brought nothing.
const PACE: Pace = Pace::new(Duration::from_millis(20), Duration::from_millis(250));
/// How long positions and topics are looked for in the background.
const LOOK_UP_WAIT: Duration = Duration::from_secs(10);

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

    /// Where these topics start, each looked for until the deadline; without those that the cluster does not list.
    /// What was found is kept for the next turn.
    pub(crate) async fn starts(
        &self,
        topics: &[TopicPartition],
        deadline: Instant,
    ) -> Result<Vec<(TopicPartition, Position)>, Error> {
        let names = topics.iter().map(|at| self.resolver.names.topic(&at.topic));
        let names: BTreeSet<String> = names.collect();
        let mut changes = self.shared.changes.watch();
        let mut known = BTreeMap::new();
        for (topic, info) in each_topic(&self.resolver.cluster, names, deadline).await {
            match info? {
                Topic::Known(info) => _ = known.insert(topic, info),
                Topic::Missing => {}
                Topic::Denied => return Err(Error::KafkaUnauthorized),
            }
        }
        let mut started = BTreeMap::new();
        loop {
            changes.mark_seen();
            let mut asks = Vec::new();
            let mut waits = false;
            for (topic, info) in &known {
                let place = lock(&self.shared.starts).place(
                    topic,
                    None,
                    info.id,
                    info.leader_epoch,
                    Instant::now().into_std(),
                );
                match place {
                    Place::At(position) => _ = started.insert(topic.clone(), position),
                    Place::Failed(error) => return Err(error),
                    Place::Ask(_) if started.contains_key(topic) => {}
                    Place::Ask(ask) => asks.push((topic.clone(), ask)),
                    Place::Wait | Place::Moved => {}
                }
                waits |= !started.contains_key(topic);
            }
            self.look_for(asks);
            if !waits {
                break;
            }
            if timeout_at(deadline, changes.changed()).await.is_err() {
                return Err(if !self.resolver.cluster.is_live() {
                    Error::KafkaUnreachable
                } else {
                    Error::KafkaRetriable
                });
            }
        }
        let found = topics.iter().filter_map(|at| {
            let position = started.get(&self.resolver.names.topic(&at.topic))?;
            Some((at.clone(), *position))
        });
        Ok(found.collect())
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

    /// Takes in what came and sends what can be sent. Returns whether something is on its way.
    fn advance(&self, turn: &mut Turn<'_>, topics: &[(String, Option<Position>)]) -> bool {
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
                        Some(rest) => behind.add(leader, topic, position, &info, &rest),
                        None if turn.refused.contains_key(topic) => {}
                        None => {
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
    fn sort(&self, asked: &mut [Asked]) {
        let (snags, order) = (lock(&self.snags), lock(&self.order));
        asked.sort_by_key(|asked| {
            let is_damaged = snags.is_damaged(&asked.topic, asked.position.offset);
            (is_damaged, order.key(&asked.topic))
        });
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
                Some((source, records)) if part.kept.is_empty() => {
                    kept.keep(&topic, *source, from, records, &self.budget, Instant::now());
                }
                Some((_, records)) => kept.keep_behind(&topic, records, &self.budget),
                None => {}
            }
            polled
                .parts
                .extend(part.into_reader().map(|reader| (at.clone(), reader)));
        }
        self.read_on(turn.plan);
        self.sweep();
        let nothing = polled.started.is_empty() && polled.failed.is_empty() && polled.parts.is_empty();
        let idle = turn.plan.positions.is_empty();
        if nothing && !idle && !turn.reached && !self.resolver.cluster.is_live() {
            return Err(Error::KafkaUnreachable);
        }
        Ok(polled)
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

    /// Looks topics up in the background, so that a turn that ends does not stop it.
    fn look_up(&self, topics: BTreeSet<String>) {
        if topics.is_empty() || std::mem::replace(&mut lock(&self.shared.look).busy, true) {
            return;
        }
        let cluster = self.resolver.cluster.clone();
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            let infos = each_topic(&cluster, topics, Instant::now() + LOOK_UP_WAIT).await;
            let mut failed = false;
            for (topic, info) in infos {
                if let Err(error) = info {
                    tracing::debug!(topic, %error, "looking a topic up failed");
                    failed = true;
                }
            }
            if failed {
                tokio::time::sleep(LEAST_WAIT).await;
            }
            lock(&shared.look).busy = false;
            shared.changes.tell();
        });
    }

    /// Looks starts up in the background.
    fn look_for(&self, asks: Vec<(String, Ask)>) {
        if asks.is_empty() {
            return;
        }
        let resolver = self.resolver.clone();
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            let topics = asks.iter().map(|(topic, ask)| (topic.clone(), ask.sought));
            let numbers: BTreeMap<&str, u64> =
                asks.iter().map(|(topic, ask)| (&**topic, ask.number)).collect();
            let tell = |topic: &str, found| {
                if let Some(&number) = numbers.get(topic) {
                    lock(&shared.starts).found(topic, number, found, Instant::now().into_std());
                    shared.changes.tell();
                }
            };
            resolver
                .starts(topics.collect(), Instant::now() + LOOK_UP_WAIT, tell)
                .await;
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
