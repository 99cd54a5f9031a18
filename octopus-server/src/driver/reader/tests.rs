use std::future;

use futures_util::FutureExt as _;
use octopus_core::{AutoOffsetReset, Name, Open, Position, Settings, TopicPartition};
use octopus_kafka::{
    Cluster, Config,
    broker::{self, Broker},
    records::{BatchWriter, Compression},
};

use super::*;

const PATIENCE: Duration = Duration::from_secs(5);

/// A topic of 8 MiB in a broker of the process's own, and one who reads it: no socket is in it, so its clock can stand still.
struct World {
    cluster: Cluster,
    reader: Arc<Reader>,
    plan: FetchPlan,
}

impl World {
    fn new() -> Self {
        let broker = Broker::detached(&broker::Config::default(), 1);
        broker.create_topic("t");
        for _ in 0..512 {
            let mut batch = BatchWriter::new(Compression::None);
            for _ in 0..16 {
                batch.push(0, None, Some(&[7; 1024]), &[]);
            }
            broker.append("t", batch.finish()).unwrap();
        }
        let cluster = Cluster::played(Config::new(vec!["broker:9092".into()]), 1, move |_| {
            future::ready(Ok(broker.connect()))
        });
        let mut settings = Settings::default();
        settings.auto_offset_reset = AutoOffsetReset::Earliest;
        let open = Open::outside(Name::parse("g").unwrap(), settings);
        let reader = Reader::new(cluster.consumer(&open, |_| {}));
        let mut plan = FetchPlan::of([TopicPartition::only("t".into())]);
        plan.advance(&TopicPartition::only("t".into()), Position::at(0));
        Self {
            cluster,
            reader,
            plan,
        }
    }

    /// One who has read on, and whose next turn has been taken ahead.
    async fn with_a_turn_ahead() -> Self {
        let mut world = Self::new();
        for _ in 0..2 {
            world.turn().await;
        }
        assert!(world.is_ahead());
        // The clock goes on only where nothing else does.
        tokio::time::sleep(KEPT_FOR / 2).await;
        assert!(world.is_ahead() && world.cluster.held().kept_bytes >= REPLY_BYTES);
        world
    }

    /// Takes the next turn, and says where it starts and how many offsets it passes.
    async fn turn(&mut self) -> (i64, i64) {
        let turned = self
            .reader
            .turn(self.plan.clone(), PATIENCE, future::pending())
            .await
            .unwrap();
        assert!(turned.is_plain(), "{turned:?}");
        let from = self.position();
        self.plan = self.plan.after(&turned.fetched);
        (from, self.position() - from)
    }

    fn position(&self) -> i64 {
        self.plan.positions[0].1.unwrap().offset
    }

    fn is_ahead(&self) -> bool {
        self.reader.ahead().is_some()
    }
}

/// [FE-11] the client that comes in time has the turn that was taken ahead, and one that goes on behind it.
#[tokio::test(start_paused = true)]
async fn a_turn_that_was_taken_ahead_is_given_to_who_goes_on() {
    let mut world = World::with_a_turn_ahead().await;
    let at = world.position();
    let turned = world
        .turn()
        .now_or_never()
        .expect("it is here, and waits for nothing");
    assert!(turned.0 == at && turned.1 > 900, "{turned:?}");
    assert!(world.is_ahead());
}

/// [FE-11] a client that stays away costs no memory for long, and loses nothing.
#[tokio::test(start_paused = true)]
async fn a_turn_that_was_taken_ahead_falls_if_nobody_comes_for_it() {
    let mut world = World::with_a_turn_ahead().await;
    tokio::time::sleep(KEPT_FOR / 2 + Duration::from_millis(1)).await;
    assert!(!world.is_ahead());
    // What was asked for behind it came as late as it was made, and is kept as long by itself.
    tokio::time::sleep(KEPT_FOR * 2).await;
    assert_eq!(world.cluster.held().kept_bytes, 0);
    let at = world.position();
    assert_eq!(world.turn().await.0, at);
}

/// [FE-11] a client that goes elsewhere has nothing of it.
#[tokio::test(start_paused = true)]
async fn a_turn_that_was_taken_ahead_is_for_its_plan_alone() {
    let mut world = World::with_a_turn_ahead().await;
    let elsewhere = Position::at(world.position() + 5);
    world.plan.advance(&TopicPartition::only("t".into()), elsewhere);
    let (from, _) = world.turn().await;
    assert_eq!(from, elsewhere.offset);
    assert!(!world.is_ahead(), "it does not go on where the last one ended");
}
