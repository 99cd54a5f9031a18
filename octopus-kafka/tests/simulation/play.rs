//! One world from its beginning to its end: what goes wrong in it, and then quiet, in which everything must come right.

mod happen;

use std::{io, sync::Arc, time::Duration};

use octopus_core::AutoOffsetReset;
use octopus_kafka::{Cluster, Config, GroupProtocol, broker};
use tokio::{
    runtime::Builder,
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{
    consumer::{Kind, Reader},
    network,
    sim::{self, FETCH_MEMORY, Flaws, Sim},
    truth::Truth,
};

/// How long all may take to come right [I6].
const RIGHT: Duration = Duration::from_secs(30);
/// How long what was held may take to be given back [I4].
const GIVEN_BACK: Duration = Duration::from_secs(30);
/// How long a member may be silent, and how often it is not.
const SESSION: Duration = Duration::from_secs(6);
const BEAT: Duration = Duration::from_secs(1);
/// Topics and groups that there may be.
const TOPICS: [&str; 3] = ["t0", "t1", "t2"];
/// A topic that consumers ask for, and that there never is.
const NOWHERE: &str = "nowhere";
const GROUPS: [&str; 3] = ["g0", "g1", "g2"];
/// What came of a world.
#[derive(Debug)]
pub(crate) struct Played {
    /// Of all events.
    pub(crate) hash: u64,
    /// What was wrong, with the last events.
    pub(crate) failure: Option<String>,
}

/// Plays the world of a seed. The same seed is the same world.
pub(crate) fn play(seed: u64, protocol: GroupProtocol, reads_ahead: bool) -> Played {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let sim = world(seed, protocol, reads_ahead).await;
        let state = sim.lock();
        let failure = state.failure.as_ref();
        let failure = failure.map(|why| format!("seed {seed}: {why}\n{}", state.lines(LINES)));
        Played {
            hash: state.hash(),
            failure,
        }
    })
}

/// The events that are shown of a world that failed.
const LINES: usize = 400;

/// The bytes of records that an answer has where consumers read ahead: a few batches.
const SMALL_ANSWER: usize = 400;

async fn world(seed: u64, protocol: GroupProtocol, reads_ahead: bool) -> Arc<Sim> {
    let mut config = broker::Config::default();
    config.initial_rebalance_delay = Duration::ZERO;
    config.consumer_session_timeout = SESSION;
    config.consumer_heartbeat_interval = BEAT;
    // A client that lets the broker make topics is found out.
    config.auto_create = true;
    config.requests_kept = 0;
    if reads_ahead {
        // Of what there is to read, an answer has some.
        config.max_fetch_bytes = SMALL_ANSWER;
    }
    config.advertised = Some(("kafka".to_owned(), 9092));
    let nodes = 1 + usize::try_from(seed % 3).expect("few nodes");
    let sim = Sim::new(seed, protocol, nodes, &config);
    let (topics, calm) = begin(&sim, nodes);
    let cluster = cluster(&sim, nodes);
    let mut tasks = JoinSet::new();
    let consumers = 1 + sim.lock().chance.below(6);
    for number in 0..consumers {
        let kind = kind(&sim, &topics, reads_ahead);
        tasks.spawn(Reader::new(&sim, &cluster, &format!("c{number}"), kind).live());
    }
    let length = sim.lock().chance.wait(4_000, 16_000);
    let end = Instant::now() + length;
    while Instant::now() < end && sim.lock().failure.is_none() {
        happen::happen(&sim, &topics, calm, &mut tasks);
        sim.wait(20, 700).await;
        sim.within_budget();
    }
    happen::heal(&sim, &topics);
    come_right(&sim, &topics).await;
    sim.lock().over = true;
    let ended = tokio::time::timeout(GIVEN_BACK, async { while tasks.join_next().await.is_some() {} }).await;
    if ended.is_err() {
        sim.fail("a consumer does not end");
    }
    give_back(&sim, &cluster).await;
    if sim.broker.end_offset(NOWHERE).is_some() {
        sim.fail("I12: a topic was made that nobody made");
    }
    sim
}

