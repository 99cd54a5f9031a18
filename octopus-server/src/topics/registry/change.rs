//! The steps of a change: announced in the registry, done on Kafka, and then said to be done.

use std::{collections::HashMap, time::Duration};

use octopus_core::{Error, Namespace, TopicName};
use tokio::time::{Instant, sleep};

use super::{
    super::kafka::Left,
    RegistryTopics,
    journal::{Made, Step},
    state::{Stage, Stages, held},
};

/// The time between two looks whether another server has done its work on a topic.
const LOOK: Duration = Duration::from_millis(50);

/// What is left at least to take back what was announced.
const LAST: Duration = Duration::from_secs(5);

/// The times of a change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// The longest that a server is at work on Kafka after it announced it.
    pub(super) turn: Duration,
    /// How long such work of another server is waited for: longer than it may take.
    patience: Duration,
}

/// Says of a topic that a server is at work on whether that may be taken over.
type IsFree<'a> = &'a mut dyn FnMut(&Stage) -> bool;

impl Times {
    /// Those of a change that has so much time. Servers of one registry give a change the same time.
    pub(super) fn of(within: Duration) -> Self {
        Self {
            turn: within / 2,
            patience: within / 4 * 3,
        }
    }
}

impl RegistryTopics {
    /// Changes a namespace as `decide` says of its topics and of the token that the change would have; `None` waits for who
    /// is at work on them.
    pub(super) async fn change(
        &self,
        namespace: &Namespace,
        times: Times,
        left: &Left,
        mut decide: impl FnMut(Option<&Stages>, &str, IsFree<'_>) -> Result<Option<Step>, Error> + Send,
    ) -> Result<Made, Error> {
        let mut seen: HashMap<Box<str>, Instant> = HashMap::new();
        loop {
            let mut waits = false;
            let now = Instant::now();
            let mut is_free = |stage: &Stage| {
                stage.token().is_none_or(|token| {
                    // Nobody else of this process is in the namespace: that work was given up.
                    self.journal.is_own(token)
                        || now.duration_since(*seen.entry(token.into()).or_insert(now)) >= times.patience
                })
            };
            let step = |topics: Option<&Stages>, token: &str| {
                let step = decide(topics, token, &mut is_free)?;
                waits = step.is_none();
                Ok(step.unwrap_or(Step::Keep))
            };
            let made = self.journal.change(namespace, left, step).await?;
            if !waits {
                return Ok(made);
            }
            if left.time() <= LOOK {
                return Err(Error::KafkaRetriable);
            }
            sleep(LOOK).await;
        }
    }

    /// Moves a topic from a stage to the next one, `None` where it is then none of the namespace's; not where it is in
    /// another stage by now. `next` is given the change's token.
    pub(super) async fn shift(
        &self,
        namespace: &Namespace,
        topic: &TopicName,
        from: &Stage,
        next: impl Fn(&str) -> Option<Stage> + Send + Sync,
        left: &Left,
    ) -> Result<Made, Error> {
        let shift = |topics: Option<&Stages>, token: &str| {
            let Some(mut topics) = topics.filter(|topics| topics.get(topic) == Some(from)).cloned() else {
                return Ok(Step::Keep);
            };
            match next(token) {
                Some(stage) if stage == *from => return Ok(Step::Keep),
                Some(stage) => _ = topics.insert(topic.clone(), stage),
                None => _ = topics.remove(topic),
            }
            Ok(Step::Put(topics))
        };
        self.journal.change(namespace, left, shift).await
    }

    /// As [`shift`](Self::shift), after a failure. Where this fails too, whoever changes the topic next takes it over.
    pub(super) async fn shift_back(
        &self,
        namespace: &Namespace,
        topic: &TopicName,
        from: &Stage,
        to: Option<Stage>,
        left: &Left,
    ) {
        let shifted = self.shift(namespace, topic, from, |_| to.clone(), left).await;
        if let Err(error) = shifted {
            tracing::warn!(%namespace, %error, "a change that failed stays announced in the registry");
        }
    }

    /// Gives a topic its place among the `most` of the namespace, and announces that it is made, unless it is there. Gives
    /// its stage.
    pub(super) async fn reserve(
        &self,
        namespace: &Namespace,
        topic: &TopicName,
        most: usize,
        times: Times,
        left: &Left,
    ) -> Result<Stage, Error> {
        let mut stage = Stage::There;
        let mut turn = Left::of(times.turn);
        let place = |topics: Option<&Stages>, token: &str, is_free: IsFree<'_>| {
            let mut topics = topics.cloned().unwrap_or_default();
            let old = topics.get(topic);
            if old.is_some_and(|old| !is_free(old)) {
                return Ok(None);
            }
            stage = match old {
                Some(Stage::There) => {
                    stage = Stage::There;
                    return Ok(Some(Step::Keep));
                }
                None | Some(Stage::Coming(_)) => Stage::Coming(token.into()),
                Some(Stage::Leaving(_) | Stage::Renewing(_)) => Stage::Renewing(token.into()),
            };
            if !old.is_some_and(Stage::is_held) && held(&topics).count() >= most {
                return Err(Error::NamespaceFull(most));
            }
            turn = Left::of(times.turn);
            topics.insert(topic.clone(), stage.clone());
            Ok(Some(Step::Put(topics)))
        };
        self.change(namespace, times, left, place).await?;
        match stage {
            Stage::Renewing(_) => {
                // Its records were to go, and who was at work on that is not there any more.
                let turn = left.at_most(turn.time());
                self.clear(namespace, topic, &stage, &turn).await?;
                self.announce(namespace, topic, &stage, left).await
            }
            Stage::There | Stage::Coming(_) | Stage::Leaving(_) => Ok(stage),
        }
    }

