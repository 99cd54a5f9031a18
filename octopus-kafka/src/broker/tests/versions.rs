//! Every advertised version of every API, written by a client's encoders and read by its decoders.

use super::*;

#[test]
fn every_version_of_every_api_is_answered() {
    for (api, versions) in VERSIONS {
        for version in versions.clone() {
            if *api == ApiKey::Produce && version < 3 {
                continue;
            }
            let mut world = World::new();
            let topic_id = world.topic("t");
            let id = world.connect();
            world.ask(id, 9, &produce("t", &batch(&[b"x"], 5)));
            for request in requests(*api, version, topic_id) {
                let outputs = world.send(id, version, &request);
                let outputs = if outputs.is_empty() {
                    world.wait(Duration::from_secs(11))
                } else {
                    outputs
                };
                let answer = answer_in(&outputs, id, *api, version);
                let (_, response) = answer.unwrap_or_else(|| panic!("{version}: {request:?}: {outputs:?}"));
                assert_eq!(response.api(), *api);
            }
        }
    }
}

#[test]
fn every_version_of_every_api_is_refused_where_it_says_errors() {
    for (api, versions) in VERSIONS {
        for version in versions.clone() {
            if *api == ApiKey::Produce && version < 3 {
                continue;
            }
            for code in [29, 16, 25, 70] {
                let mut world = World::new();
                let topic_id = world.topic("t");
                world.faults.on(*api, always()).error(code);
                let id = world.connect();
                for request in requests(*api, version, topic_id) {
                    let response = world.ask(id, version, &request);
                    let debug = format!("{response:?}");
                    assert!(
                        debug.contains(&format!("error_code: {code}")),
                        "{version}: {debug}"
                    );
                }
            }
        }
    }
}

