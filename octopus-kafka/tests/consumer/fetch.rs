//! Turns of a fetch.

use std::time::Duration;

use octopus_core::{AutoOffsetReset, Effect, Error, limits::FETCH_BYTES};
use octopus_kafka::broker::ApiKey;
use octopus_kafka::{
    Cluster, Config,
    broker::{Request, always, first, nth},
    testing::ClosedPort,
};
use tokio::time::Instant;

use super::support::{TURN, World, at, batch};

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_ends_with_its_time_or_with_records() {
    let world = World::new().await;
    world.topic("a", &["a0"]).await;
    world.topic("b", &[]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a", "b"]);
    assert_eq!(one.read(1).await, ["a0"]);
    let start = Instant::now();
    assert_eq!(one.turn(TURN).await.unwrap().values, [""; 0]);
    assert!(start.elapsed() >= TURN);

    let start = Instant::now();
    let (turn, ()) = tokio::join!(one.turn(Duration::from_secs(20)), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        world.produce("b", &["b0"]).await;
    });
    assert_eq!(turn.unwrap().values, ["b0"]);
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "as soon as there are records"
    );
}

/// [LI-04] [FE-11] What a turn that is ended early has asked goes on for the next one, which asks nothing again.
#[tokio::test(flavor = "multi_thread")]
async fn a_hurried_turn_leaves_its_fetch_to_the_next_one() {
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    assert_eq!(one.read(1).await, ["a0"]);
    let asked = || world.received(ApiKey::Fetch).len();
    let before = asked();

    let long = Duration::from_secs(60);
    let start = Instant::now();
    let is_asked = async {
        while asked() == before {
            tokio::task::yield_now().await;
        }
    };
    assert_eq!(one.turn_until(long, is_asked).await.unwrap().values, [""; 0]);
    let (turn, ()) = tokio::join!(one.turn(long), world.produce("a", &["a1"]));
    assert_eq!(turn.unwrap().values, ["a1"]);
    assert!(start.elapsed() < long / 2, "neither waits for its time");
    assert_eq!(asked(), before + 1);
}

/// [LI-04] A turn that finds only that nothing had come before it asks at once, however short it is.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_answer_from_before_a_turn_is_not_all_that_it_asks() {
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    assert_eq!(one.read(1).await, ["a0"]);
    let asked = || world.received(ApiKey::Fetch).len();
    let is_asked = || {
        let before = asked();
        async move {
            while asked() == before {
                tokio::task::yield_now().await;
            }
        }
    };
    for _ in 0..5 {
        one.turn_until(Duration::from_millis(60), is_asked())
            .await
            .unwrap();
        // The broker's answer comes after 40 ms, unless the machine is slow; it is kept for 2 s.
        tokio::time::sleep(Duration::from_millis(500)).await;
        // Too short for a second question behind the pause that follows on an empty answer.
        let asks = tokio::time::timeout(Duration::from_secs(1), is_asked());
        let (turn, asks) = tokio::join!(one.turn(Duration::from_millis(35)), asks);
        assert_eq!(turn.unwrap().values, [""; 0]);
        if asks.is_ok() {
            return;
        }
    }
    panic!("it does not ask");
}

/// [FE-11] Records that a hurried turn has are its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_hurried_turn_gives_what_it_has() {
    let world = World::embedded().await;
    world.topic("a", &["a0", "a1"]).await;
    world.topic("b", &["b0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a", "b"]);
    let mut values = Vec::new();
    while values.len() < 3 {
        // Each of its waits is cut short.
        let turn = one.turn_until(TURN, std::future::ready(())).await.unwrap();
        values.extend(turn.values);
    }
    values.sort();
    assert_eq!(values, ["a0", "a1", "b0"]);
}

/// [FE-15]
#[tokio::test(flavor = "multi_thread")]
async fn latest_is_fixed_by_the_first_turn() {
    let world = World::new().await;
    world.topic("a", &["before"]).await;
    let mut one = world.session("one", AutoOffsetReset::Latest);
    one.assign(&["a"]);
    let mut started = Vec::new();
    while started.is_empty() {
        started = one.turn(TURN).await.unwrap().started;
    }
    assert_eq!(started, [("a".to_owned(), 1)]);
    world.produce("a", &["after"]).await;
    assert_eq!(one.read(1).await, ["after"]);
}

