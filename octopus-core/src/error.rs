//! Why a request is refused ([`Error`]), and the row of the specification's *Errors* table that says so
//! ([`ErrorCode`]).

use std::{fmt, time::Duration};

use crate::{Format, Namespace, TopicName, TopicPartition};

/// Why a request is refused. Its text is the reply's `message`; nothing in it comes from Kafka [RT-04].
///
/// The order is that of the rows of the specification's table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Kafka refused a topic's name or the request as invalid, or the cluster does not support it [ER-01].
    KafkaInvalid,
    /// The body is not JSON [CT-03].
    BodyNotJson,
    /// The subject or the token does not hold [AU-02].
    TokenRefused,
    /// The cluster keeps no users of its own, or has no rules for what they may do.
    KeysUnsupported,
    /// Kafka refused a record as it is: a compacted topic takes none without a key, and a topic may bound timestamps.
    RecordRefused,
    /// The service is not authorized for the topic or the group [ER-02].
    KafkaUnauthorized,
    /// The path names another namespace than the caller's own, whether or not there is one of that name: the own one.
    NamespaceForeign(Namespace),
    /// The namespace does not hold the topic, or the cluster does not [NS-04] [ER-03].
    TopicNotFound(TopicName),
    /// Kafka does not know a topic that the request is about [ER-03].
    KafkaTopicUnknown,
    /// A partition other than 0 [AS-02].
    PartitionNotFound(TopicPartition),
    /// A request for committed offsets without a body [CO-04].
    PartitionsMissing,
    /// There is no such instance [LC-01] [AU-03].
    InstanceNotFound,
    /// A fetch's `Accept` names no v2 type [AC-04].
    NotAcceptable,
    /// A fetch's `Accept` chose a type of another format than the instance's: the instance's [AC-03].
    FormatMismatch(Format),
    /// A json instance's next record is not UTF-8 [FE-06].
    RecordNotUtf8(TopicPartition),
    /// The group has an instance of that name [CR-09].
    InstanceExists,
    /// A seek or a commit for a partition that is not assigned [SK-01] [CO-05].
    NotAssigned(TopicPartition),
    /// A seek of every assigned partition while none is [SK-02].
    NothingAssigned,
    /// A subscribe while partitions are assigned [SU-03].
    HasAssignments,
    /// An assign while topics are subscribed to [SU-03].
    HasSubscription,
    /// The group refused a commit because it rebalanced [CO-06].
    CommitFailed,
    /// Another request holds the instance [LK-01] [LK-02].
    InstanceBusy,
    /// The body is over so many bytes: 64 KiB at a consumer route [CT-05].
    BodyTooLarge(usize),
    /// A record is larger than the service or the topic takes.
    RecordTooLarge,
    /// The content type is none that is taken [CT-02].
    UnsupportedMediaType,
    /// A header is missing [AU-01].
    HeaderMissing(&'static str),
    /// A field or a parameter is missing or of the wrong type: its name [CT-04] [D-11].
    FieldInvalid(&'static str),
    /// A field that the route does not take: its name, cut short [D-05].
    FieldUnknown(Box<str>),
    /// A list of more items than a namespace may hold topics: its name and the most items [CT-06].
    ListTooLong(&'static str, usize),
    /// A record is not one that can be written, as this says of its fields; those beside it are written.
    RecordInvalid(Box<Self>),
    /// A format other than binary and json [CR-04].
    FormatUnknown,
    /// The group's or the instance's name breaks its rule: which of the two [CR-02].
    NameInvalid(&'static str),
    /// The name of a topic to make breaks its rule.
    TopicNameInvalid,
    /// A setting breaks its rule: its name and what it must be [CR-05] [CR-06].
    SettingInvalid(&'static str, &'static str),
    /// A subscribe with an empty list [SU-02].
    TopicsEmpty,
    /// A subscribe with a topic pattern [SU-02].
    TopicPattern,
    /// The user holds this many instances, the most there may be [CR-10].
    UserInstances(usize),
    /// The service holds this many instances, the most there may be [CR-10].
    TotalInstances(usize),
    /// The namespace holds this many topics, the most there may be [NS-06].
    NamespaceFull(usize),
    /// The user has this many fetches in progress, the most there may be [LI-01].
    UserFetches(usize),
    /// The user has this many requests in progress, the most there may be.
    UserRequests(usize),
    /// The fetch got no turn within its wait [LI-05].
    NoTurn,
    /// The cluster throttled the request [ER-04].
    Throttled,
    /// As many bytes of records as may wait to be written do: nothing of this was sent.
    ProducerFull,
    /// Something failed inside the service [ER-08].
    Internal,
    /// Kafka failed the request [ER-05].
    KafkaFailed,
    /// A topic that was to be made anew was deleted, and Kafka did not make it.
    TopicNotRemade(TopicName),
    /// A record was sent, and nobody knows whether it was written.
    MayBeWritten,
    /// Reading can't start in a partition: nothing is committed, or the position is out of range, and
    /// `auto.offset.reset` is none [D-20].
    NoOffset(TopicPartition),
    /// A record of this partition can't be read [D-26].
    RecordUnreadable(TopicPartition),
    /// The service has no Kafka endpoint [CR-11].
    NoKafka,
    /// An error of Kafka that may be gone the next time, or no answer in time [ER-06].
    KafkaRetriable,
    /// A create while the service shuts down [CR-11], or a record.
    ShuttingDown,
    /// The token authority does not answer [D-35].
    AuthorityUnreachable,
    /// The service can't reach the cluster [ER-07].
    KafkaUnreachable,
    /// Kafka did not take a record in time, which was surely not written.
    NotWritten,
}

impl Error {
    /// The row of the table.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::KafkaInvalid | Self::KeysUnsupported | Self::RecordRefused => ErrorCode::KafkaInvalid,
            Self::BodyNotJson => ErrorCode::BodyNotJson,
            Self::RecordInvalid(_) => ErrorCode::RecordInvalid,
            Self::TokenRefused => ErrorCode::Unauthenticated,
            Self::KafkaUnauthorized | Self::NamespaceForeign(_) => ErrorCode::KafkaUnauthorized,
            Self::TopicNotFound(_) | Self::KafkaTopicUnknown => ErrorCode::TopicNotFound,
            Self::PartitionNotFound(_) | Self::PartitionsMissing => ErrorCode::PartitionNotFound,
            Self::InstanceNotFound => ErrorCode::InstanceNotFound,
            Self::NotAcceptable => ErrorCode::NotAcceptable,
            Self::FormatMismatch(_) => ErrorCode::FormatMismatch,
            Self::RecordNotUtf8(_) => ErrorCode::RecordNotUtf8,
            Self::InstanceExists => ErrorCode::InstanceExists,
            Self::NotAssigned(_)
            | Self::NothingAssigned
            | Self::HasAssignments
            | Self::HasSubscription
            | Self::CommitFailed => ErrorCode::IllegalState,
            Self::InstanceBusy => ErrorCode::InstanceBusy,
            Self::BodyTooLarge(_) => ErrorCode::BodyTooLarge,
            Self::RecordTooLarge => ErrorCode::RecordTooLarge,
            Self::UnsupportedMediaType => ErrorCode::UnsupportedMediaType,
            Self::HeaderMissing(_)
            | Self::FieldInvalid(_)
            | Self::FieldUnknown(_)
            | Self::ListTooLong(..)
            | Self::FormatUnknown => ErrorCode::Unprocessable,
            Self::NameInvalid(_)
            | Self::TopicNameInvalid
            | Self::SettingInvalid(..)
            | Self::TopicsEmpty
            | Self::TopicPattern => ErrorCode::InvalidConsumerConfig,
            Self::UserInstances(_)
            | Self::TotalInstances(_)
            | Self::NamespaceFull(_)
            | Self::UserFetches(_)
            | Self::UserRequests(_)
            | Self::NoTurn
            | Self::Throttled
            | Self::ProducerFull => ErrorCode::TooManyRequests,
            Self::Internal => ErrorCode::Internal,
            Self::KafkaFailed
            | Self::TopicNotRemade(_)
            | Self::MayBeWritten
            | Self::NoOffset(_)
            | Self::RecordUnreadable(_)
            | Self::NoKafka => ErrorCode::Kafka,
            Self::KafkaRetriable => ErrorCode::KafkaRetriable,
            Self::ShuttingDown | Self::AuthorityUnreachable => ErrorCode::ShuttingDown,
            Self::KafkaUnreachable | Self::NotWritten => ErrorCode::KafkaUnreachable,
        }
    }

    /// What the reply's `Retry-After` says, for the refusals that a wait cures [LI-01] [LI-05].
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        if matches!(
            self,
            Self::UserFetches(_)
                | Self::UserRequests(_)
                | Self::NoTurn
                | Self::Throttled
                | Self::ProducerFull
        ) {
            Some(Duration::from_secs(1))
        } else {
            None
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KafkaInvalid => f.write_str("Kafka refused the topic name or the request as invalid; check the names, the offsets and their metadata"),
            Self::BodyNotJson => f.write_str("The request body is not valid JSON; send one JSON object"),
            Self::TokenRefused => {
                f.write_str("The subject is not a UUID, or its token is malformed, inactive or not valid for it; send authorization: Bearer TOKEN")
            }
            Self::KafkaUnauthorized => f.write_str("The service is not authorized for the topic or the group; ask its operator"),
            Self::KeysUnsupported => f.write_str("The cluster gives out no keys: it keeps no users, or no rules for them; produce and consume by this API instead"),
            Self::RecordRefused => f.write_str("Kafka refused the record; give it a key if the topic is compacted, and a timestamp that the topic takes"),
            Self::NamespaceForeign(own) => write!(f, "The namespace is not the caller's own; use {own}"),
            Self::TopicNotFound(topic) => write!(f, "Topic {} not found in the namespace: check its name, or create it", Short(topic.as_str())),
            Self::KafkaTopicUnknown => f.write_str("A topic of the request is not found in the cluster: it may have been deleted"),
            Self::PartitionNotFound(at) => write!(
                f,
                "Partition {} of topic {} not found: every topic has one partition, 0",
                at.partition,
                Short(at.topic.as_str())
            ),
            Self::PartitionsMissing => f.write_str("Partition not found: name the partitions in the request body"),
            Self::InstanceNotFound => f.write_str("Consumer instance not found: it was not created, was deleted, or was idle for too long; create it"),
            Self::NotAcceptable => {
                f.write_str("Accept names no type of this route: use application/vnd.kafka.binary.v2+json or application/vnd.kafka.json.v2+json")
            }
            Self::FormatMismatch(Format::Binary) => f.write_str(
                "The consumer instance's format is binary: fetch with Accept: application/vnd.kafka.binary.v2+json",
            ),
            Self::FormatMismatch(Format::Json) => f.write_str(
                "The consumer instance's format is json: fetch with Accept: application/vnd.kafka.json.v2+json",
            ),
            Self::RecordNotUtf8(at) => write!(
                f,
                "The next record of topic {} has a key or value that is not UTF-8: seek past it, or read it with a binary instance",
                Short(at.topic.as_str())
            ),
            Self::InstanceExists => f.write_str("The group already has a consumer instance of that name: use it, delete it, or create another name"),
            Self::NotAssigned(at) => write!(
                f,
                "Partition {} of topic {} is not assigned to the consumer instance; a subscribed one gets its partitions with its first fetch",
                at.partition,
                Short(at.topic.as_str())
            ),
            Self::NothingAssigned => f.write_str("No partition is assigned to the consumer instance: assign some, or subscribe and fetch first"),
            Self::HasAssignments => f.write_str("Partitions are assigned to the consumer instance; unsubscribe first"),
            Self::HasSubscription => f.write_str("The consumer instance is subscribed to topics; unsubscribe first"),
            Self::CommitFailed => {
                f.write_str("The group rebalanced and refused the commit; fetch again, then commit")
            }
            Self::InstanceBusy => f.write_str("Another request is in progress on the consumer instance; retry when it has ended"),
            Self::BodyTooLarge(most) => write!(f, "The request body is over {} KiB; send less", most / 1024),
            Self::RecordTooLarge => f.write_str("The record is larger than the topic takes; send a smaller one"),
            Self::UnsupportedMediaType => {
                f.write_str("The content type is not supported: use application/vnd.kafka.v2+json or application/json")
            }
            Self::HeaderMissing(name) => write!(f, "Header {name} is missing; every request needs subject and authorization"),
            Self::FieldInvalid(name) => write!(f, "{name} is missing or invalid{}", rule(name)),
            Self::FieldUnknown(name) => write!(f, "Unknown field {}; leave it out", Short(name)),
            Self::ListTooLong(name, most) => write!(f, "{name} lists more than {most} items; send them in parts"),
            Self::RecordInvalid(why) => why.fmt(f),
            Self::FormatUnknown => f.write_str("format must be binary or json"),
            Self::NameInvalid(what) => write!(
                f,
                "The {what} must be 1 to 128 letters, digits, dots, dashes or underscores, and start with a letter or a digit"
            ),
            Self::TopicNameInvalid => f.write_str("A topic's name must be 3 to 32 letters, digits, dashes or underscores"),
            Self::SettingInvalid(name, rule) => write!(f, "{name} must be {rule}"),
            Self::TopicsEmpty => f.write_str("topics must name at least one topic"),
            Self::TopicPattern => f.write_str("topic_pattern is not supported: list the topics"),
            Self::UserInstances(most) => write!(f, "The user holds {most} consumer instances already; delete one first"),
            Self::TotalInstances(most) => write!(f, "The service holds {most} consumer instances already; retry later"),
            Self::NamespaceFull(most) => write!(f, "The namespace holds {most} topics, and may not hold more; delete one first"),
            Self::UserRequests(most) => write!(f, "The user has {most} requests in progress already; retry when one has ended"),
            Self::UserFetches(most) => write!(f, "The user has {most} fetches in progress already; retry when one has ended"),
            Self::NoTurn => f.write_str("The fetch got no turn within its wait; retry, or wait longer"),
            Self::Throttled => f.write_str("The cluster throttled the request; retry"),
            Self::ProducerFull => f.write_str("Too many bytes of records wait to be written, and nothing of this request was; retry"),
            Self::Internal => f.write_str("Internal error; retry, and tell the operator if it goes on"),
            Self::KafkaFailed => f.write_str("Kafka failed the request; if it goes on, ask the operator"),
            Self::TopicNotRemade(topic) => write!(
                f,
                "Topic {} was deleted with its records, and Kafka did not make it anew; create it",
                Short(topic.as_str())
            ),
            Self::MayBeWritten => f.write_str("Kafka did not acknowledge the record, which may have been written; read the topic before sending it again"),
            Self::NoOffset(at) => write!(
                f,
                "Topic {} has no offset to start from and auto.offset.reset is none; seek to one",
                Short(at.topic.as_str())
            ),
            Self::RecordUnreadable(at) => {
                write!(f, "The next record of topic {} can't be read; seek past it", Short(at.topic.as_str()))
            }
            Self::NoKafka => f.write_str("The service has no Kafka endpoint; ask its operator"),
            Self::KafkaRetriable => f.write_str("Kafka failed the request or did not answer in time; retry"),
            Self::ShuttingDown => f.write_str("The service is shutting down; retry once it is back"),
            Self::AuthorityUnreachable => f.write_str("The token can't be checked at present; retry"),
            Self::KafkaUnreachable => f.write_str("The service can't reach the Kafka cluster; retry"),
            Self::NotWritten => f.write_str("Kafka did not take the record in time, and it was not written; retry"),
        }
    }
}

