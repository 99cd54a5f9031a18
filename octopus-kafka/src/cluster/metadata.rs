//! What the cluster says of its topics and brokers, kept and asked again in time.

use std::{
    collections::{BTreeSet, HashMap},
    ops::RangeInclusive,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kafka_protocol::{
    error::{ParseResponseErrorCode, ResponseError},
    messages::{
        BrokerId, MetadataRequest, MetadataResponse, TopicName as KafkaTopic,
        metadata_request::MetadataRequestTopic, metadata_response::MetadataResponseTopic,
    },
    protocol::StrBytes,
};
use tokio::{
    sync::Mutex as Gate,
    time::{Instant, sleep, sleep_until, timeout_at},
};
use uuid::Uuid;

use super::{Class, Cluster, TOPIC_NAME, ask::CLIENT_ID};
use crate::error::{Api, Error, Kind};

/// The versions that are spoken.
const VERSIONS: RangeInclusive<i16> = 4..=13;
/// How long an answer is believed.
const AGE: Duration = Duration::from_secs(300);
/// The least time between two requests for a topic that the cluster does not list.
const MISSING: Duration = Duration::from_secs(1);
/// The least time between two requests for any topic.
const PACE: Duration = Duration::from_millis(100);
/// The most topics in one request.
const TOGETHER: usize = 500;
/// The topics that are kept before the old ones among them go.
const KEPT: usize = 1024;

/// What is known of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    /// It is there.
    Known(TopicInfo),
    /// The cluster does not list it [NS-05].
    Missing,
    /// The service may not see it.
    Denied,
}

/// A topic that the cluster lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TopicInfo {
    /// Another one after the topic was deleted and made again [D-22]; nil from brokers that give none.
    pub(crate) id: Uuid,
    /// The broker that leads partition 0, if one does at present.
    pub(crate) leader: Option<BrokerId>,
    /// -1 if unknown.
    pub(crate) leader_epoch: i32,
    /// How many partitions it has.
    pub(crate) partitions: i32,
}

#[derive(Debug, Default)]
pub(super) struct Cache {
    state: Mutex<State>,
    /// One request at a time; who waits for it finds its own topic in the answer.
    asking: Gate<()>,
}

#[derive(Debug, Default)]
struct State {
    topics: HashMap<Arc<str>, Entry>,
    brokers: HashMap<BrokerId, Arc<str>>,
    controller: Option<BrokerId>,
    id: Option<Arc<str>>,
    wanted: BTreeSet<Arc<str>>,
    /// How many topics were left when the old ones last went.
    swept_to: usize,
}

#[derive(Debug)]
struct Entry {
    topic: Topic,
    asked: Instant,
    stale: bool,
}

impl Cluster {
    /// A topic by its name on Kafka: from what is known, else the cluster is asked, for all that are wanted at once.
    pub(crate) async fn topic(&self, name: &str, deadline: Instant) -> Result<Topic, Error> {
        if name.is_empty() || name.len() > TOPIC_NAME {
            return Err(Error::new(Api::Metadata, Kind::InvalidTopic));
        }
        let cache = &self.0.metadata;
        let late = || Error::new(Api::Metadata, Kind::Timeout);
        loop {
            let known = cache.lock().known(name, Instant::now());
            match known {
                Known::Fresh(topic) => return Ok(topic),
                Known::NotBefore(then) if then >= deadline => return Err(late()),
                Known::NotBefore(then) => {
                    sleep_until(then).await;
                    continue;
                }
                Known::Not => {}
            }
            cache.lock().wanted.insert(name.into());
            let _asking = timeout_at(deadline, cache.asking.lock())
                .await
                .map_err(|_| late())?;
            let known = cache.lock().known(name, Instant::now());
            if let Known::Fresh(topic) = known {
                return Ok(topic);
            }
            let mut names = vec![name.to_owned()];
            names.extend(cache.lock().want(name));
            // What is wrong with another name is no matter of this one's.
            if let Some(topic) = self.ask_each(&names, deadline).await?.into_iter().next() {
                return topic;
            }
        }
    }

    /// What is known of a topic, unless it has to be asked for first.
    pub(crate) fn known(&self, name: &str) -> Option<Topic> {
        match self.0.metadata.lock().known(name, Instant::now()) {
            Known::Fresh(topic) => Some(topic),
            Known::Not | Known::NotBefore(_) => None,
        }
    }

    /// An answer contradicted what is known of a topic: it is asked for before its next use. One that the cluster does
    /// not list is asked for once a second, whatever is said of it.
    pub(crate) fn stale(&self, name: &str) {
        if let Some(entry) = self.0.metadata.lock().topics.get_mut(name) {
            entry.stale = true;
        }
    }

