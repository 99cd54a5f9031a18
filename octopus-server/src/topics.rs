//! Which topics a namespace holds, and who makes them.

mod cluster;
pub(crate) mod gates;
mod kafka;
mod registry;

use std::{collections::BTreeSet, fmt, future::Future, pin::Pin, time::Duration};

use octopus_core::{Error, Namespace, TopicName};

pub use cluster::ClusterTopics;
pub use registry::{REGISTRY, RegistryTopics};

/// The answer to a question about topics.
pub type Told<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// What a change of a namespace's topics came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Whether there was something to do.
    pub is_done: bool,
    /// All topics that the namespace then holds, in the order of their names.
    pub topics: Vec<TopicName>,
}

/// Which topics a namespace holds [NS-04], and how they come and go.
///
/// Embedders implement it for a registry of their own. One whose topics come and go elsewhere leaves out what changes
/// them: callers hear that it is not supported. A change is never dropped before it ends.
pub trait Topics: fmt::Debug + Send + Sync + 'static {
    /// Those of `topics` that `namespace` holds.
    ///
    /// # Errors
    ///
    /// Where it can't be known within the time.
    fn held<'a>(
        &'a self,
        namespace: &'a Namespace,
        topics: &'a [TopicName],
        within: Duration,
    ) -> Told<'a, BTreeSet<TopicName>>;

    /// Whether `namespace` holds a topic that records are to be written to. What was known a while ago will do: a topic that
    /// is gone takes none.
    ///
    /// # Errors
    ///
    /// Where it can't be known within the time.
    fn takes<'a>(
        &'a self,
        namespace: &'a Namespace,
        topic: &'a TopicName,
        within: Duration,
    ) -> Told<'a, bool> {
        Box::pin(async move {
            let held = self.held(namespace, std::slice::from_ref(topic), within).await;
            held.map(|held| held.contains(topic))
        })
    }

    /// All topics of `namespace`, in the order of their names; `None` where there is no such namespace.
    ///
    /// # Errors
    ///
    /// Where it can't be known within the time.
    fn list<'a>(&'a self, _namespace: &'a Namespace, _within: Duration) -> Told<'a, Option<Vec<TopicName>>> {
        unsupported()
    }

    /// Makes `namespace`, unless it is there.
    ///
    /// # Errors
    ///
    /// Where it can't be made within the time.
    fn open<'a>(&'a self, _namespace: &'a Namespace, _within: Duration) -> Told<'a, ()> {
        unsupported()
    }

    /// Deletes `namespace` with its topics; none that is left once it is gone is anybody's.
    ///
    /// # Errors
    ///
    /// Where they can't be deleted within the time; some may be.
    fn close<'a>(&'a self, _namespace: &'a Namespace, _within: Duration) -> Told<'a, ()> {
        unsupported()
    }

    /// Makes a topic of `namespace`, and the namespace if need be, as long as it then holds at most `most` topics [NS-06].
    /// Once it ends, whoever asks next finds the topic. [`Changed::is_done`] is false where it was there.
    ///
    /// # Errors
    ///
    /// [`Error::NamespaceFull`]; or where it can't be made within the time.
    fn create<'a>(
        &'a self,
        _namespace: &'a Namespace,
        _topic: &'a TopicName,
        _most: usize,
        _within: Duration,
    ) -> Told<'a, Changed> {
        unsupported()
    }

    /// Deletes a topic of `namespace`. Once it ends, nobody finds the topic. [`Changed::is_done`] is false where it was not
    /// there.
    ///
    /// # Errors
    ///
    /// Where it can't be deleted within the time.
    fn delete<'a>(
        &'a self,
        _namespace: &'a Namespace,
        _topic: &'a TopicName,
        _within: Duration,
    ) -> Told<'a, Changed> {
        unsupported()
    }

    /// Deletes a topic of `namespace` and makes it anew, without its records.
    ///
    /// # Errors
    ///
    /// [`Error::TopicNotFound`] where the namespace does not hold it; [`Error::TopicNotRemade`] where it was deleted, and
    /// could not be made again; or where it can't be done within the time.
    fn recreate<'a>(
        &'a self,
        _namespace: &'a Namespace,
        _topic: &'a TopicName,
        _within: Duration,
    ) -> Told<'a, ()> {
        unsupported()
    }
}

fn unsupported<'a, T: Send + 'a>() -> Told<'a, T> {
    Box::pin(std::future::ready(Err(Error::KafkaInvalid)))
}
