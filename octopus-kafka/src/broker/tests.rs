//! The machine as a client sees it, frame by frame, and the shell over real sockets.

use std::time::{Duration, Instant};

use bytes::{BufMut as _, Bytes, BytesMut};
use kafka_protocol::{
    messages::{
        ApiKey, ApiVersionsRequest, ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest,
        CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest, DescribeConfigsRequest, FetchRequest,
        FindCoordinatorRequest, GroupId, HeartbeatRequest, InitProducerIdRequest, JoinGroupRequest,
        LeaveGroupRequest, ListOffsetsRequest, MetadataRequest, OffsetCommitRequest, OffsetFetchRequest,
        OffsetForLeaderEpochRequest, ProduceRequest, RequestHeader, ResponseHeader, SaslAuthenticateRequest,
        SaslHandshakeRequest, SyncGroupRequest,
        create_topics_request::{CreatableTopic, CreatableTopicConfig},
        delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic},
        describe_configs_request::DescribeConfigsResource,
        fetch_request::{FetchPartition, FetchTopic},
        join_group_request::JoinGroupRequestProtocol,
        leave_group_request::MemberIdentity,
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
        metadata_request::MetadataRequestTopic,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics},
        offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic},
        produce_request::{PartitionProduceData, TopicProduceData},
        sync_group_request::SyncGroupRequestAssignment,
    },
    protocol::{Decodable as _, Encodable as _},
};

use uuid::Uuid;

use super::{
    Broker, Config, Node,
    api::{Request, Response, VERSIONS, text},
    code,
    fault::{Faults, always, first, nth},
    guard,
    id::ConnectionId,
    machine::{Machine, Output},
    topic::wire_name,
};
use crate::records::{BatchWriter, Compression};

mod consumers;
mod faults;
mod hostile;
mod kept;
mod leader;
mod sasl;
mod shell;
mod versions;

/// A machine and a clock that is moved by hand.
#[derive(Debug)]
pub(super) struct World {
    pub(super) machine: Machine,
    pub(super) faults: Faults,
    pub(super) now: Instant,
    correlation_id: i32,
}

impl World {
    pub(super) fn new() -> Self {
        Self::with(&Config::default())
    }

    pub(super) fn with(config: &Config) -> Self {
        let faults = Faults::default();
        let node = Node {
            id: 1,
            host: "broker.test".to_owned(),
            port: 9092,
        };
        Self {
            machine: Machine::new(config.settings(node), faults.clone(), 7),
            faults,
            now: tokio::time::Instant::now().into_std(),
            correlation_id: 0,
        }
    }

    pub(super) fn topic(&mut self, name: &str) -> Uuid {
        self.machine.add_topic(name, 1, Default::default()).unwrap()
    }

    pub(super) fn connect(&mut self) -> ConnectionId {
        self.machine.handle_connect()
    }

    /// Hands a request over as a client of this version encodes it, and returns what comes out.
    pub(super) fn send(&mut self, id: ConnectionId, version: i16, request: &Request) -> Vec<Output> {
        self.correlation_id += 1;
        let body = request.encode(version).expect("a request of ours encodes");
        assert!(guard::fits(request.api(), version, &body), "{request:?}");
        let frame = frame(request.api(), version, self.correlation_id, &body);
        self.machine.handle_frame(id, frame, self.now);
        self.outputs()
    }

    pub(super) fn wait(&mut self, by: Duration) -> Vec<Output> {
        self.now += by;
        while let Some(at) = self.machine.poll_timeout()
            && at <= self.now
        {
            self.machine.handle_timeout(at);
        }
        self.outputs()
    }

    pub(super) fn outputs(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.machine.poll_output()).collect()
    }

    /// A request that is answered at once.
    pub(super) fn ask(&mut self, id: ConnectionId, version: i16, request: &Request) -> Response {
        let outputs = self.send(id, version, request);
        let correlation_id = self.correlation_id;
        let response = answer_in(&outputs, id, request.api(), version);
        let (answered, response) = response.unwrap_or_else(|| panic!("{request:?}: {outputs:?}"));
        assert_eq!(answered, correlation_id);
        assert!(outputs.contains(&Output::Ready(id)));
        response
    }
}

pub(super) fn frame(api: ApiKey, version: i16, correlation_id: i32, body: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    RequestHeader::default()
        .with_request_api_key(api as i16)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(text("tester")))
        .encode(&mut out, api.request_header_version(version))
        .unwrap();
    out.put_slice(body);
    out.freeze()
}

