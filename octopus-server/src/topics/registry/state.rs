//! What the records of a registry come to. Nothing here waits, so that any log can be tried on it.
//!
//! Each record has a key of its own, so that compaction never takes one away for another one that does not count. It goes
//! only once a tombstone says that it is of no use any more. Of a namespace's records the one of the highest version
//! counts, and the first one of those. That one is never in a tombstone, so whatever compaction took of the others, and in
//! whatever order, every reader comes to the same.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use octopus_core::TopicName;
use serde::{Deserialize, Serialize};

/// All namespaces, as far as the registry was read.
#[derive(Debug, Default, Clone)]
pub(super) struct State {
    namespaces: HashMap<Box<str>, Entry>,
    /// Records of this process that are on their way, by their token, and whether they came to count.
    watched: HashMap<Box<str>, bool>,
}

/// The topics that a namespace's record names.
pub(super) type Stages = BTreeMap<TopicName, Stage>;

/// Where a topic stands. But for the first one, a server is at work on it: the one whose record has that token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Stage {
    /// It was made on Kafka, and nobody has begun to delete it since.
    There,
    /// It has its place and is held, and is being made.
    Coming(Box<str>),
    /// It is no longer held, and is being deleted.
    Leaving(Box<str>),
    /// It is held, and being deleted to be made anew.
    Renewing(Box<str>),
}

/// A namespace that the registry has a record of.
#[derive(Debug, Clone)]
struct Entry {
    version: u64,
    /// The token of the record that counts.
    token: Box<str>,
    /// `None` where the namespace is deleted.
    topics: Option<Stages>,
    /// The tokens of the records that do not count, or no longer, and have no tombstone yet.
    stale: BTreeSet<Box<str>>,
}

/// The value of a record.
#[derive(Debug, Serialize, Deserialize)]
struct Registered {
    /// One more than that of the record that it was made of.
    version: u64,
    /// Null where the namespace is deleted.
    topics: Option<BTreeMap<String, Stage>>,
}

impl Stage {
    /// Whether the namespace holds the topic.
    pub(super) const fn is_held(&self) -> bool {
        match self {
            Self::There | Self::Coming(_) | Self::Renewing(_) => true,
            Self::Leaving(_) => false,
        }
    }

    /// Who is at work on the topic.
    pub(super) fn token(&self) -> Option<&str> {
        match self {
            Self::There => None,
            Self::Coming(token) | Self::Leaving(token) | Self::Renewing(token) => Some(token),
        }
    }
}

impl State {
    /// Takes the next record in.
    pub(super) fn apply(&mut self, key: &str, value: Option<&[u8]>) {
        let Some((namespace, token)) = key.split_once('/') else {
            return;
        };
        let Some(value) = value else {
            if let Some(entry) = self.namespaces.get_mut(namespace) {
                entry.stale.remove(token);
            }
            return;
        };
        let Some((version, topics)) = read(value) else {
            return;
        };
        let mut stale = match self.namespaces.get_mut(namespace) {
            Some(entry) if version <= entry.version => {
                if *entry.token != *token {
                    entry.stale.insert(token.into());
                }
                return;
            }
            Some(entry) => {
                let mut stale = std::mem::take(&mut entry.stale);
                stale.insert(entry.token.clone());
                stale
            }
            None => BTreeSet::new(),
        };
        stale.remove(token);
        if let Some(counts) = self.watched.get_mut(token) {
            *counts = true;
        }
        let entry = Entry {
            version,
            token: token.into(),
            topics,
            stale,
        };
        self.namespaces.insert(namespace.into(), entry);
    }

    /// The topics of a namespace; `None` where there is no such namespace.
    pub(super) fn topics(&self, namespace: &str) -> Option<&Stages> {
        self.namespaces.get(namespace)?.topics.as_ref()
    }

    /// The version of the namespace's next record.
    pub(super) fn next_version(&self, namespace: &str) -> u64 {
        let entry = self.namespaces.get(namespace);
        entry.map_or(0, |entry| entry.version).saturating_add(1)
    }

    /// The tokens of a namespace's records that are of no use any more.
    pub(super) fn stale(&self, namespace: &str) -> impl Iterator<Item = &str> {
        let entry = self.namespaces.get(namespace);
        entry
            .into_iter()
            .flat_map(|entry| entry.stale.iter().map(|token| &**token))
    }

    /// Looks out for a record that is about to be written.
    pub(super) fn watch(&mut self, token: &str) {
        self.watched.insert(token.into(), false);
    }

    /// Whether a record that was looked out for came to count.
    pub(super) fn counted(&mut self, token: &str) -> bool {
        self.watched.remove(token).unwrap_or_default()
    }

    /// The registry is another one, of which this was read.
    pub(super) fn follow(&mut self, anew: Self) {
        self.namespaces = anew.namespaces;
    }
}

/// The topics of these that the namespace holds, in the order of their names.
pub(super) fn held(topics: &Stages) -> impl Iterator<Item = &TopicName> {
    let held = topics.iter().filter(|(_, stage)| stage.is_held());
    held.map(|(topic, _)| topic)
}

/// A record's key.
pub(super) fn key(namespace: &str, token: &str) -> String {
    format!("{namespace}/{token}")
}

/// A record's value.
pub(super) fn value(version: u64, topics: Option<&Stages>) -> Vec<u8> {
    let named = |topics: &Stages| {
        let topics = topics.iter();
        topics
            .map(|(topic, stage)| (topic.as_str().to_owned(), stage.clone()))
            .collect()
    };
    let registered = Registered {
        version,
        topics: topics.map(named),
    };
    serde_json::to_vec(&registered).expect("a map of text")
}

/// What a value says; `None` where it is none of ours.
fn read(value: &[u8]) -> Option<(u64, Option<Stages>)> {
    let registered: Registered = serde_json::from_slice(value).ok()?;
    let named = |topics: BTreeMap<String, Stage>| {
        let topics = topics.into_iter();
        topics
            .map(|(topic, stage)| (TopicName::from(&*topic), stage))
            .collect()
    };
    Some((registered.version, registered.topics.map(named)))
}

#[cfg(test)]
mod tests;
