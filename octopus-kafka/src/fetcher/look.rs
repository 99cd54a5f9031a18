//! Looking topics up, and where they start: in the background, so that a turn that ends does not stop it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use octopus_core::{Error, Position, TopicPartition};
use tokio::time::{Instant, timeout_at};

use super::{Fetcher, LEAST_WAIT, lock};
use crate::{
    cluster::Topic,
    position::{Ask, Place, each_topic},
};

/// How long positions and topics are looked for in the background.
const LOOK_UP_WAIT: Duration = Duration::from_secs(10);

impl Fetcher {
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

    /// Looks topics up in the background, so that a turn that ends does not stop it.
    pub(super) fn look_up(&self, topics: BTreeSet<String>) {
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
    pub(super) fn look_for(&self, asks: Vec<(String, Ask)>) {
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
