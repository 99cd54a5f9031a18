//! Kafka's error codes that the broker gives.

/// A Kafka error code.
pub(crate) type Code = i16;

pub(crate) const NONE: Code = 0;
pub(crate) const OFFSET_OUT_OF_RANGE: Code = 1;
pub(crate) const CORRUPT_MESSAGE: Code = 2;
pub(crate) const UNKNOWN_TOPIC_OR_PARTITION: Code = 3;
pub(crate) const NOT_LEADER_OR_FOLLOWER: Code = 6;
pub(crate) const MESSAGE_TOO_LARGE: Code = 10;
pub(crate) const OFFSET_METADATA_TOO_LARGE: Code = 12;
pub(crate) const NOT_COORDINATOR: Code = 16;
pub(crate) const INVALID_TOPIC: Code = 17;
pub(crate) const INVALID_REQUIRED_ACKS: Code = 21;
pub(crate) const ILLEGAL_GENERATION: Code = 22;
pub(crate) const INCONSISTENT_GROUP_PROTOCOL: Code = 23;
pub(crate) const INVALID_GROUP_ID: Code = 24;
pub(crate) const UNKNOWN_MEMBER_ID: Code = 25;
pub(crate) const INVALID_SESSION_TIMEOUT: Code = 26;
pub(crate) const REBALANCE_IN_PROGRESS: Code = 27;
pub(crate) const UNSUPPORTED_SASL_MECHANISM: Code = 33;
pub(crate) const ILLEGAL_SASL_STATE: Code = 34;
pub(crate) const UNSUPPORTED_VERSION: Code = 35;
pub(crate) const TOPIC_ALREADY_EXISTS: Code = 36;
pub(crate) const INVALID_PARTITIONS: Code = 37;
pub(crate) const INVALID_REPLICATION_FACTOR: Code = 38;
pub(crate) const INVALID_REPLICA_ASSIGNMENT: Code = 39;
pub(crate) const INVALID_CONFIG: Code = 40;
pub(crate) const INVALID_REQUEST: Code = 42;
pub(crate) const OUT_OF_ORDER_SEQUENCE_NUMBER: Code = 45;
pub(crate) const INVALID_PRODUCER_EPOCH: Code = 47;
pub(crate) const TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Code = 53;
pub(crate) const KAFKA_STORAGE_ERROR: Code = 56;
pub(crate) const SASL_AUTHENTICATION_FAILED: Code = 58;
pub(crate) const FETCH_SESSION_ID_NOT_FOUND: Code = 70;
pub(crate) const INVALID_FETCH_SESSION_EPOCH: Code = 71;
pub(crate) const FENCED_LEADER_EPOCH: Code = 74;
pub(crate) const UNKNOWN_LEADER_EPOCH: Code = 75;
pub(crate) const UNSUPPORTED_COMPRESSION_TYPE: Code = 76;
pub(crate) const MEMBER_ID_REQUIRED: Code = 79;
pub(crate) const FENCED_INSTANCE_ID: Code = 82;
pub(crate) const INVALID_RECORD: Code = 87;
pub(crate) const UNKNOWN_TOPIC_ID: Code = 100;
