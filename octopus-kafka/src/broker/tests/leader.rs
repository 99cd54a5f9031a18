//! Leader epochs: who is fenced, where logs part, and who is told of the leader.

use kafka_protocol::messages::{FetchResponse, fetch_response::PartitionData};

use super::*;

/// A fetch by a client that takes `current` for the leader's epoch, and whose last record is of epoch `last`.
fn fetch_of(id: Uuid, offset: i64, current: i32, last: i32, wait: i32) -> Request {
    let mut request = by_id(fetch(&["t"], offset, wait), id);
    let partition = &mut request.topics[0].partitions[0];
    partition.current_leader_epoch = current;
    partition.last_fetched_epoch = last;
    Request::Fetch(request)
}

fn fetch_response(response: Response) -> FetchResponse {
    let Response::Fetch(response) = response else {
        panic!("{response:?}");
    };
    response
}

fn partition(response: Response) -> PartitionData {
    fetch_response(response).responses[0].partitions[0].clone()
}

/// A topic with two records of epoch 0 and two of epoch 1.
fn two_epochs(world: &mut World) -> (Uuid, ConnectionId) {
    let topic_id = world.topic("t");
    let id = world.connect();
    world.ask(id, 9, &produce("t", &batch(&[b"a", b"b"], 5)));
    world.machine.topics.log_mut("t", 0).unwrap().elect(None).unwrap();
    world.ask(id, 9, &produce("t", &batch(&[b"c", b"d"], 5)));
    (topic_id, id)
}

#[test]
fn a_client_of_an_old_leader_is_told_of_the_new_one_from_version_16_on() {
    let mut world = World::new();
    let (topic_id, id) = two_epochs(&mut world);
    for version in [13, 15, 16, 17] {
        let response = fetch_response(world.ask(id, version, &fetch_of(topic_id, 0, 0, -1, 500)));
        let data = &response.responses[0].partitions[0];
        assert_eq!(data.error_code, code::FENCED_LEADER_EPOCH);
        let leader = (*data.current_leader.leader_id, data.current_leader.leader_epoch);
        let nodes: Vec<_> = response
            .node_endpoints
            .iter()
            .map(|node| (*node.node_id, node.host.to_string(), node.port))
            .collect();
        if version < 16 {
            assert_eq!((leader, nodes), ((-1, -1), Vec::new()), "{version}");
        } else {
            assert_eq!(leader, (1, 1), "{version}");
            assert_eq!(nodes, [(1, "broker.test".to_owned(), 9092)]);
        }
    }
    let unknown = fetch_response(world.ask(id, 17, &fetch_of(topic_id, 0, 2, -1, 500)));
    assert_eq!(
        unknown.responses[0].partitions[0].error_code,
        code::UNKNOWN_LEADER_EPOCH
    );
    assert!(
        unknown.node_endpoints.is_empty(),
        "the client knows more than the broker"
    );
}

#[test]
fn a_fault_that_denies_the_leader_names_it() {
    let mut world = World::new();
    let (topic_id, id) = two_epochs(&mut world);
    world.faults.on(ApiKey::Fetch, first(1)).error(6);
    world.faults.on(ApiKey::Produce, first(2)).error(6);
    let data = partition(world.ask(id, 17, &fetch_of(topic_id, 0, 1, -1, 500)));
    assert_eq!(data.error_code, code::NOT_LEADER_OR_FOLLOWER);
    assert_eq!(data.current_leader.leader_epoch, 1);
    for version in [9, 10] {
        let response = world.ask(id, version, &produce("t", &batch(&[b"x"], 5)));
        let Response::Produce(response) = response else {
            panic!("{response:?}");
        };
        let told = response.responses[0].partition_responses[0]
            .current_leader
            .leader_epoch;
        assert_eq!(
            (told, response.node_endpoints.len()),
            if version < 10 { (-1, 0) } else { (1, 1) }
        );
    }
}

#[test]
fn a_client_whose_log_parted_from_the_leaders_is_told_where() {
    let mut world = World::new();
    let (topic_id, id) = two_epochs(&mut world);
    let mut diverging = |offset, last| {
        let data = partition(world.ask(id, 17, &fetch_of(topic_id, offset, 1, last, 500)));
        let parted = (data.diverging_epoch.epoch, data.diverging_epoch.end_offset);
        (
            data.error_code,
            parted,
            data.records.is_some_and(|r| !r.is_empty()),
        )
    };
    assert_eq!(diverging(2, 0), (0, (-1, -1), true), "they agree");
    assert_eq!(diverging(3, 1), (0, (-1, -1), true), "they agree");
    assert_eq!(
        diverging(3, 0),
        (0, (0, 2), false),
        "epoch 0 ended before the client's log"
    );
    assert_eq!(
        diverging(3, 7),
        (code::OFFSET_OUT_OF_RANGE, (-1, -1), false),
        "no such epoch"
    );
    let parted = partition(world.ask(id, 12, &{
        let Request::Fetch(mut request) = fetch_of(Uuid::nil(), 4, 1, 0, 500) else {
            unreachable!();
        };
        request.topics[0].topic = wire_name("t");
        Request::Fetch(request)
    }));
    assert_eq!(
        (parted.diverging_epoch.epoch, parted.diverging_epoch.end_offset),
        (0, 2),
        "it does not wait for records"
    );
}
