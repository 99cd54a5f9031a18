//! Where each API says an error: refusals made from requests.

use kafka_protocol::messages::{
    ApiVersionsResponse, ConsumerGroupDescribeResponse, ConsumerGroupHeartbeatResponse, CreateTopicsResponse,
    DeleteRecordsResponse, DeleteTopicsResponse, DescribeConfigsResponse, FetchResponse,
    FindCoordinatorResponse, GroupId, HeartbeatResponse, InitProducerIdResponse, JoinGroupResponse,
    LeaveGroupResponse, ListOffsetsResponse, MetadataResponse, OffsetCommitResponse, OffsetFetchRequest,
    OffsetFetchResponse, OffsetForLeaderEpochResponse, ProduceResponse, SaslAuthenticateResponse,
    SaslHandshakeResponse, SyncGroupResponse,
    consumer_group_describe_response::DescribedGroup,
    create_topics_response::CreatableTopicResult,
    delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult},
    delete_topics_response::DeletableTopicResult,
    describe_configs_response::DescribeConfigsResult,
    fetch_response::{FetchableTopicResponse, PartitionData},
    find_coordinator_response::Coordinator,
    leave_group_response::MemberResponse,
    list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse},
    metadata_response::MetadataResponseTopic,
    offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic},
    offset_fetch_response::{
        OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
        OffsetFetchResponseTopic, OffsetFetchResponseTopics,
    },
    offset_for_leader_epoch_request::OffsetForLeaderTopic,
    offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult},
    produce_response::{PartitionProduceResponse, TopicProduceResponse},
};
use kafka_protocol::protocol::StrBytes;

use super::{
    api::{Request, Response},
    code::{self, Code},
};

/// Errors of an OffsetFetch that are a partition's and not its group's.
const OF_A_PARTITION: [Code; 3] = [code::UNKNOWN_TOPIC_OR_PARTITION, 29, 88];
/// Errors of a Fetch that are the whole request's.
const OF_A_FETCH: [Code; 3] = [
    code::FETCH_SESSION_ID_NOT_FOUND,
    code::INVALID_FETCH_SESSION_EPOCH,
    106,
];
/// Errors of a LeaveGroup that are a member's.
const OF_A_MEMBER: [Code; 2] = [code::UNKNOWN_MEMBER_ID, code::FENCED_INSTANCE_ID];