impl std::error::Error for Error {}

/// What a field must be, for a message.
fn rule(field: &str) -> &'static str {
    match field {
        "The request body" => ": it must be a JSON object",
        "metadata" => ": it must be text",
        "timeout" => ": it must be a whole number of milliseconds",
        "max_bytes" => ": it must be a whole number of bytes",
        "offset" => ": it must be a whole number from 0",
        "partition" => ": it must be a whole number",
        "topic" => ": it must be a topic's name",
        "topics" => ": it must be a list of topic names",
        "A key or a value" => ": a record needs one of them",
        "key" | "value" => r#": it must be null or {"type", "data"}"#,
        "type" => ": it must be BINARY, JSON or STRING",
        "data" => ": for BINARY it must be base64, for STRING text, for JSON any value",
        "headers" => r#": it must be a list of at most 100 {"name", "value"}, the value base64 or null"#,
        "timestamp" => ": it must be a time from 1970 on, such as 2030-01-31T12:00:00Z",
        "partition_id" => ": it must be a whole number",
        "entries" => r#": it must be a list of at least one record with an "id""#,
        "id" => ": each entry must have one of its own of 1 to 80 letters, digits, dashes or underscores",
        "partitions" => r#": it must be a list of {"topic", "partition"}"#,
        "offsets" => r#": it must be a list of {"topic", "partition", "offset"}"#,
        _ => "",
    }
}

