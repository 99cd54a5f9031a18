//! Each response that is decoded, as a broker may send it.

use bytes::{Bytes, BytesMut};
use kafka_protocol::{
    messages::{
        AlterUserScramCredentialsResponse, BrokerId, ConsumerGroupHeartbeatResponse, CreateAclsResponse,
        CreateTopicsResponse, DeleteAclsResponse, DeleteTopicsResponse, FindCoordinatorResponse, GroupId,
        HeartbeatResponse, InitProducerIdResponse, JoinGroupResponse, LeaveGroupResponse,
        ListOffsetsResponse, MetadataResponse, OffsetCommitResponse, OffsetFetchResponse,
        OffsetForLeaderEpochResponse, ProduceResponse, SaslAuthenticateResponse, SaslHandshakeResponse,
        SyncGroupResponse, TopicName,
        alter_user_scram_credentials_response::AlterUserScramCredentialsResult,
        consumer_group_heartbeat_response::{Assignment, TopicPartitions},
        create_acls_response::AclCreationResult,
        create_topics_response::{CreatableTopicConfigs, CreatableTopicResult},
        delete_acls_response::{DeleteAclsFilterResult, DeleteAclsMatchingAcl},
        delete_topics_response::DeletableTopicResult,
        find_coordinator_response::Coordinator,
        join_group_response::JoinGroupResponseMember,
        leave_group_response::MemberResponse,
        list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse},
        metadata_response::{MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic},
        offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic},
        offset_fetch_response::{
            OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
            OffsetFetchResponseTopic, OffsetFetchResponseTopics,
        },
        offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult},
        produce_response::{BatchIndexAndErrorMessage, PartitionProduceResponse, TopicProduceResponse},
    },
    protocol::{Decodable, Encodable, Message, StrBytes},
};
use uuid::Uuid;

use crate::guard::response::*;

/// The lists of one response, by the numbers of their elements; a list in a list has as many in each.
pub(super) type Counts = [usize; 4];

/// A response that is spoken: its versions, how many lists it has in each, and itself.
pub(super) struct Spoken {
    pub(super) api: ApiKey,
    pub(super) versions: std::ops::RangeInclusive<i16>,
    pub(super) lists: fn(i16) -> usize,
    pub(super) encode: fn(i16, Counts) -> Option<Bytes>,
    pub(super) decode: fn(i16, Bytes) -> bool,
}

fn encoded(message: &impl Encodable, version: i16) -> Option<Bytes> {
    let mut out = BytesMut::new();
    message.encode(&mut out, version).ok()?;
    Some(out.freeze())
}

fn decodes<M: Decodable>(version: i16, mut body: Bytes) -> bool {
    M::decode(&mut body, version).is_ok() && body.is_empty()
}

fn text(text: &'static str) -> StrBytes {
    StrBytes::from_static_str(text)
}

fn produce(version: i16, [topics, partitions, records, _]: Counts) -> Option<Bytes> {
    let record = BatchIndexAndErrorMessage::default()
        .with_batch_index(3)
        .with_batch_index_error_message(Some(text("why")));
    let mut partition = PartitionProduceResponse::default()
        .with_index(1)
        .with_base_offset(77);
    if version >= 5 {
        partition = partition.with_log_start_offset(5);
    }
    if version >= 8 {
        partition = partition
            .with_record_errors(vec![record; records])
            .with_error_message(Some(text("refused")));
    }
    let topic = TopicProduceResponse::default()
        .with_name(TopicName(text("topic")))
        .with_partition_responses(vec![partition; partitions]);
    let response = ProduceResponse::default()
        .with_responses(vec![topic; topics])
        .with_throttle_time_ms(9);
    encoded(&response, version)
}

