//! The engine's calls: work in Kafka, as tasks that report their end.

use std::{sync::Arc, time::Duration};

use octopus_codec::Body;
use octopus_core::{CallId, Effect, Error, Event, InstanceId, Open, Outcome, TopicName};
use octopus_kafka::Signal;
use tokio::{sync::Notify, task::AbortHandle};

use super::{Driver, Opened, reader::Reader, turn::Turned};

/// Starts a call. Its task tells the driver how it ended, also if it panics; an aborted one says nothing.
pub(super) fn start(
    driver: Driver,
    call: CallId,
    instance: InstanceId,
    opened: Option<Opened>,
    effect: Effect,
    within: Duration,
) -> Running {
    let mut end = End {
        driver: driver.clone(),
        call,
        instance,
        told: false,
    };
    let hurry = Arc::new(Notify::new());
    let hurried = Arc::clone(&hurry);
    let task = tokio::spawn(async move {
        let hurried = hurried.notified();
        let done = run(&driver, instance, opened, effect, within, hurried).await;
        end.tell(done);
    });
    Running {
        task: task.abort_handle(),
        hurry,
    }
}

/// A call that runs.
pub(super) struct Running {
    task: AbortHandle,
    hurry: Arc<Notify>,
}

impl Running {
    /// Has it end with what it has found so far.
    pub(super) fn hurry(&self) {
        self.hurry.notify_one();
    }

    /// Stops it.
    pub(super) fn stop(&self) {
        self.task.abort();
    }
}

/// What a call brought besides its outcome.
struct Done {
    outcome: Result<Outcome, Error>,
    opened: Option<Opened>,
    body: Option<Body>,
}

impl From<Result<Outcome, Error>> for Done {
    fn from(outcome: Result<Outcome, Error>) -> Self {
        Self {
            outcome,
            opened: None,
            body: None,
        }
    }
}

impl From<Turned> for Done {
    fn from(Turned { fetched, body }: Turned) -> Self {
        Self {
            outcome: Ok(Outcome::Fetched(fetched)),
            opened: None,
            body,
        }
    }
}

async fn run(
    driver: &Driver,
    instance: InstanceId,
    opened: Option<Opened>,
    effect: Effect,
    within: Duration,
    hurried: impl Future<Output = ()>,
) -> Done {
    match (effect, opened) {
        // What rarely runs has a box, so that a fetch that waits has no room for it.
        (Effect::Open(settings), _) => Box::pin(open(driver, instance, &settings, within)).await,
        (Effect::Topics(topics), Some(opened)) => held(driver, &opened, topics, within).await.into(),
        (Effect::Fetch(plan), Some(opened)) => {
            let turned = opened.reader.turn(plan, within, hurried).await;
            turned.map_or_else(|error| Err(error).into(), Done::from)
        }
        (
            effect @ (Effect::Close
            | Effect::Join(_)
            | Effect::Leave
            | Effect::Commit(_)
            | Effect::Committed(_)
            | Effect::Start(_)
            | Effect::Bounds(..)),
            Some(opened),
        ) => Box::pin(opened.reader.run(effect, within, hurried)).await.into(),
        // An open that failed or was given up left nothing to close.
        (Effect::Close, None) => Ok(Outcome::Done).into(),
        (
            Effect::Topics(_)
            | Effect::Join(_)
            | Effect::Leave
            | Effect::Fetch(_)
            | Effect::Commit(_)
            | Effect::Committed(_)
            | Effect::Start(_)
            | Effect::Bounds(..),
            None,
        ) => Err(Error::Internal).into(),
    }
}

async fn open(driver: &Driver, instance: InstanceId, open: &Open, within: Duration) -> Done {
    let Some(cluster) = &driver.0.cluster else {
        return Err(Error::NoKafka).into();
    };
    if let Err(error) = cluster.reach(within).await {
        tracing::debug!(%error, "the cluster can't be reached");
        return Err(Error::from(error)).into();
    }
    let signals = driver.clone();
    let consumer = cluster.consumer(open, move |signal| {
        signals.feed(match signal {
            Signal::Rebalance => Event::Rebalance(instance),
            Signal::Lost => Event::Lost(instance),
        });
    });
    let opened = Opened {
        namespace: open.namespace.clone(),
        reader: Reader::new(consumer),
    };
    Done {
        outcome: Ok(Outcome::Done),
        opened: Some(opened),
        body: None,
    }
}

async fn held(
    driver: &Driver,
    opened: &Opened,
    topics: Vec<TopicName>,
    within: Duration,
) -> Result<Outcome, Error> {
    match &driver.0.topics {
        Some(known) => known
            .held(&opened.namespace, &topics, within)
            .await
            .map(Outcome::Topics),
        None => Err(Error::NoKafka),
    }
}

/// Tells the driver that a call ended.
struct End {
    driver: Driver,
    call: CallId,
    instance: InstanceId,
    told: bool,
}

impl End {
    fn tell(&mut self, done: Done) {
        self.told = true;
        let Self {
            driver,
            call,
            instance,
            ..
        } = self;
        let mut unwanted = None;
        driver.with(|state| {
            if state.calls.remove(call).is_none() {
                // Cancelled meanwhile; what it made falls outside the lock.
                unwanted = Some(done);
                return None;
            }
            let Done {
                outcome,
                opened,
                body,
            } = done;
            if let Some(opened) = opened {
                state.consumers.insert(*instance, opened);
            }
            if let Some(body) = body {
                state.bodies.insert(*call, body);
            }
            Some(Event::Done { call: *call, outcome })
        });
        drop(unwanted);
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if !self.told && std::thread::panicking() {
            self.tell(Err(Error::Internal).into());
        }
    }
}
