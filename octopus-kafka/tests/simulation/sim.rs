//! What all of one world share: the broker behind its nodes, the truth about its logs, chance, and the list of events.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt::Display,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use octopus_kafka::{
    Cluster, GroupProtocol,
    broker::{self, ApiKey, Broker, Response, always},
};
use tokio::time::Instant;

use crate::{
    chance::Chance,
    truth::{Seen, Truth},
    wire::Wire,
};

/// The port of the node before the first.
const PORT: i32 = 9091;
/// The client id of requests that the broker throttles, and for how long.
pub(crate) const THROTTLED: &str = "!throttled";
const THROTTLE: Duration = Duration::from_millis(300);
/// The memory for large answers in a small world.
pub(crate) const FETCH_MEMORY: usize = 512 << 10;
const MOVED: i16 = 6;
const NOT_COORDINATOR: i16 = 16;

/// The errors that each API is answered with, none of which says that something is so.
const ERRORS: &[(ApiKey, &[i16])] = &[
    (ApiKey::Fetch, &[MOVED, 3, 9, 56, 74, 75, 78, 100]),
    (ApiKey::ListOffsets, &[MOVED, 3, 5, 74, 75, 78]),
    (ApiKey::FindCoordinator, &[14, 15]),
    (ApiKey::JoinGroup, &[14, 15, NOT_COORDINATOR, 25]),
    (ApiKey::SyncGroup, &[14, 15, NOT_COORDINATOR, 22, 25, 27]),
    (ApiKey::Heartbeat, &[14, 15, NOT_COORDINATOR, 22, 25, 27]),
    (
        ApiKey::ConsumerGroupHeartbeat,
        &[14, 15, NOT_COORDINATOR, 25, 110],
    ),
    (ApiKey::OffsetCommit, &[7, 14, 15, NOT_COORDINATOR, 22, 25, 27]),
    (ApiKey::OffsetFetch, &[14, 15, NOT_COORDINATOR, 88]),
    (ApiKey::LeaveGroup, &[14, 15, NOT_COORDINATOR, 25]),
];

/// One world.
#[derive(Debug)]
pub(crate) struct Sim {
    pub(crate) broker: Broker,
    pub(crate) protocol: GroupProtocol,
    /// Once it is there: the cluster that all consumers are of.
    pub(crate) cluster: OnceLock<Cluster>,
    state: Arc<Mutex<State>>,
}

/// What goes wrong in a world, each in how many of a thousand cases.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Flaws {
    pub(crate) errors: usize,
    pub(crate) throttles: usize,
    pub(crate) slow: usize,
    pub(crate) cuts: usize,
    pub(crate) stuck: usize,
    pub(crate) refusals: usize,
    pub(crate) leaderless: usize,
}

/// Where one consumer stands.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stand {
    /// The group, for one that subscribes.
    pub(crate) group: Option<String>,
    pub(crate) topics: Vec<String>,
    pub(crate) positions: BTreeMap<String, Option<i64>>,
}

/// What changes.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) chance: Chance,
    pub(crate) flaws: Flaws,
    /// Nothing ever goes wrong in this world.
    pub(crate) calm: bool,
    /// Nothing goes wrong any more.
    pub(crate) quiet: bool,
    /// All consumers end.
    pub(crate) over: bool,
    pub(crate) wire: Wire,
    pub(crate) topics: BTreeMap<String, Truth>,
    pub(crate) leaders: BTreeMap<String, usize>,
    pub(crate) coordinators: BTreeMap<String, usize>,
    /// Until when each node is frozen, and until when it is down.
    pub(crate) frozen: Vec<Instant>,
    pub(crate) down: Vec<Instant>,
    pub(crate) stands: BTreeMap<String, Stand>,
    /// What was read up to each position that a group was asked to commit, by the group, the topic and the position.
    read: BTreeMap<(String, String, i64), Option<Seen>>,
    pub(crate) failure: Option<String>,
    /// The number of the next record.
    pub(crate) next: u64,
    connections: u64,
    began: Instant,
    lines: Vec<String>,
    hash: u64,
}

