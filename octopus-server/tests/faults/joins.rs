//! Joins that take their time, and positions that outlive them.

use std::time::Duration;

use octopus_core::Effect;
use octopus_kafka::{broker::ApiKey, records::Compression};
use serde_json::json;

use crate::{
    support::client::BINARY,
    world::{GROUP, World, join, value},
};

/// How long the group waits for more members before its first assignment, as a Kafka does by itself.
const DELAY: Duration = Duration::from_secs(3);

/// [A09] [SU-04] [FE-09] records that are there come with the first fetch, although its join takes some turns.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_fetch_waits_for_its_join() {
    let world = World::with_delay(DELAY).await;
    world.topic("a", &["0", "1", "2"]);
    let instance = world.create("i", false).await;
    world.subscribe(&instance, &["a"]).await;
    let reply = world.user.fetch(&instance, "?timeout=30000", BINARY).await;
    let records = reply.expect(200).json();
    let values = records.as_array().unwrap().iter().map(value);
    assert_eq!(values.collect::<Vec<_>>(), ["0", "1", "2"]);
    assert_eq!(joins(&world), 1);
}

/// [A10] a join outlives the fetch that began it: fetches that are shorter than it come to its end together.
#[tokio::test(flavor = "multi_thread")]
async fn short_fetches_come_to_the_end_of_a_join() {
    let world = World::with_delay(DELAY).await;
    world.topic("a", &["0"]);
    let instance = world.create("i", false).await;
    world.subscribe(&instance, &["a"]).await;
    let read = async {
        loop {
            let records = world.user.fetch_some(&instance, "?timeout=100", BINARY).await;
            if let Some(record) = records.first() {
                return value(record);
            }
        }
    };
    assert_eq!(
        tokio::time::timeout(Duration::from_secs(60), read).await.unwrap(),
        "0"
    );
    assert_eq!(joins(&world), 1);
}

/// [A11] [D-39] `latest` is where an instance began to read, also when a rebalance gives its partition back before
/// anything was committed.
#[tokio::test(flavor = "multi_thread")]
async fn latest_stays_where_it_was_through_rebalances() {
    let world = World::start().await;
    world.topic("a", &["before"]);
    world.topic("b", &[]);
    world
        .user
        .post(GROUP, &json!({"name": "i"}).to_string())
        .await
        .expect(200);
    let instance = format!("{GROUP}/instances/i");
    world.subscribe(&instance, &["a"]).await;
    let reply = world.user.fetch(&instance, "?timeout=1000", BINARY).await;
    assert_eq!(reply.expect(200).json(), json!([]));
    world.write("a", b"r1", Compression::None);
    let other = world.foreign("other");
    tokio::join!(join(&other, &["b"]), async {
        // It joins again by its fetch, which leaves what it finds to the next one if its client leaves.
        assert_eq!(world.read(&instance, 1).await, ["r1"]);
    });
    world.seek(&instance, "a", 1).await;
    other.run(Effect::Close, Duration::from_secs(20)).await.unwrap();
    world.write("a", b"r2", Compression::None);
    assert_eq!(world.read(&instance, 2).await, ["r1", "r2"]);
    assert_eq!(world.broker.committed(&world.name("g"), &world.name("a")), None);
}

/// How many joins came to an end.
fn joins(world: &World) -> usize {
    let requests = world.broker.requests();
    let ended = requests
        .iter()
        .filter(|received| received.api == ApiKey::SyncGroup);
    ended.count()
}
