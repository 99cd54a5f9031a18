//! From the bytes behind an answer's correlation id to the answer.

use std::time::Duration;

use bytes::{Buf, Bytes};
use kafka_protocol::{
    messages::{
        AlterUserScramCredentialsResponse, ApiKey, ApiVersionsResponse, ConsumerGroupHeartbeatResponse,
        CreateAclsResponse, CreateTopicsResponse, DeleteAclsResponse, DeleteTopicsResponse,
        FindCoordinatorResponse, HeartbeatResponse, InitProducerIdResponse, JoinGroupResponse,
        LeaveGroupResponse, ListOffsetsResponse, MetadataResponse, OffsetCommitResponse, OffsetFetchResponse,
        OffsetForLeaderEpochResponse, ProduceResponse, SyncGroupResponse,
    },
    protocol::{Decodable, HeaderVersion, Request},
};

use crate::{
    api::fetch::{self, FetchResponse},
    guard, versions,
};

/// The answer to a request of this version; `None` where it can't be read.
pub(crate) fn read<R: Request>(version: i16, frame: Bytes) -> Option<R::Response> {
    let mut body = body(frame, R::Response::header_version(version))?;
    guard::fits(R::KEY, version, &body).then_some(())?;
    R::Response::decode(&mut body, version).ok()
}

/// The answer to a Fetch of this version. Its records are slices of the frame.
pub(crate) fn fetched(version: i16, frame: Bytes) -> Option<FetchResponse> {
    let body = body(frame, i16::from(version >= fetch::FLEXIBLE))?;
    FetchResponse::decode(version, body).ok()
}

/// The longest throttling that a broker is believed; Kafka's own is of seconds.
const MOST_THROTTLED: Duration = Duration::from_secs(60);

/// How long a broker will not read from the connection, by an answer's throttle time in milliseconds [ER-04].
pub(crate) fn throttled(throttle_time_ms: i32) -> Option<Duration> {
    let time = Duration::from_millis(u64::try_from(throttle_time_ms).unwrap_or(0));
    (!time.is_zero()).then(|| time.min(MOST_THROTTLED))
}

/// Where an answer of this version says how long its connection is throttled, in bytes from its correlation id on; `None`
/// for those that do not say it first.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "Kafka's own, and most of no use here"
)]
pub(crate) fn throttle_at(api_key: i16, version: i16) -> Option<usize> {
    let api = ApiKey::try_from(api_key).ok()?;
    let since = match api {
        ApiKey::Fetch | ApiKey::FindCoordinator | ApiKey::Heartbeat => 1,
        ApiKey::LeaveGroup | ApiKey::SyncGroup | ApiKey::DeleteTopics => 1,
        ApiKey::CreateAcls | ApiKey::DeleteAcls => 1,
        ApiKey::ConsumerGroupHeartbeat | ApiKey::InitProducerId | ApiKey::AlterUserScramCredentials => 0,
        ApiKey::JoinGroup | ApiKey::ListOffsets | ApiKey::OffsetForLeaderEpoch | ApiKey::CreateTopics => 2,
        ApiKey::Metadata | ApiKey::OffsetCommit | ApiKey::OffsetFetch => 3,
        _ => return None,
    };
    // Behind the correlation id, and the header's tagged fields where it has some: then nothing is known of their length.
    (version >= since).then(|| 4 + usize::from(api.response_header_version(version) >= 1))
}

/// How long a connection is throttled, by what stands there in an answer.
pub(crate) fn throttle_in(answer: &[u8], at: usize) -> Option<Duration> {
    let has_tags = at > 4 && answer.get(4) != Some(&0);
    let bytes = answer.get(at..)?.first_chunk().filter(|_| !has_tags)?;
    throttled(i32::from_be_bytes(*bytes))
}

/// What each answer tells of the connection, besides what was asked.
pub(crate) trait Aside {
    /// How long the broker will not read from the connection, in milliseconds.
    fn throttle_time_ms(&self) -> i32;

    /// The first error code, 0 for none.
    fn code(&self) -> i16;
}

macro_rules! aside {
    ($($response:ty: |$answer:ident| $code:expr;)*) => {$(
        impl Aside for $response {
            fn throttle_time_ms(&self) -> i32 {
                self.throttle_time_ms
            }

            fn code(&self) -> i16 {
                let $answer = self;
                $code
            }
        }
    )*};
}

fn first<T>(items: &[T], code: impl FnOnce(&T) -> i16) -> i16 {
    items.first().map_or(0, code)
}

