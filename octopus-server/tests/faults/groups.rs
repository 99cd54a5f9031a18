//! Groups that wait, and members that stood still.

use std::time::Duration;

use octopus_core::{Commit, Effect, Position, TopicPartition};
use octopus_kafka::{GroupProtocol, broker::ApiKey, records::Compression};
use rstest::rstest;
use serde_json::json;
use tokio::time::Instant;

use crate::{
    support::client::BINARY,
    world::{World, join},
};

/// [KF-27] [FE-09] while a group waits for a member that does not rejoin, a fetch of it ends with its time, and other
/// instances are not touched.
#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_of_a_group_that_waits_ends_in_its_time() {
    let world = World::start().await;
    world.topic("a", &["a0"]);
    let stuck = world.foreign("stuck");
    join(&stuck, &["a"]).await;
    let waiting = world.create("waiting", false).await;
    world.subscribe(&waiting, &["a"]).await;
    let start = Instant::now();
    let reply = world.user.fetch(&waiting, "?timeout=1500", BINARY).await;
    assert_eq!(reply.expect(200).json(), json!([]));
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    let other = world.create("other", false).await;
    world.assign(&other, &["a"]).await;
    assert_eq!(world.read(&other, 1).await, ["a0"]);
}

/// [KF-32] [AK-06] [LC-04] a service that stood still for longer than its session: another member has its partitions
/// meanwhile, and when it goes on it commits nothing of what it held and starts where the group is.
#[rstest]
#[case::classic(GroupProtocol::Classic)]
#[case::consumer(GroupProtocol::Consumer)]
#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_stood_still_starts_again_from_the_group(#[case] protocol: GroupProtocol) {
    let world = World::speaking(protocol).await;
    world.topic("a", &["0", "1"]);
    let instance = world.create("i", true).await;
    world.subscribe(&instance, &["a"]).await;
    assert_eq!(world.read(&instance, 2).await, ["0", "1"]);
    world.server.signal("STOP");
    // It takes the group a session to notice.
    let foreign = world.foreign("foreign");
    join(&foreign, &["a"]).await;
    world.write("a", b"2", Compression::None);
    let commit = Commit {
        partition: TopicPartition::only("a".into()),
        position: Position::at(3),
        metadata: "".into(),
    };
    foreign
        .run(Effect::Commit(vec![commit]), Duration::from_secs(20))
        .await
        .unwrap();
    foreign.run(Effect::Close, Duration::from_secs(20)).await.unwrap();
    let before = commits(&world);
    world.server.signal("CONT");
    world.write("a", b"3", Compression::None);
    assert_eq!(world.read(&instance, 1).await, ["3"]);
    assert_eq!(
        world.broker.committed(&world.name("g"), &world.name("a")),
        Some(3)
    );
    assert_eq!(commits(&world), before, "nothing of the old assignment");
    world.user.delete(&instance).await.expect(204);
    assert_eq!(
        world.broker.committed(&world.name("g"), &world.name("a")),
        Some(4)
    );
}

fn commits(world: &World) -> usize {
    let requests = world.broker.requests();
    requests
        .iter()
        .filter(|received| received.api == ApiKey::OffsetCommit && received.client_id == "octopus-g-i")
        .count()
}