/// [FE-15] A turn that is too short to learn the start, or is dropped, prepares the next one.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_is_found_over_turns_that_are_too_short() {
    let world = World::embedded().await;
    world.topic("a", &["before"]).await;
    world
        .broker()
        .faults()
        .on(ApiKey::OffsetFetch, always())
        .delay(Duration::from_millis(150));
    world
        .broker()
        .faults()
        .on(ApiKey::ListOffsets, always())
        .delay(Duration::from_millis(150));
    let mut one = world.session("one", AutoOffsetReset::Latest);
    one.assign(&["a"]);
    let mut turns = 0;
    while one.position("a").is_none() {
        let turn = tokio::time::timeout(Duration::from_millis(20), one.turn(Duration::from_millis(40)));
        _ = turn.await;
        let turn = one.turn(Duration::from_millis(40)).await.unwrap();
        assert_eq!(turn.values, [""; 0]);
        turns += 1;
        assert!(turns < 500);
    }
    assert_eq!(one.position("a"), Some(1));
    assert_eq!(world.received(ApiKey::ListOffsets).len(), 1);
    assert_eq!(world.received(ApiKey::OffsetFetch).len(), 1);
}

/// [D-19]
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_without_a_wait_takes_what_is_there() {
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    one.run(Effect::Topics(vec!["a".into()])).await.unwrap();
    let mut values = Vec::new();
    for _ in 0..50 {
        values.extend(one.turn(Duration::ZERO).await.unwrap().values);
    }
    assert_eq!(values, ["a0"]);
    let waits = world
        .received(ApiKey::Fetch)
        .into_iter()
        .map(|received| match received.request {
            Request::Fetch(fetch) => fetch.max_wait_ms,
            request => panic!("{request:?}"),
        });
    assert!(waits.into_iter().all(|wait| wait == 0));
}

