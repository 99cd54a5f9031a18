//! The requests that the broker takes and the responses that it gives, with their versions.

use std::ops::RangeInclusive;

use bytes::{BufMut as _, Bytes, BytesMut};
use kafka_protocol::{
    messages::{
        ApiKey, ApiVersionsRequest, ApiVersionsResponse, ConsumerGroupDescribeRequest,
        ConsumerGroupDescribeResponse, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
        CreateTopicsRequest, CreateTopicsResponse, DeleteRecordsRequest, DeleteRecordsResponse,
        DeleteTopicsRequest, DeleteTopicsResponse, DescribeConfigsRequest, DescribeConfigsResponse,
        FetchRequest, FetchResponse, FindCoordinatorRequest, FindCoordinatorResponse, HeartbeatRequest,
        HeartbeatResponse, InitProducerIdRequest, InitProducerIdResponse, JoinGroupRequest,
        JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse, ListOffsetsRequest, ListOffsetsResponse,
        MetadataRequest, MetadataResponse, OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest,
        OffsetFetchResponse, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, ProduceRequest,
        ProduceResponse, RequestHeader, ResponseHeader, SaslAuthenticateRequest, SaslAuthenticateResponse,
        SaslHandshakeRequest, SaslHandshakeResponse, SyncGroupRequest, SyncGroupResponse,
    },
    protocol::{Decodable as _, Encodable as _, StrBytes},
};

/// Sets the throttle time of a response that has one.
macro_rules! throttle {
    ($response:ident, $ms:ident) => {
        $response.throttle_time_ms = $ms
    };
    ($response:ident, $ms:ident, unthrottled) => {{
        let _ = ($response, $ms);
    }};
}