fn list_offsets(version: i16, [topics, partitions, ..]: Counts) -> Option<Bytes> {
    let mut partition = ListOffsetsPartitionResponse::default()
        .with_partition_index(1)
        .with_error_code(3)
        .with_timestamp(12)
        .with_offset(99);
    if version >= 4 {
        partition = partition.with_leader_epoch(4);
    }
    let topic = ListOffsetsTopicResponse::default()
        .with_name(TopicName(text("topic")))
        .with_partitions(vec![partition; partitions]);
    let response = ListOffsetsResponse::default()
        .with_topics(vec![topic; topics])
        .with_throttle_time_ms(9);
    encoded(&response, version)
}

fn metadata(version: i16, [brokers, topics, partitions, nodes]: Counts) -> Option<Bytes> {
    let broker = MetadataResponseBroker::default()
        .with_node_id(BrokerId(1))
        .with_host(text("host"))
        .with_port(9092)
        .with_rack(Some(text("rack")));
    let node = BrokerId(5);
    let mut partition = MetadataResponsePartition::default()
        .with_partition_index(2)
        .with_leader_id(node)
        .with_replica_nodes(vec![node; nodes])
        .with_isr_nodes(vec![node; 2])
        .with_offline_replicas(vec![node; 2]);
    if version >= 7 {
        partition = partition.with_leader_epoch(8);
    }
    let mut topic = MetadataResponseTopic::default()
        .with_error_code(5)
        .with_name(Some(TopicName(text("topic"))))
        .with_is_internal(true)
        .with_partitions(vec![partition; partitions]);
    if version >= 8 {
        topic = topic.with_topic_authorized_operations(6);
    }
    if version >= 10 {
        topic = topic.with_topic_id(Uuid::from_u128(7));
    }
    let mut response = MetadataResponse::default()
        .with_throttle_time_ms(9)
        .with_brokers(vec![broker; brokers])
        .with_cluster_id(Some(text("cluster")))
        .with_controller_id(node)
        .with_topics(vec![topic; topics]);
    if (8..=10).contains(&version) {
        response = response.with_cluster_authorized_operations(3);
    }
    if version >= 13 {
        response = response.with_error_code(129);
    }
    encoded(&response, version)
}

fn offset_commit(version: i16, [topics, partitions, ..]: Counts) -> Option<Bytes> {
    let partition = OffsetCommitResponsePartition::default()
        .with_partition_index(1)
        .with_error_code(22);
    let topic = OffsetCommitResponseTopic::default()
        .with_name(TopicName(text("topic")))
        .with_partitions(vec![partition; partitions]);
    let mut response = OffsetCommitResponse::default().with_topics(vec![topic; topics]);
    if version >= 3 {
        response = response.with_throttle_time_ms(9);
    }
    encoded(&response, version)
}

fn offset_fetch(version: i16, [topics, partitions, groups, _]: Counts) -> Option<Bytes> {
    if version < 8 {
        let mut partition = OffsetFetchResponsePartition::default()
            .with_partition_index(1)
            .with_committed_offset(12)
            .with_metadata(Some(text("metadata")))
            .with_error_code(3);
        if version >= 5 {
            partition = partition.with_committed_leader_epoch(2);
        }
        let topic = OffsetFetchResponseTopic::default()
            .with_name(TopicName(text("topic")))
            .with_partitions(vec![partition; partitions]);
        let mut response = OffsetFetchResponse::default()
            .with_topics(vec![topic; topics])
            .with_error_code(16);
        if version >= 3 {
            response = response.with_throttle_time_ms(9);
        }
        return encoded(&response, version);
    }
    let partition = OffsetFetchResponsePartitions::default()
        .with_partition_index(1)
        .with_committed_offset(12)
        .with_committed_leader_epoch(2)
        .with_metadata(Some(text("metadata")))
        .with_error_code(3);
    let topic = OffsetFetchResponseTopics::default()
        .with_name(TopicName(text("topic")))
        .with_partitions(vec![partition; partitions]);
    let group = OffsetFetchResponseGroup::default()
        .with_group_id(GroupId(text("group")))
        .with_topics(vec![topic; topics])
        .with_error_code(16);
    let response = OffsetFetchResponse::default()
        .with_throttle_time_ms(9)
        .with_groups(vec![group; groups]);
    encoded(&response, version)
}