/// The refusal of a whole request. Metadata's says nothing of the cluster's brokers.
pub(crate) fn refuse(request: &Request, version: i16, code: Code) -> Response {
    match request {
        Request::Produce(request) => Response::Produce(
            ProduceResponse::default().with_responses(
                request
                    .topic_data
                    .iter()
                    .map(|topic| {
                        let refused = |index| {
                            PartitionProduceResponse::default()
                                .with_index(index)
                                .with_error_code(code)
                                .with_base_offset(-1)
                        };
                        TopicProduceResponse::default()
                            .with_name(topic.name.clone())
                            .with_partition_responses(
                                topic.partition_data.iter().map(|p| refused(p.index)).collect(),
                            )
                    })
                    .collect(),
            ),
        ),
        Request::Fetch(_) if version >= 7 && OF_A_FETCH.contains(&code) => {
            Response::Fetch(FetchResponse::default().with_error_code(code))
        }
        Request::Fetch(request) => Response::Fetch(
            FetchResponse::default().with_responses(
                request
                    .topics
                    .iter()
                    .map(|topic| {
                        FetchableTopicResponse::default()
                            .with_topic(topic.topic.clone())
                            .with_topic_id(topic.topic_id)
                            .with_partitions(
                                topic
                                    .partitions
                                    .iter()
                                    .map(|p| no_records(p.partition, code))
                                    .collect(),
                            )
                    })
                    .collect(),
            ),
        ),
        Request::ListOffsets(request) => Response::ListOffsets(
            ListOffsetsResponse::default().with_topics(
                request
                    .topics
                    .iter()
                    .map(|topic| {
                        let refused = |index| {
                            ListOffsetsPartitionResponse::default()
                                .with_partition_index(index)
                                .with_error_code(code)
                        };
                        ListOffsetsTopicResponse::default()
                            .with_name(topic.name.clone())
                            .with_partitions(
                                topic
                                    .partitions
                                    .iter()
                                    .map(|p| refused(p.partition_index))
                                    .collect(),
                            )
                    })
                    .collect(),
            ),
        ),
        Request::Metadata(request) => Response::Metadata(
            MetadataResponse::default().with_topics(
                request
                    .topics
                    .iter()
                    .flatten()
                    .map(|topic| {
                        MetadataResponseTopic::default()
                            .with_name(topic.name.clone())
                            .with_topic_id(topic.topic_id)
                            .with_error_code(code)
                    })
                    .collect(),
            ),
        ),
        Request::OffsetCommit(request) => Response::OffsetCommit(
            OffsetCommitResponse::default().with_topics(
                request
                    .topics
                    .iter()
                    .map(|topic| {
                        let refused = |index| {
                            OffsetCommitResponsePartition::default()
                                .with_partition_index(index)
                                .with_error_code(code)
                        };
                        OffsetCommitResponseTopic::default()
                            .with_name(topic.name.clone())
                            .with_partitions(
                                topic
                                    .partitions
                                    .iter()
                                    .map(|p| refused(p.partition_index))
                                    .collect(),
                            )
                    })
                    .collect(),
            ),
        ),
        Request::OffsetFetch(request) => Response::OffsetFetch(refuse_offset_fetch(request, version, code)),
        Request::FindCoordinator(request) => {
            let response = FindCoordinatorResponse::default();
            Response::FindCoordinator(if version >= 4 {
                response.with_coordinators(
                    request
                        .coordinator_keys
                        .iter()
                        .map(|key| {
                            Coordinator::default()
                                .with_key(key.clone())
                                .with_error_code(code)
                                .with_node_id((-1).into())
                                .with_port(-1)
                        })
                        .collect(),
                )
            } else {
                response
                    .with_error_code(code)
                    .with_node_id((-1).into())
                    .with_port(-1)
            })
        }
        Request::JoinGroup(request) => Response::JoinGroup(
            JoinGroupResponse::default()
                .with_error_code(code)
                .with_generation_id(-1)
                .with_protocol_name(None)
                .with_member_id(request.member_id.clone()),
        ),
        Request::Heartbeat(_) => Response::Heartbeat(HeartbeatResponse::default().with_error_code(code)),
        Request::LeaveGroup(request) if version >= 3 && OF_A_MEMBER.contains(&code) => Response::LeaveGroup(
            LeaveGroupResponse::default().with_members(
                request
                    .members
                    .iter()
                    .map(|member| {
                        MemberResponse::default()
                            .with_member_id(member.member_id.clone())
                            .with_group_instance_id(member.group_instance_id.clone())
                            .with_error_code(code)
                    })
                    .collect(),
            ),
        ),
        Request::LeaveGroup(_) => Response::LeaveGroup(LeaveGroupResponse::default().with_error_code(code)),
        Request::ConsumerGroupHeartbeat(_) => {
            Response::ConsumerGroupHeartbeat(ConsumerGroupHeartbeatResponse::default().with_error_code(code))
        }
        Request::ConsumerGroupDescribe(request) => {
            let refused = |id: &GroupId| {
                DescribedGroup::default()
                    .with_group_id(id.clone())
                    .with_error_code(code)
            };
            let groups = request.group_ids.iter().map(refused).collect();
            Response::ConsumerGroupDescribe(ConsumerGroupDescribeResponse::default().with_groups(groups))
        }
        Request::SaslHandshake(_) => {
            Response::SaslHandshake(SaslHandshakeResponse::default().with_error_code(code))
        }
        Request::SaslAuthenticate(_) => {
            Response::SaslAuthenticate(SaslAuthenticateResponse::default().with_error_code(code))
        }
        Request::SyncGroup(_) => Response::SyncGroup(SyncGroupResponse::default().with_error_code(code)),
        Request::ApiVersions(_) => {
            Response::ApiVersions(ApiVersionsResponse::default().with_error_code(code))
        }
        Request::CreateTopics(request) => Response::CreateTopics(
            CreateTopicsResponse::default().with_topics(
                request
                    .topics
                    .iter()
                    .map(|topic| {
                        CreatableTopicResult::default()
                            .with_name(topic.name.clone())
                            .with_error_code(code)
                            .with_configs(None)
                    })
                    .collect(),
            ),
        ),
        Request::DeleteTopics(request) => Response::DeleteTopics(
            DeleteTopicsResponse::default().with_responses(
                request
                    .topic_names
                    .iter()
                    .map(|name| {
                        DeletableTopicResult::default()
                            .with_name(Some(name.clone()))
                            .with_error_code(code)
                    })
                    .collect(),
            ),
        ),
        Request::DeleteRecords(request) => Response::DeleteRecords(
            DeleteRecordsResponse::default().with_topics(
                request
                    .topics
                    .iter()
                    .map(|topic| {
                        let refused = |index| {
                            DeleteRecordsPartitionResult::default()
                                .with_partition_index(index)
                                .with_error_code(code)
                                .with_low_watermark(-1)
                        };
                        DeleteRecordsTopicResult::default()
                            .with_name(topic.name.clone())
                            .with_partitions(
                                topic
                                    .partitions
                                    .iter()
                                    .map(|p| refused(p.partition_index))
                                    .collect(),
                            )
                    })
                    .collect(),
            ),
        ),
        Request::InitProducerId(_) => Response::InitProducerId(
            InitProducerIdResponse::default()
                .with_error_code(code)
                .with_producer_id((-1).into())
                .with_producer_epoch(-1),
        ),
        Request::OffsetForLeaderEpoch(request) => {
            let topic = |topic: &OffsetForLeaderTopic| {
                let refused = |index| {
                    EpochEndOffset::default()
                        .with_partition(index)
                        .with_error_code(code)
                };
                OffsetForLeaderTopicResult::default()
                    .with_topic(topic.topic.clone())
                    .with_partitions(topic.partitions.iter().map(|p| refused(p.partition)).collect())
            };
            let topics = request.topics.iter().map(topic).collect();
            Response::OffsetForLeaderEpoch(OffsetForLeaderEpochResponse::default().with_topics(topics))
        }
        Request::DescribeConfigs(request) => Response::DescribeConfigs(
            DescribeConfigsResponse::default().with_results(
                request
                    .resources
                    .iter()
                    .map(|resource| {
                        DescribeConfigsResult::default()
                            .with_error_code(code)
                            .with_resource_type(resource.resource_type)
                            .with_resource_name(resource.resource_name.clone())
                    })
                    .collect(),
            ),
        ),
    }
}