impl Sim {
    /// A world of so many nodes, in tasks of this runtime.
    pub(crate) fn new(
        seed: u64,
        protocol: GroupProtocol,
        nodes: usize,
        config: &broker::Config,
    ) -> Arc<Self> {
        let now = Instant::now();
        let state = State {
            chance: Chance::new(seed),
            flaws: Flaws::default(),
            calm: false,
            quiet: false,
            over: false,
            wire: Wire::default(),
            topics: BTreeMap::new(),
            leaders: BTreeMap::new(),
            coordinators: BTreeMap::new(),
            frozen: vec![now; nodes],
            down: vec![now; nodes],
            stands: BTreeMap::new(),
            read: BTreeMap::new(),
            failure: None,
            next: 1,
            connections: 0,
            began: now,
            lines: Vec::new(),
            hash: 0xcbf2_9ce4_8422_2325,
        };
        let broker = Broker::detached(config, seed);
        let state = Arc::new(Mutex::new(state));
        let faults = broker.faults();
        for (api, codes) in ERRORS {
            for code in *codes {
                faults.on(*api, always()).client(refusal(*code)).error(*code);
            }
            faults.on(*api, always()).client(THROTTLED).throttle(THROTTLE);
        }
        for api in [ApiKey::Metadata, ApiKey::FindCoordinator] {
            let state = Arc::clone(&state);
            faults
                .on(api, always())
                .edit(move |response| lock(&state).spread(response));
        }
        Arc::new(Self {
            broker,
            protocol,
            cluster: OnceLock::new(),
            state,
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(crate) fn note(&self, what: impl Display) {
        self.lock().note(what);
    }

    pub(crate) fn fail(&self, why: impl Display) {
        self.lock().fail(why);
    }

    /// I5: what is held of large answers stays within its bound; one that is larger by itself is held alone.
    pub(crate) fn within_budget(&self) {
        let held = self.cluster.get().map(Cluster::held);
        if let Some(held) = held.filter(|held| held.answers > 1 && held.answer_bytes > FETCH_MEMORY) {
            self.fail(format_args!("I5: {held:?}"));
        }
    }

    pub(crate) async fn wait(&self, least: usize, most: usize) {
        let wait = self.lock().chance.wait(least, most);
        tokio::time::sleep(wait).await;
    }
}

impl State {
    pub(crate) fn note(&mut self, what: impl Display) {
        let line = format!("{:>6} {what}", self.began.elapsed().as_millis());
        for byte in line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.lines.push(line);
    }

    /// The first thing that is wrong is what counts.
    pub(crate) fn fail(&mut self, why: impl Display) {
        self.note(format_args!("WRONG {why}"));
        self.failure.get_or_insert_with(|| why.to_string());
    }

    /// A client is about to have this committed, up to which it read what was seen.
    pub(crate) fn asks(
        &mut self,
        group: &str,
        client_id: &str,
        topic: String,
        offset: i64,
        seen: Option<Seen>,
    ) {
        let asked = self.wire.asked.entry(client_id.to_owned()).or_default();
        asked.insert((topic.clone(), offset));
        match self.read.entry((group.to_owned(), topic, offset)) {
            Entry::Vacant(entry) => _ = entry.insert(seen),
            Entry::Occupied(mut entry) => match (entry.get_mut(), seen) {
                (Some(before), Some(seen)) => before.or(&seen),
                (before, _) => *before = None,
            },
        }
    }

    /// What a group ever committed of a topic, and what was read up to there, if that can be told.
    pub(crate) fn committed(&self, group: &str, topic: &str) -> Vec<(i64, Option<Seen>)> {
        let committed = self.wire.committed.get(group).into_iter().flatten();
        let committed = committed.filter(|(of, _)| of == topic);
        let read = |offset| self.read.get(&(group.to_owned(), topic.to_owned(), offset));
        committed
            .map(|(_, offset)| (*offset, read(*offset).cloned().flatten()))
            .collect()
    }

    pub(crate) fn happens(&mut self, per_mille: usize) -> bool {
        !self.quiet && self.chance.happens(per_mille)
    }

    pub(crate) const fn connection(&mut self) -> u64 {
        self.connections += 1;
        self.connections
    }

    /// An error that this API may be answered with, as the client id that has it so answered.
    pub(crate) fn error(&mut self, api: ApiKey) -> Option<String> {
        let (_, codes) = ERRORS.iter().find(|(known, _)| *known == api)?;
        Some(refusal(*self.chance.pick(codes)))
    }

    pub(crate) fn leader(&self, topic: &str) -> usize {
        self.leaders.get(topic).copied().unwrap_or(0)
    }

    pub(crate) fn coordinator(&self, group: &str) -> usize {
        self.coordinators.get(group).copied().unwrap_or(0)
    }

    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    /// The last events.
    pub(crate) fn lines(&self, most: usize) -> String {
        self.lines[self.lines.len().saturating_sub(most)..].join("\n")
    }

    /// Makes an answer one of a cluster of several nodes.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others name no nodes")]
    fn spread(&mut self, response: &mut Response) {
        match response {
            Response::Metadata(response) => {
                let Some(first) = response.brokers.pop() else {
                    return;
                };
                response.brokers.clear();
                for (id, _) in (1..).zip(&self.down) {
                    let broker = first.clone().with_node_id(id.into());
                    response.brokers.push(broker.with_port(PORT + id));
                }
                for topic in &mut response.topics {
                    let name = topic
                        .name
                        .as_ref()
                        .map_or_else(String::new, |name| name.to_string());
                    if topic.error_code != 0 {
                        continue;
                    }
                    self.wire.ids.insert(topic.topic_id, name.clone());
                    let leaderless = self.flaws.leaderless;
                    let leaderless = self.happens(leaderless);
                    for partition in &mut topic.partitions {
                        partition.leader_id = id(self.leader(&name)).into();
                        if leaderless {
                            partition.leader_id = (-1).into();
                            partition.error_code = 5;
                        }
                    }
                }
            }
            Response::FindCoordinator(response) => {
                for found in &mut response.coordinators {
                    let node = id(self.coordinator(found.key.as_str()));
                    found.node_id = node.into();
                    found.port = PORT + node;
                }
            }
            _ => {}
        }
    }
}

/// Which node an address is of.
pub(crate) fn node(address: &str) -> usize {
    let port = address
        .rsplit_once(':')
        .and_then(|(_, port)| port.parse::<i32>().ok());
    let node = port.expect("an address with a port") - PORT - 1;
    usize::try_from(node).expect("a node's port")
}

/// The address of a node.
pub(crate) fn address(node: usize) -> String {
    format!("kafka:{}", PORT + id(node))
}

/// The client id of a request that a node is asked that is not the one to ask.
pub(crate) fn astray(group: bool) -> String {
    refusal(if group { NOT_COORDINATOR } else { MOVED })
}

fn refusal(code: i16) -> String {
    format!("!{code}")
}

fn id(node: usize) -> i32 {
    i32::try_from(node).expect("few nodes") + 1
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