fn find_coordinator(version: i16, [coordinators, ..]: Counts) -> Option<Bytes> {
    let mut response = FindCoordinatorResponse::default();
    if version >= 1 {
        response = response.with_throttle_time_ms(9);
    }
    if version >= 4 {
        let coordinator = Coordinator::default()
            .with_key(text("group"))
            .with_node_id(BrokerId(3))
            .with_host(text("host"))
            .with_port(9092)
            .with_error_code(15)
            .with_error_message(Some(text("why")));
        response = response.with_coordinators(vec![coordinator; coordinators]);
    } else {
        response = response
            .with_error_code(15)
            .with_error_message(Some(text("why")))
            .with_node_id(BrokerId(3))
            .with_host(text("host"))
            .with_port(9092);
    }
    encoded(&response, version)
}

fn join_group(version: i16, [members, ..]: Counts) -> Option<Bytes> {
    let mut member = JoinGroupResponseMember::default()
        .with_member_id(text("member"))
        .with_metadata(Bytes::from_static(b"subscription"));
    if version >= 5 {
        member = member.with_group_instance_id(Some(text("instance")));
    }
    let mut response = JoinGroupResponse::default()
        .with_error_code(79)
        .with_generation_id(5)
        .with_protocol_name(Some(text("range")))
        .with_leader(text("leader"))
        .with_member_id(text("member"))
        .with_members(vec![member; members]);
    if version >= 2 {
        response = response.with_throttle_time_ms(9);
    }
    if version >= 7 {
        response = response.with_protocol_type(Some(text("consumer")));
    }
    if version >= 9 {
        response = response.with_skip_assignment(true);
    }
    encoded(&response, version)
}

fn heartbeat(version: i16, _: Counts) -> Option<Bytes> {
    let response = HeartbeatResponse::default()
        .with_throttle_time_ms(9)
        .with_error_code(27);
    encoded(&response, version)
}

fn leave_group(version: i16, [members, ..]: Counts) -> Option<Bytes> {
    let member = MemberResponse::default()
        .with_member_id(text("member"))
        .with_group_instance_id(Some(text("instance")))
        .with_error_code(25);
    let mut response = LeaveGroupResponse::default()
        .with_throttle_time_ms(9)
        .with_error_code(25);
    if version >= 3 {
        response = response.with_members(vec![member; members]);
    }
    encoded(&response, version)
}

fn sync_group(version: i16, _: Counts) -> Option<Bytes> {
    let mut response = SyncGroupResponse::default()
        .with_throttle_time_ms(9)
        .with_error_code(27)
        .with_assignment(Bytes::from_static(b"assignment"));
    if version >= 5 {
        response = response
            .with_protocol_type(Some(text("consumer")))
            .with_protocol_name(Some(text("range")));
    }
    encoded(&response, version)
}

fn consumer_heartbeat(version: i16, [topics, partitions, ..]: Counts) -> Option<Bytes> {
    let topic = TopicPartitions::default()
        .with_topic_id(Uuid::from_u128(7))
        .with_partitions(vec![3; partitions]);
    let mut response = ConsumerGroupHeartbeatResponse::default()
        .with_throttle_time_ms(9)
        .with_error_code(110)
        .with_error_message(Some(text("why")))
        .with_member_id(Some(text("member")))
        .with_member_epoch(4)
        .with_heartbeat_interval_ms(5000);
    // Nothing of either is no assignment.
    if topics + partitions > 0 {
        let assignment = Assignment::default().with_topic_partitions(vec![topic; topics]);
        response = response.with_assignment(Some(assignment));
    }
    encoded(&response, version)
}