aside! {
    AlterUserScramCredentialsResponse: |answer| first(&answer.results, |result| result.error_code);
    ApiVersionsResponse: |answer| answer.error_code;
    ConsumerGroupHeartbeatResponse: |answer| answer.error_code;
    CreateAclsResponse: |answer| first(&answer.results, |result| result.error_code);
    CreateTopicsResponse: |answer| first(&answer.topics, |topic| topic.error_code);
    DeleteAclsResponse: |answer| first(&answer.filter_results, |result| result.error_code);
    DeleteTopicsResponse: |answer| first(&answer.responses, |topic| topic.error_code);
    FindCoordinatorResponse: |answer| match answer.error_code {
        0 => first(&answer.coordinators, |found| found.error_code),
        code => code,
    };
    HeartbeatResponse: |answer| answer.error_code;
    InitProducerIdResponse: |answer| answer.error_code;
    JoinGroupResponse: |answer| answer.error_code;
    LeaveGroupResponse: |answer| answer.error_code;
    ListOffsetsResponse: |answer| first(&answer.topics, |topic| first(&topic.partitions, |part| part.error_code));
    MetadataResponse: |answer| match answer.error_code {
        0 => first(&answer.topics, |topic| topic.error_code),
        code => code,
    };
    OffsetCommitResponse: |answer| first(&answer.topics, |topic| first(&topic.partitions, |part| part.error_code));
    OffsetFetchResponse: |answer| match answer.error_code {
        0 => first(&answer.groups, |group| group.error_code),
        code => code,
    };
    OffsetForLeaderEpochResponse: |answer| {
        first(&answer.topics, |topic| first(&topic.partitions, |part| part.error_code))
    };
    ProduceResponse: |answer| {
        first(&answer.responses, |topic| first(&topic.partition_responses, |part| part.error_code))
    };
    SyncGroupResponse: |answer| answer.error_code;
}

/// What follows a response's header, whose tagged fields say nothing.
fn body(mut frame: Bytes, header_version: i16) -> Option<Bytes> {
    if header_version >= 1 {
        let rest = versions::skip_tags(&frame)?.len();
        frame.advance(frame.len() - rest);
    }
    Some(frame)
}

#[cfg(test)]
mod tests {
    use kafka_protocol::protocol::Encodable;

    use super::*;

    /// [ER-04] in every version that the client speaks, the time stands where it is looked for.
    #[test]
    fn the_throttle_time_is_found_in_the_bytes_of_an_answer() {
        fn check<R: Request<Response: Aside + Encodable>>(
            versions: std::ops::RangeInclusive<i16>,
            response: impl Fn() -> R::Response,
        ) {
            for version in versions {
                let mut answer = vec![0; 4];
                let flexible = R::Response::header_version(version) >= 1;
                answer.extend(flexible.then_some(0));
                response().encode(&mut answer, version).unwrap();
                let at = throttle_at(R::KEY, version).unwrap();
                let found = throttle_in(&answer, at);
                assert_eq!(found, Some(Duration::from_millis(7)), "{} {version}", R::KEY);
                assert_eq!(throttle_in(&answer[..at + 3], at), None);
                if flexible {
                    answer[4] = 1;
                    assert_eq!(throttle_in(&answer, at), None, "what follows is not told");
                }
            }
        }
        macro_rules! check {
            ($($request:ident, $response:ident: $versions:expr;)*) => {$(
                check::<kafka_protocol::messages::$request>($versions, || {
                    $response::default().with_throttle_time_ms(7)
                });
            )*};
        }
        check! {
            FindCoordinatorRequest, FindCoordinatorResponse: 1..=6;
            HeartbeatRequest, HeartbeatResponse: 2..=4;
            ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse: 1..=1;
            InitProducerIdRequest, InitProducerIdResponse: 2..=5;
            JoinGroupRequest, JoinGroupResponse: 3..=9;
            SyncGroupRequest, SyncGroupResponse: 2..=5;
            LeaveGroupRequest, LeaveGroupResponse: 2..=5;
            ListOffsetsRequest, ListOffsetsResponse: 4..=8;
            OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse: 2..=4;
            CreateTopicsRequest, CreateTopicsResponse: 3..=7;
            DeleteTopicsRequest, DeleteTopicsResponse: 1..=5;
            CreateAclsRequest, CreateAclsResponse: 1..=3;
            DeleteAclsRequest, DeleteAclsResponse: 1..=3;
            AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse: 0..=0;
            MetadataRequest, MetadataResponse: 4..=13;
            OffsetCommitRequest, OffsetCommitResponse: 6..=9;
            OffsetFetchRequest, OffsetFetchResponse: 5..=9;
        }
        assert_eq!(throttle_at(ApiKey::Fetch as i16, 4), Some(4));
        assert_eq!(throttle_at(ApiKey::Fetch as i16, fetch::FLEXIBLE), Some(5));
        assert_eq!(throttle_at(ApiKey::Produce as i16, 9), None);
    }
}