/// The answer to a connection, with its correlation id.
pub(super) fn answer_in(
    outputs: &[Output],
    id: ConnectionId,
    api: ApiKey,
    version: i16,
) -> Option<(i32, Response)> {
    let bytes = outputs.iter().find_map(|output| match output {
        Output::Send(to, bytes) if *to == id => Some(bytes.clone()),
        Output::Send(..) | Output::Ready(_) | Output::Close(_) => None,
    })?;
    let mut bytes = bytes;
    let length = bytes.split_to(4);
    assert_eq!(
        bytes.len(),
        i32::from_be_bytes(length[..].try_into().unwrap()) as usize
    );
    let header = ResponseHeader::decode(&mut bytes, api.response_header_version(version)).unwrap();
    let response = Response::decode(api, version, &mut bytes).expect("a client can read it");
    assert!(bytes.is_empty(), "bytes are left over");
    Some((header.correlation_id, response))
}

/// A batch of these values, without keys, all of the timestamp.
pub(super) fn batch(values: &[&[u8]], timestamp: i64) -> BytesMut {
    let mut writer = BatchWriter::new(Compression::None);
    for value in values {
        writer.push(timestamp, None, Some(value), &[]);
    }
    BytesMut::from(&writer.finish()[..])
}

/// Makes a batch's checksum right.
pub(super) fn seal(batch: &mut BytesMut) {
    let crc = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
}

pub(super) fn produce(topic: &str, records: &[u8]) -> Request {
    let data = PartitionProduceData::default().with_records(Some(Bytes::copy_from_slice(records)));
    let topic = TopicProduceData::default()
        .with_name(wire_name(topic))
        .with_partition_data(vec![data]);
    let request = ProduceRequest::default()
        .with_acks(-1)
        .with_timeout_ms(1000)
        .with_topic_data(vec![topic]);
    Request::Produce(request)
}

pub(super) fn fetch(topics: &[&str], offset: i64, max_wait_ms: i32) -> FetchRequest {
    let topic = |name: &&str| {
        let partition = FetchPartition::default()
            .with_fetch_offset(offset)
            .with_partition_max_bytes(1 << 20);
        FetchTopic::default()
            .with_topic(wire_name(name))
            .with_partitions(vec![partition])
    };
    FetchRequest::default()
        .with_max_wait_ms(max_wait_ms)
        .with_min_bytes(1)
        .with_max_bytes(1 << 20)
        .with_session_epoch(-1)
        .with_topics(topics.iter().map(topic).collect())
}

/// A fetch of one topic that names it by its id.
pub(super) fn by_id(mut request: FetchRequest, id: Uuid) -> FetchRequest {
    request.topics[0].topic = wire_name("");
    request.topics[0].topic_id = id;
    request
}

pub(super) fn metadata(topic: &str, create: bool) -> Request {
    let topic = MetadataRequestTopic::default().with_name(Some(wire_name(topic)));
    let request = MetadataRequest::default()
        .with_topics(Some(vec![topic]))
        .with_allow_auto_topic_creation(create);
    Request::Metadata(request)
}

pub(super) fn commit(group: &str, topics: &[&str], offset: i64) -> OffsetCommitRequest {
    let topic = |name: &&str| {
        let partition = OffsetCommitRequestPartition::default().with_committed_offset(offset);
        OffsetCommitRequestTopic::default()
            .with_name(wire_name(name))
            .with_partitions(vec![partition])
    };
    OffsetCommitRequest::default()
        .with_group_id(GroupId(text(group)))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(topics.iter().map(topic).collect())
}

/// Error, offsets and bytes of the first partition.
pub(super) fn fetched(response: &Response) -> (i16, i64, usize) {
    let Response::Fetch(response) = response else {
        panic!("{response:?}");
    };
    let data = &response.responses[0].partitions[0];
    (
        data.error_code,
        data.high_watermark,
        data.records.as_ref().map_or(0, Bytes::len),
    )
}

pub(super) fn produced(response: &Response) -> (i16, i64) {
    let Response::Produce(response) = response else {
        panic!("{response:?}");
    };
    let partition = &response.responses[0].partition_responses[0];
    (partition.error_code, partition.base_offset)
}