pub(super) fn create_topics(version: i16, [topics, configs, ..]: Counts) -> Option<Bytes> {
    let config = CreatableTopicConfigs::default()
        .with_name(text("retention.ms"))
        .with_value(Some(text("1")))
        .with_read_only(true)
        .with_config_source(5)
        .with_is_sensitive(true);
    let mut topic = CreatableTopicResult::default()
        .with_name(TopicName(text("topic")))
        .with_error_code(36)
        .with_error_message(Some(text("why")));
    if version >= 5 {
        topic = topic
            .with_num_partitions(3)
            .with_replication_factor(2)
            .with_topic_config_error_code(29)
            .with_configs(Some(vec![config; configs]));
    }
    if version >= 7 {
        topic = topic.with_topic_id(Uuid::from_u128(7));
    }
    let response = CreateTopicsResponse::default()
        .with_throttle_time_ms(9)
        .with_topics(vec![topic; topics]);
    encoded(&response, version)
}

fn delete_topics(version: i16, [topics, ..]: Counts) -> Option<Bytes> {
    let mut topic = DeletableTopicResult::default()
        .with_name(Some(TopicName(text("topic"))))
        .with_error_code(3);
    if version >= 5 {
        topic = topic.with_error_message(Some(text("why")));
    }
    if version >= 6 {
        topic = topic.with_topic_id(Uuid::from_u128(7));
    }
    let response = DeleteTopicsResponse::default()
        .with_throttle_time_ms(9)
        .with_responses(vec![topic; topics]);
    encoded(&response, version)
}

fn create_acls(version: i16, [rules, ..]: Counts) -> Option<Bytes> {
    let rule = AclCreationResult::default()
        .with_error_code(54)
        .with_error_message(Some(text("why")));
    let response = CreateAclsResponse::default()
        .with_throttle_time_ms(9)
        .with_results(vec![rule; rules]);
    encoded(&response, version)
}

fn delete_acls(version: i16, [filters, rules, ..]: Counts) -> Option<Bytes> {
    let rule = DeleteAclsMatchingAcl::default()
        .with_error_code(54)
        .with_error_message(Some(text("why")))
        .with_resource_type(2)
        .with_resource_name(text("prefix."))
        .with_pattern_type(4)
        .with_principal(text("User:u"))
        .with_host(text("*"))
        .with_operation(3)
        .with_permission_type(3);
    let filter = DeleteAclsFilterResult::default()
        .with_error_code(54)
        .with_error_message(Some(text("why")))
        .with_matching_acls(vec![rule; rules]);
    let response = DeleteAclsResponse::default()
        .with_throttle_time_ms(9)
        .with_filter_results(vec![filter; filters]);
    encoded(&response, version)
}

fn alter_credentials(version: i16, [users, ..]: Counts) -> Option<Bytes> {
    let user = AlterUserScramCredentialsResult::default()
        .with_user(text("user"))
        .with_error_code(93)
        .with_error_message(Some(text("why")));
    let response = AlterUserScramCredentialsResponse::default()
        .with_throttle_time_ms(9)
        .with_results(vec![user; users]);
    encoded(&response, version)
}

fn sasl_handshake(version: i16, [mechanisms, ..]: Counts) -> Option<Bytes> {
    let response = SaslHandshakeResponse::default()
        .with_error_code(33)
        .with_mechanisms(vec![text("PLAIN"); mechanisms]);
    encoded(&response, version)
}

fn sasl_authenticate(version: i16, _: Counts) -> Option<Bytes> {
    let mut response = SaslAuthenticateResponse::default()
        .with_error_code(58)
        .with_error_message(Some(text("why")))
        .with_auth_bytes(Bytes::from_static(b"challenge"));
    if version >= 1 {
        response = response.with_session_lifetime_ms(9);
    }
    encoded(&response, version)
}

macro_rules! spoken {
    ($api:ident, $response:ty, $versions:expr, $lists:expr, $encode:expr) => {
        Spoken {
            api: ApiKey::$api,
            versions: $versions,
            lists: $lists,
            encode: $encode,
            decode: decodes::<$response>,
        }
    };
}

