//! Where each API says an error: refusals made from requests, for one topic or for all.

use kafka_protocol::messages::{
    ApiVersionsResponse, CreateTopicsResponse, DeleteRecordsResponse, DeleteTopicsResponse,
    DescribeConfigsResponse, FetchResponse, FindCoordinatorResponse, HeartbeatResponse,
    InitProducerIdResponse, JoinGroupResponse, LeaveGroupResponse, ListOffsetsResponse, MetadataResponse,
    OffsetCommitResponse, OffsetFetchResponse, OffsetForLeaderEpochResponse, ProduceResponse,
    SyncGroupResponse,
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

/// Whether a request names a topic.
pub(crate) fn names(request: &Request, topic: &str) -> bool {
    take_topic(&mut request.clone(), topic).is_some()
}

/// Takes one topic's part out of a request. `None` where it has none, or its API is not about topics.
pub(crate) fn take_topic(request: &mut Request, topic: &str) -> Option<Request> {
    macro_rules! part {
        ($api:ident, $from:expr, $field:ident, |$item:ident| $name:expr) => {{
            let taken: Vec<_> = $from
                .$field
                .extract_if(.., |$item| $name.as_str() == topic)
                .collect();
            if taken.is_empty() {
                return None;
            }
            let mut part = $from.clone();
            part.$field = taken;
            Request::$api(part)
        }};
    }
    let part = match request {
        Request::Produce(from) => part!(Produce, from, topic_data, |t| t.name),
        Request::Fetch(from) => part!(Fetch, from, topics, |t| t.topic),
        Request::ListOffsets(from) => part!(ListOffsets, from, topics, |t| t.name),
        Request::OffsetCommit(from) => part!(OffsetCommit, from, topics, |t| t.name),
        Request::CreateTopics(from) => part!(CreateTopics, from, topics, |t| t.name),
        Request::DeleteTopics(from) => part!(DeleteTopics, from, topic_names, |t| t),
        Request::DeleteRecords(from) => part!(DeleteRecords, from, topics, |t| t.name),
        Request::OffsetForLeaderEpoch(from) => part!(OffsetForLeaderEpoch, from, topics, |t| t.topic),
        Request::DescribeConfigs(from) => part!(DescribeConfigs, from, resources, |r| r.resource_name),
        Request::Metadata(from) => {
            let named = |t: &mut kafka_protocol::messages::metadata_request::MetadataRequestTopic| {
                t.name.as_ref().is_some_and(|name| name.as_str() == topic)
            };
            let taken: Vec<_> = from.topics.as_mut()?.extract_if(.., named).collect();
            if taken.is_empty() {
                return None;
            }
            let mut part = from.clone();
            part.topics = Some(taken);
            Request::Metadata(part)
        }
        Request::OffsetFetch(from) => {
            let mut part = from.clone();
            let mut found = false;
            if let Some(topics) = &mut from.topics {
                let taken: Vec<_> = topics.extract_if(.., |t| t.name.as_str() == topic).collect();
                found |= !taken.is_empty();
                part.topics = Some(taken);
            }
            part.groups.clear();
            for group in &mut from.groups {
                let Some(topics) = &mut group.topics else { continue };
                let taken: Vec<_> = topics.extract_if(.., |t| t.name.as_str() == topic).collect();
                if !taken.is_empty() {
                    found = true;
                    part.groups.push(group.clone().with_topics(Some(taken)));
                }
            }
            if !found {
                return None;
            }
            Request::OffsetFetch(part)
        }
        Request::ApiVersions(_)
        | Request::FindCoordinator(_)
        | Request::Heartbeat(_)
        | Request::InitProducerId(_)
        | Request::JoinGroup(_)
        | Request::LeaveGroup(_)
        | Request::SyncGroup(_) => return None,
    };
    Some(part)
}

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

/// Adds the topics of a second answer of the same API to the first.
pub(crate) fn merge(into: &mut Response, other: Response) {
    match (into, other) {
        (Response::Produce(into), Response::Produce(other)) => into.responses.extend(other.responses),
        (Response::Fetch(into), Response::Fetch(other)) => into.responses.extend(other.responses),
        (Response::ListOffsets(into), Response::ListOffsets(other)) => into.topics.extend(other.topics),
        (Response::Metadata(into), Response::Metadata(other)) => into.topics.extend(other.topics),
        (Response::OffsetCommit(into), Response::OffsetCommit(other)) => into.topics.extend(other.topics),
        (Response::OffsetFetch(into), Response::OffsetFetch(other)) => {
            into.topics.extend(other.topics);
            for group in other.groups {
                if let Some(same) = into.groups.iter_mut().find(|g| g.group_id == group.group_id) {
                    same.topics.extend(group.topics);
                } else {
                    into.groups.push(group);
                }
            }
        }
        (Response::CreateTopics(into), Response::CreateTopics(other)) => into.topics.extend(other.topics),
        (Response::DeleteTopics(into), Response::DeleteTopics(other)) => {
            into.responses.extend(other.responses)
        }
        (Response::DeleteRecords(into), Response::DeleteRecords(other)) => into.topics.extend(other.topics),
        (Response::OffsetForLeaderEpoch(into), Response::OffsetForLeaderEpoch(other)) => {
            into.topics.extend(other.topics);
        }
        (Response::DescribeConfigs(into), Response::DescribeConfigs(other)) => {
            into.results.extend(other.results)
        }
        // The other APIs name no topics, and two APIs never answer one request.
        (_, _) => {}
    }
}

fn refuse_offset_fetch(
    request: &kafka_protocol::messages::OffsetFetchRequest,
    version: i16,
    code: Code,
) -> OffsetFetchResponse {
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