#[test]
fn a_fetch_waits_for_records_and_is_answered_with_them() {
    let mut world = World::new();
    world.topic("t");
    let (reader, writer) = (world.connect(), world.connect());
    let request = Request::Fetch(fetch(&["t"], 0, 500));
    assert_eq!(world.send(reader, 12, &request), []);
    let outputs = world.send(writer, 9, &produce("t", &batch(&[b"x"], 5)));
    let (_, response) = answer_in(&outputs, reader, ApiKey::Fetch, 12).unwrap();
    assert_eq!(fetched(&response), (0, 1, batch(&[b"x"], 5).len()));
    assert_eq!(world.wait(Duration::from_secs(1)), [], "it is answered once");
}

#[test]
fn a_fetch_of_nothing_ends_with_its_wait() {
    let mut world = World::new();
    world.topic("t");
    let reader = world.connect();
    let request = Request::Fetch(fetch(&["t"], 0, 500));
    assert_eq!(world.send(reader, 12, &request), []);
    assert_eq!(world.wait(Duration::from_millis(499)), []);
    let outputs = world.wait(Duration::from_millis(1));
    let (_, response) = answer_in(&outputs, reader, ApiKey::Fetch, 12).unwrap();
    assert_eq!(fetched(&response), (0, 0, 0));
}

#[test]
fn min_bytes_holds_a_fetch_back() {
    let mut world = World::new();
    world.topic("t");
    let (reader, writer) = (world.connect(), world.connect());
    let size = batch(&[b"x"], 5).len();
    let two = i32::try_from(2 * size).unwrap();
    let request = Request::Fetch(fetch(&["t"], 0, 500).with_min_bytes(two));
    world.send(reader, 11, &request);
    let outputs = world.send(writer, 9, &produce("t", &batch(&[b"x"], 5)));
    assert!(answer_in(&outputs, reader, ApiKey::Fetch, 11).is_none());
    let outputs = world.send(writer, 9, &produce("t", &batch(&[b"x"], 5)));
    let (_, response) = answer_in(&outputs, reader, ApiKey::Fetch, 11).unwrap();
    assert_eq!(fetched(&response), (0, 2, 2 * size));
}

#[test]
fn a_deleted_topic_fails_the_fetches_that_wait_for_it() {
    let mut world = World::new();
    world.topic("t");
    let reader = world.connect();
    world.send(reader, 12, &Request::Fetch(fetch(&["t"], 0, 500)));
    let now = world.now;
    world.machine.delete_topic("t", now).unwrap();
    let outputs = world.outputs();
    let (_, response) = answer_in(&outputs, reader, ApiKey::Fetch, 12).unwrap();
    assert_eq!(fetched(&response).0, code::UNKNOWN_TOPIC_OR_PARTITION);
}

#[test]
fn a_topic_is_fetched_by_its_id_as_long_as_it_has_it() {
    let mut world = World::new();
    let old = world.topic("t");
    let id = world.connect();
    world.ask(id, 9, &produce("t", &batch(&[b"x"], 5)));
    let asked = |topic_id, wait| Request::Fetch(by_id(fetch(&["t"], 0, wait), topic_id));
    let size = batch(&[b"x"], 5).len();
    assert_eq!(fetched(&world.ask(id, 17, &asked(old, 500))), (0, 1, size));
    let now = world.now;
    world.machine.delete_topic("t", now).unwrap();
    let new = world.topic("t");
    let gone = fetched(&world.ask(id, 17, &asked(old, 500)));
    assert_eq!(gone.0, code::UNKNOWN_TOPIC_ID);
    assert_eq!(fetched(&world.ask(id, 17, &asked(new, 0))), (0, 0, 0));
    let Request::Fetch(kept) = &world.machine.requests.back().unwrap().request else {
        unreachable!();
    };
    assert_eq!(kept.topics[0].topic.as_str(), "t", "a test sees its name as well");
}

#[test]
fn a_fetch_with_a_session_of_another_broker_is_refused() {
    let mut world = World::new();
    world.topic("t");
    let id = world.connect();
    let mut top_level = |session_id, epoch| {
        let request = fetch(&["t"], 0, 0)
            .with_session_id(session_id)
            .with_session_epoch(epoch);
        let Response::Fetch(response) = world.ask(id, 11, &Request::Fetch(request)) else {
            unreachable!();
        };
        (response.error_code, response.session_id)
    };
    assert_eq!(top_level(7, 1), (code::FETCH_SESSION_ID_NOT_FOUND, 0));
    assert_eq!(top_level(7, 0), (0, 0), "no session is given out");
    assert_eq!(top_level(0, -1), (0, 0));
}