/// Every response that is decoded by `kafka-protocol`, in at least the versions that are asked in.
pub(super) fn spoken() -> Vec<Spoken> {
    let all = |range: kafka_protocol::protocol::VersionRange| range.min..=range.max;
    vec![
        spoken!(
            Produce,
            ProduceResponse,
            3..=9,
            |v| if v >= 8 { 3 } else { 2 },
            produce
        ),
        spoken!(ListOffsets, ListOffsetsResponse, 2..=10, |_| 2, list_offsets),
        spoken!(Metadata, MetadataResponse, 5..=13, |_| 4, metadata),
        spoken!(OffsetCommit, OffsetCommitResponse, 2..=9, |_| 2, offset_commit),
        spoken!(
            OffsetFetch,
            OffsetFetchResponse,
            2..=9,
            |v| if v >= 8 { 3 } else { 2 },
            offset_fetch
        ),
        spoken!(
            FindCoordinator,
            FindCoordinatorResponse,
            1..=6,
            |v| usize::from(v >= 4),
            find_coordinator
        ),
        spoken!(JoinGroup, JoinGroupResponse, 2..=9, |_| 1, join_group),
        spoken!(Heartbeat, HeartbeatResponse, 1..=4, |_| 0, heartbeat),
        spoken!(
            LeaveGroup,
            LeaveGroupResponse,
            1..=5,
            |v| usize::from(v >= 3),
            leave_group
        ),
        spoken!(
            SyncGroup,
            SyncGroupResponse,
            all(SyncGroupResponse::VERSIONS),
            |_| 0,
            sync_group
        ),
        spoken!(
            ConsumerGroupHeartbeat,
            ConsumerGroupHeartbeatResponse,
            all(ConsumerGroupHeartbeatResponse::VERSIONS),
            |_| 2,
            consumer_heartbeat
        ),
        spoken!(
            CreateTopics,
            CreateTopicsResponse,
            2..=7,
            |v| if v >= 5 { 2 } else { 1 },
            create_topics
        ),
        spoken!(
            DeleteTopics,
            DeleteTopicsResponse,
            all(DeleteTopicsResponse::VERSIONS),
            |_| 1,
            delete_topics
        ),
        spoken!(
            CreateAcls,
            CreateAclsResponse,
            all(CreateAclsResponse::VERSIONS),
            |_| 1,
            create_acls
        ),
        spoken!(
            DeleteAcls,
            DeleteAclsResponse,
            all(DeleteAclsResponse::VERSIONS),
            |_| 2,
            delete_acls
        ),
        spoken!(
            AlterUserScramCredentials,
            AlterUserScramCredentialsResponse,
            all(AlterUserScramCredentialsResponse::VERSIONS),
            |_| 1,
            alter_credentials
        ),
        spoken!(SaslHandshake, SaslHandshakeResponse, 1..=1, |_| 1, sasl_handshake),
        spoken!(
            SaslAuthenticate,
            SaslAuthenticateResponse,
            0..=2,
            |_| 0,
            sasl_authenticate
        ),
        spoken!(
            OffsetForLeaderEpoch,
            OffsetForLeaderEpochResponse,
            2..=4,
            |_| 2,
            epoch_ends
        ),
        spoken!(
            InitProducerId,
            InitProducerIdResponse,
            0..=4,
            |_| 0,
            init_producer_id
        ),
    ]
}

fn init_producer_id(version: i16, _: Counts) -> Option<Bytes> {
    encoded(
        &InitProducerIdResponse::default().with_producer_id(7.into()),
        version,
    )
}

fn epoch_ends(version: i16, [topics, partitions, ..]: Counts) -> Option<Bytes> {
    let partition = EpochEndOffset::default()
        .with_partition(0)
        .with_leader_epoch(4)
        .with_end_offset(12);
    let topic = OffsetForLeaderTopicResult::default()
        .with_topic(TopicName(text("topic")))
        .with_partitions(vec![partition; partitions]);
    let response = OffsetForLeaderEpochResponse::default()
        .with_throttle_time_ms(9)
        .with_topics(vec![topic; topics]);
    encoded(&response, version)
}
