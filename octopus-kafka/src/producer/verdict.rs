//! What Kafka's refusal of a batch means for its records.

use kafka_protocol::error::ResponseError;

/// What becomes of a batch that Kafka refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It stands in the log already.
    Written,
    /// It was not appended by this request, and may be later.
    Again,
    /// It may have been appended, and is sent again to find out.
    AgainUnknown,
    /// It is too large, and was not appended.
    TooLarge,
    /// A record of it is not taken, and none was appended.
    Bad,
    /// None of the topic's records would be taken now, and none was appended.
    Denied,
    /// Kafka's idea of the producer's sequence is another one, and it was not appended.
    Astray,
    /// Kafka has seen a later epoch of the producer, and did not append it.
    Fenced,
    /// Nobody can say what became of it, and to send it again would not tell.
    Unknown,
}

/// The meaning of an error code. A leader that lost its place, or its replicas, may have appended the batch before that:
/// only what Kafka checks before it appends is sure.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the codes are Kafka's, and more come with each release"
)]
pub(super) fn verdict(code: ResponseError) -> Verdict {
    use ResponseError as Code;
    match code {
        Code::DuplicateSequenceNumber => Verdict::Written,
        Code::NotEnoughReplicas | Code::ThrottlingQuotaExceeded => Verdict::Again,
        Code::MessageTooLarge | Code::RecordListTooLarge => Verdict::TooLarge,
        // Up to Kafka 2.3 a record without a key, where the topic wants one, is a corrupt message.
        Code::InvalidRecord | Code::InvalidTimestamp | Code::CorruptMessage => Verdict::Bad,
        Code::TopicAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::InvalidTopicException
        | Code::InvalidRequiredAcks
        | Code::InvalidRequest
        | Code::PolicyViolation
        | Code::UnsupportedForMessageFormat
        | Code::UnsupportedCompressionType
        | Code::UnsupportedVersion => Verdict::Denied,
        Code::OutOfOrderSequenceNumber | Code::UnknownProducerId => Verdict::Astray,
        Code::InvalidProducerEpoch | Code::ProducerFenced | Code::InvalidProducerIdMapping => Verdict::Fenced,
        code if code.is_retriable() => Verdict::AgainUnknown,
        _ => Verdict::Unknown,
    }
}