/// Older and newer ways to say the same, with what could be said in each version.
#[expect(clippy::wildcard_enum_match_arm, reason = "an API that is not served")]
pub(super) fn requests(api: ApiKey, version: i16, topic_id: Uuid) -> Vec<Request> {
    let group = || GroupId(text("g"));
    match api {
        ApiKey::Produce => vec![
            produce("t", &batch(&[b"y"], 5)),
            produce("missing", &batch(&[b"y"], 5)),
        ],
        ApiKey::Fetch if version >= 13 => {
            let known = fetch(&[""], 0, 0);
            vec![
                Request::Fetch(by_id(known.clone(), topic_id)),
                Request::Fetch(by_id(known, Uuid::from_u128(9))),
            ]
        }
        ApiKey::Fetch => vec![
            Request::Fetch(fetch(&["t"], 0, 0)),
            Request::Fetch(fetch(&["t"], 9, 0)),
            Request::Fetch(fetch(&["t"], 1, 10)),
            Request::Fetch(fetch(&["missing"], 0, 0).with_isolation_level(1)),
        ],
        ApiKey::ListOffsets => [-1, -2, 0, 99]
            .map(|timestamp| {
                let partition = ListOffsetsPartition::default().with_timestamp(timestamp);
                let topic = ListOffsetsTopic::default()
                    .with_name(wire_name("t"))
                    .with_partitions(vec![partition]);
                Request::ListOffsets(ListOffsetsRequest::default().with_topics(vec![topic]))
            })
            .into(),
        ApiKey::Metadata if version < 4 => vec![metadata("t", true), metadata("missing", true)],
        ApiKey::Metadata => vec![
            metadata("t", false),
            metadata("missing", true),
            metadata("no good", true),
        ],
        ApiKey::OffsetCommit => vec![
            Request::OffsetCommit(commit("g", &["t"], 1)),
            Request::OffsetCommit(commit("g", &["t", "missing"], 1)),
        ],
        ApiKey::OffsetFetch if version >= 8 => {
            let topic = OffsetFetchRequestTopics::default()
                .with_name(wire_name("t"))
                .with_partition_indexes(vec![0, 7]);
            let asked = OffsetFetchRequestGroup::default()
                .with_group_id(group())
                .with_topics(Some(vec![topic]));
            vec![Request::OffsetFetch(
                OffsetFetchRequest::default().with_groups(vec![asked]),
            )]
        }
        ApiKey::OffsetFetch => {
            let topic = OffsetFetchRequestTopic::default()
                .with_name(wire_name("t"))
                .with_partition_indexes(vec![0, 7]);
            let request = OffsetFetchRequest::default()
                .with_group_id(group())
                .with_topics(Some(vec![topic]));
            vec![Request::OffsetFetch(request)]
        }
        ApiKey::FindCoordinator if version >= 4 => {
            let request = FindCoordinatorRequest::default().with_coordinator_keys(vec![text("g"), text("h")]);
            vec![
                Request::FindCoordinator(request.clone()),
                Request::FindCoordinator(request.with_key_type(1)),
            ]
        }
        ApiKey::FindCoordinator => vec![Request::FindCoordinator(
            FindCoordinatorRequest::default().with_key(text("g")),
        )],
        ApiKey::JoinGroup => vec![
            join(version, "", None),
            // A static member, and its successor: from version 9 on it must not assign.
            join(version, "", (version >= 5).then_some("i")),
            join(version, "stranger", None),
        ],
        ApiKey::Heartbeat => vec![Request::Heartbeat(
            HeartbeatRequest::default().with_group_id(group()),
        )],
        ApiKey::LeaveGroup if version >= 3 => {
            let member = MemberIdentity::default().with_member_id(text("m"));
            let request = LeaveGroupRequest::default()
                .with_group_id(group())
                .with_members(vec![member]);
            vec![Request::LeaveGroup(request)]
        }
        ApiKey::LeaveGroup => {
            let request = LeaveGroupRequest::default().with_group_id(group());
            vec![Request::LeaveGroup(request.with_member_id(text("m")))]
        }
        ApiKey::SyncGroup => {
            let given = SyncGroupRequestAssignment::default()
                .with_member_id(text("m"))
                .with_assignment(Bytes::from_static(b"a"));
            let request = SyncGroupRequest::default()
                .with_group_id(group())
                .with_assignments(vec![given]);
            vec![Request::SyncGroup(request)]
        }
        ApiKey::ApiVersions => {
            let request = ApiVersionsRequest::default();
            vec![Request::ApiVersions(if version >= 3 {
                request
                    .with_client_software_name(text("octopus"))
                    .with_client_software_version(text("0.1.0"))
            } else {
                request
            })]
        }
        ApiKey::CreateTopics => {
            let config = CreatableTopicConfig::default()
                .with_name(text("max.message.bytes"))
                .with_value(Some(text("5000")));
            let topic = |name| {
                CreatableTopic::default()
                    .with_name(wire_name(name))
                    .with_num_partitions(2)
                    .with_replication_factor(1)
                    .with_configs(vec![config.clone()])
            };
            vec![Request::CreateTopics(
                CreateTopicsRequest::default().with_topics(vec![topic("new"), topic("t")]),
            )]
        }
        ApiKey::DeleteTopics => vec![Request::DeleteTopics(
            DeleteTopicsRequest::default().with_topic_names(vec![wire_name("t"), wire_name("missing")]),
        )],
        ApiKey::DeleteRecords => {
            let partition = DeleteRecordsPartition::default().with_offset(1);
            let topic = DeleteRecordsTopic::default()
                .with_name(wire_name("t"))
                .with_partitions(vec![partition]);
            vec![Request::DeleteRecords(
                DeleteRecordsRequest::default().with_topics(vec![topic]),
            )]
        }
        ApiKey::ConsumerGroupHeartbeat => {
            let request = ConsumerGroupHeartbeatRequest::default()
                .with_group_id(GroupId(text("new")))
                .with_member_id(text("m"))
                .with_rebalance_timeout_ms(1000)
                .with_subscribed_topic_names(Some(vec![wire_name("t")]))
                .with_topic_partitions(Some(Vec::new()));
            vec![Request::ConsumerGroupHeartbeat(if version >= 1 {
                request.with_subscribed_topic_regex(Some(text("t.*")))
            } else {
                request
            })]
        }
        ApiKey::ConsumerGroupDescribe => vec![Request::ConsumerGroupDescribe(
            ConsumerGroupDescribeRequest::default().with_group_ids(vec![group()]),
        )],
        ApiKey::SaslHandshake => vec![Request::SaslHandshake(
            SaslHandshakeRequest::default().with_mechanism(text("PLAIN")),
        )],
        ApiKey::SaslAuthenticate => vec![Request::SaslAuthenticate(
            SaslAuthenticateRequest::default().with_auth_bytes(Bytes::from_static(b"\0u\0p")),
        )],
        ApiKey::InitProducerId => vec![Request::InitProducerId(
            InitProducerIdRequest::default().with_transactional_id(None),
        )],
        ApiKey::OffsetForLeaderEpoch => {
            let partition = OffsetForLeaderPartition::default();
            let topic = |name| {
                OffsetForLeaderTopic::default()
                    .with_topic(wire_name(name))
                    .with_partitions(vec![partition.clone()])
            };
            let request = OffsetForLeaderEpochRequest::default();
            vec![Request::OffsetForLeaderEpoch(
                request.with_topics(vec![topic("t"), topic("missing")]),
            )]
        }
        ApiKey::DescribeConfigs => {
            let resource = |kind, name| {
                DescribeConfigsResource::default()
                    .with_resource_type(kind)
                    .with_resource_name(text(name))
                    .with_configuration_keys(None)
            };
            vec![Request::DescribeConfigs(
                DescribeConfigsRequest::default().with_resources(vec![
                    resource(2, "t"),
                    resource(4, "1"),
                    resource(2, "missing"),
                ]),
            )]
        }
        _ => panic!("{api:?} has no request here"),
    }
}

fn join(version: i16, member: &str, instance: Option<&str>) -> Request {
    let protocol = JoinGroupRequestProtocol::default()
        .with_name(text("range"))
        .with_metadata(Bytes::from_static(b"m"));
    let request = JoinGroupRequest::default()
        .with_group_id(GroupId(text(instance.unwrap_or("g"))))
        .with_session_timeout_ms(10_000)
        .with_member_id(text(member))
        .with_group_instance_id(instance.map(text))
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol]);
    Request::JoinGroup(if version >= 1 {
        request.with_rebalance_timeout_ms(10_000)
    } else {
        request
    })
}
