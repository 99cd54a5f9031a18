use std::future;

use futures_util::FutureExt as _;
use octopus_core::{AutoOffsetReset, Name, Open, Position, Settings, TopicPartition};
use octopus_kafka::{
    Cluster, Config,
    broker::{self, ApiKey, Broker, always},
    records::{BatchWriter, Compression},
};

use super::*;

const PATIENCE: Duration = Duration::from_secs(5);

/// A topic in a broker of the process's own, and one who reads it: no socket is in it, so its clock can stand still.
struct World {
    broker: Arc<Broker>,
    cluster: Cluster,
    reader: Arc<Reader>,
    plan: FetchPlan,
}

impl World {
    /// Of so many batches of so many records of so many bytes.
    fn new(batches: [usize; 3]) -> Self {
        let broker = Arc::new(Broker::detached(&broker::Config::default(), 1));
        broker.create_topic("t");
        let served = Arc::clone(&broker);
        let cluster = Cluster::played(Config::new(vec!["broker:9092".into()]), 1, move |_| {
            future::ready(Ok(served.connect()))
        });
        let mut settings = Settings::default();
        settings.auto_offset_reset = AutoOffsetReset::Earliest;
        let open = Open::outside(Name::parse("g").unwrap(), settings);
        let reader = Reader::new(cluster.consumer(&open, |_| {}));
        let mut plan = FetchPlan::of([TopicPartition::only("t".into())]);
        plan.advance(&TopicPartition::only("t".into()), Position::at(0));
        let world = Self {
            broker,
            cluster,
            reader,
            plan,
        };
        world.append(batches);
        world
    }

    fn append(&self, batches: [usize; 3]) {
        self.append_packed(batches, Compression::None);
    }

    fn append_packed(&self, [batches, records, bytes]: [usize; 3], compression: Compression) {
        for _ in 0..batches {
            let mut batch = BatchWriter::new(compression);
            for _ in 0..records {
                batch.push(0, None, Some(&vec![7; bytes]), &[]);
            }
            self.broker.append("t", batch.finish()).unwrap();
        }
    }

    /// Of 8 MiB, with one who has read on, and whose next turn has been taken ahead.
    async fn with_a_turn_ahead() -> Self {
        let mut world = Self::new([512, 16, 1024]);
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
        assert!(turned.body.is_some(), "{turned:?}");
        let from = self.position();
        self.plan = self.plan.after(&turned.fetched);
        (from, self.position() - from)
    }

    fn position(&self) -> i64 {
        self.plan.positions[0].1.unwrap().offset
    }

    /// How many Kafka had so far.
    fn fetches(&self) -> usize {
        let requests = self.broker.requests();
        requests
            .iter()
            .filter(|received| received.api == ApiKey::Fetch)
            .count()
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

/// [FE-11] a record may be of megabytes, which are not kept for who may not come.
#[tokio::test(start_paused = true)]
async fn a_reply_over_two_mebibytes_is_not_packed_ahead() {
    let mut world = World::new([6, 1, 3 << 20]);
    for _ in 0..4 {
        world.turn().await;
        tokio::time::sleep(KEPT_FOR / 2).await;
        assert!(!world.is_ahead());
    }
}

/// [CR-07] what is there already is no reason to answer with less than was asked for: neither in a turn that was taken ahead,
/// nor, behind a reply that none is taken behind, in an answer that was asked for ahead.
#[tokio::test(start_paused = true)]
async fn what_is_read_ahead_is_as_much_as_a_turn_waits_for() {
    for topic in [[200, 16, 1024], [3, 1, 3 << 20]] {
        let mut world = World::new(topic);
        world.append([1, 16, 1024]);
        let least = 200_000;
        world.plan.min_bytes = least;
        let end = world.broker.end_offset("t").unwrap();
        let (mut last, mut began) = (0, Instant::now());
        while world.position() < end {
            began = Instant::now();
            last = world.turn().await.1;
        }
        assert!(last * 1024 < i64::from(least), "the end has less: {last}");
        assert!(began.elapsed() > PATIENCE / 2, "{:?}", began.elapsed());
    }
}

/// [CR-07] an answer has 1 MiB at most, so nobody waits for more.
#[tokio::test(start_paused = true)]
async fn more_than_an_answer_may_have_is_not_waited_for() {
    let mut world = World::new([512, 16, 1024]);
    world.plan.min_bytes = i32::MAX;
    let began = Instant::now();
    for _ in 0..8 {
        world.turn().await;
    }
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    assert!(world.fetches() <= 10, "{} for 8 MiB", world.fetches());
}

/// [FE-11] what is found ahead and not kept as a reply is found again where it is.
#[tokio::test(start_paused = true)]
async fn what_is_no_plain_reply_is_not_read_twice() {
    let mut world = World::new([1, 16, 1024]);
    for _ in 0..8 {
        world.append([1, 16, 1024]);
        world.append_packed([1, 1, 3 << 20], Compression::Zstd);
    }
    let end = world.broker.end_offset("t").unwrap();
    while world.position() < end {
        world.turn().await;
    }
    assert!(world.fetches() <= 3, "{} for a small answer", world.fetches());
}

/// [FE-11] a topic that can't be read does not have the others read twice.
#[tokio::test(start_paused = true)]
async fn each_byte_is_read_once_beside_a_topic_that_can_not_be_read() {
    let mut world = World::new([512, 16, 1024]);
    world.broker.create_topic("u");
    world
        .broker
        .faults()
        .on(ApiKey::Fetch, always())
        .topic("u")
        .error(29);
    world
        .plan
        .positions
        .push((TopicPartition::only("u".into()), Some(Position::at(0))));
    let end = world.broker.end_offset("t").unwrap();
    while world.position() < end {
        world.turn().await;
        assert!(!world.is_ahead());
    }
    assert!(world.fetches() <= 10, "{} for 9 MiB", world.fetches());
}