    /// An answer named a newer leader of a topic: it is believed at once. False where that is no news, or the broker is
    /// not known.
    pub(crate) fn moved(&self, name: &str, leader: BrokerId, leader_epoch: i32) -> bool {
        let mut state = self.0.metadata.lock();
        let State { topics, brokers, .. } = &mut *state;
        let Some(entry) = topics.get_mut(name).filter(|_| brokers.contains_key(&leader)) else {
            return false;
        };
        match &mut entry.topic {
            Topic::Known(info) if leader_epoch > info.leader_epoch => {
                info.leader = Some(leader);
                info.leader_epoch = leader_epoch;
                entry.stale = false;
                true
            }
            Topic::Known(_) | Topic::Missing | Topic::Denied => false,
        }
    }

    /// A broker that another answer than metadata named.
    pub(crate) fn learn(&self, broker: BrokerId, host: &str, port: i32) {
        self.0.metadata.learn(broker, host, port);
    }

    /// Asks the cluster for topics of names that a topic can have; gives them in the order of their names, and keeps
    /// them. Never makes one [NS-05].
    pub(crate) async fn ask_topics(&self, names: &[String], deadline: Instant) -> Result<Vec<Topic>, Error> {
        self.ask_each(names, deadline).await?.into_iter().collect()
    }

    /// Asks the cluster for topics; gives what it says of each, in the order of their names.
    async fn ask_each(
        &self,
        names: &[String],
        deadline: Instant,
    ) -> Result<Vec<Result<Topic, Error>>, Error> {
        let mut topics = Vec::new();
        for names in names.chunks(TOGETHER) {
            let response = self.metadata(|| request(names), deadline).await?;
            topics.extend(self.0.metadata.keep(names, &response));
        }
        Ok(topics)
    }

    /// Asks a broker for metadata. Where the brokers say that they are not the cluster any more, the bootstrap
    /// servers are asked.
    async fn metadata(
        &self,
        make: impl Fn() -> MetadataRequest + Send + Sync,
        deadline: Instant,
    ) -> Result<MetadataResponse, Error> {
        loop {
            let response = self.ask_any(VERSIONS, &make, deadline).await?;
            match response.error_code.err() {
                None => return Ok(response),
                Some(ResponseError::RebootstrapRequired) if Instant::now() + PACE < deadline => {
                    self.0.metadata.lock().brokers.clear();
                    sleep(PACE).await;
                }
                Some(code) => return Err(Error::response(Api::Metadata, code)),
            }
        }
    }

    /// The names on Kafka of all topics that the service may see, but Kafka's own. Asks the cluster.
    pub(super) async fn ask_names(&self, deadline: Instant) -> Result<Vec<StrBytes>, Error> {
        let all = || {
            MetadataRequest::default()
                .with_topics(None)
                .with_allow_auto_topic_creation(false)
        };
        let response = self.metadata(all, deadline).await?;
        self.0.metadata.keep(&[], &response);
        let topics = response.topics.into_iter();
        Ok(topics
            .filter(|topic| !topic.is_internal && matches!(read(topic), Ok(Topic::Known(_))))
            .filter_map(|topic| topic.name.map(|name| name.0))
            .collect())
    }

    /// What one broker says of a topic; nothing of it is kept.
    pub(super) async fn topic_at(
        &self,
        broker: BrokerId,
        name: &str,
        deadline: Instant,
    ) -> Result<Topic, Error> {
        let names = [name.to_owned()];
        let asked = self.request(
            broker,
            Class::Control,
            CLIENT_ID,
            VERSIONS,
            |_| request(&names),
            deadline,
        );
        let (response, _) = asked.await?;
        response.topics.first().map_or(Ok(Topic::Missing), read)
    }

    /// The brokers of the cluster, as far as they are known.
    pub(super) fn brokers(&self) -> Vec<BrokerId> {
        let mut brokers: Vec<_> = self.0.metadata.lock().brokers.keys().copied().collect();
        brokers.sort_by_key(|broker| broker.0);
        brokers
    }

    /// The broker that makes topics; asked for if none is known.
    pub(super) async fn controller(&self, deadline: Instant) -> Result<BrokerId, Error> {
        let known = self.0.metadata.lock().controller;
        if let Some(controller) = known {
            return Ok(controller);
        }
        let response = self.metadata(|| request(&[]), deadline).await?;
        self.0.metadata.keep(&[], &response);
        let known = self.0.metadata.lock().controller;
        known.ok_or_else(|| Error::response(Api::Metadata, ResponseError::NotController))
    }

    /// A topic was just made or deleted: what was known of it is no longer believed.
    pub(super) fn changed(&self, name: &str) {
        self.0.metadata.lock().topics.remove(name);
    }

    pub(super) fn cluster_id(&self) -> Option<Arc<str>> {
        self.0.metadata.lock().id.clone()
    }

    pub(super) fn forget_controller(&self) {
        self.0.metadata.lock().controller = None;
    }
}

impl Cache {
    pub(super) fn address(&self, broker: BrokerId) -> Option<Arc<str>> {
        self.lock().brokers.get(&broker).map(Arc::clone)
    }

    /// The addresses of all known brokers, in the order of their ids.
    pub(super) fn addresses(&self) -> Vec<Arc<str>> {
        let state = self.lock();
        let mut brokers: Vec<_> = state.brokers.iter().collect();
        brokers.sort_by_key(|(id, _)| id.0);
        brokers
            .into_iter()
            .map(|(_, address)| Arc::clone(address))
            .collect()
    }