/// A partition of a Fetch that can't be read.
pub(crate) fn no_records(partition: i32, code: Code) -> PartitionData {
    PartitionData::default()
        .with_partition_index(partition)
        .with_error_code(code)
        .with_high_watermark(-1)
        .with_aborted_transactions(None)
}

fn refuse_offset_fetch(request: &OffsetFetchRequest, version: i16, code: Code) -> OffsetFetchResponse {
    let by_partition = version < 2 || OF_A_PARTITION.contains(&code);
    let mut response = OffsetFetchResponse::default();
    if version >= 8 {
        for group in &request.groups {
            let mut refused = OffsetFetchResponseGroup::default().with_group_id(group.group_id.clone());
            if by_partition {
                for topic in group.topics.iter().flatten() {
                    let partition = |index| {
                        OffsetFetchResponsePartitions::default()
                            .with_partition_index(index)
                            .with_committed_offset(-1)
                            .with_metadata(Some(StrBytes::new()))
                            .with_error_code(code)
                    };
                    refused.topics.push(
                        OffsetFetchResponseTopics::default()
                            .with_name(topic.name.clone())
                            .with_partitions(topic.partition_indexes.iter().map(|p| partition(*p)).collect()),
                    );
                }
            } else {
                refused.error_code = code;
            }
            response.groups.push(refused);
        }
        return response;
    }
    if !by_partition {
        return response.with_error_code(code);
    }
    for topic in request.topics.iter().flatten() {
        let partition = |index| {
            OffsetFetchResponsePartition::default()
                .with_partition_index(index)
                .with_committed_offset(-1)
                .with_metadata(Some(StrBytes::new()))
                .with_error_code(code)
        };
        response.topics.push(
            OffsetFetchResponseTopic::default()
                .with_name(topic.name.clone())
                .with_partitions(topic.partition_indexes.iter().map(|p| partition(*p)).collect()),
        );
    }
    response
}
