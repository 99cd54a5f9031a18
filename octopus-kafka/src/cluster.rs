//! A Kafka cluster: who leads which topic, who coordinates which group, and how each of them is asked.

mod ask;
mod change;
mod coordinator;
mod key;
mod metadata;
mod produce;

use std::{
    collections::BTreeSet,
    fmt,
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use kafka_protocol::messages::ApiKey;
use octopus_core::{Namespace, TopicName};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::{sync::Semaphore, time::Instant};

pub(crate) use self::ask::ask_on;
pub use self::change::NewTopic;
pub(crate) use self::metadata::{Topic, TopicInfo};
pub(crate) use crate::pool::{Class, Lease, Origin, Party};
use crate::{
    Config, GroupProtocol,
    error::{Api, Error},
    fetcher,
    frame::Budget,
    group::{Alarms, CLASSIC, CONSUMER},
    pool::Pool,
    transport::{self, Dialer},
};

/// One cluster, shared by all that speak to it; clones are the same one.
///
/// Nothing is connected before it is needed. Its methods need a tokio runtime.
#[derive(Clone)]
pub struct Cluster(Arc<Inner>);

struct Inner {
    config: Config,
    pool: Pool,
    metadata: metadata::Cache,
    coordinators: coordinator::Cache,
    /// When its groups' members have something to do.
    alarms: Arc<Alarms>,
    /// What its consumers may keep of replies that left records out.
    kept: Arc<Semaphore>,
    /// Where chance is played, the seed of the next member's ids.
    seeds: Option<AtomicU64>,
}

/// The least that a try is waited for: longer than a broker may be silent before it is asked on another connection.
const LEAST_TRY: Duration = Duration::from_secs(4);
/// The longest name that Kafka gives a topic, in bytes.
const TOPIC_NAME: usize = 249;

impl Cluster {
    /// The cluster of these settings.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let dialer = transport::dialer(config.security.tls.clone());
        Self::over(config, dialer, None)
    }

    /// As [`new`](Self::new), with streams of this dialer's. Where `chance` is given, it spreads the waits, and names the
    /// members.
    pub(crate) fn over(config: Config, dialer: Dialer, chance: Option<u64>) -> Self {
        let seeds = chance.map(AtomicU64::new);
        let chance = chance.unwrap_or_else(|| RandomState::new().hash_one(0));
        let budget = Budget::new(config.fetch_memory);
        let sasl = config.security.sasl.clone();
        let (control, fetch) = (config.control_frame, config.fetch_frame);
        let pool = Pool::new(dialer, sasl, control, fetch, budget, chance);
        Self(Arc::new(Inner {
            config,
            pool,
            metadata: metadata::Cache::default(),
            coordinators: coordinator::Cache::default(),
            alarms: Arc::default(),
            kept: fetcher::budget(),
            seeds,
        }))
    }

    /// The brokers to begin with, each as `HOST:PORT`.
    #[must_use]
    pub fn bootstrap(&self) -> &[String] {
        &self.0.config.bootstrap
    }

    /// A number that no other member's ids come of.
    pub(crate) fn member_seed(&self) -> u128 {
        if let Some(seeds) = &self.0.seeds {
            return u128::from(seeds.fetch_add(1, Ordering::Relaxed)) << 64;
        }
        let mut bytes = [0; 16];
        SystemRandom::new()
            .fill(&mut bytes)
            .expect("the system has random bytes: TLS and sign-ins need them as well");
        u128::from_be_bytes(bytes)
    }

    /// Ends well once the cluster can be reached: one live connection to any of its brokers is enough [D-41].
    ///
    /// # Errors
    ///
    /// [`Kind::Unreachable`](crate::Kind::Unreachable) where no connection could be opened within the time.
    pub async fn reach(&self, within: Duration) -> Result<(), Error> {
        if self.is_live() {
            return Ok(());
        }
        self.any_broker(Api::Metadata, &[], Instant::now() + within)
            .await
            .map(drop)
    }

    /// Whether a broker of the cluster speaks this protocol of groups. Each of them may in time, one by one: it is what the
    /// cluster would be asked in now.
    ///
    /// # Errors
    ///
    /// As [`reach`](Self::reach).
    pub async fn speaks(&self, protocol: GroupProtocol, within: Duration) -> Result<bool, Error> {
        let (_, lease) = self
            .any_broker(Api::Metadata, &[], Instant::now() + within)
            .await?;
        Ok(match protocol {
            GroupProtocol::Classic => lease.offers(ApiKey::JoinGroup as i16, &CLASSIC),
            GroupProtocol::Consumer => lease.offers(ApiKey::ConsumerGroupHeartbeat as i16, &CONSUMER),
        })
    }

    /// Which of a namespace's topics the cluster lists [NS-04]. Asks the cluster each time, and never makes a topic
    /// [NS-05]. A name that Kafka gives no topic is one of a topic that is not there; Kafka is not asked for it.
    ///
    /// # Errors
    ///
    /// Where the cluster does not say within the time, or denies one of them [ER-02].
    pub async fn topics(
        &self,
        namespace: &Namespace,
        names: &[TopicName],
        within: Duration,
    ) -> Result<BTreeSet<TopicName>, Error> {
        let deadline = Instant::now() + within;
        let (possible, qualified): (Vec<_>, Vec<_>) = names
            .iter()
            .map(|name| (name, namespace.qualify(name.as_str())))
            .filter(|(name, qualified)| !name.as_str().is_empty() && can_be_a_topic(qualified))
            .unzip();
        let found = self.ask_topics(&qualified, deadline).await?;
        let mut held = BTreeSet::new();
        for (name, topic) in possible.into_iter().zip(found) {
            match topic {
                Topic::Known(_) => _ = held.insert(name.clone()),
                Topic::Missing => {}
                Topic::Denied => {
                    return Err(Error::response(
                        Api::Metadata,
                        kafka_protocol::error::ResponseError::TopicAuthorizationFailed,
                    ));
                }
            }
        }
        Ok(held)
    }

    /// Whether the cluster lists a topic, by its name on Kafka: at once where a leader of it is known, else it is asked
    /// [NS-04]. Never makes one [NS-05].
    ///
    /// # Errors
    ///
    /// As [`topics`](Self::topics).
    pub async fn has_topic(&self, topic: &str, within: Duration) -> Result<bool, Error> {
        let denied = Error::response(
            Api::Metadata,
            kafka_protocol::error::ResponseError::TopicAuthorizationFailed,
        );
        if !can_be_a_topic(topic) {
            return Ok(false);
        }
        if let Some(Topic::Known(_)) = self.known(topic) {
            return Ok(true);
        }
        let found = self
            .ask_topics(&[topic.to_owned()], Instant::now() + within)
            .await?;
        match found.first() {
            Some(Topic::Known(_)) => Ok(true),
            Some(Topic::Missing) | None => Ok(false),
            Some(Topic::Denied) => Err(denied),
        }
    }

    /// The id that the cluster gives itself; `None` until one of its brokers has told it.
    #[must_use]
    pub fn id(&self) -> Option<Arc<str>> {
        self.cluster_id()
    }

    /// Writes one record batch to partition 0 of a topic by its name on Kafka, acknowledged by all replicas in sync;
    /// gives the offset of its first record. Tried again while the error may pass, so a batch may be written twice.
    ///
    /// # Errors
    ///
    /// Where Kafka refuses it, or does not take it within the time.
    pub async fn produce(&self, topic: &str, batch: Bytes, within: Duration) -> Result<i64, Error> {
        self.write(topic, batch, Instant::now() + within).await
    }

    /// Whether a connection to any broker stands.
    pub(crate) fn is_live(&self) -> bool {
        let addresses = self.known_addresses();
        addresses.iter().any(|address| self.0.pool.is_live(address))
    }

    /// The alarms of its groups' members.
    pub(crate) fn alarms(&self) -> &Arc<Alarms> {
        &self.0.alarms
    }

    /// The budget of what consumers keep of replies that left records out.
    pub(crate) fn kept_budget(&self) -> Arc<Semaphore> {
        Arc::clone(&self.0.kept)
    }

    /// Until when one try of a request is waited for that brokers answer at once and that may be sent again: so that a
    /// connection that died without a word leaves time for another one.
    pub(crate) fn one_try(deadline: Instant) -> Instant {
        let now = Instant::now();
        let half = deadline.saturating_duration_since(now) / 2;
        deadline.min(now + half.max(LEAST_TRY))
    }

    /// What it and its consumers hold at present.
    #[cfg(feature = "testing")]
    pub(crate) fn taken(&self) -> crate::testing::Taken {
        let (places, answers, answer_bytes) = self.0.pool.taken();
        crate::testing::Taken {
            places,
            answers,
            answer_bytes,
            kept_bytes: fetcher::taken(&self.0.kept),
        }
    }

    pub(crate) fn config(&self) -> &Config {
        &self.0.config
    }
}

/// Whether Kafka lets a topic have this name: 1 to 249 letters, digits, dots, dashes or underscores of ASCII, and not one
/// or two dots alone.
pub(crate) fn can_be_a_topic(name: &str) -> bool {
    (1..=TOPIC_NAME).contains(&name.len())
        && !matches!(name, "." | "..")
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cluster").field(&self.0.config.bootstrap).finish()
    }
}
