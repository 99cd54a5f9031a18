//! What goes wrong between us and Kafka, with its detail for the log, and the row of the specification's *Errors*
//! that a caller is shown for it.

use std::fmt;

use kafka_protocol::error::ResponseError;

/// A request to Kafka that failed. `Display` is for the log: none of it may reach a caller [RT-04].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    api: Api,
    kind: Kind,
}

/// The request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant is the name of a Kafka API")]
pub enum Api {
    AlterUserScramCredentials,
    ApiVersions,
    ConsumerGroupHeartbeat,
    CreateAcls,
    CreateTopics,
    DeleteAcls,
    DeleteTopics,
    Fetch,
    FindCoordinator,
    Heartbeat,
    InitProducerId,
    JoinGroup,
    LeaveGroup,
    ListOffsets,
    Metadata,
    OffsetCommit,
    OffsetFetch,
    OffsetForLeaderEpoch,
    Produce,
    SyncGroup,
}

/// How it failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// No connection to a broker could be opened: the address, and what the system said [ER-07].
    Unreachable(Box<str>),
    /// Kafka did not answer in time [ER-06].
    Timeout,
    /// The connection ended; whether the request may have been sent before, and why [ER-06].
    Closed {
        /// It may have been carried out.
        sent: bool,
        /// What ended it.
        why: Box<str>,
    },
    /// The answer can't be read [ER-05].
    Malformed,
    /// The sign-in failed: the address and why [ER-05].
    SignIn(Box<str>),
    /// The answer is larger than the bound, or bytes that are none were taken for its length [ER-06].
    TooLarge,
    /// The broker speaks no version of the request that we do [ER-01].
    Unsupported,
    /// A name that no topic can have; Kafka was not asked [ER-01].
    InvalidTopic,
    /// A producer holds as many bytes as it may; Kafka was not asked.
    Full,
    /// Kafka's own error code.
    Response(ResponseError),
}

impl Api {
    /// The API with this key of Kafka's protocol; those that are not spoken count as metadata.
    pub(crate) fn of(key: i16) -> Self {
        use kafka_protocol::messages::ApiKey;
        [
            (ApiKey::AlterUserScramCredentials, Self::AlterUserScramCredentials),
            (ApiKey::ApiVersions, Self::ApiVersions),
            (ApiKey::ConsumerGroupHeartbeat, Self::ConsumerGroupHeartbeat),
            (ApiKey::CreateAcls, Self::CreateAcls),
            (ApiKey::CreateTopics, Self::CreateTopics),
            (ApiKey::DeleteAcls, Self::DeleteAcls),
            (ApiKey::DeleteTopics, Self::DeleteTopics),
            (ApiKey::Fetch, Self::Fetch),
            (ApiKey::FindCoordinator, Self::FindCoordinator),
            (ApiKey::Heartbeat, Self::Heartbeat),
            (ApiKey::InitProducerId, Self::InitProducerId),
            (ApiKey::JoinGroup, Self::JoinGroup),
            (ApiKey::LeaveGroup, Self::LeaveGroup),
            (ApiKey::ListOffsets, Self::ListOffsets),
            (ApiKey::OffsetCommit, Self::OffsetCommit),
            (ApiKey::OffsetFetch, Self::OffsetFetch),
            (ApiKey::OffsetForLeaderEpoch, Self::OffsetForLeaderEpoch),
            (ApiKey::Produce, Self::Produce),
            (ApiKey::SyncGroup, Self::SyncGroup),
        ]
        .into_iter()
        .find(|(api_key, _)| *api_key as i16 == key)
        .map_or(Self::Metadata, |(_, api)| api)
    }
}

impl Error {
    pub(crate) const fn new(api: Api, kind: Kind) -> Self {
        Self { api, kind }
    }

    /// Kafka answered with an error code.
    pub(crate) const fn response(api: Api, code: ResponseError) -> Self {
        Self {
            api,
            kind: Kind::Response(code),
        }
    }

    /// Which request failed.
    #[must_use]
    pub const fn api(&self) -> Api {
        self.api
    }

