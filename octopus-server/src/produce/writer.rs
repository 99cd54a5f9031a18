//! Has records written: finds their topic, gives them to the producer, and waits for what becomes of them.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::Response;
use octopus_core::{Error, Limits, Namespace, TopicName, TopicPartition};
use octopus_kafka::{
    Cluster, Producer,
    producer::{self, Sending},
};
use tokio::sync::watch;

use super::{
    Admission, Given, Hold, Part,
    reply::{self, Done, Place},
};
use crate::{crowds, route::ProduceRoute, topics::Topics};

/// The bytes of a body above which it is read away from the threads that serve sockets.
const READ_APART: usize = 128 * 1024;

/// The one producer of the service, and what guards it.
pub(crate) struct Writer {
    kafka: Option<Kafka>,
    /// Whether a topic that is not there is made by its first record.
    makes_topics: bool,
    /// The most topics that a namespace holds then [NS-06].
    max_topics: usize,
    admission: Admission,
    /// The longest that a topic is looked for.
    look_within: Duration,
    /// The longest that a record waits to be taken.
    write_within: Duration,
    state: watch::Sender<State>,
}

struct Kafka {
    cluster: Cluster,
    topics: Arc<dyn Topics>,
    producer: Producer,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    /// The requests whose records are on their way.
    busy: usize,
}

impl Writer {
    pub(crate) fn new(
        kafka: Option<(Cluster, Arc<dyn Topics>)>,
        makes_topics: bool,
        limits: &Limits,
    ) -> Self {
        let kafka = kafka.map(|(cluster, topics)| {
            let mut config = producer::Config::default();
            // Bodies are bounded before this is: what they hold takes a little more than they do.
            config.memory = limits.produce_bytes.saturating_mul(2).max(config.memory);
            Kafka {
                producer: cluster.producer(config),
                cluster,
                topics,
            }
        });
        Self {
            kafka,
            makes_topics,
            max_topics: limits.max_topics,
            admission: Admission::new(limits),
            look_within: limits.call_wait,
            write_within: limits.produce_wait,
            state: watch::Sender::default(),
        }
    }

    pub(crate) const fn admission(&self) -> &Admission {
        &self.admission
    }

    /// The id that the cluster gives itself; empty where it gives none.
    fn cluster_id(&self) -> Arc<str> {
        let id = self.kafka.as_ref().and_then(|kafka| kafka.cluster.id());
        id.unwrap_or_default()
    }

    /// The reply to a request that writes the records of its body, which `hold` keeps room for; `place` is its own among
    /// its user's.
    ///
    /// # Errors
    ///
    /// Why none of them was sent, or the only one was not written.
    pub(crate) async fn answer(
        &self,
        namespace: &Namespace,
        route: &ProduceRoute,
        body: Bytes,
        (hold, place): (Hold, crowds::Place),
    ) -> Result<Response<Bytes>, Error> {
        let is_batch = route.is_batch;
        let is_large = body.len() > READ_APART;
        // The body is held as long as it is read, even where the caller leaves meanwhile.
        let read = move || {
            let read = if is_batch {
                super::batch(&body)
            } else {
                super::records(&body).map(|records| (Vec::new(), records))
            };
            read.map(|(ids, given)| (ids, given, hold))
        };
        let (ids, given, _hold) = if is_large {
            let read = tokio::task::spawn_blocking(read).await;
            read.map_err(|_panicked| Error::Internal)??
        } else {
            read()?
        };
        let topic = TopicName::from(&*route.path.topic);
        let done = self.write(namespace, &topic, given, &place).await?;
        let cluster_id = self.cluster_id();
        let place = Place {
            cluster_id: &cluster_id,
            topic_name: topic.as_str(),
        };
        if is_batch {
            return Ok(reply::batch(&ids, &done, place));
        }
        match &done[..] {
            [Err(error)] => Err(error.clone()),
            done => Ok(reply::records(done, place)),
        }
    }

