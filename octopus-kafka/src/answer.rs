//! From the bytes behind an answer's correlation id to the answer.

use std::time::Duration;

use bytes::{Buf, Bytes};
use kafka_protocol::{
    messages::{
        ApiVersionsResponse, ConsumerGroupHeartbeatResponse, CreateTopicsResponse, FindCoordinatorResponse,
        HeartbeatResponse, InitProducerIdResponse, JoinGroupResponse, LeaveGroupResponse,
        ListOffsetsResponse, MetadataResponse, OffsetCommitResponse, OffsetFetchResponse,
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
    ApiVersionsResponse: |answer| answer.error_code;
    ConsumerGroupHeartbeatResponse: |answer| answer.error_code;
    CreateTopicsResponse: |answer| first(&answer.topics, |topic| topic.error_code);
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
