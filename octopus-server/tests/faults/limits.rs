//! What takes too long, is throttled, or is used up.

use std::{process::Command, time::Duration};

use octopus_kafka::broker::{ApiKey, always, first};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    support::client::BINARY,
    world::{GROUP, World},
};

/// [KF-04] [ER-06] a commit that Kafka never answers is told as such in its time.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_never_answered_is_50003() {
    let world = World::start().await;
    world.topic("a", &["a0"]);
    let instance = world.create("i", false).await;
    world.assign(&instance, &["a"]).await;
    world.read(&instance, 1).await;
    world.broker.faults().on(ApiKey::OffsetCommit, always()).never();
    let start = Instant::now();
    let commit = world.user.post(&format!("{instance}/offsets"), "").await;
    assert_eq!(commit.error(), (500, 50003));
    assert!(start.elapsed() < Duration::from_secs(20));
    world.broker.faults().clear();
    world
        .user
        .post(&format!("{instance}/offsets"), "")
        .await
        .expect(200);
}

/// [KF-38] [ER-04] a request that the cluster refuses for its quota is a 42901 that says when to come again.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_past_its_quota_is_42901_with_a_time_to_wait() {
    let world = World::start().await;
    world.topic("a", &["a0"]);
    let instance = world.create("i", false).await;
    world.assign(&instance, &["a"]).await;
    world.read(&instance, 1).await;
    world.broker.faults().on(ApiKey::OffsetCommit, first(1)).error(89);
    let commit = world.user.post(&format!("{instance}/offsets"), "").await;
    assert_eq!(commit.error(), (429, 42901));
    assert!(commit.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    world
        .user
        .post(&format!("{instance}/offsets"), "")
        .await
        .expect(200);
}

/// How many descriptors a process has open.
fn descriptors(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

/// [KF-47] [ER-07] a process without a descriptor left for Kafka says that it can't be reached, lives on, and is well when
/// there are some again.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_out_of_descriptors_lives_on() {
    let world = World::start().await;
    world.topic("a", &["a0"]);
    let process = world.server.process.id();
    let limit = descriptors(process) + 3;
    let limited = Command::new("prlimit")
        .args([
            "--pid",
            &process.to_string(),
            &format!("--nofile={limit}:{limit}"),
        ])
        .status();
    assert!(limited.expect("prlimit of util-linux").success());
    let mut caller = world.user.connect().await;
    let mut idle = Vec::new();
    // As many as are taken, and some that wait.
    for _ in 0..6 {
        idle.push(world.user.connect().await);
    }
    while descriptors(process) < limit {
        sleep(Duration::from_millis(10)).await;
    }
    for _ in 0..2 {
        let create = json!({"name": "i"}).to_string();
        let head = world.user.head("POST", GROUP, &[], &create);
        caller.send(&head).await;
        assert_eq!(caller.receive().await.error(), (503, 50302));
    }
    drop(idle);
    let mut created = 0;
    for _ in 0..40 {
        created = world.user.post(GROUP, r#"{"name": "i"}"#).await.status;
        if created == 200 {
            break;
        }
        sleep(Duration::from_millis(250)).await;
    }
    assert_eq!(created, 200);
}

/// [A39]
/// [KF-49] [AK-03] [AK-05] a stop with a join, a poll and a commit under way that Kafka never answers: all of it shares
/// eight seconds, and who can leave its group has left.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_does_not_wait_for_kafka_longer_than_its_time() {
    let mut world = World::start().await;
    world.topic("a", &["a0"]);
    world.topic("b", &[]);
    let committing = world.create("committing", true).await;
    world.assign(&committing, &["a"]).await;
    assert_eq!(world.read(&committing, 1).await, ["a0"]);
    let member = world.create("member", false).await;
    world.subscribe(&member, &["b"]).await;
    let mut polling = world.user.polling(&member, BINARY).await;
    let silent = world.broker.faults().on(ApiKey::OffsetCommit, always());
    silent.never();

    let other = world.server.user(1);
    let group = "/api/v2/consumers/stuck";
    other.post(group, r#"{"name": "joining"}"#).await.expect(200);
    let topic = crate::support::kafka::on_kafka(&other, "b");
    assert!(world.broker.create_topic(&topic));
    let joining = format!("{group}/instances/joining");
    let subscribe = json!({"topics": ["b"]}).to_string();
    other
        .post(&format!("{joining}/subscription"), &subscribe)
        .await
        .expect(204);
    let silent = world.broker.faults().on(ApiKey::JoinGroup, always());
    silent.client("octopus-stuck-joining").never();
    let mut waiting = other.polling(&joining, BINARY).await;

    let start = Instant::now();
    world.server.signal("TERM");
    assert_eq!(polling.receive().await.expect(200).json(), json!([]));
    _ = waiting.try_receive().await;
    let status = world.server.ended().await;
    assert_eq!(status.code(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());
    assert!(
        world.broker.group_members(&world.name("g")).is_empty(),
        "it has left"
    );
}
