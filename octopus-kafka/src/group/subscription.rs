//! What members of a consumer group tell each other through the broker: which topics they want, and what the
//! leader gives them. It comes from clients of every make, so nothing in it is trusted.

use std::collections::BTreeSet;

use bytes::{BufMut, Bytes, BytesMut};

use super::assignor::Partitions;

/// The version that is written; every client reads it.
const VERSION: i16 = 0;

/// A subscription to these topics.
pub(crate) fn subscription(topics: &BTreeSet<String>) -> Bytes {
    let mut out = BytesMut::new();
    out.put_i16(VERSION);
    put_count(&mut out, topics.len());
    for topic in topics {
        put_text(&mut out, topic);
    }
    out.put_i32(0); // no user data
    out.freeze()
}

/// The topics of a subscription of any version; what follows them is left alone. `None` where it can't be read.
pub(crate) fn subscribed(bytes: &[u8]) -> Option<BTreeSet<String>> {
    let mut from = From(bytes);
    if from.i16()? < 0 {
        return None;
    }
    let mut topics = BTreeSet::new();
    for _ in 0..from.i32()? {
        topics.insert(from.text()?.to_owned());
    }
    Some(topics)
}

/// An assignment of these partitions.
pub(crate) fn assignment(partitions: &Partitions) -> Bytes {
    let mut out = BytesMut::new();
    out.put_i16(VERSION);
    put_count(&mut out, partitions.len());
    for (topic, partitions) in partitions {
        put_text(&mut out, topic);
        put_count(&mut out, partitions.len());
        for &partition in partitions {
            out.put_i32(partition);
        }
    }
    out.put_i32(0); // no user data
    out.freeze()
}

/// The partitions of an assignment of any version; no bytes at all are no partitions. `None` where it can't be
/// read.
pub(crate) fn assigned(bytes: &[u8]) -> Option<Partitions> {
    let mut partitions = Partitions::new();
    if bytes.is_empty() {
        return Some(partitions);
    }
    let mut from = From(bytes);
    if from.i16()? < 0 {
        return None;
    }
    for _ in 0..from.i32()? {
        let topic = from.text()?.to_owned();
        let of_topic = partitions.entry(topic).or_default();
        for _ in 0..from.i32()? {
            of_topic.push(from.i32()?);
        }
    }
    Some(partitions)
}

/// Bytes that are read from the front.
struct From<'a>(&'a [u8]);

impl<'a> From<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn i16(&mut self) -> Option<i16> {
        self.take(2)?.try_into().ok().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.take(4)?.try_into().ok().map(i32::from_be_bytes)
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.i16()?).ok()?;
        std::str::from_utf8(self.take(length)?).ok()
    }
}

fn put_count(out: &mut BytesMut, count: usize) {
    out.put_i32(i32::try_from(count).expect("a list of names that came by Kafka or a request"));
}

fn put_text(out: &mut BytesMut, text: &str) {
    out.put_i16(i16::try_from(text.len()).expect("a name that came by Kafka or a request"));
    out.put_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use kafka_protocol::{
        messages::{
            ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicName,
            consumer_protocol_assignment as theirs_assigned, consumer_protocol_subscription as theirs,
        },
        protocol::{Decodable, Encodable, StrBytes},
    };
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str) -> StrBytes {
        StrBytes::from_string(text.to_owned())
    }

    fn names() -> impl Strategy<Value = BTreeSet<String>> {
        proptest::collection::btree_set("[a-z.]{1,12}", 0..6)
    }

    proptest! {
        #[test]
        fn subscriptions_of_every_version_are_read(topics in names(), version in 0i16..4) {
            let owned = theirs::TopicPartition::default()
                .with_topic(TopicName(text("owned")))
                .with_partitions(vec![0, 1]);
            let mut message = ConsumerProtocolSubscription::default()
                .with_topics(topics.iter().map(|topic| text(topic)).collect())
                .with_user_data(Some(Bytes::from_static(b"theirs")));
            if version >= 1 {
                message = message.with_owned_partitions(vec![owned]);
            }
            if version >= 2 {
                message = message.with_generation_id(7);
            }
            if version >= 3 {
                message = message.with_rack_id(Some(text("rack")));
            }
            let mut out = BytesMut::new();
            out.put_i16(version);
            message.encode(&mut out, version).unwrap();
            prop_assert_eq!(subscribed(&out), Some(topics));
        }

        #[test]
        fn a_subscription_is_read_by_others(topics in names()) {
            let mut bytes = subscription(&topics);
            prop_assert_eq!(subscribed(&bytes), Some(topics.clone()));
            let version = bytes::Buf::get_i16(&mut bytes);
            let read = ConsumerProtocolSubscription::decode(&mut bytes, version).unwrap();
            prop_assert!(bytes.is_empty());
            let read: Vec<_> = read.topics.iter().map(|topic| topic.to_string()).collect();
            prop_assert_eq!(read, topics.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn assignments_go_both_ways(
            partitions in proptest::collection::btree_map("[a-z.]{1,12}", proptest::collection::vec(any::<i32>(), 0..4), 0..4),
            version in 0i16..4,
        ) {
            let mut bytes = assignment(&partitions);
            prop_assert_eq!(assigned(&bytes), Some(partitions.clone()));
            let written = bytes::Buf::get_i16(&mut bytes);
            let read = ConsumerProtocolAssignment::decode(&mut bytes, written).unwrap();
            prop_assert!(bytes.is_empty());
            prop_assert_eq!(read.assigned_partitions.len(), partitions.len());
            let theirs = partitions.iter().map(|(topic, partitions)| {
                theirs_assigned::TopicPartition::default()
                    .with_topic(TopicName(text(topic)))
                    .with_partitions(partitions.clone())
            });
            let theirs = ConsumerProtocolAssignment::default().with_assigned_partitions(theirs.collect());
            let mut out = BytesMut::new();
            out.put_i16(version);
            theirs.encode(&mut out, version).unwrap();
            prop_assert_eq!(assigned(&out), Some(partitions));
        }

        #[test]
        fn what_is_cut_short_is_not_read_as_less(topics in names(), cut in any::<prop::sample::Index>()) {
            let bytes = subscription(&topics);
            let end = cut.index(bytes.len() - 4);
            prop_assert_eq!(subscribed(&bytes[..end]), None);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let (topics, partitions) = (subscribed(&bytes), assigned(&bytes));
            prop_assert!(topics.is_none_or(|topics| topics.len() <= bytes.len()));
            prop_assert!(partitions.is_none_or(|partitions| partitions.len() <= bytes.len()));
        }
    }

    #[test]
    fn a_count_that_the_bytes_do_not_hold_is_refused() {
        assert_eq!(subscribed(&[0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 1, b'a']), None);
        assert_eq!(
            assigned(&[0, 0, 0, 0, 0, 1, 0, 1, b'a', 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]),
            None
        );
        assert_eq!(subscribed(&[0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
