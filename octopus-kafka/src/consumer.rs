//! An instance's Kafka consumer: what the engine's effects do on Kafka. The namespace is put before topics and groups
//! here, and taken off again, and nowhere else [NS-02] [NS-03].

use std::{
    collections::{BTreeMap, BTreeSet},
    future::{self, Future},
    sync::{Arc, Mutex},
    time::Duration,
};

use octopus_core::{
    Bound, Commit, Effect, Error, FetchPlan, Join, Namespace, Open, Outcome, Position, TopicName,
    TopicPartition,
};
use tokio::time::Instant;

pub use crate::fetcher::{Polled, Room};
use crate::{
    cluster::Cluster,
    fetcher::Fetcher,
    group::{Group, Stored},
    position::{Found, Resolver},
};

/// The longest client id.
const CLIENT_ID_LENGTH: usize = 100;

/// What a consumer's group told its member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signal {
    /// The group rebalances, or would give the member other partitions: it should join again [D-23].
    Rebalance,
    /// The group put the member out: its partitions may be another's by now.
    Lost,
}

/// One instance's consumer. Its clones are the same consumer; when the last one is dropped without a close it leaves
/// its group in the background.
#[derive(Debug, Clone)]
pub struct Consumer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    fetcher: Fetcher,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if tokio::runtime::Handle::try_current().is_ok() {
            self.group().give_up();
        }
    }
}

impl Cluster {
    /// The consumer of an instance. `signal` is called from a background task with what heartbeats and commits say
    /// of its group; it should return soon.
    pub fn consumer(&self, open: &Open, signal: impl Fn(Signal) + Send + Sync + 'static) -> Consumer {
        let names = Names(open.namespace.clone());
        let group_id = open.namespace.qualify(open.key.group.as_str());
        let client_id = client_id(open.key.group.as_str(), open.key.name.as_str());
        let group = Group::new(self.clone(), group_id, client_id, signal);
        let resolver = Resolver {
            cluster: self.clone(),
            group,
            names,
            reset: open.settings.auto_offset_reset,
        };
        let fetcher = Fetcher::new(resolver, self.kept_budget());
        Consumer {
            inner: Arc::new(Inner { fetcher }),
        }
    }
}

impl Consumer {
    /// Does what an effect asks, within this time: every effect but `Open` and `Fetch`. Which outcome belongs to
    /// which stands at [`Effect`].
    ///
    /// A join goes on when its time ends or the future is dropped, and is taken up by the next one for the same
    /// topics. So does a leave.
    ///
    /// # Errors
    ///
    /// Why Kafka refused it, or that it did not answer in time.
    pub async fn run(&self, effect: Effect, within: Duration) -> Result<Outcome, Error> {
        self.run_until(effect, within, future::pending()).await
    }