/// A row of the specification's *Errors* table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[repr(u32)]
#[allow(
    missing_docs,
    reason = "each variant is its number; the words are those of `Error`"
)]
pub enum ErrorCode {
    KafkaInvalid = 40002,
    BodyNotJson = 40003,
    RecordInvalid = 40005,
    Unauthenticated = 40101,
    KafkaUnauthorized = 40301,
    TopicNotFound = 40401,
    PartitionNotFound = 40402,
    InstanceNotFound = 40403,
    NotAcceptable = 406,
    FormatMismatch = 40601,
    RecordNotUtf8 = 40801,
    InstanceExists = 40902,
    IllegalState = 40903,
    InstanceBusy = 40904,
    BodyTooLarge = 41301,
    RecordTooLarge = 41302,
    UnsupportedMediaType = 415,
    Unprocessable = 422,
    InvalidConsumerConfig = 42204,
    TooManyRequests = 42901,
    Internal = 500,
    Kafka = 50002,
    KafkaRetriable = 50003,
    ShuttingDown = 503,
    KafkaUnreachable = 50302,
}

impl ErrorCode {
    /// The reply's `error_code`.
    #[must_use]
    pub const fn error_code(self) -> u32 {
        self as u32
    }

    /// The reply's HTTP status: the first three digits of the code.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "three digits")]
    pub const fn status(self) -> u16 {
        let code = self as u32;
        (if code < 1000 { code } else { code / 100 }) as u16
    }
}