macro_rules! apis {
    ($($api:ident $versions:expr, $request:ident, $response:ident $(, $unthrottled:ident)?;)*) => {
        /// A request, decoded.
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum Request {
            $(#[doc = concat!("A `", stringify!($api), "` request.")] $api($request)),*
        }

        /// A response, before it is encoded.
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum Response {
            $(#[doc = concat!("The response to a `", stringify!($api), "` request.")] $api($response)),*
        }

        /// The versions advertised of each API.
        pub(crate) const VERSIONS: &[(ApiKey, RangeInclusive<i16>)] = &[$((ApiKey::$api, $versions)),*];

        impl Request {
            /// Which API it is of.
            #[must_use]
            pub const fn api(&self) -> ApiKey {
                match self {
                    $(Self::$api(_) => ApiKey::$api),*
                }
            }

            /// The request in `body`, or `None` where it does not decode or this version is none of ours.
            pub(crate) fn decode(api: ApiKey, version: i16, body: &mut Bytes) -> Option<Self> {
                $(if api == ApiKey::$api {
                    return $request::decode(body, version).ok().map(Self::$api);
                })*
                None
            }

            /// The body in bytes, `None` where a field is set that the version lacks.
            #[cfg(test)]
            pub(crate) fn encode(&self, version: i16) -> Option<Bytes> {
                let mut out = BytesMut::new();
                match self {
                    $(Self::$api(request) => request.encode(&mut out, version).ok()?),*
                }
                Some(out.freeze())
            }
        }

        impl Response {
            /// Which API it is of.
            #[must_use]
            pub const fn api(&self) -> ApiKey {
                match self {
                    $(Self::$api(_) => ApiKey::$api),*
                }
            }

            pub(crate) const fn throttle(&mut self, throttle_time_ms: i32) {
                match self {
                    $(Self::$api(response) => throttle!(response, throttle_time_ms $(, $unthrottled)?)),*
                }
            }

            /// The response in `body`, as a client of this version reads it.
            #[cfg(test)]
            pub(crate) fn decode(api: ApiKey, version: i16, body: &mut Bytes) -> Option<Self> {
                $(if api == ApiKey::$api {
                    return $response::decode(body, version).ok().map(Self::$api);
                })*
                None
            }

            fn put(&self, out: &mut BytesMut, version: i16) -> Option<()> {
                match self {
                    $(Self::$api(response) => response.encode(out, version).ok()),*
                }
            }

            fn size(&self, version: i16) -> usize {
                match self {
                    $(Self::$api(response) => response.compute_size(version).unwrap_or(0)),*
                }
            }
        }
    };
}

// Produce is advertised from 0, as Kafka does for clients that look for 0; older than 3 does not decode.
apis! {
    Produce 0..=11, ProduceRequest, ProduceResponse;
    Fetch 4..=17, FetchRequest, FetchResponse;
    ListOffsets 1..=8, ListOffsetsRequest, ListOffsetsResponse;
    Metadata 0..=12, MetadataRequest, MetadataResponse;
    OffsetCommit 2..=9, OffsetCommitRequest, OffsetCommitResponse;
    OffsetFetch 1..=9, OffsetFetchRequest, OffsetFetchResponse;
    FindCoordinator 0..=4, FindCoordinatorRequest, FindCoordinatorResponse;
    JoinGroup 0..=9, JoinGroupRequest, JoinGroupResponse;
    Heartbeat 0..=4, HeartbeatRequest, HeartbeatResponse;
    LeaveGroup 0..=5, LeaveGroupRequest, LeaveGroupResponse;
    SyncGroup 0..=5, SyncGroupRequest, SyncGroupResponse;
    ApiVersions 0..=4, ApiVersionsRequest, ApiVersionsResponse;
    CreateTopics 2..=7, CreateTopicsRequest, CreateTopicsResponse;
    DeleteTopics 1..=5, DeleteTopicsRequest, DeleteTopicsResponse;
    DeleteRecords 0..=2, DeleteRecordsRequest, DeleteRecordsResponse;
    InitProducerId 0..=4, InitProducerIdRequest, InitProducerIdResponse;
    SaslHandshake 0..=1, SaslHandshakeRequest, SaslHandshakeResponse, unthrottled;
    SaslAuthenticate 0..=2, SaslAuthenticateRequest, SaslAuthenticateResponse, unthrottled;
    OffsetForLeaderEpoch 2..=4, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse;
    DescribeConfigs 1..=4, DescribeConfigsRequest, DescribeConfigsResponse;
    ConsumerGroupHeartbeat 0..=1, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse;
    ConsumerGroupDescribe 0..=1, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse;
}

/// The head of a request: its API and version, and behind what number it is answered.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    pub(crate) client_id: String,
}

impl Head {
    /// Takes the head off a frame. `None` where there is none, or its API is not known.
    pub(crate) fn decode(frame: &mut Bytes) -> Option<Self> {
        let key = i16::from_be_bytes(frame.get(0..2)?.try_into().ok()?);
        let version = i16::from_be_bytes(frame.get(2..4)?.try_into().ok()?);
        let api = ApiKey::try_from(key).ok()?;
        let header = RequestHeader::decode(frame, api.request_header_version(version)).ok()?;
        Some(Self {
            api,
            version,
            correlation_id: header.correlation_id,
            client_id: header.client_id.map_or_else(String::new, |id| id.to_string()),
        })
    }
}

impl Response {
    /// The whole frame, its length first. `None` where the response can't be said in this version.
    pub(crate) fn frame(mut self, version: i16, correlation_id: i32) -> Option<Bytes> {
        self.fit(version);
        let mut out = BytesMut::with_capacity(self.size(version).saturating_add(16));
        out.put_i32(0);
        let header = ResponseHeader::default().with_correlation_id(correlation_id);
        header
            .encode(&mut out, self.api().response_header_version(version))
            .ok()?;
        self.put(&mut out, version)?;
        let length = i32::try_from(out.len() - 4).ok()?;
        out[..4].copy_from_slice(&length.to_be_bytes());
        Some(out.freeze())
    }

    /// Takes out what this version has no field for and can do without: the encoder refuses it otherwise.
    fn fit(&mut self, version: i16) {
        match self {
            Self::JoinGroup(response) => {
                if version < 9 {
                    response.skip_assignment = false;
                }
                if version < 7 {
                    response.protocol_name.get_or_insert_with(StrBytes::new);
                }
            }
            Self::ListOffsets(response) if version < 4 => {
                for partition in response.topics.iter_mut().flat_map(|t| &mut t.partitions) {
                    partition.leader_epoch = -1;
                }
            }
            Self::LeaveGroup(response) if version < 3 => response.members.clear(),
            Self::Fetch(response) if version < 7 => response.session_id = 0,
            Self::ConsumerGroupDescribe(response) if version < 1 => {
                for member in response.groups.iter_mut().flat_map(|group| &mut group.members) {
                    member.member_type = -1;
                }
            }
            Self::Produce(_)
            | Self::Fetch(_)
            | Self::ListOffsets(_)
            | Self::Metadata(_)
            | Self::OffsetCommit(_)
            | Self::OffsetFetch(_)
            | Self::FindCoordinator(_)
            | Self::Heartbeat(_)
            | Self::LeaveGroup(_)
            | Self::SyncGroup(_)
            | Self::ApiVersions(_)
            | Self::CreateTopics(_)
            | Self::DeleteTopics(_)
            | Self::DeleteRecords(_)
            | Self::InitProducerId(_)
            | Self::SaslHandshake(_)
            | Self::SaslAuthenticate(_)
            | Self::OffsetForLeaderEpoch(_)
            | Self::DescribeConfigs(_)
            | Self::ConsumerGroupHeartbeat(_)
            | Self::ConsumerGroupDescribe(_) => {}
        }
    }
}

/// Text of ours as the wire's.
pub(crate) fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}