    /// As [`run`](Self::run); a join's time also ends once `hurried` is ready. It does not touch other effects.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub async fn run_until(
        &self,
        effect: Effect,
        within: Duration,
        hurried: impl Future<Output = ()>,
    ) -> Result<Outcome, Error> {
        let deadline = Instant::now() + within;
        let inner = &self.inner;
        // Ten thousand joins may wait at once: what the others take must not count for each of them.
        match effect {
            Effect::Topics(topics) => {
                let cluster = &inner.fetcher.resolver.cluster;
                let found = Box::pin(cluster.topics(&inner.names().0, &topics, within)).await?;
                Ok(Outcome::Topics(found))
            }
            Effect::Join(join) => inner.join(join, deadline, hurried).await,
            Effect::Leave | Effect::Close => {
                inner.fetcher.forget();
                inner.group().leave(deadline).await;
                Ok(Outcome::Done)
            }
            Effect::Commit(commits) => {
                let commits = inner.names().stored(commits);
                let commits = Box::pin(inner.fetcher.valid(commits, deadline)).await;
                if !commits.is_empty() {
                    Box::pin(inner.group().commit(commits, deadline)).await?;
                }
                Ok(Outcome::Done)
            }
            Effect::Committed(partitions) => Box::pin(inner.committed(&partitions, deadline)).await,
            Effect::Start(partitions) => {
                let starts = Box::pin(inner.fetcher.starts(&partitions, deadline)).await?;
                Ok(Outcome::Positions(starts))
            }
            Effect::Bounds(partitions, bound) => Box::pin(inner.bounds(&partitions, bound, deadline)).await,
            // The driver opens consumers, and fetches with `poll`.
            Effect::Open(_) | Effect::Fetch(_) => Err(Error::Internal),
        }
    }

    /// One turn of a fetch: it returns before its time only with records, when a position was replaced, when no partition
    /// can be read, or when the group's partitions are no longer this member's, of which [`Signal::Lost`] tells. What has
    /// not come by then is taken up by the next turn, also where the future is dropped. There is one turn at a time: another
    /// one begins when it has ended or its future is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::KafkaUnreachable`] if no broker could be reached. What concerns one partition is in
    /// [`Polled::failed`].
    pub async fn poll(&self, plan: &FetchPlan, within: Duration) -> Result<Polled, Error> {
        self.poll_until(plan, within, future::pending()).await
    }

    /// What a poll read of a partition can't be understood from this position on. False the first time at one place: the
    /// bytes may have been damaged on their way, and the next poll fetches them on another connection, behind those of
    /// other partitions.
    #[must_use]
    pub fn is_damaged(&self, at: &TopicPartition, position: Position) -> bool {
        self.inner.fetcher.is_damaged(at, position)
    }

    /// Asks Kafka ahead for what the next poll will want, if this is its plan: the plan of the last one, moved behind what
    /// was read. Where brokers are known to have more, their answers then come while the caller is busy with what it has.
    /// It does so for a caller that soon polled on behind what it had read, and within a bound on memory for the whole
    /// cluster; a poll with another plan drops it. Whether records that such a poll will find are on their way now, or here.
    pub fn read_ahead(&self, plan: &FetchPlan) -> bool {
        self.inner.group().is_held() && self.inner.fetcher.read_ahead(plan)
    }

    /// What a poll with this plan has found is not given to anyone, so that the next one with the same plan may find it again
    /// where it is, and need not ask Kafka for it.
    pub fn give_back(&self, plan: &FetchPlan) {
        self.inner.fetcher.give_back(plan);
    }

    /// Room for so many bytes that are made of records read ahead, if the bound on memory for what is read ahead has it.
    #[must_use]
    pub fn room_ahead(&self, bytes: usize) -> Option<Room> {
        self.inner.fetcher.room(bytes)
    }

    /// Whether what a poll read of a partition from this position on is still what one would read: the partition is this
    /// member's, its topic was not made anew, and it has no other leader, which may have other records. Never of what was
    /// read from the start that a poll found.
    #[must_use]
    pub fn is_current(&self, at: &TopicPartition, position: Position) -> bool {
        self.inner.group().is_held() && self.inner.fetcher.is_current(at, position)
    }

    /// As [`poll`](Self::poll); the turn's time also ends once `hurried` is ready. Records that it has by then are
    /// returned; what is still on its way is taken up by the next turn.
    ///
    /// # Errors
    ///
    /// As [`poll`](Self::poll).
    pub async fn poll_until(
        &self,
        plan: &FetchPlan,
        within: Duration,
        hurried: impl Future<Output = ()>,
    ) -> Result<Polled, Error> {
        let (group, fetcher) = (self.inner.group(), &self.inner.fetcher);
        if !group.is_held() {
            // The task that tells its owner so has its turn first, however often the owner asks.
            tokio::task::yield_now().await;
            return Ok(Polled::default());
        }
        let polled = fetcher.poll(plan, within, hurried).await?;
        // Another member may have read on where this process stood still meanwhile.
        Ok(if group.is_held() {
            polled
        } else {
            Polled::default()
        })
    }

    #[cfg(test)]
    pub(crate) fn fetcher(&self) -> &Fetcher {
        &self.inner.fetcher
    }
}

impl Inner {
    const fn names(&self) -> &Names {
        &self.fetcher.resolver.names
    }

    const fn group(&self) -> &Arc<Group> {
        &self.fetcher.resolver.group
    }