/// Makes the topics, and says what goes wrong: each kind in some of the worlds, and nothing in one of five.
fn begin(sim: &Sim, nodes: usize) -> (Vec<String>, bool) {
    let mut state = sim.lock();
    let topics: Vec<_> = TOPICS[..1 + state.chance.below(TOPICS.len())]
        .iter()
        .map(|&topic| topic.to_owned())
        .collect();
    let calm = state.chance.happens(200);
    state.calm = calm;
    if !calm {
        let mut often = |per_mille| if state.chance.happens(500) { per_mille } else { 0 };
        let flaws = Flaws {
            errors: often(40),
            throttles: often(15),
            slow: often(30),
            cuts: often(10),
            stuck: often(4),
            refusals: often(60),
            leaderless: often(100),
        };
        state.flaws = flaws;
    }
    for topic in &topics {
        let leader = state.chance.below(nodes);
        state.leaders.insert(topic.clone(), leader);
        state.topics.insert(topic.clone(), Truth::new());
    }
    for group in GROUPS {
        let coordinator = state.chance.below(nodes);
        state.coordinators.insert(group.to_owned(), coordinator);
    }
    let flaws = state.flaws;
    state.note(format_args!(
        "{nodes} nodes, {topics:?}, {}, {flaws:?}",
        if calm { "calm" } else { "wild" }
    ));
    drop(state);
    for topic in &topics {
        sim.broker.create_topic(topic);
        happen::write(sim, topic);
    }
    (topics, calm)
}

fn cluster(sim: &Arc<Sim>, nodes: usize) -> Cluster {
    let mut config = Config::new((0..nodes).map(sim::address).collect());
    config.group_protocol = sim.protocol;
    config.session_timeout = SESSION;
    config.heartbeat_interval = BEAT;
    config.rebalance_timeout = Duration::from_secs(20);
    config.fetch_memory = FETCH_MEMORY;
    let chance = sim.lock().chance.number();
    // The world holds its cluster, so the cluster must not hold the world.
    let network = Arc::downgrade(sim);
    let cluster = Cluster::played(config, chance, move |address| {
        let sim = network.upgrade();
        async move {
            match sim {
                Some(sim) => network::dial(sim, address).await,
                None => Err(io::ErrorKind::ConnectionRefused.into()),
            }
        }
    });
    sim.cluster.get_or_init(|| cluster.clone());
    cluster
}

fn kind(sim: &Sim, topics: &[String], reads_ahead: bool) -> Kind {
    let mut state = sim.lock();
    let some = 1 + state.chance.below(topics.len());
    let from = state.chance.below(topics.len());
    let mut mine: Vec<_> = topics.iter().cycle().skip(from).take(some).cloned().collect();
    if state.chance.happens(150) {
        mine.push(NOWHERE.to_owned());
    }
    let subscribes = state.chance.happens(750);
    let group = if subscribes {
        (*state.chance.pick(&GROUPS[..2])).to_owned()
    } else {
        // A group whose members assign themselves has none.
        GROUPS[2].to_owned()
    };
    let reset = *state.chance.pick(&[
        AutoOffsetReset::Earliest,
        AutoOffsetReset::Earliest,
        AutoOffsetReset::Latest,
    ]);
    Kind {
        group,
        subscribes,
        topics: mine,
        reset,
        reads_ahead,
    }
}

/// I6: every group and every consumer that assigns itself reads to the end.
async fn come_right(sim: &Sim, topics: &[String]) {
    let end = Instant::now() + RIGHT;
    loop {
        let ends: Vec<_> = topics
            .iter()
            .map(|topic| (topic.clone(), sim.broker.end_offset(topic)))
            .collect();
        let behind = {
            let state = sim.lock();
            if state.failure.is_some() {
                return;
            }
            let is_at_end = |consumer: &sim::Stand, topic: &str, end: Option<i64>| {
                consumer.positions.get(topic).copied().flatten() == end
            };
            let mut behind = Vec::new();
            for (id, stand) in &state.stands {
                for (topic, end) in ends.iter().filter(|(topic, _)| stand.topics.contains(topic)) {
                    let mut peers = state
                        .stands
                        .values()
                        .filter(|other| other.group.is_some() && other.group == stand.group);
                    let read =
                        is_at_end(stand, topic, *end) || peers.any(|other| is_at_end(other, topic, *end));
                    if !read {
                        behind.push(format!("{id}: {topic} up to {end:?}"));
                    }
                }
            }
            behind
        };
        if behind.is_empty() {
            return;
        }
        if Instant::now() > end {
            let why = format!(
                "I6: not read within {RIGHT:?}: {behind:?}; {:?}",
                sim.lock().stands
            );
            return sim.fail(why);
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// I4: all that was held is given back once nothing is asked.
async fn give_back(sim: &Sim, cluster: &Cluster) {
    let end = Instant::now() + GIVEN_BACK;
    loop {
        let held = cluster.held();
        if (held.places, held.answer_bytes, held.kept_bytes) == (0, 0, 0) {
            return;
        }
        if Instant::now() > end {
            return sim.fail(format_args!("I4: {held:?} when all is quiet"));
        }
        sleep(Duration::from_millis(100)).await;
    }
}
