//! The broker's topics.

use std::collections::BTreeMap;

use kafka_protocol::messages::TopicName;
use uuid::Uuid;

use super::{
    code::{self, Code},
    id::Ids,
    log::Log,
    store::Store,
};

/// The most partitions that one topic may have here.
pub(crate) const PARTITIONS: i32 = 10_000;

/// Settings of a topic that Kafka knows, with the values that hold where none is given. Only
/// `max.message.bytes` has an effect; its default is the broker's.
pub(crate) const CONFIGS: &[(&str, &str)] = &[
    ("cleanup.policy", "delete"),
    ("compression.gzip.level", "-1"),
    ("compression.lz4.level", "9"),
    ("compression.type", "producer"),
    ("compression.zstd.level", "3"),
    ("delete.retention.ms", "86400000"),
    ("file.delete.delay.ms", "60000"),
    ("flush.messages", "9223372036854775807"),
    ("flush.ms", "9223372036854775807"),
    ("follower.replication.throttled.replicas", ""),
    ("index.interval.bytes", "4096"),
    ("leader.replication.throttled.replicas", ""),
    ("local.retention.bytes", "-2"),
    ("local.retention.ms", "-2"),
    (MAX_MESSAGE_BYTES, ""),
    ("max.compaction.lag.ms", "9223372036854775807"),
    ("message.timestamp.after.max.ms", "3600000"),
    ("message.timestamp.before.max.ms", "9223372036854775807"),
    ("message.timestamp.type", "CreateTime"),
    ("min.cleanable.dirty.ratio", "0.5"),
    ("min.compaction.lag.ms", "0"),
    ("min.insync.replicas", "1"),
    ("preallocate", "false"),
    ("remote.storage.enable", "false"),
    ("retention.bytes", "-1"),
    ("retention.ms", "604800000"),
    ("segment.bytes", "1073741824"),
    ("segment.index.bytes", "10485760"),
    ("segment.jitter.ms", "0"),
    ("segment.ms", "604800000"),
    ("unclean.leader.election.enable", "false"),
];

/// The setting for the largest batch that a topic takes.
pub(crate) const MAX_MESSAGE_BYTES: &str = "max.message.bytes";

/// All topics by name.
#[derive(Debug, Default)]
pub(crate) struct Topics {
    by_name: BTreeMap<String, Topic>,
}

/// One topic.
#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) id: Uuid,
    pub(crate) partitions: Vec<Log>,
    /// What was set at its creation.
    pub(crate) configs: BTreeMap<String, String>,
}

impl Topics {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Topic)> {
        self.by_name.iter().map(|(name, topic)| (name.as_str(), topic))
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Topic> {
        self.by_name.get(name)
    }

    pub(crate) fn name_of(&self, id: Uuid) -> Option<&str> {
        self.iter()
            .find(|(_, topic)| topic.id == id)
            .map(|(name, _)| name)
    }

    pub(crate) fn log(&self, topic: &str, partition: i32) -> Option<&Log> {
        let index = usize::try_from(partition).ok()?;
        self.by_name.get(topic)?.partitions.get(index)
    }

    pub(crate) fn log_mut(&mut self, topic: &str, partition: i32) -> Option<&mut Log> {
        let index = usize::try_from(partition).ok()?;
        self.by_name.get_mut(topic)?.partitions.get_mut(index)
    }

    /// Whether a topic of this name could be created.
    ///
    /// # Errors
    ///
    /// `INVALID_TOPIC` for a name that breaks Kafka's rule or is the same as another's but for `.` and `_`;
    /// `TOPIC_ALREADY_EXISTS`.
    pub(crate) fn check_name(&self, name: &str) -> Result<(), Code> {
        if !is_valid(name) {
            return Err(code::INVALID_TOPIC);
        }
        if self.by_name.contains_key(name) {
            return Err(code::TOPIC_ALREADY_EXISTS);
        }
        let alike = name.contains(['.', '_']) && self.by_name.keys().any(|other| collide(name, other));
        if alike { Err(code::INVALID_TOPIC) } else { Ok(()) }
    }

