//! Topics, partitions, offsets and positions.

use std::{borrow::Borrow, fmt, sync::Arc};

use crate::limits::TOPIC_LENGTH;

/// A topic's name as its callers write it, without the namespace [NS-02].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicName(Arc<str>);

impl TopicName {
    /// The name of a topic to make: 3 to 32 letters, digits, dashes or underscores of ASCII. `None` if `text` breaks the
    /// rule.
    #[must_use]
    pub fn of_new(text: &str) -> Option<Self> {
        let all_allowed = text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
        (all_allowed && TOPIC_LENGTH.contains(&text.len())).then(|| Self(text.into()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for TopicName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl Borrow<str> for TopicName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// One partition of a topic. Every topic has one partition, 0; any other is refused [AS-02].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic, without the namespace.
    pub topic: TopicName,
    /// The partition's number as the request named it.
    pub partition: i32,
}

impl TopicPartition {
    /// Partition 0 of a topic.
    #[must_use]
    pub const fn only(topic: TopicName) -> Self {
        Self { topic, partition: 0 }
    }
}

/// The offset of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub i64);

impl Offset {
    /// The largest offset that has a next one, 2^63 - 2 [D-06].
    pub const MAX: Self = Self(i64::MAX - 1);

    /// The position behind this record, without a leader epoch [CO-01]: the only `+ 1` between the two.
    #[must_use]
    pub const fn next(self) -> Position {
        Position {
            offset: self.0.saturating_add(1),
            leader_epoch: None,
        }
    }
}

/// Where a partition is read next: the offset of the first record not read yet, or a later one's where
/// there is none of that offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The offset to read next, at least 0.
    pub offset: i64,
    /// The leader epoch of the record before, as Kafka gave it; only copied.
    pub leader_epoch: Option<i32>,
}

impl Position {
    /// A position without a leader epoch, as a client's seek names it.
    #[must_use]
    pub const fn at(offset: i64) -> Self {
        Self {
            offset,
            leader_epoch: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_topics_name_keeps_to_its_rule() {
        for good in ["abc", "my-topic", "A_9", "---", "_a_", &"x".repeat(32)] {
            assert_eq!(TopicName::of_new(good), Some(good.into()), "{good}");
        }
        for bad in [
            "",
            "ab",
            "a.b",
            "a b",
            "a/b",
            "abcä",
            "ab\0",
            "٣٣٣",
            &"x".repeat(33),
        ] {
            assert_eq!(TopicName::of_new(bad), None, "{bad}");
        }
    }

    /// [CO-01]
    #[test]
    fn the_position_behind_a_record_is_one_more() {
        assert_eq!(Offset(41).next(), Position::at(42));
        assert_eq!(Offset::MAX.next().offset, i64::MAX);
    }
}