    async fn join(
        &self,
        join: Join,
        deadline: Instant,
        hurried: impl Future<Output = ()>,
    ) -> Result<Outcome, Error> {
        let topics = join
            .topics
            .iter()
            .map(|topic| self.names().topic(topic))
            .collect();
        let commit = self.names().stored(join.commit);
        let commit = Box::pin(self.fetcher.valid(commit, deadline)).await;
        let Some(topics) = self.group().join(topics, commit, deadline, hurried).await? else {
            return Ok(Outcome::Joining);
        };
        self.fetcher.forget();
        let partitions = topics.iter().map(|topic| self.names().partition(topic));
        Ok(Outcome::Joined(partitions.collect()))
    }

    async fn committed(&self, partitions: &[TopicPartition], deadline: Instant) -> Result<Outcome, Error> {
        let topics: BTreeSet<String> = self.names().topics(partitions);
        if topics.is_empty() {
            return Ok(Outcome::Committed(Vec::new()));
        }
        let mut found = self.group().committed(&topics, deadline).await?;
        let commits = partitions.iter().filter_map(|at| {
            let stored = found.remove(&self.names().topic(&at.topic))?;
            Some(Commit {
                partition: at.clone(),
                position: Position {
                    offset: stored.offset,
                    leader_epoch: stored.leader_epoch,
                },
                metadata: stored.metadata,
            })
        });
        Ok(Outcome::Committed(commits.collect()))
    }

    async fn bounds(
        &self,
        partitions: &[TopicPartition],
        bound: Bound,
        deadline: Instant,
    ) -> Result<Outcome, Error> {
        let found = Mutex::new(BTreeMap::new());
        let tell = |topic: &str, what| {
            let mut found = found.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            found.insert(topic.to_owned(), what);
        };
        self.fetcher
            .resolver
            .bounds(self.names().topics(partitions), bound, deadline, tell)
            .await;
        let mut found = found
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut positions = Vec::new();
        for at in partitions {
            match found.remove(&self.names().topic(&at.topic)) {
                Some(Found::At(position, _) | Found::Checked(position, _)) => {
                    positions.push((at.clone(), position))
                }
                Some(Found::Failed(error)) => return Err(error),
                Some(Found::Missing) | None => {}
            }
        }
        Ok(Outcome::Positions(positions))
    }
}

/// What topics are called within a namespace and on Kafka [NS-02].
#[derive(Debug, Clone)]
pub(crate) struct Names(Namespace);

impl Names {
    /// A topic's name on Kafka.
    pub(crate) fn topic(&self, topic: &TopicName) -> String {
        self.0.qualify(topic.as_str())
    }

    /// The partition of a topic that is called this on Kafka.
    pub(crate) fn partition(&self, topic: &str) -> TopicPartition {
        TopicPartition::only(self.0.strip(topic).unwrap_or(topic).into())
    }

    fn topics(&self, partitions: &[TopicPartition]) -> BTreeSet<String> {
        partitions.iter().map(|at| self.topic(&at.topic)).collect()
    }

    fn stored(&self, commits: Vec<Commit>) -> Vec<Stored> {
        let stored = commits.into_iter().map(|commit| Stored {
            topic: self.topic(&commit.partition.topic),
            offset: commit.position.offset,
            leader_epoch: commit.position.leader_epoch,
            metadata: commit.metadata,
        });
        stored.collect()
    }
}

/// What a consumer calls itself to Kafka, which shows it beside the member.
fn client_id(group: &str, name: &str) -> String {
    let mut id = format!("octopus-{group}-{name}");
    id.truncate(CLIENT_ID_LENGTH);
    id
}

#[cfg(test)]
mod tests {
    use octopus_core::Subject;

    use super::*;

    /// [NS-02]
    #[test]
    fn the_namespace_is_put_before_a_topic_and_taken_off_again() {
        let names = Names(Namespace::of(Subject::from_uuid(1)));
        assert_eq!(names.topic(&"a.b".into()), "ns-000000000001.a.b");
        assert_eq!(
            names.partition("ns-000000000001.a.b"),
            TopicPartition::only("a.b".into())
        );
        let own = names.topic(&"ns-000000000001.x".into());
        assert_eq!(
            names.partition(&own),
            TopicPartition::only("ns-000000000001.x".into())
        );
    }

    #[test]
    fn a_client_id_is_bounded() {
        assert_eq!(client_id("g", "n"), "octopus-g-n");
        assert_eq!(client_id(&"g".repeat(128), "n").len(), CLIENT_ID_LENGTH);
    }
}
