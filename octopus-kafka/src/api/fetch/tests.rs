use bytes::Buf;
use kafka_protocol::{
    messages::{
        self, BrokerId, ProducerId, TopicName,
        fetch_response::{
            AbortedTransaction, FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData,
        },
    },
    protocol::{Decodable, Encodable, StrBytes},
};
use proptest::prelude::*;

use super::*;

fn asked(topic: &str, partition: i32, fetch_offset: i64) -> FetchPartition {
    FetchPartition {
        topic: topic.to_owned(),
        topic_id: id(topic),
        partition,
        fetch_offset,
        current_leader_epoch: 9,
        partition_max_bytes: 1 << 20,
    }
}

fn id(topic: &str) -> Uuid {
    Uuid::from_u128(u128::from(crc32c::crc32c(topic.as_bytes())) + 1)
}

fn name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

/// What the request says to a decoder that is not ours.
fn read(version: i16, request: &FetchRequest) -> messages::FetchRequest {
    let mut out = BytesMut::new();
    request.encode(version, &mut out);
    let mut bytes = out.freeze();
    let read = messages::FetchRequest::decode(&mut bytes, version).unwrap();
    assert!(!bytes.has_remaining(), "version {version}");
    read
}

/// [FE-13] The bounds on bytes are said in every version.
#[test]
fn a_request_is_read_as_it_was_meant_in_every_version() {
    let request = FetchRequest {
        max_wait_ms: 480,
        min_bytes: 7,
        max_bytes: 1 << 20,
        partitions: vec![
            asked("ns-1.b", 0, 41),
            asked("ns-1.b", 3, 0),
            asked("ns-1.a", 0, i64::MAX),
        ],
    };
    for version in VERSIONS {
        let read = read(version, &request);
        assert_eq!(read.replica_id, BrokerId(-1));
        assert_eq!(
            (read.max_wait_ms, read.min_bytes, read.max_bytes),
            (480, 7, 1 << 20)
        );
        assert_eq!(read.isolation_level, 0);
        if version >= 7 {
            assert_eq!((read.session_id, read.session_epoch), (0, -1));
        }
        assert!(
            read.forgotten_topics_data.is_empty() && read.rack_id.is_empty() && read.cluster_id.is_none()
        );
        assert_eq!(read.topics.len(), 2);
        let mut partitions = Vec::new();
        for topic in read.topics {
            for partition in topic.partitions {
                let (topic, id) = (topic.topic.to_string(), topic.topic_id);
                assert_eq!(partition.last_fetched_epoch, -1);
                assert_eq!(partition.log_start_offset, -1);
                assert!(partition.unknown_tagged_fields.is_empty());
                partitions.push(FetchPartition {
                    topic,
                    topic_id: id,
                    partition: partition.partition,
                    fetch_offset: partition.fetch_offset,
                    current_leader_epoch: partition.current_leader_epoch,
                    partition_max_bytes: partition.partition_max_bytes,
                });
            }
        }
        let mut meant = request.partitions.clone();
        for partition in &mut meant {
            if version >= BY_ID {
                partition.topic.clear();
            } else {
                partition.topic_id = Uuid::nil();
            }
            if version < 9 {
                partition.current_leader_epoch = -1;
            }
        }
        assert_eq!(partitions, meant, "version {version}");
    }
}

#[test]
fn a_request_may_ask_for_nothing_and_for_many_topics() {
    for count in [0, 1, 126, 127, 128, 300] {
        let partitions = (0..count).map(|i| asked(&format!("topic-{i}"), 0, 1)).collect();
        let request = FetchRequest {
            max_wait_ms: 0,
            min_bytes: 1,
            max_bytes: 1,
            partitions,
        };
        for version in VERSIONS {
            assert_eq!(read(version, &request).topics.len(), count);
        }
    }
}

#[test]
fn a_name_that_is_too_long_is_cut() {
    let request = FetchRequest {
        max_wait_ms: 0,
        min_bytes: 1,
        max_bytes: 1,
        partitions: vec![asked(&"x".repeat(70_000), 0, 1)],
    };
    assert_eq!(read(11, &request).topics[0].topic.len(), 0x7fff);
}

fn answer(version: i16) -> messages::FetchResponse {
    let full = PartitionData::default()
        .with_partition_index(0)
        .with_error_code(6)
        .with_high_watermark(100)
        .with_last_stable_offset(90)
        .with_log_start_offset(if version >= 5 { 5 } else { -1 })
        .with_aborted_transactions(Some(vec![
            AbortedTransaction::default()
                .with_producer_id(ProducerId(4))
                .with_first_offset(50);
            3
        ]))
        .with_records(Some(Bytes::from_static(b"records")));
    let mut empty = PartitionData::default()
        .with_partition_index(3)
        .with_aborted_transactions(None)
        .with_records(None);
    if version >= FLEXIBLE {
        empty.current_leader = LeaderIdAndEpoch::default()
            .with_leader_id(BrokerId(2))
            .with_leader_epoch(8);
        empty.unknown_tagged_fields.insert(7, Bytes::from_static(b"new"));
    }
    let topic = |topic: &str, partitions: Vec<PartitionData>| {
        let answer = FetchableTopicResponse::default().with_partitions(partitions);
        if version >= BY_ID {
            answer.with_topic_id(id(topic))
        } else {
            answer.with_topic(name(topic))
        }
    };
    let mut response = messages::FetchResponse::default()
        .with_throttle_time_ms(12)
        .with_responses(vec![
            topic("ns-1.b", vec![full.clone(), empty]),
            topic("none", Vec::new()),
            topic("ns-1.a", vec![full]),
        ]);
    if version >= 7 {
        response.error_code = 70;
        response.session_id = 3;
    }
    if version >= FLEXIBLE {
        response
            .unknown_tagged_fields
            .insert(9, Bytes::from_static(b"newer"));
    }
    if version >= 16 {
        response.node_endpoints = vec![
            NodeEndpoint::default()
                .with_node_id(BrokerId(2))
                .with_host(StrBytes::from_static_str("b2"))
                .with_port(9092),
        ];
    }
    response
}