    /// Writes records in their order; gives what became of each. Dropping the future withdraws those that wait.
    ///
    /// # Errors
    ///
    /// Why none of them was sent: 429 and 503 say that to try again writes none of them twice.
    async fn write(
        &self,
        namespace: &Namespace,
        topic: &TopicName,
        given: Vec<Given>,
        place: &crowds::Place,
    ) -> Result<Vec<Result<Done, Error>>, Error> {
        if given.iter().all(Result::is_err) {
            // What is wrong with the records is told before anything about their topic [D-01].
            return Ok(given.into_iter().filter_map(Result::err).map(Err).collect());
        }
        let _busy = self.begin()?;
        let kafka = self.kafka.as_ref().ok_or(Error::NoKafka)?;
        let on_kafka = namespace.qualify(topic.as_str());
        if !self.holds(&kafka.topics, namespace, topic, place).await? {
            return Err(Error::TopicNotFound(topic.clone()));
        }
        let send = |given: Given| -> Result<(Sending, Option<Part>, Option<Part>), Error> {
            let outgoing = given?;
            if outgoing.partition != 0 {
                return Err(Error::PartitionNotFound(TopicPartition {
                    topic: topic.clone(),
                    partition: outgoing.partition,
                }));
            }
            let sending = kafka.producer.send(&on_kafka, outgoing.record, self.write_within);
            Ok((sending, outgoing.key, outgoing.value))
        };
        // All are given to the producer before the first is waited for, so that they go together.
        let sent: Vec<_> = given.into_iter().map(send).collect();
        let mut done = Vec::with_capacity(sent.len());
        for sent in sent {
            done.push(match sent {
                Ok((sending, key, value)) => match sending.await {
                    Ok(written) => Ok((written, key, value)),
                    Err(why) => {
                        tracing::debug!(%why, "a record is not known to be written");
                        Err(why.into())
                    }
                },
                Err(error) => Err(error),
            });
        }
        if let Some(error) = unsent(&done) {
            return Err(error);
        }
        let failed = done
            .iter()
            .filter(|done| done.as_ref().is_err_and(|error| error.code().status() >= 500));
        let failed = failed.count();
        if failed > 0 {
            tracing::warn!(
                failed,
                records = done.len(),
                "records are not known to be written"
            );
        }
        Ok(done)
    }

    /// Whether the namespace holds a topic, or does from here on.
    async fn holds(
        &self,
        topics: &Arc<dyn Topics>,
        namespace: &Namespace,
        topic: &TopicName,
        place: &crowds::Place,
    ) -> Result<bool, Error> {
        let within = self.look_within;
        let is_held = topics.takes(namespace, topic, within).await.map_err(unsent_yet)?;
        if is_held || !self.makes_topics {
            return Ok(is_held);
        }
        let new = TopicName::of_new(topic.as_str()).ok_or(Error::TopicNameInvalid)?;
        let (topics, namespace, most) = (Arc::clone(topics), namespace.clone(), self.max_topics);
        let place = place.clone();
        // It ends whole even where the caller leaves, who has no room for more meanwhile.
        let made = tokio::spawn(async move {
            let _place = place;
            topics.create(&namespace, &new, most, within).await.map(|_| true)
        });
        made.await.unwrap_or(Err(Error::Internal)).map_err(unsent_yet)
    }

    /// Says that no more records are taken; ends once none is on its way.
    pub(crate) async fn shut_down(&self) {
        self.state.send_modify(|state| state.is_closed = true);
        let mut state = self.state.subscribe();
        // The sender is held by `self`.
        let _ = state.wait_for(|state| state.busy == 0).await;
    }

    fn begin(&self) -> Result<Busy<'_>, Error> {
        let begun = self.state.send_if_modified(|state| {
            state.busy += usize::from(!state.is_closed);
            !state.is_closed
        });
        if begun {
            Ok(Busy(&self.state))
        } else {
            Err(Error::ShuttingDown)
        }
    }
}

/// Counts a request as busy until it falls.
struct Busy<'a>(&'a watch::Sender<State>);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|state| state.busy -= 1);
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("admission", &self.admission)
            .finish_non_exhaustive()
    }
}

/// An error that came before any record was sent, so that the request can be tried again.
fn unsent_yet(error: Error) -> Error {
    if error == Error::KafkaRetriable {
        Error::NotWritten
    } else {
        error
    }
}

/// Why none of the records was sent, where each of them could be sent again.
fn unsent(done: &[Result<Done, Error>]) -> Option<Error> {
    let may_pass = |done: &Result<Done, Error>| {
        done.as_ref()
            .is_err_and(|error| matches!(error.code().status(), 429 | 503))
    };
    if done.iter().all(may_pass) {
        done.first()?.as_ref().err().cloned()
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
