use bytes::Bytes;
use kafka_protocol::messages::BrokerId;
use octopus_core::{Name, Open, Settings};
use uuid::Uuid;

use super::{
    flight::{Asked, Wait, What, sort},
    turn::Part,
    *,
};
use crate::{
    Cluster, Config,
    api::fetch::{FetchResponse, FetchedPartition},
    cluster::{Origin, TopicInfo},
};

const ID: Uuid = Uuid::from_u128(7);

fn asked(topic: &str, offset: i64) -> Asked {
    let info = TopicInfo {
        id: ID,
        leader: Some(BrokerId(1)),
        leader_epoch: 3,
        partitions: 1,
    };
    Asked::new(topic, Position::at(offset), &info)
}

fn part(topic: &str, partition: i32, error_code: i16, records: &'static [u8]) -> FetchedPartition {
    FetchedPartition {
        topic: topic.into(),
        topic_id: Uuid::nil(),
        partition,
        error_code,
        high_watermark: 0,
        last_stable_offset: -1,
        log_start_offset: -1,
        current_leader: None,
        records: Bytes::from_static(records),
    }
}

fn sorted(partitions: Vec<FetchedPartition>) -> Vec<(String, What)> {
    let response = FetchResponse {
        throttle_time_ms: 0,
        error_code: 0,
        partitions,
        nodes: Vec::new(),
    };
    let sorted = sort(&[asked("a", 5), asked("b", 6)], response);
    sorted
        .into_iter()
        .map(|(asked, what)| (asked.topic, what))
        .collect()
}

fn records(topic: &str, bytes: &'static [u8]) -> (String, What) {
    (topic.to_owned(), What::Records(Bytes::from_static(bytes), 0))
}

/// [KF-19] [K24] nothing is taken of what was not asked for, and of each partition the first.
#[test]
fn partitions_that_were_not_asked_for_or_came_twice_are_dropped() {
    let answer = vec![
        part("c", 0, 0, b"other"),
        part("b", 1, 0, b"other"),
        part("b", 0, 0, b"first"),
        part("b", 0, 0, b"again"),
        part("a", 0, 0, b""),
    ];
    assert_eq!(sorted(answer), [records("b", b"first"), records("a", b"")]);
}

#[test]
fn each_error_of_a_partition_has_its_meaning() {
    let cases = [
        (1, What::OutOfRange),
        (2, What::Failed(Error::KafkaFailed)),
        (3, What::Stale),
        (5, What::Stale),
        (6, What::Stale),
        (9, What::Stale),
        (29, What::Failed(Error::KafkaUnauthorized)),
        (56, What::Stale),
        (74, What::Stale),
        (75, What::Stale),
        (78, What::Stale),
        (100, What::Stale),
        (103, What::Stale),
        (-1, What::Failed(Error::KafkaFailed)),
        (999, What::Failed(Error::KafkaFailed)),
    ];
    for (code, meaning) in cases {
        let answer = vec![part("a", 0, code, b""), part("b", 0, 0, b"")];
        assert_eq!(
            sorted(answer),
            [("a".to_owned(), meaning), records("b", b"")],
            "{code}"
        );
    }
}

/// [KF-48] [KF-20] a topic that the answer is silent about is looked up again; so is one whose id is not that which was
/// asked for. A leader that the answer names is taken.
#[test]
fn what_an_answer_is_silent_about_is_stale_and_a_leader_that_it_names_is_taken() {
    let mut nameless = part("", 0, 0, b"other");
    nameless.topic_id = Uuid::nil();
    let mut moved = part("b", 0, 6, b"");
    moved.current_leader = Some((4, 9));
    assert_eq!(
        sorted(vec![nameless, moved]),
        [("b".to_owned(), What::Moved(4, 9)), ("a".to_owned(), What::Stale)]
    );
}

/// [KF-21] [FE-11] what was asked by a turn that was given up is no record of the one in hand, unless it is read from there.
#[tokio::test]
async fn an_answer_for_another_place_than_the_turn_reads_from_is_not_given_out() {
    let open = Open::outside(Name::parse("g").unwrap(), Settings::default());
    let consumer = Cluster::new(Config::new(Vec::new())).consumer(&open, |_| {});
    let fetcher = consumer.fetcher();
    let now = Instant::now();
    let plan = FetchPlan::of(["a", "b", "c"].map(|topic| TopicPartition::only(topic.into())));
    let mut turn = Turn::new(&plan, now, now);
    // All of `b` was read up to here, and of `c` some is kept up to here.
    turn.reads = [("a", 5), ("b", 2), ("c", 9)]
        .map(|(topic, offset)| (topic.to_owned(), offset))
        .into();
    let kept = Part {
        position: Position::at(7),
        kept: vec![Bytes::from_static(b"kept")],
        fetched: None,
    };
    turn.parts.insert("c".into(), kept);
    let asked = vec![asked("a", 5), asked("b", 6), asked("c", 11)];
    let wait = Wait {
        min_bytes: 1,
        most: Duration::ZERO,
    };
    let flight = Flight::start(&fetcher.resolver, BrokerId(1), asked, wait, None, &fetcher.shared);
    let response = FetchResponse {
        throttle_time_ms: 0,
        error_code: 0,
        partitions: ["a", "b", "c"].map(|topic| part(topic, 0, 0, b"records")).into(),
        nodes: Vec::new(),
    };
    let mut asks = Vec::new();
    fetcher.answered(
        &mut turn,
        BrokerId(1),
        &flight,
        response,
        &Origin::default(),
        &mut asks,
    );
    let parts: Vec<_> = turn
        .parts
        .iter()
        .map(|(topic, part)| (&**topic, part.position.offset, part.fetched.is_some()))
        .collect();
    assert_eq!(parts, [("a", 5, true), ("c", 7, false)]);
}
