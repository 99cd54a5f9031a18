//! Reading an answer without a broker, for what is fuzzed and measured.

use bytes::Bytes;
use kafka_protocol::messages::{
    AlterUserScramCredentialsRequest, ApiKey, ConsumerGroupHeartbeatRequest, CreateAclsRequest,
    CreateTopicsRequest, DeleteAclsRequest, DeleteTopicsRequest, FindCoordinatorRequest, HeartbeatRequest,
    InitProducerIdRequest, JoinGroupRequest, LeaveGroupRequest, ListOffsetsRequest, MetadataRequest,
    OffsetCommitRequest, OffsetFetchRequest, OffsetForLeaderEpochRequest, ProduceRequest,
    SaslAuthenticateRequest, SaslHandshakeRequest, SyncGroupRequest,
};
use kafka_protocol::protocol::{HeaderVersion, Message, Request};

use crate::{
    answer,
    api::fetch,
    versions::{Told, Versions},
};

/// Whether these bytes, which follow an answer's correlation id, can be read as the answer to a request of this API
/// and version. An API or a version that is not spoken can't be.
#[doc(hidden)]
#[must_use]
pub fn reads(api_key: i16, version: i16, frame: Bytes) -> bool {
    let Ok(api) = ApiKey::try_from(api_key) else {
        return false;
    };
    if api == ApiKey::ApiVersions {
        return matches!(Versions::read(version, &frame), Some(Told::Versions(_)));
    }
    if api == ApiKey::Fetch {
        return fetch::VERSIONS.contains(&version) && answer::fetched(version, frame).is_some();
    }
    let read = [
        one::<AlterUserScramCredentialsRequest>(),
        one::<ConsumerGroupHeartbeatRequest>(),
        one::<CreateAclsRequest>(),
        one::<CreateTopicsRequest>(),
        one::<DeleteAclsRequest>(),
        one::<DeleteTopicsRequest>(),
        one::<FindCoordinatorRequest>(),
        one::<HeartbeatRequest>(),
        one::<InitProducerIdRequest>(),
        one::<JoinGroupRequest>(),
        one::<LeaveGroupRequest>(),
        one::<ListOffsetsRequest>(),
        one::<MetadataRequest>(),
        one::<OffsetCommitRequest>(),
        one::<OffsetFetchRequest>(),
        one::<OffsetForLeaderEpochRequest>(),
        one::<ProduceRequest>(),
        one::<SaslAuthenticateRequest>(),
        one::<SaslHandshakeRequest>(),
        one::<SyncGroupRequest>(),
    ];
    let found = read.into_iter().find(|(key, _)| *key == api_key);
    found.is_some_and(|(_, read)| read(version, frame))
}

fn one<R: Request>() -> (i16, fn(i16, Bytes) -> bool)
where
    R::Response: HeaderVersion + Message,
{
    (R::KEY, |version, frame| {
        // Past version 9 a Produce's answer has fields that are not known here; it is not asked for in those.
        let newest = if R::KEY == ApiKey::Produce as i16 {
            9
        } else {
            i16::MAX
        };
        let versions = <R::Response as Message>::VERSIONS;
        let range = versions.min..=versions.max.min(newest);
        range.contains(&version) && answer::read::<R>(version, frame).is_some()
    })
}