    /// A broker that another answer than metadata named.
    pub(super) fn learn(&self, broker: BrokerId, host: &str, port: i32) {
        self.lock().brokers.insert(broker, address(host, port));
    }

    /// Keeps an answer, and gives what it says of `names`, in their order.
    fn keep(&self, names: &[String], response: &MetadataResponse) -> Vec<Result<Topic, Error>> {
        let now = Instant::now();
        let mut state = self.lock();
        if !response.brokers.is_empty() {
            let brokers = response.brokers.iter();
            state.brokers = brokers
                .map(|broker| (broker.node_id, address(&broker.host, broker.port)))
                .collect();
        }
        if let Some(id) = &response.cluster_id {
            state.id = Some(id.as_str().into());
        }
        state.controller = Some(response.controller_id).filter(|controller| controller.0 >= 0);
        let answers: HashMap<&str, &MetadataResponseTopic> = response
            .topics
            .iter()
            .filter_map(|topic| Some((topic.name.as_ref()?.as_str(), topic)))
            .collect();
        let topic = |name: &String| {
            state.wanted.remove(name.as_str());
            let topic = answers
                .get(&**name)
                .map_or(Ok(Topic::Missing), |answer| read(answer))?;
            Ok(state.merge(name, topic, now))
        };
        names.iter().map(topic).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether what is known may be used.
#[derive(Debug, PartialEq, Eq)]
enum Known {
    Fresh(Topic),
    Not,
    /// It may not be asked for again before then.
    NotBefore(Instant),
}

impl State {
    fn known(&self, name: &str, now: Instant) -> Known {
        let Some(entry) = self.topics.get(name) else {
            return Known::Not;
        };
        let age = now.duration_since(entry.asked);
        let is_fresh = match entry.topic {
            Topic::Known(info) => !entry.stale && info.leader.is_some() && age < AGE,
            Topic::Missing => age < MISSING,
            Topic::Denied => !entry.stale && age < MISSING,
        };
        if is_fresh {
            Known::Fresh(entry.topic)
        } else if age < PACE {
            Known::NotBefore(entry.asked + PACE)
        } else {
            Known::Not
        }
    }

    /// The other topics that are waited for, to be asked for along with `name`.
    fn want(&mut self, name: &str) -> Vec<String> {
        let wanted = std::mem::take(&mut self.wanted);
        wanted
            .iter()
            .filter(|other| &***other != name)
            .take(TOGETHER - 1)
            .map(|other| other.to_string())
            .collect()
    }

    /// Takes a new answer in. An older epoch of the same topic comes from a broker that lags behind.
    fn merge(&mut self, name: &str, topic: Topic, now: Instant) -> Topic {
        let merged = match (self.topics.get(name).map(|entry| entry.topic), topic) {
            (Some(Topic::Known(old)), Topic::Known(new))
                if old.id == new.id && new.leader_epoch != -1 && new.leader_epoch < old.leader_epoch =>
            {
                Topic::Known(old)
            }
            (_, topic) => topic,
        };
        self.topics.insert(
            name.into(),
            Entry {
                topic: merged,
                asked: now,
                stale: false,
            },
        );
        if self.topics.len() > KEPT.max(self.swept_to * 2) {
            self.topics
                .retain(|_, entry| now.duration_since(entry.asked) < AGE);
            self.swept_to = self.topics.len();
        }
        merged
    }
}

fn request(names: &[String]) -> MetadataRequest {
    let topics = names.iter().map(|name| {
        let name = KafkaTopic::from(StrBytes::from_string(name.clone()));
        MetadataRequestTopic::default().with_name(Some(name))
    });
    MetadataRequest::default()
        .with_topics(Some(topics.collect()))
        .with_allow_auto_topic_creation(false)
}

fn read(answer: &MetadataResponseTopic) -> Result<Topic, Error> {
    match answer.error_code.err() {
        None | Some(ResponseError::LeaderNotAvailable) => {}
        Some(ResponseError::UnknownTopicOrPartition | ResponseError::UnknownTopicId) => {
            return Ok(Topic::Missing);
        }
        Some(ResponseError::TopicAuthorizationFailed) => return Ok(Topic::Denied),
        Some(code) => return Err(Error::response(Api::Metadata, code)),
    }
    let first = answer
        .partitions
        .iter()
        .find(|partition| partition.partition_index == 0);
    Ok(Topic::Known(TopicInfo {
        id: answer.topic_id,
        leader: first
            .map(|partition| partition.leader_id)
            .filter(|leader| leader.0 >= 0),
        leader_epoch: first.map_or(-1, |partition| partition.leader_epoch),
        partitions: i32::try_from(answer.partitions.len()).unwrap_or(i32::MAX),
    }))
}

fn address(host: &str, port: i32) -> Arc<str> {
    if host.contains(':') {
        format!("[{host}]:{port}").into()
    } else {
        format!("{host}:{port}").into()
    }
}

#[cfg(test)]
mod tests;
