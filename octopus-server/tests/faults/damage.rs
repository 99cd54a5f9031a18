//! Records that can't be read.

use octopus_kafka::{
    broker::{ApiKey, Response, When, always, nth},
    records::Compression,
};
use serde_json::json;

use crate::{
    support::client::BINARY,
    world::{World, value},
};

/// Fetches until the reply is an error; gives it.
async fn refused(world: &World, instance: &str) -> (u16, u64) {
    for _ in 0..20 {
        let reply = world.user.fetch(instance, "?timeout=1000", BINARY).await;
        if reply.status != 200 {
            return reply.error();
        }
        assert_eq!(reply.json(), json!([]));
    }
    panic!("nothing is refused");
}

/// Fetches until so many records came, past what is refused: the records of another partition may come later.
async fn read_past(world: &World, instance: &str, count: usize) -> Vec<String> {
    let mut values = Vec::new();
    for _ in 0..40 {
        let reply = world.user.fetch(instance, "?timeout=1000", BINARY).await;
        if reply.status == 200 {
            values.extend(reply.json().as_array().unwrap().iter().map(value));
        } else {
            assert_eq!(reply.error(), (500, 50002));
        }
        if values.len() >= count {
            return values;
        }
    }
    panic!("only {values:?}");
}

/// One partition can't be read on from `at`, while another is read, and a seek behind it passes it.
async fn blocks_one_partition(world: &World, instance: &str, at: i64) {
    for round in 0..2 {
        assert_eq!(refused(world, instance).await, (500, 50002));
        world.write("calm", b"more", Compression::None);
        assert_eq!(read_past(world, instance, 1).await, ["more"], "{round}");
    }
    world.seek(instance, "broken", at + 1).await;
    assert_eq!(world.read(instance, 1).await, ["after"]);
    let reply = world.user.fetch(instance, "?timeout=500", BINARY).await;
    assert_eq!(reply.expect(200).json(), json!([]));
}

/// [KF-12] [D-26] [K02] [ER-05] a batch that unpacks to 256 MiB takes no such memory, and blocks its partition alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_bomb_blocks_its_partition_and_takes_no_memory() {
    for compression in [Compression::Zstd, Compression::Gzip, Compression::Lz4] {
        let world = World::start().await;
        world.topic("calm", &["c0"]);
        world.topic("broken", &["b0"]);
        let bomb = world.write("broken", &vec![0; 256 << 20], compression);
        world.write("broken", b"after", Compression::None);
        let instance = world.create("i", false).await;
        world.assign(&instance, &["broken", "calm"]).await;
        let mut values = read_past(&world, &instance, 2).await;
        values.sort();
        assert_eq!(values, ["b0", "c0"]);
        blocks_one_partition(&world, &instance, bomb).await;
        let status = std::fs::read_to_string(format!("/proc/{}/status", world.server.process.id())).unwrap();
        let peak = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .unwrap();
        let peak: u64 = peak.trim().trim_end_matches("kB").trim().parse().unwrap();
        assert!(peak < 128 << 10, "{peak} kB at its peak");
    }
}

/// [KF-18] [D-26] [FE-13] a batch over the bound of an answer blocks its partition alone.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_over_the_bound_blocks_its_partition() {
    let world = World::start().await;
    world.topic("calm", &["c0"]);
    world.topic("broken", &["b0"]);
    let large = world.write("broken", &vec![b'x'; 10 << 20], Compression::None);
    world.write("broken", b"after", Compression::None);
    let instance = world.create("i", false).await;
    world.assign(&instance, &["broken", "calm"]).await;
    let mut values = read_past(&world, &instance, 2).await;
    values.sort();
    assert_eq!(values, ["b0", "c0"]);
    blocks_one_partition(&world, &instance, large).await;
}

/// Flips a bit in the value of the first record of these answers' topic.
fn flip(world: &World, when: When) {
    let fault = world.broker.faults().on(ApiKey::Fetch, when);
    fault.edit(|response| {
        let Response::Fetch(response) = response else {
            return;
        };
        for topic in &mut response.responses {
            let mut records = topic.partitions[0].records.take().unwrap_or_default().to_vec();
            if let Some(byte) = records.get_mut(68) {
                *byte ^= 1;
            }
            topic.partitions[0].records = Some(records.into());
        }
    });
}

/// [KF-13] [K09] bytes that were damaged on their way are fetched again, and no caller hears of it.
#[tokio::test(flavor = "multi_thread")]
async fn damage_on_the_way_is_not_seen() {
    let world = World::start().await;
    world.topic("broken", &["0", "1", "2"]);
    let instance = world.create("i", false).await;
    world.assign(&instance, &["broken"]).await;
    flip(&world, nth(1));
    let reply = world
        .user
        .fetch(&instance, "?timeout=20000", BINARY)
        .await
        .expect(200);
    assert_eq!(reply.json()[0]["offset"], 0);
    flip(&world, nth(2));
    world.write("broken", b"3", Compression::None);
    assert_eq!(world.read(&instance, 1).await, ["3"]);
}

/// [KF-13] [D-26] bytes that are damaged each time are never passed over, and are there again when they are whole.
#[tokio::test(flavor = "multi_thread")]
async fn damage_that_stays_is_refused_until_it_is_gone() {
    let world = World::start().await;
    world.topic("broken", &["0"]);
    let instance = world.create("i", false).await;
    world.assign(&instance, &["broken"]).await;
    flip(&world, always());
    for _ in 0..3 {
        assert_eq!(refused(&world, &instance).await, (500, 50002));
    }
    world.broker.faults().clear();
    assert_eq!(world.read(&instance, 1).await, ["0"]);
}

/// [KF-25] [ER-02] a right that is taken away in mid-life is told, and given back it is used.
#[tokio::test(flavor = "multi_thread")]
async fn a_right_that_is_taken_away_is_told_until_it_is_given_back() {
    let world = World::start().await;
    world.topic("a", &["a0"]);
    let instance = world.create("i", false).await;
    world.assign(&instance, &["a"]).await;
    assert_eq!(world.read(&instance, 1).await, ["a0"]);
    world.broker.faults().on(ApiKey::Fetch, always()).error(29);
    assert_eq!(refused(&world, &instance).await, (403, 40301));
    world.broker.faults().on(ApiKey::OffsetCommit, always()).error(30);
    let commit = world.user.post(&format!("{instance}/offsets"), "").await;
    assert_eq!(commit.error(), (403, 40301));
    world.broker.faults().clear();
    world.write("a", b"a1", Compression::None);
    assert_eq!(world.read(&instance, 1).await, ["a1"]);
    world
        .user
        .post(&format!("{instance}/offsets"), "")
        .await
        .expect(200);
}
