//! Users, keys, namespaces and topics: what the routes below `/api/v3` do.
//!
//! A user is its namespace: there is nothing else to keep of one. Only the caller's own namespace is ever looked at, so
//! that nobody learns of another's.

use std::{fmt, sync::Arc, time::Duration};

use octopus_auth::Caller;
use octopus_core::{Error, TopicName};
use tokio::sync::watch;

use crate::{
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
    /// The time that each of two steps has.
    within: Duration,
    /// How many changes are under way.
    running: watch::Sender<usize>,
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
            running: watch::Sender::new(0),
        }))
    }

    /// Does what a route asks. It ends whole even where this future is dropped: a topic that is made anew must not be
    /// gone because its caller left.
    pub(crate) async fn answer(&self, route: NamespaceRoute, caller: Caller) -> Result<Managed, Error> {
        let namespaces = self.clone();
        let running = Running::new(self.0.running.clone());
        let (name, is_change) = (route.name(), route.is_change());
        let task = tokio::spawn(async move {
            let _running = running;
            let namespace = caller.namespace.clone();
            let done = namespaces.0.act(route, caller).await;
            if is_change && done.is_ok() {
                tracing::info!(%namespace, route = name, "done");
            }
            done
        });
        // A panic has been told already, and nothing of its insides goes out [ER-08].
        task.await.unwrap_or(Err(Error::Internal))
    }

    /// Waits until no change is under way, but no longer than that.
    pub(crate) async fn settle(&self, within: Duration) {
        let mut running = self.0.running.subscribe();
        let settled = running.wait_for(|running| *running == 0);
        let _ = tokio::time::timeout(within, settled).await;
    }
}

impl Inner {
    async fn act(&self, route: NamespaceRoute, caller: Caller) -> Result<Managed, Error> {
        let Caller { subject, namespace } = &caller;
        let within = self.within;
        match route {
            NamespaceRoute::CreateUser => {
                self.topics()?.open(namespace, within).await?;
                Ok(Managed::User(*subject, namespace.clone()))
            }
            NamespaceRoute::DeleteUser => {
                let topics = self.topics()?;
                if let Some(keys) = &self.keys {
                    keys.withdraw(&caller, within).await?;
                }
                topics.close(namespace, within).await?;
                Ok(Managed::UserGone(*subject, namespace.clone()))
            }
            NamespaceRoute::CreateKey => {
                let topics = self.topics()?;
                let keys = self.keys.as_ref().ok_or(Error::KeysUnsupported)?;
                topics.open(namespace, within).await?;
                keys.make(&caller, within).await.map(Managed::Key)
            }
            NamespaceRoute::DeleteKey => {
                self.topics()?;
                let keys = self.keys.as_ref().ok_or(Error::KeysUnsupported)?;
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
                let topics = self.topics()?;
                let changed = topics.create(namespace, &topic, self.max_topics, within).await?;
                Ok(Managed::Created(topic, namespace.clone(), changed))
            }
            NamespaceRoute::DeleteTopic(path) => {
                path.is_of(&caller)?;
                let topic = TopicName::from(&*path.topic);
                let changed = self.topics()?.delete(namespace, &topic, within).await?;
                Ok(Managed::Deleted(topic, namespace.clone(), changed))
            }
            NamespaceRoute::RecreateTopic(path) => {
                path.is_of(&caller)?;
                let topic = TopicName::from(&*path.topic);
                self.topics()?.recreate(namespace, &topic, 2 * within).await?;
                Ok(Managed::Recreated(topic, namespace.clone()))
            }
        }
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
struct Running(watch::Sender<usize>);

impl Running {
    fn new(running: watch::Sender<usize>) -> Self {
        running.send_modify(|count| *count += 1);
        Self(running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