/// [FE-13] [CR-07] [D-21]
#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_asks_for_a_mebibyte_and_the_bytes_to_wait_for() {
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    world.topic("b", &["b0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["b", "a"]);
    one.min_bytes = 7;
    one.read(2).await;
    for received in world.received(ApiKey::Fetch) {
        assert_eq!(received.client_id, "octopus-group-one");
        let Request::Fetch(fetch) = received.request else {
            panic!()
        };
        assert_eq!((fetch.min_bytes, fetch.max_bytes), (7, FETCH_BYTES));
        assert_eq!((fetch.session_id, fetch.session_epoch), (0, -1));
        assert_eq!(fetch.isolation_level, 0);
        assert!(fetch.max_wait_ms <= 480, "{}", fetch.max_wait_ms);
        let partitions = fetch.topics.iter().flat_map(|topic| &topic.partitions);
        assert!(
            partitions
                .into_iter()
                .all(|partition| partition.partition_max_bytes == FETCH_BYTES)
        );
    }
}

/// [KF-18] [FE-13]
#[tokio::test(flavor = "multi_thread")]
async fn a_first_record_of_eight_mebibytes_arrives() {
    let world = World::embedded().await;
    let large = "x".repeat(8 * 1024 * 1024 - 1024);
    world.topic("a", &[]).await;
    world.broker().append(&world.name("a"), batch(&["small"]));
    world.broker().append(&world.name("a"), batch(&[&large]));
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    assert_eq!(one.read(1).await, ["small"]);
    assert_eq!(one.read(1).await, [large]);
}

/// [KF-07]
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_comes_late_is_used_by_the_next_turn() {
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    one.start(&["a"]).await.unwrap();
    world
        .broker()
        .faults()
        .on(ApiKey::Fetch, nth(1))
        .delay(Duration::from_millis(400));
    let mut turns = 0;
    let mut values = Vec::new();
    while values.is_empty() {
        values = one.turn(Duration::from_millis(50)).await.unwrap().values;
        turns += 1;
    }
    assert_eq!(values, ["a0"]);
    assert!(turns > 2, "{turns} turns");
    assert_eq!(world.received(ApiKey::Fetch).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_for_positions_that_moved_is_not_used() {
    let world = World::embedded().await;
    world.topic("a", &["a0", "a1"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    one.seek("a", 0);
    world
        .broker()
        .faults()
        .on(ApiKey::Fetch, nth(1))
        .delay(Duration::from_millis(300));
    assert_eq!(one.turn(Duration::from_millis(50)).await.unwrap().values, [""; 0]);
    one.seek("a", 1);
    assert_eq!(one.read(1).await, ["a1"]);
}

/// [KF-30]
#[tokio::test(flavor = "multi_thread")]
async fn an_undelivered_turn_comes_again_identically() {
    let world = World::new().await;
    world.topic("a", &["a0", "a1"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    one.seek("a", 0);
    for _ in 0..3 {
        let before = one.positions.clone();
        assert_eq!(one.read(2).await, ["a0", "a1"]);
        one.positions = before;
    }
}

/// [KF-39]
#[tokio::test(flavor = "multi_thread")]
async fn answers_with_nothing_are_paced() {
    let world = World::embedded().await;
    world.topic("a", &[]).await;
    for error in [None, Some(6), Some(3)] {
        let mut one = world.session("one", AutoOffsetReset::Earliest);
        one.assign(&["a"]);
        one.seek("a", 0);
        one.min_bytes = 0;
        if let Some(code) = error {
            world.broker().faults().on(ApiKey::Fetch, always()).error(code);
        }
        let (before, metadata) = (
            world.received(ApiKey::Fetch).len(),
            world.received(ApiKey::Metadata).len(),
        );
        let start = Instant::now();
        assert_eq!(one.turn(TURN).await.unwrap().values, [""; 0]);
        assert!(start.elapsed() >= TURN);
        let fetches = world.received(ApiKey::Fetch).len() - before;
        assert!((1..=15).contains(&fetches), "{fetches} fetches of {error:?}");
        let metadata = world.received(ApiKey::Metadata).len() - metadata;
        assert!(metadata <= 15, "{metadata} metadata requests of {error:?}");
    }
}

/// [KF-20] [K14]
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_moved_is_looked_up_and_read_in_the_same_turn() {
    for code in [3, 5, 6, 9, 74, 75, 100] {
        let world = World::embedded().await;
        world.topic("a", &["a0"]).await;
        let mut one = world.session("one", AutoOffsetReset::Earliest);
        one.assign(&["a"]);
        one.start(&["a"]).await.unwrap();
        let looked_up = world.received(ApiKey::Metadata).len();
        world.broker().faults().on(ApiKey::Fetch, first(1)).error(code);
        let turn = one.turn(Duration::from_secs(20)).await.unwrap();
        assert_eq!(turn.values, ["a0"], "{code}");
        assert!(world.received(ApiKey::Metadata).len() > looked_up, "{code}");
    }
}

/// [A22] [KF-22] [D-20]
#[tokio::test(flavor = "multi_thread")]
async fn a_position_out_of_range_goes_where_the_reset_says() {
    let world = World::new().await;
    world.topic("a", &["a0", "a1"]).await;
    world.topic("b", &[]).await;
    for (reset, to) in [(AutoOffsetReset::Earliest, 0), (AutoOffsetReset::Latest, 2)] {
        let mut one = world.session("one", reset);
        one.assign(&["a", "b"]);
        one.seek("a", 100);
        let mut started = Vec::new();
        while !started.contains(&("a".to_owned(), to)) {
            let turn = one.turn(TURN).await.unwrap();
            assert_eq!(turn.failed, []);
            started.extend(turn.started);
        }
        assert!(one.position("a").unwrap() >= to);
    }
    let mut none = world.session("one", AutoOffsetReset::None);
    none.assign(&["a"]);
    none.seek("a", 100);
    for _ in 0..3 {
        let mut failed = Vec::new();
        while failed.is_empty() {
            failed = none.turn(TURN).await.unwrap().failed;
        }
        assert_eq!(failed, [(at("a"), Error::NoOffset(at("a")))]);
    }
    none.seek("a", 1);
    assert_eq!(none.read(1).await, ["a1"]);
}

/// [D-20] Other partitions are read while one has nowhere to start.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_without_a_start_does_not_hold_others_up() {
    let world = World::new().await;
    world.topic("a", &["a0"]).await;
    world.topic("b", &["b0"]).await;
    let mut one = world.session("one", AutoOffsetReset::None);
    one.assign(&["a", "b"]);
    one.seek("b", 0);
    let mut values = Vec::new();
    while values.is_empty() {
        values = one.turn(TURN).await.unwrap().values;
    }
    assert_eq!(values, ["b0"]);
    let turn = one.turn(TURN).await.unwrap();
    assert_eq!(turn.failed, [(at("a"), Error::NoOffset(at("a")))]);

    one.assign(&["a"]);
    let start = Instant::now();
    let turn = one.turn(Duration::from_secs(20)).await.unwrap();
    assert_eq!(turn.failed, [(at("a"), Error::NoOffset(at("a")))]);
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "at once where nothing can be read"
    );
}

/// [ER-07]
#[tokio::test(flavor = "multi_thread")]
async fn without_a_broker_a_turn_waits_its_time_out_and_says_so() {
    let world = World::embedded().await;
    let closed = ClosedPort::new().unwrap();
    let world = World {
        cluster: Cluster::new(Config::new(vec![closed.address()])),
        ..world
    };
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    let start = Instant::now();
    assert_eq!(one.turn(TURN).await, Err(Error::KafkaUnreachable));
    assert!(start.elapsed() >= TURN);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_comes_back_is_read_again() {
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    one.start(&["a"]).await.unwrap();
    world.broker().faults().on(ApiKey::Fetch, first(3)).close();
    assert_eq!(one.read(1).await, ["a0"]);
}

/// [KF-37] [K21] A consumer that a broker throttles leaves it alone for that time, and opens no connection in its
/// stead.
#[tokio::test(flavor = "multi_thread")]
async fn a_throttled_consumer_waits_and_then_goes_on() {
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a"]);
    let throttle = world.broker().faults().on(ApiKey::Fetch, nth(1));
    throttle.throttle(Duration::from_secs(3600));
    assert_eq!(one.read(1).await, ["a0"]);
    world.produce("a", &["a1"]).await;
    for _ in 0..3 {
        let turn = one.turn(Duration::from_millis(200)).await.unwrap();
        assert_eq!((turn.values, turn.failed), (Vec::new(), Vec::new()));
    }
    assert_eq!(world.received(ApiKey::Fetch).len(), 1);

    let mut other = world.session("other", AutoOffsetReset::Earliest);
    other.assign(&["a"]);
    world.broker().faults().clear();
    let throttle = world.broker().faults().on(ApiKey::Fetch, nth(1));
    throttle.throttle(Duration::from_millis(300));
    assert_eq!(other.read(2).await, ["a0", "a1"], "another one is not throttled");
    world.produce("a", &["a2"]).await;
    let start = Instant::now();
    let turn = other.turn(Duration::from_secs(20)).await.unwrap();
    assert_eq!(turn.values, ["a2"]);
    assert!(start.elapsed() < Duration::from_secs(10), "in the same turn");
}

/// [D-18] Nothing assigned: the wait, and nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_of_nothing_waits_its_time_out() {
    let world = World::new().await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    let start = Instant::now();
    assert_eq!(
        one.turn(Duration::from_millis(200)).await.unwrap().values,
        [""; 0]
    );
    assert!(start.elapsed() >= Duration::from_millis(200));
}

/// [KF-27] [KF-37]
#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_fetches_joins_and_commits_have_connections_of_their_own() {
    let world = World::embedded().await;
    world.topic("a", &["a0"]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.join(&["a"]).await;
    one.read(1).await;
    one.commit("a", 1, "").await.unwrap();
    super::support::eventually("a heartbeat", || !world.received(ApiKey::Heartbeat).is_empty()).await;
    let connections = |api| {
        world
            .received(api)
            .into_iter()
            .map(|received| received.connection)
            .collect::<Vec<_>>()
    };
    let beats = connections(ApiKey::Heartbeat);
    for api in [
        ApiKey::Fetch,
        ApiKey::JoinGroup,
        ApiKey::SyncGroup,
        ApiKey::OffsetCommit,
        ApiKey::Metadata,
    ] {
        assert!(
            connections(api)
                .iter()
                .all(|connection| !beats.contains(connection)),
            "{api:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_reply_left_out_is_read_without_asking_again() {
    let world = World::embedded().await;
    let values: Vec<String> = (0..20).map(|n| format!("a{n}")).collect();
    world
        .topic("a", &values.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    world.topic("b", &[]).await;
    let mut one = world.session("one", AutoOffsetReset::Earliest);
    one.assign(&["a", "b"]);
    one.start(&["a", "b"]).await.unwrap();
    for n in 0..20 {
        // A reply of one record: the position moves behind it, not behind what was fetched.
        let turn = one.turn(TURN).await.unwrap();
        assert_eq!(turn.values, values[n..], "{n}");
        one.seek("a", i64::try_from(n).unwrap() + 1);
    }
    let of_a = world
        .received(ApiKey::Fetch)
        .into_iter()
        .filter(|received| match &received.request {
            Request::Fetch(fetch) => fetch
                .topics
                .iter()
                .any(|topic| *topic.topic.0 == *world.name("a")),
            request => panic!("{request:?}"),
        });
    assert!(of_a.count() <= 3, "not one for each reply");
    world.produce("b", &["b0"]).await;
    one.seek("a", 5);
    let mut values = Vec::new();
    while !values.contains(&"b0".to_owned()) {
        values = one.turn(TURN).await.unwrap().values;
        one.seek("a", one.position("a").unwrap().min(18));
    }
}