    /// Deletes a topic on Kafka that is announced to be made anew.
    pub(super) async fn clear(
        &self,
        namespace: &Namespace,
        topic: &TopicName,
        stage: &Stage,
        turn: &Left,
    ) -> Result<(), Error> {
        let removed = self.kafka.remove(namespace, topic, turn).await;
        if removed.is_err() {
            let there = Some(Stage::There);
            self.shift_back(namespace, topic, stage, there, &Left::of(LAST))
                .await;
        }
        removed.map(drop)
    }

    /// Makes a topic that was just deleted.
    pub(super) async fn remake(
        &self,
        namespace: &Namespace,
        topic: &TopicName,
        stage: &Stage,
        times: Times,
        left: &Left,
    ) -> Result<(), Error> {
        let stage = self.announce(namespace, topic, stage, left).await?;
        let turn = left.at_most(times.turn);
        if let Err(error) = self.kafka.remake(namespace, topic, &turn).await {
            self.shift_back(namespace, topic, &stage, None, left).await;
            return Err(error);
        }
        let there = |_: &str| Some(Stage::There);
        let made = self.shift(namespace, topic, &stage, there, left).await?;
        let is_there = made.topics.is_some_and(|topics| topics.contains_key(topic));
        if is_there {
            Ok(())
        } else {
            Err(Error::KafkaRetriable)
        }
    }

    /// Deletes all topics of a namespace, and then the namespace. False where another server made a topic meanwhile.
    pub(super) async fn close_once(
        &self,
        namespace: &Namespace,
        times: Times,
        left: &Left,
    ) -> Result<bool, Error> {
        let mut turn = Left::of(times.turn);
        let leave = |topics: Option<&Stages>, token: &str, is_free: IsFree<'_>| {
            let Some(topics) = topics else {
                return Ok(Some(Step::Keep));
            };
            if topics.is_empty() {
                return Ok(Some(Step::Delete));
            }
            if !topics.values().all(is_free) {
                return Ok(None);
            }
            turn = Left::of(times.turn);
            let leaving = topics
                .keys()
                .map(|topic| (topic.clone(), Stage::Leaving(token.into())));
            Ok(Some(Step::Put(leaving.collect())))
        };
        let made = self.change(namespace, times, left, leave).await?;
        let (Some(token), Some(topics)) = (made.token, made.topics) else {
            return Ok(true);
        };
        let leaving = Stage::Leaving(token);
        let turn = left.at_most(turn.time());
        let removed = self.kafka.remove_all(namespace, topics.keys(), &turn).await;
        let is_gone = removed.is_ok();
        let end = |topics: Option<&Stages>, _: &str| {
            let Some(topics) = topics else {
                return Ok(Step::Keep);
            };
            let mut rest = topics.clone();
            if is_gone {
                rest.retain(|_, stage| *stage != leaving);
            } else {
                let mine = rest.values_mut().filter(|stage| **stage == leaving);
                mine.for_each(|stage| *stage = Stage::There);
            }
            Ok(if is_gone && rest.is_empty() {
                Step::Delete
            } else {
                Step::Put(rest)
            })
        };
        let ended = self
            .journal
            .change(namespace, &Left::of(left.time().max(LAST)), end)
            .await;
        removed?;
        Ok(ended?.topics.is_none())
    }

    /// Announces that a topic is made whose deletion was announced. Gives its stage.
    async fn announce(
        &self,
        namespace: &Namespace,
        topic: &TopicName,
        from: &Stage,
        left: &Left,
    ) -> Result<Stage, Error> {
        let coming = |token: &str| Some(Stage::Coming(token.into()));
        let made = self.shift(namespace, topic, from, coming, left).await?;
        // Otherwise another server took it over.
        made.token.map(Stage::Coming).ok_or(Error::KafkaRetriable)
    }
}

/// The topics that the namespace holds, in the order of their names.
pub(super) fn topics_of(topics: Option<&Stages>) -> Vec<TopicName> {
    topics
        .map(|topics| held(topics).cloned().collect())
        .unwrap_or_default()
}