    /// How it failed.
    #[must_use]
    pub const fn kind(&self) -> &Kind {
        &self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.api, self.kind)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => write!(f, "no connection to {why}"),
            Self::Timeout => f.write_str("no answer in time"),
            Self::Closed { sent: true, why } => write!(f, "the connection ended before the answer: {why}"),
            Self::Closed { sent: false, why } => write!(f, "the connection ended before the request: {why}"),
            Self::Malformed => f.write_str("the answer can't be read"),
            Self::TooLarge => f.write_str("the answer is over the bound"),
            Self::SignIn(why) => write!(f, "no sign-in to {why}"),
            Self::Unsupported => f.write_str("the broker speaks no version of it that we do"),
            Self::InvalidTopic => f.write_str("a name that no topic can have"),
            Self::Full => f.write_str("too many bytes wait to be written"),
            Self::Response(code) => write!(f, "Kafka answered {code:?}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Error> for octopus_core::Error {
    fn from(error: Error) -> Self {
        match error.kind {
            Kind::Unreachable(_) => Self::KafkaUnreachable,
            Kind::Timeout | Kind::Closed { .. } | Kind::TooLarge => Self::KafkaRetriable,
            Kind::Malformed | Kind::SignIn(_) => Self::KafkaFailed,
            Kind::Unsupported | Kind::InvalidTopic => Self::KafkaInvalid,
            Kind::Full => Self::ProducerFull,
            Kind::Response(code) => row(error.api, code),
        }
    }
}

/// What a caller is shown for Kafka's code in answer to this request.
///
/// In a join, a sync and a heartbeat the codes about membership are acted on and never come here; in a fetch and in
/// metadata an unknown topic is no error.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the codes are Kafka's, and more come with each release"
)]
fn row(api: Api, code: ResponseError) -> octopus_core::Error {
    use ResponseError as Code;
    use octopus_core::Error as Row;
    match code {
        Code::InvalidTopicException
        | Code::UnsupportedVersion
        | Code::TopicAlreadyExists
        | Code::InvalidPartitions
        | Code::InvalidReplicationFactor
        | Code::InvalidReplicaAssignment
        | Code::InvalidConfig
        | Code::InvalidRequest
        | Code::PolicyViolation
        | Code::SecurityDisabled
        | Code::OffsetMetadataTooLarge
        | Code::TopicDeletionDisabled => Row::KafkaInvalid,
        Code::TopicAuthorizationFailed
        | Code::GroupAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::TransactionalIdAuthorizationFailed
        | Code::DelegationTokenAuthorizationFailed => Row::KafkaUnauthorized,
        Code::UnknownTopicOrPartition | Code::UnknownTopicId => Row::KafkaTopicUnknown,
        Code::IllegalGeneration
        | Code::UnknownMemberId
        | Code::RebalanceInProgress
        | Code::FencedInstanceId
        | Code::GroupIdNotFound
        | Code::FencedMemberEpoch
        | Code::StaleMemberEpoch
        | Code::UnreleasedInstanceId
            if api == Api::OffsetCommit =>
        {
            Row::CommitFailed
        }
        Code::MessageTooLarge | Code::RecordListTooLarge => Row::RecordTooLarge,
        Code::InvalidRecord | Code::InvalidTimestamp | Code::CorruptMessage if api == Api::Produce => {
            Row::RecordRefused
        }
        Code::ThrottlingQuotaExceeded => Row::Throttled,
        Code::BrokerNotAvailable => Row::KafkaUnreachable,
        Code::LeaderNotAvailable
        | Code::NotLeaderOrFollower
        | Code::RequestTimedOut
        | Code::ReplicaNotAvailable
        | Code::NetworkException
        | Code::CoordinatorLoadInProgress
        | Code::CoordinatorNotAvailable
        | Code::NotCoordinator
        | Code::NotEnoughReplicas
        | Code::NotEnoughReplicasAfterAppend
        | Code::NotController
        | Code::ConcurrentTransactions
        | Code::KafkaStorageError
        | Code::ReassignmentInProgress
        | Code::FetchSessionIdNotFound
        | Code::InvalidFetchSessionEpoch
        | Code::ListenerNotFound
        | Code::FencedLeaderEpoch
        | Code::UnknownLeaderEpoch
        | Code::OffsetNotAvailable
        | Code::PreferredLeaderNotAvailable
        | Code::EligibleLeadersNotAvailable
        | Code::ElectionNotNeeded
        | Code::UnstableOffsetCommit
        | Code::InconsistentTopicId
        | Code::FetchSessionTopicIdError
        | Code::NewLeaderElected
        | Code::RebootstrapRequired => Row::KafkaRetriable,
        // Kafka adds codes: what is not listed has failed.
        _ => Row::KafkaFailed,
    }
}

#[cfg(test)]
mod tests;
