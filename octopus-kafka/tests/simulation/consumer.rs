//! One consumer, driven as the service drives it: turns of a fetch, replies that are delivered or not, commits, seeks,
//! joins again, leaves and closes. What it reads is judged by the truth.

mod act;
mod ahead;
mod read;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use octopus_core::{
    AutoOffsetReset, Commit, Effect, Error, FetchPlan, Format, InstanceKey, Join, Name, Namespace, Open,
    Outcome, Position, Settings, Subject, TopicPartition,
};
use octopus_kafka::{Cluster, Consumer, Signal};
use tokio::time::timeout;

use self::ahead::Ahead;
use crate::{
    sim::{Sim, Stand},
    truth::Seen,
};

/// The records that one poll brought of a topic, and from where.
type Read = (i64, Vec<(i64, u64)>);

/// A consumer, and what the service would keep of it.
pub(crate) struct Reader {
    sim: Arc<Sim>,
    cluster: Cluster,
    consumer: Consumer,
    signals: Arc<Mutex<Vec<Signal>>>,
    kind: Kind,
    client_id: String,
    places: BTreeMap<String, Option<Place>>,
    /// What a poll brought whose reply was not delivered.
    undelivered: BTreeMap<String, Read>,
    ahead: Option<Ahead>,
    wants_join: bool,
    lost: bool,
}

/// What a consumer is made of.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    pub(crate) group: String,
    pub(crate) subscribes: bool,
    pub(crate) topics: Vec<String>,
    pub(crate) reset: AutoOffsetReset,
    /// It takes its next turn ahead where it can, as the service does.
    pub(crate) reads_ahead: bool,
}

/// Where a consumer is in a topic.
#[derive(Debug, Clone)]
struct Place {
    position: Position,
    /// What was read up to there, unless it was never read.
    seen: Option<Seen>,
}

impl Reader {
    /// A new consumer of this name.
    pub(crate) fn new(sim: &Arc<Sim>, cluster: &Cluster, name: &str, kind: Kind) -> Self {
        let mut settings = Settings::default();
        settings.auto_offset_reset = kind.reset;
        let part = |text: &str| Name::parse(text).expect("a name");
        let open = Open {
            namespace: Namespace::none(),
            key: InstanceKey {
                subject: Subject::from_uuid(1),
                group: part(&kind.group),
                name: part(name),
            },
            settings,
        };
        let signals = Arc::<Mutex<Vec<Signal>>>::default();
        let heard = Arc::clone(&signals);
        let consumer = cluster.consumer(&open, move |signal| {
            heard.lock().unwrap_or_else(PoisonError::into_inner).push(signal);
        });
        let client_id = format!("octopus-{}-{name}", kind.group);
        sim.note(format_args!("{client_id} begins: {kind:?}"));
        let places = if kind.subscribes {
            BTreeMap::new()
        } else {
            kind.topics.iter().map(|topic| (topic.clone(), None)).collect()
        };
        Self {
            sim: Arc::clone(sim),
            cluster: cluster.clone(),
            consumer,
            signals,
            wants_join: kind.subscribes,
            kind,
            client_id,
            places,
            undelivered: BTreeMap::new(),
            ahead: None,
            lost: false,
        }
    }

    /// Lives until the world is over; in a quiet one it only reads.
    pub(crate) async fn live(mut self) {
        let mut lives = 0;
        loop {
            self.stand();
            let (quiet, over, roll) = {
                let mut state = self.sim.lock();
                (state.quiet, state.over, state.chance.below(100))
            };
            if over {
                break;
            }
            if quiet || roll < 60 {
                self.turn().await;
            } else if roll < 74 {
                self.commit().await;
            } else if roll < 79 {
                self.seek();
            } else if roll < 84 {
                self.look().await;
            } else if roll < 92 {
                self.sim.wait(50, 4000).await;
            } else if roll < 96 && self.kind.subscribes {
                self.leave().await;
            } else if roll > 97 {
                lives += 1;
                self = self.born_again(lives).await;
            }
        }
        self.sim.lock().wire.leaving.insert(self.client_id.clone());
        let closed = self.consumer.run(Effect::Close, Duration::from_secs(5)).await;
        self.sim
            .note(format_args!("{} closed: {closed:?}", self.client_id));
    }