#[test]
fn the_limits_of_a_fetch_hold_over_its_partitions() {
    let mut world = World::new();
    world.topic("a");
    world.topic("b");
    let id = world.connect();
    let one = batch(&[&[b'x'; 1000]], 5);
    for topic in ["a", "a", "b"] {
        world.ask(id, 9, &produce(topic, &one));
    }
    let sizes = |response: Response| -> Vec<usize> {
        let Response::Fetch(response) = response else {
            panic!("{response:?}");
        };
        let data = response
            .responses
            .iter()
            .map(|t| t.partitions[0].records.as_ref());
        data.map(|records| records.map_or(0, Bytes::len)).collect()
    };
    let limited = |max_bytes| Request::Fetch(fetch(&["a", "b"], 0, 0).with_max_bytes(max_bytes));
    let size = i32::try_from(one.len()).unwrap();
    assert_eq!(
        sizes(world.ask(id, 12, &limited(1))),
        [one.len(), 0],
        "the first is whole"
    );
    assert_eq!(sizes(world.ask(id, 12, &limited(2 * size))), [2 * one.len(), 0]);
    assert_eq!(
        sizes(world.ask(id, 12, &limited(3 * size))),
        [2 * one.len(), one.len()]
    );
    let cut = sizes(world.ask(id, 12, &limited(size + 10)));
    assert_eq!(
        cut,
        [one.len() + 10, 0],
        "a last batch is cut short, as Kafka cuts it"
    );
}

#[test]
fn topics_are_created_only_by_who_may_and_asks_to() {
    let mut world = World::new();
    let id = world.connect();
    let exists = |world: &World| world.machine.topics.find("t").is_some();
    world.ask(id, 9, &metadata("t", true));
    assert!(!exists(&world));
    let mut world = World::with(&Config {
        auto_create: true,
        ..Config::default()
    });
    let id = world.connect();
    world.ask(id, 9, &metadata("t", false));
    assert!(!exists(&world));
    world.ask(id, 9, &metadata("t", true));
    assert!(exists(&world));
}

#[test]
fn what_is_no_request_closes_the_connection() {
    for bytes in [
        &b""[..],
        b"GET / HTTP/1.1\r\n",
        &[0, 18, 0, 0],
        // A Metadata of more topics than there are bytes.
        &[0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff],
        // An unknown API, one that is not served, and a version that is not.
        &[0x7f, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff],
        &[0, 24, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0, 0, 0],
        &[0, 1, 0, 3, 0, 0, 0, 1, 0xff, 0xff],
    ] {
        let mut world = World::new();
        let id = world.connect();
        world
            .machine
            .handle_frame(id, Bytes::copy_from_slice(bytes), world.now);
        assert_eq!(world.outputs(), [Output::Close(id)], "{bytes:?}");
    }
}

#[test]
fn an_unknown_version_of_api_versions_is_answered_in_version_0() {
    let mut world = World::new();
    let id = world.connect();
    let body = Request::ApiVersions(ApiVersionsRequest::default())
        .encode(3)
        .unwrap();
    let mut frame = BytesMut::from(&frame(ApiKey::ApiVersions, 3, 9, &body)[..]);
    frame[2..4].copy_from_slice(&99i16.to_be_bytes());
    world.machine.handle_frame(id, frame.freeze(), world.now);
    let outputs = world.outputs();
    let (correlation_id, response) = answer_in(&outputs, id, ApiKey::ApiVersions, 0).unwrap();
    let Response::ApiVersions(response) = response else {
        panic!("{response:?}");
    };
    assert_eq!(
        (correlation_id, response.error_code),
        (9, code::UNSUPPORTED_VERSION)
    );
    assert_eq!(response.api_keys.len(), VERSIONS.len());
}

#[test]
fn a_produce_without_acknowledgement_has_no_answer() {
    let mut world = World::new();
    world.topic("t");
    let id = world.connect();
    let Request::Produce(request) = produce("t", &batch(&[b"x"], 5)) else {
        unreachable!();
    };
    let outputs = world.send(id, 9, &Request::Produce(request.with_acks(0)));
    assert_eq!(outputs, [Output::Ready(id)]);
    assert_eq!(world.machine.topics.log("t", 0).unwrap().end(), 1);
}