/// Text from a request, cut short for a message: to 64 characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Short<'a>(pub &'a str);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 64;
        match self.0.char_indices().nth(LONGEST) {
            Some((end, _)) => write!(f, "{}…", &self.0[..end]),
            None => f.write_str(self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_the_first_three_digits() {
        assert_eq!(ErrorCode::NotAcceptable.status(), 406);
        assert_eq!(ErrorCode::FormatMismatch.status(), 406);
        assert_eq!(ErrorCode::KafkaUnreachable.status(), 503);
        assert_eq!(ErrorCode::KafkaUnreachable.error_code(), 50302);
    }

    /// [LI-01] [LI-05]
    #[test]
    fn a_refusal_that_a_wait_cures_says_when_to_retry() {
        assert_eq!(Error::NoTurn.retry_after(), Some(Duration::from_secs(1)));
        assert_eq!(Error::UserFetches(2).retry_after(), Some(Duration::from_secs(1)));
        assert_eq!(
            Error::UserRequests(64).retry_after(),
            Some(Duration::from_secs(1))
        );
        assert_eq!(Error::Throttled.retry_after(), Some(Duration::from_secs(1)));
        assert_eq!(Error::ProducerFull.retry_after(), Some(Duration::from_secs(1)));
        assert_eq!(Error::UserInstances(4).retry_after(), None);
    }

    #[test]
    fn a_long_name_is_cut_short() {
        let message = Error::TopicNotFound("ä".repeat(100).as_str().into()).to_string();
        assert_eq!(
            message,
            format!(
                "Topic {}… not found in the namespace: check its name, or create it",
                "ä".repeat(64)
            )
        );
    }
}