    /// One turn of a fetch: it joins where it should, and reads.
    async fn turn(&mut self) {
        self.hear();
        let (within, cancel, deliver) = {
            let mut state = self.sim.lock();
            let within = state.chance.wait(40, 500);
            let cancel = state.happens(120).then(|| state.chance.wait(0, 400));
            (within, cancel, !state.happens(200))
        };
        let patience = cancel.unwrap_or(Duration::from_secs(60));
        if self.wants_join {
            self.ahead = None;
            return self.join(within, patience).await;
        }
        let position = |place: &Option<Place>| place.as_ref().map(|place| place.position);
        let plan = FetchPlan {
            positions: self
                .places
                .iter()
                .map(|(topic, place)| (at(topic), position(place)))
                .collect(),
            min_bytes: 1,
            max_bytes: None,
            format: Format::Binary,
        };
        if plan.positions.is_empty() {
            return tokio::time::sleep(within).await;
        }
        if let Some(found) = self.taken_ahead(&plan) {
            return self.take(found, deliver, plan).await;
        }
        let Ok(polled) = timeout(patience, self.consumer.poll(&plan, within)).await else {
            return self.sim.note(format_args!("{} left its poll", self.client_id));
        };
        self.hear();
        match polled {
            // What it read is another's by now.
            Ok(_) if self.lost => {}
            Ok(polled) => self.take(self.walked(polled), deliver, plan).await,
            Err(error) => self.failed("a poll", &error, within).await,
        }
    }

    async fn join(&mut self, within: Duration, patience: Duration) {
        let topics = self.kind.topics.iter().map(|topic| topic.as_str().into());
        let commit = if self.lost || self.sim.lock().quiet {
            Vec::new()
        } else {
            self.commits()
        };
        self.ask(&commit);
        let join = Effect::Join(Join {
            topics: topics.collect(),
            commit,
        });
        let Ok(joined) = timeout(patience, self.consumer.run(join, within)).await else {
            return;
        };
        self.hear();
        match joined {
            Ok(Outcome::Joined(partitions)) => self.install(&partitions),
            Ok(Outcome::Joining) => {}
            Ok(outcome) => self.sim.fail(format_args!("a join came to {outcome:?}")),
            Err(error) => self.failed("a join", &error, within).await,
        }
    }

    fn install(&mut self, partitions: &[TopicPartition]) {
        let keep = !std::mem::take(&mut self.lost);
        self.wants_join = false;
        self.undelivered.clear();
        let mut before = std::mem::take(&mut self.places);
        for at in partitions {
            let topic = at.topic.to_string();
            let place = before.remove(&topic).flatten().filter(|_| keep);
            self.places.insert(topic, place);
        }
        let topics: Vec<_> = self.places.keys().cloned().collect();
        self.sim
            .note(format_args!("{} joined and has {topics:?}", self.client_id));
    }

    fn hear(&mut self) {
        let signals = std::mem::take(&mut *self.signals.lock().unwrap_or_else(PoisonError::into_inner));
        for signal in signals {
            self.sim.note(format_args!("{} hears {signal:?}", self.client_id));
            if self.kind.subscribes {
                self.wants_join = true;
                self.lost |= signal == Signal::Lost;
            }
        }
    }

    /// What would be committed: every position that was delivered.
    fn commits(&self) -> Vec<Commit> {
        let known = self.places.iter().filter_map(|(topic, place)| {
            Some(Commit {
                partition: at(topic),
                position: place.as_ref()?.position,
                metadata: "".into(),
            })
        });
        known.collect()
    }

    /// Notes what it is about to commit.
    fn ask(&self, commits: &[Commit]) {
        let mut state = self.sim.lock();
        for commit in commits {
            let (topic, offset) = (commit.partition.topic.to_string(), commit.position.offset);
            let seen = self.places.get(&topic).and_then(Option::as_ref);
            state.asks(
                &self.kind.group,
                &self.client_id,
                topic,
                offset,
                seen.and_then(|place| place.seen.clone()),
            );
        }
    }

    /// Something failed that may, where not all is well.
    async fn failed(&self, what: &str, error: &Error, within: Duration) {
        {
            let mut state = self.sim.lock();
            state.note(format_args!("{}: {what} failed: {error:?}", self.client_id));
            let passes = matches!(error, Error::KafkaRetriable | Error::KafkaUnreachable);
            if !passes || state.calm {
                state.fail(format_args!("{}: {what} failed: {error:?}", self.client_id));
            }
        }
        tokio::time::sleep(within).await;
    }

    /// Says where it stands.
    fn stand(&mut self) {
        self.hear();
        let settled = !self.wants_join && !self.lost;
        let places = self.places.iter().filter(|_| settled);
        let offset = |place: &Option<Place>| place.as_ref().map(|place| place.position.offset);
        let stand = Stand {
            group: self.kind.subscribes.then(|| self.kind.group.clone()),
            topics: self.kind.topics.clone(),
            positions: places
                .map(|(topic, place)| (topic.clone(), offset(place)))
                .collect(),
        };
        self.sim.lock().stands.insert(self.client_id.clone(), stand);
    }
}

fn at(topic: &str) -> TopicPartition {
    TopicPartition::only(topic.into())
}