fn encoded(version: i16, response: &messages::FetchResponse) -> Bytes {
    let mut out = BytesMut::new();
    response.encode(&mut out, version).unwrap();
    out.freeze()
}

/// The answer as our own type, from another decoder's.
fn ours(response: messages::FetchResponse) -> FetchResponse {
    let mut partitions = Vec::new();
    for topic in response.responses {
        for part in topic.partitions {
            let leader = (part.current_leader.leader_id.0, part.current_leader.leader_epoch);
            partitions.push(FetchedPartition {
                topic: topic.topic.as_str().into(),
                topic_id: topic.topic_id,
                partition: part.partition_index,
                error_code: part.error_code,
                high_watermark: part.high_watermark,
                last_stable_offset: part.last_stable_offset,
                log_start_offset: part.log_start_offset,
                current_leader: Some(leader).filter(|(id, _)| *id >= 0),
                records: part.records.unwrap_or_default(),
            });
        }
    }
    let nodes = response.node_endpoints.into_iter();
    FetchResponse {
        throttle_time_ms: response.throttle_time_ms,
        error_code: response.error_code,
        partitions,
        nodes: nodes
            .map(|node| (node.node_id.0, node.host.as_str().into(), node.port))
            .collect(),
    }
}

#[test]
fn an_answer_is_read_as_it_was_meant_in_every_version() {
    for version in VERSIONS {
        let read = FetchResponse::decode(version, encoded(version, &answer(version))).unwrap();
        assert_eq!(read, ours(answer(version)), "version {version}");
        assert_eq!(read.partitions.len(), 3);
        assert_eq!(read.partitions[1].current_leader.is_some(), version >= FLEXIBLE);
        assert_eq!(read.nodes.len(), usize::from(version >= 16));
    }
}

#[test]
fn records_are_slices_of_the_frame() {
    let frame = encoded(12, &answer(12));
    let read = FetchResponse::decode(12, frame.clone()).unwrap();
    let records = &read.partitions[0].records;
    assert_eq!(frame.slice_ref(records).as_ptr(), records.as_ptr());
}

#[test]
fn an_answer_that_ends_too_early_or_too_late_is_malformed() {
    for version in VERSIONS {
        let frame = encoded(version, &answer(version));
        for end in 0..frame.len() {
            let read = FetchResponse::decode(version, frame.slice(..end));
            assert_eq!(read, Err(Malformed), "version {version}, {end} bytes");
        }
        let longer = [&frame[..], &[0]].concat();
        assert_eq!(FetchResponse::decode(version, longer.into()), Err(Malformed));
    }
}

/// [KF-11]
#[test]
fn a_count_that_the_bytes_cannot_hold_is_malformed() {
    let compact = [&[0; 10][..], &[0xff, 0xff, 0xff, 0xff, 0x0f]].concat();
    let classic = [&[0; 10][..], &i32::MAX.to_be_bytes()].concat();
    let negative = [&[0; 10][..], &(-2i32).to_be_bytes()].concat();
    let null = [&[0; 10][..], &(-1i32).to_be_bytes()].concat();
    for version in VERSIONS {
        for frame in [&compact, &classic, &negative, &null] {
            let read = FetchResponse::decode(version, frame.clone().into());
            assert_eq!(read, Err(Malformed), "version {version}");
        }
    }
    let too_long_a_varint = [&[0; 10][..], &[0xff, 0xff, 0xff, 0xff, 0x10]].concat();
    assert_eq!(
        FetchResponse::decode(12, too_long_a_varint.into()),
        Err(Malformed)
    );
}

#[test]
fn versions_that_are_not_spoken_are_malformed() {
    for version in [i16::MIN, 0, 3, 18] {
        assert_eq!(
            FetchResponse::decode(version, Bytes::from_static(&[0; 64])),
            Err(Malformed)
        );
    }
}

proptest! {
    /// A frame with some bytes changed is read as another decoder reads it, or refused.
    #[test]
    fn a_changed_answer_is_read_alike_or_refused(
        version in VERSIONS,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        // The other decoder believes the counts that ours skips.
        let mut frame = encoded(version, &answer(version).with_node_endpoints(Vec::new())).to_vec();
        for (at, byte) in changes {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        // Once ours accepts a frame, no count in it is past its bytes, and the other can't run away.
        if let Ok(read) = FetchResponse::decode(version, frame.clone().into())
            && let Ok(other) = messages::FetchResponse::decode(&mut Bytes::from(frame), version)
        {
            prop_assert_eq!(read, ours(other));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(version in VERSIONS, frame in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = FetchResponse::decode(version, frame.into());
    }
}
