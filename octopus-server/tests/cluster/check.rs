//! The checker.

use std::{
    env,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use serde_json::json;
use tokio::{
    task::{JoinSet, spawn_blocking},
    time::sleep,
};

use super::{
    admin::Admin,
    faults::Faults,
    ledger::Ledger,
    reader::{Commits, Reader},
    seed::Seed,
    world::World,
    writer::Writer,
};

/// Faults for that long, where `OCTOPUS_CLUSTER_SECONDS` does not say.
const SECONDS: u64 = 45;
/// Records a second.
const RATE: u64 = 150;
/// Within this every record is read once the faults are over; a slow machine needs some of it.
const READ_WITHIN: Duration = Duration::from_secs(60);
const ASSIGNED: [&str; 3] = ["own-0", "own-1", "own-2"];
const SHARED: [&str; 4] = ["shared-0", "shared-1", "shared-2", "shared-3"];

/// [FE-02] [FE-11] [CO-01] [CO-02] [D-21] what librdkafka was told is written is read, once, to the byte, whatever happens
/// to the cluster: by readers with a topic each, which are given everything in order, and by members of a group, which
/// are given nothing again below what the group has committed.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_or_doubled_while_the_cluster_fails() {
    let Some(world) = World::start().await else { return };
    let begun = Instant::now();
    let long = number("OCTOPUS_CLUSTER_SECONDS").unwrap_or(SECONDS);
    let seed = number("OCTOPUS_SEED").unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        now.as_secs() % 1_000_000
    });
    println!("OCTOPUS_SEED={seed} OCTOPUS_CLUSTER_SECONDS={long}");
    let mut choices = Seed::new(seed);

    let mut topics = Vec::new();
    for topic in ASSIGNED.iter().chain(&SHARED) {
        // Small segments, so that deleted records go from the disk and leaders have several files.
        topics.push(world.topic(topic, json!({"segment.bytes": "4194304"})).await);
    }
    world.admin(Admin::whole).await;
    let ledger = Arc::new(Ledger::default());
    let writer = Writer::start(
        &world.python,
        &world.nodes.address(),
        seed,
        RATE,
        &topics,
        &ledger,
    );
    let mut readers = JoinSet::new();
    let mut reader = |group: &str, name: &str| Reader {
        user: world.user.clone(),
        ledger: Arc::clone(&ledger),
        seed: choices.fork(),
        group: group.to_owned(),
        name: name.to_owned(),
    };
    for topic in ASSIGNED {
        readers.spawn(reader("own", topic).read_assigned(topic.to_owned()));
    }
    for (name, commits) in [
        ("processed", Commits::Processed),
        ("positions", Commits::Positions),
        ("auto", Commits::Auto),
    ] {
        let topics = SHARED.map(str::to_owned).to_vec();
        readers.spawn(reader("shared", name).read_subscribed(topics, commits));
    }

    let faults = Faults {
        admin: Arc::clone(&world.admin),
        nodes: Arc::clone(&world.nodes),
        ledger: Arc::clone(&ledger),
        group: world.name("shared"),
        shared: SHARED.map(str::to_owned).to_vec(),
        assigned: ASSIGNED.map(str::to_owned).to_vec(),
        prefix: world.name(""),
        seed: choices.fork(),
    };
    let faults = spawn_blocking(move || faults.run(Duration::from_secs(long)));
    // A reader never ends by itself.
    let counts = tokio::select! {
        counts = faults => counts.unwrap(),
        reader = readers.join_next() => panic!("{reader:?}"),
    };
    let written = spawn_blocking(move || writer.end()).await.unwrap();
    let over = Instant::now();
    let all_read = async {
        while ledger.verdict().lost > 0 {
            sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        () = all_read => {}
        () = sleep(READ_WITHIN) => {}
        reader = readers.join_next() => panic!("{reader:?}"),
    }
    readers.abort_all();

    let verdict = ledger.verdict();
    println!("writer: {written}");
    println!(
        "all was read {:.1} s after the last word of the writer",
        over.elapsed().as_secs_f64()
    );
    println!("slowest, ms beyond its wait: {:?}", ledger.slowest());
    println!("replies other than successes: {:?}", ledger.replies());
    println!(
        "{} acknowledged, {} read, {} lost, {} doubled, {} different; faults {counts:?}; {} s; seed {seed}",
        verdict.acknowledged,
        verdict.read,
        verdict.lost,
        verdict.doubled,
        verdict.different,
        begun.elapsed().as_secs(),
    );
    assert!(verdict.acknowledged > 0, "nothing was written: {written}");
    let wrong = (verdict.lost, verdict.doubled, verdict.different);
    assert_eq!(wrong, (0, 0, 0), "{:#?}", ledger.told());
}

/// A whole number from the environment.
fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap())
}
