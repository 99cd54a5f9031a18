//! What a test has the broker do wrong.

use super::*;

fn topics_in(response: &Response) -> Vec<(String, i16)> {
    let Response::OffsetCommit(response) = response else {
        panic!("{response:?}");
    };
    let topics = response.topics.iter();
    topics
        .map(|topic| (topic.name.to_string(), topic.partitions[0].error_code))
        .collect()
}

#[test]
fn an_error_strikes_the_nth_request_only() {
    let mut world = World::new();
    world.topic("t");
    let id = world.connect();
    world.faults.on(ApiKey::Fetch, nth(2)).error(6);
    let mut codes = Vec::new();
    for _ in 0..3 {
        let response = world.ask(id, 12, &Request::Fetch(fetch(&["t"], 0, 0)));
        codes.push(fetched(&response).0);
    }
    assert_eq!(codes, [0, 6, 0]);
}

#[test]
fn an_error_for_a_topic_leaves_the_rest_of_the_request_alone() {
    let mut world = World::new();
    for topic in ["a", "b", "c"] {
        world.topic(topic);
    }
    let id = world.connect();
    world
        .faults
        .on(ApiKey::OffsetCommit, first(1))
        .topic("b")
        .error(29);
    let request = Request::OffsetCommit(commit("g", &["a", "b", "c"], 4));
    let mut codes = topics_in(&world.ask(id, 8, &request));
    codes.sort();
    let expected = [("a", 0), ("b", 29), ("c", 0)].map(|(topic, code)| (topic.to_owned(), code));
    assert_eq!(codes, expected);
    let offsets = &world.machine.groups.find("g").unwrap().offsets;
    let committed: Vec<&str> = offsets.keys().map(|(topic, _)| topic.as_str()).collect();
    assert_eq!(committed, ["a", "c"], "what was refused was not done");
}

#[test]
fn a_fault_for_a_client_spares_the_others() {
    let mut world = World::new();
    world.topic("t");
    let id = world.connect();
    world.faults.on(ApiKey::Produce, always()).client("other").close();
    let records = batch(&[b"x"], 5);
    assert_eq!(produced(&world.ask(id, 9, &produce("t", &records))), (0, 0));
    world
        .faults
        .on(ApiKey::Produce, always())
        .client("tester")
        .close();
    assert_eq!(world.send(id, 9, &produce("t", &records)), [Output::Close(id)]);
    assert_eq!(world.machine.topics.log("t", 0).unwrap().end(), 1);
}

#[test]
fn a_delayed_answer_comes_late_though_its_request_was_done_at_once() {
    let mut world = World::new();
    world.topic("t");
    let id = world.connect();
    world
        .faults
        .on(ApiKey::Produce, nth(1))
        .delay(Duration::from_secs(2));
    assert_eq!(world.send(id, 9, &produce("t", &batch(&[b"x"], 5))), []);
    assert_eq!(world.machine.topics.log("t", 0).unwrap().end(), 1);
    assert_eq!(world.wait(Duration::from_millis(1999)), []);
    let outputs = world.wait(Duration::from_millis(1));
    assert!(answer_in(&outputs, id, ApiKey::Produce, 9).is_some());
    assert!(outputs.contains(&Output::Ready(id)));
}

#[test]
fn a_cut_answer_is_a_prefix_of_the_whole_one() {
    let mut whole = World::new();
    let id = whole.connect();
    let Some(Output::Send(_, answer)) = whole.send(id, 9, &metadata("t", false)).into_iter().next() else {
        panic!("no answer");
    };
    for bytes in 0..answer.len() {
        let mut world = World::new();
        let id = world.connect();
        world.faults.on(ApiKey::Metadata, always()).cut_after(bytes);
        let outputs = world.send(id, 9, &metadata("t", false));
        assert_eq!(
            outputs,
            [Output::Send(id, answer.slice(..bytes)), Output::Close(id)]
        );
    }
}

#[test]
fn a_request_that_is_never_answered_holds_its_connection() {
    let mut world = World::new();
    let id = world.connect();
    world.faults.on(ApiKey::Metadata, nth(1)).never();
    assert_eq!(world.send(id, 9, &metadata("t", false)), []);
    assert_eq!(
        world.send(id, 9, &metadata("t", false)),
        [],
        "nothing is read behind it"
    );
    assert_eq!(world.wait(Duration::from_secs(600)), []);
}

#[test]
fn garbage_takes_the_place_of_an_answer() {
    let mut world = World::new();
    let id = world.connect();
    world
        .faults
        .on(ApiKey::Metadata, nth(1))
        .garbage("HTTP/1.1 400\r\n");
    let outputs = world.send(id, 9, &metadata("t", false));
    let sent = Output::Send(id, Bytes::from_static(b"HTTP/1.1 400\r\n"));
    assert_eq!(outputs, [sent, Output::Ready(id)]);
}

#[test]
fn a_throttled_connection_is_answered_and_muted() {
    let mut world = World::new();
    let id = world.connect();
    world
        .faults
        .on(ApiKey::Metadata, nth(1))
        .throttle(Duration::from_millis(250));
    let outputs = world.send(id, 9, &metadata("t", false));
    let (_, response) = answer_in(&outputs, id, ApiKey::Metadata, 9).unwrap();
    let Response::Metadata(response) = response else {
        panic!("{response:?}");
    };
    assert_eq!(response.throttle_time_ms, 250);
    assert!(!outputs.contains(&Output::Ready(id)));
    assert_eq!(world.wait(Duration::from_millis(250)), [Output::Ready(id)]);
}

#[test]
fn an_answer_can_be_changed() {
    let mut world = World::new();
    world.topic("t");
    let id = world.connect();
    world.faults.on(ApiKey::Produce, nth(1)).edit(|response| {
        if let Response::Produce(response) = response {
            response.responses[0].partition_responses[0].base_offset = -7;
        }
    });
    let records = batch(&[b"x"], 5);
    assert_eq!(produced(&world.ask(id, 9, &produce("t", &records))), (0, -7));
    world.faults.clear();
    assert_eq!(produced(&world.ask(id, 9, &produce("t", &records))), (0, 1));
}

#[test]
fn requests_are_kept_as_they_came_without_records() {
    let mut world = World::with(&Config {
        requests_kept: 2,
        ..Config::default()
    });
    world.topic("t");
    let id = world.connect();
    world.ask(id, 4, &metadata("t", false));
    world.ask(id, 9, &produce("t", &batch(&[b"x"], 5)));
    let asked = fetch(&["t"], 0, 0);
    world.ask(id, 12, &Request::Fetch(asked.clone()));
    let kept: Vec<_> = world.machine.requests.iter().collect();
    assert_eq!(kept.len(), 2, "the oldest is forgotten");
    let Request::Produce(produce) = &kept[0].request else {
        panic!("{kept:?}");
    };
    assert_eq!(produce.topic_data[0].partition_data[0].records, None);
    assert_eq!(kept[1].request, Request::Fetch(asked));
    assert_eq!((kept[1].api, kept[1].version), (ApiKey::Fetch, 12));
    assert_eq!(kept[1].client_id, "tester");
}