    /// Creates a topic with this many partitions and returns its id.
    ///
    /// # Errors
    ///
    /// Those of [`check_name`](Self::check_name), `INVALID_PARTITIONS` for none or too many, and
    /// `KAFKA_STORAGE_ERROR`.
    pub(crate) fn create(
        &mut self,
        name: &str,
        partitions: i32,
        configs: BTreeMap<String, String>,
        ids: &mut Ids,
        store: Option<&mut Store>,
    ) -> Result<Uuid, Code> {
        self.check_name(name)?;
        if !(1..=PARTITIONS).contains(&partitions) {
            return Err(code::INVALID_PARTITIONS);
        }
        let id = ids.uuid();
        let logs = match store {
            Some(store) => store.create_topic(name, id, partitions, &configs)?,
            None => (0..partitions).map(|_| Log::default()).collect(),
        };
        let topic = Topic {
            id,
            partitions: logs,
            configs,
        };
        self.insert(name.to_owned(), topic);
        Ok(id)
    }

    /// Puts in a topic that has been there before.
    pub(crate) fn insert(&mut self, name: String, topic: Topic) {
        self.by_name.insert(name, topic);
    }

    /// Whether there was such a topic.
    pub(crate) fn delete(&mut self, name: &str) -> bool {
        self.by_name.remove(name).is_some()
    }
}

impl Topic {
    /// The largest batch that it takes, the broker's bound where none is set.
    pub(crate) fn max_message_bytes(&self, default: usize) -> usize {
        self.configs
            .get(MAX_MESSAGE_BYTES)
            .and_then(|value| value.parse().ok())
            .unwrap_or(default)
    }
}

/// Kafka's rule for a topic's name.
pub(crate) fn is_valid(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=249).contains(&name.len()) && name != "." && name != ".." && name.bytes().all(allowed)
}

/// A topic's name as the wire's.
pub(crate) fn wire_name(name: &str) -> TopicName {
    TopicName(super::api::text(name))
}

/// Whether the two names give the same name of a metric.
fn collide(one: &str, other: &str) -> bool {
    let plain = |byte: u8| if byte == b'.' { b'_' } else { byte };
    one.len() == other.len() && one.bytes().map(plain).eq(other.bytes().map(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_to_kafkas_rule() {
        for good in ["a", "ns-0123.my_topic", "A-1", &"x".repeat(249), "..."] {
            assert!(is_valid(good), "{good}");
        }
        for bad in ["", ".", "..", "bad name!", "ä", "a/b", &"x".repeat(250)] {
            assert!(!is_valid(bad), "{bad}");
        }
    }

    #[test]
    fn a_topic_comes_and_goes() {
        let (mut topics, mut ids) = (Topics::default(), Ids::new(1));
        let id = topics.create("a.b", 2, BTreeMap::new(), &mut ids, None).unwrap();
        assert_eq!(topics.name_of(id), Some("a.b"));
        assert!(topics.log("a.b", 1).is_some() && topics.log("a.b", 2).is_none());
        assert!(topics.log("a.b", -1).is_none());
        let again = topics.create("a.b", 1, BTreeMap::new(), &mut ids, None);
        assert_eq!(again, Err(code::TOPIC_ALREADY_EXISTS));
        let alike = topics.create("a_b", 1, BTreeMap::new(), &mut ids, None);
        assert_eq!(alike, Err(code::INVALID_TOPIC));
        let none = topics.create("c", 0, BTreeMap::new(), &mut ids, None);
        assert_eq!(none, Err(code::INVALID_PARTITIONS));
        assert!(topics.delete("a.b") && !topics.delete("a.b"));
        let new = topics.create("a.b", 1, BTreeMap::new(), &mut ids, None).unwrap();
        assert_ne!(new, id);
    }
}
