//! Users, keys, namespaces and topics: what the routes below `/api/v3` do.
//!
//! A user is its namespace: there is nothing else to keep of one. Only the caller's own namespace is ever looked at, so
//! that nobody learns of another's.

use std::{fmt, sync::Arc, time::Duration};

use octopus_auth::Caller;
use octopus_core::{Error, TopicName};
use tokio::sync::watch;

use crate::{
    crowds,
    keys::Keys,
    reply::Managed,
    route::{NamespaceRoute, TopicPath},
    topics::Topics,
};

/// Does what those routes ask. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Namespaces(Arc<Inner>);

struct Inner {
    /// `None` without a cluster.
    topics: Option<Arc<dyn Topics>>,
    keys: Option<Keys>,
    max_topics: usize,
    /// The time that each step has.
    within: Duration,
    changes: watch::Sender<Changes>,
}

/// The changes of namespaces.
#[derive(Debug, Default)]
struct Changes {
    /// Whether no more are taken.
    is_closed: bool,
    /// How many are under way.
    running: usize,
}

impl Namespaces {
    pub(crate) fn new(
        topics: Option<Arc<dyn Topics>>,
        keys: Option<Keys>,
        max_topics: usize,
        within: Duration,
    ) -> Self {
        Self(Arc::new(Inner {
            topics,
            keys,
            max_topics,
            within,
            changes: watch::Sender::default(),
        }))
    }

    /// Does what a route asks. A change ends whole even where this future is dropped, and holds its user's place so long: a
    /// topic that is made anew must not be gone because its caller left.
    pub(crate) async fn answer(
        &self,
        route: NamespaceRoute,
        caller: Caller,
        place: crowds::Place,
    ) -> Result<Managed, Error> {
        if !route.is_change() {
            let done = self.0.act(route, caller).await;
            drop(place);
            return done;
        }
        let namespaces = self.clone();
        let running = Running::new(self.0.changes.clone());
        let name = route.name();
        let task = tokio::spawn(async move {
            let _held = (running, place);
            let namespace = caller.namespace.clone();
            let done = namespaces.0.act(route, caller).await;
            if done.is_ok() {
                tracing::info!(%namespace, route = name, "done");
            }
            done
        });
        // A panic has been told already, and nothing of its insides goes out [ER-08].
        task.await.unwrap_or(Err(Error::Internal))
    }

    /// Takes no more changes: the service shuts down.
    pub(crate) fn close(&self) {
        self.0.changes.send_modify(|changes| changes.is_closed = true);
    }

    /// Waits until no change is under way, but no longer than that.
    pub(crate) async fn settle(&self, within: Duration) {
        let mut changes = self.0.changes.subscribe();
        let settled = changes.wait_for(|changes| changes.running == 0);
        let _ = tokio::time::timeout(within, settled).await;
    }
}

impl Inner {
    async fn act(&self, route: NamespaceRoute, caller: Caller) -> Result<Managed, Error> {
        let Caller { subject, namespace } = &caller;
        let within = self.within;
        match route {
            NamespaceRoute::CreateUser => {
                self.changing()?.open(namespace, within).await?;
                Ok(Managed::User(*subject, namespace.clone()))
            }
            NamespaceRoute::DeleteUser => {
                let topics = self.changing()?;
                let Some(keys) = &self.keys else {
                    topics.close(namespace, within).await?;
                    return Ok(Managed::UserGone(*subject, namespace.clone()));
                };
                let _place = keys.enter(namespace, within).await?;
                let has_keys = keys.withdraw(&caller, within).await?;
                topics.close(namespace, within).await?;
                if has_keys {
                    // Another server may have made one meanwhile.
                    keys.withdraw(&caller, within).await?;
                }
                Ok(Managed::UserGone(*subject, namespace.clone()))
            }
            NamespaceRoute::CreateKey => {
                let topics = self.changing()?;
                let keys = self.keys.as_ref().ok_or(Error::KeysUnsupported)?;
                let _place = keys.enter(namespace, within).await?;
                topics.open(namespace, within).await?;
                keys.make(&caller, within).await.map(Managed::Key)
            }
            NamespaceRoute::DeleteKey => {
                self.changing()?;
                let keys = self.keys.as_ref().ok_or(Error::KeysUnsupported)?;
                let _place = keys.enter(namespace, within).await?;
                keys.delete(&caller, within).await.map(Managed::KeyGone)
            }
            NamespaceRoute::Namespaces => {
                let topics = self.topics()?.list(namespace, within).await?;
                let own = topics.map(|topics| (namespace.clone(), topics));
                Ok(Managed::Namespaces(own.into_iter().collect()))
            }
            NamespaceRoute::CreateTopic(path) => {
                path.is_of(&caller)?;
                let topic = TopicName::of_new(&path.topic).ok_or(Error::TopicNameInvalid)?;
                let topics = self.changing()?;
                let changed = topics.create(namespace, &topic, self.max_topics, within).await?;
                Ok(Managed::Created(topic, namespace.clone(), changed))
            }
            NamespaceRoute::DeleteTopic(path) => {
                path.is_of(&caller)?;
                let topic = TopicName::from(&*path.topic);
                let changed = self.changing()?.delete(namespace, &topic, within).await?;
                Ok(Managed::Deleted(topic, namespace.clone(), changed))
            }
            NamespaceRoute::RecreateTopic(path) => {
                path.is_of(&caller)?;
                let topic = TopicName::from(&*path.topic);
                self.changing()?.recreate(namespace, &topic, 2 * within).await?;
                Ok(Managed::Recreated(topic, namespace.clone()))
            }
        }
    }

    /// As [`topics`](Self::topics), for a change of them: behind what is wrong with the request itself [D-01].
    ///
    /// # Errors
    ///
    /// [`Error::ShuttingDown`] too.
    fn changing(&self) -> Result<&Arc<dyn Topics>, Error> {
        if self.changes.borrow().is_closed {
            return Err(Error::ShuttingDown);
        }
        self.topics()
    }

    fn topics(&self) -> Result<&Arc<dyn Topics>, Error> {
        self.topics.as_ref().ok_or(Error::NoKafka)
    }
}

impl TopicPath {
    /// Whether it is in the caller's own namespace. Of any other it is not said whether there is one.
    pub(crate) fn is_of(&self, caller: &Caller) -> Result<(), Error> {
        if self.namespace == caller.namespace.as_str() {
            Ok(())
        } else {
            Err(Error::NamespaceForeign(caller.namespace.clone()))
        }
    }
}

impl fmt::Debug for Namespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Namespaces").finish_non_exhaustive()
    }
}

/// A change that is under way.
struct Running(watch::Sender<Changes>);

impl Running {
    fn new(changes: watch::Sender<Changes>) -> Self {
        changes.send_modify(|changes| changes.running += 1);
        Self(changes)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.send_modify(|changes| changes.running -= 1);
    }
}

#[cfg(test)]
mod tests;
