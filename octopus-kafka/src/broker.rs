//! A Kafka broker in this process, for demos, development and tests; production runs on Apache Kafka.
//!
//! One node with topics, partitions, long polls, limits, idempotent producers and both protocols of
//! consumer groups, like Apache Kafka where a client can tell. It has no replication, no transactions and
//! no TLS. Clients sign in where it has users ([`Config::users`]). What it holds is gone with it unless it has a folder to keep it in ([`Config::data`]). A test can have it answer wrongly, late or not at
//! all ([`Broker::faults`]), and read what it was asked ([`Broker::requests`]).
//!
//! ```
//! use octopus_kafka::broker::{ApiKey, Broker, Config, nth};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let broker = Broker::start(Config::default()).await?;
//! broker.create_topic("orders");
//! broker.faults().on(ApiKey::Fetch, nth(2)).error(6);
//! // A client connects to broker.addr().
//! assert_eq!(broker.end_offset("orders"), Some(0));
//! assert!(broker.requests().is_empty());
//! broker.shutdown().await;
//! # Ok(())
//! # }
//! ```

use std::{
    collections::BTreeMap,
    fmt,
    hash::{BuildHasher as _, RandomState},
    io,
    net::SocketAddr,
    ops::RangeInclusive,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    io::{DuplexStream, duplex},
    net::TcpListener,
    sync::mpsc,
    task::JoinHandle,
};
use uuid::Uuid;

mod api;
mod code;
mod consumers;
mod coordinator;
mod disk;
mod fault;
mod group;
mod guard;
mod id;
mod log;
mod machine;
mod part;
mod refuse;
mod request;
mod sasl;
mod serve;
mod store;
#[cfg(test)]
mod tests;
mod topic;

pub use api::{Request, Response};
pub use fault::{Fault, Faults, When, always, first, nth};
pub use group::GroupState;
pub use id::ConnectionId;
pub use kafka_protocol::messages::ApiKey;
pub use sasl::{Mechanism, Users};

use coordinator::Rules;
use disk::Folder;
use group::Committed;
#[cfg(test)]
pub(crate) use log::Log;
use machine::{Machine, Observer};
use serve::Shared;
use store::Store;

/// From which length on a file of records is followed by another one.
const SEGMENT: u64 = 64 << 20;

/// What a stream within the process holds in each direction, in bytes.
const STREAM_BYTES: usize = 64 << 10;

/// How a broker is set up.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// Where it listens; port 0 takes a free one. A free port of loopback by default.
    pub listen: SocketAddr,
    /// The host and port that clients are told to connect to; what it listens on by default.
    pub advertised: Option<(String, u16)>,
    /// Whether a Metadata request that allows it creates the topics that it names. False by default, unlike
    /// Kafka's.
    pub auto_create: bool,
    /// How many partitions a topic has that is created without a number: 1 by default.
    pub num_partitions: i32,
    /// How long the first generation of an empty group waits for more members: 3 s by default.
    pub initial_rebalance_delay: Duration,
    /// The shortest session that a member may ask for: 6 s by default.
    pub min_session_timeout: Duration,
    /// The longest session that a member may ask for: 30 min by default.
    pub max_session_timeout: Duration,
    /// The session of a member of a consumer group, which the coordinator assigns to: 45 s by default.
    pub consumer_session_timeout: Duration,
    /// How often such a member is told to send a heartbeat: 5 s by default.
    pub consumer_heartbeat_interval: Duration,
    /// The largest batch of a topic that sets no `max.message.bytes`: 16 MiB by default.
    pub max_message_bytes: usize,
    /// The most bytes of records in one answer to a Fetch, but for a first batch that is larger: 55 MiB by default.
    pub max_fetch_bytes: usize,
    /// The longest frame that is read: 32 MiB by default. A longer one closes its connection.
    pub max_frame_bytes: usize,
    /// How many bytes a partition keeps; the oldest batches go first. 1 GiB by default.
    pub retention_bytes: usize,
    /// Who may sign in. With users, a connection that has not signed in may only ask for versions and do so; with
    /// none, the default, nobody has to.
    pub users: Users,
    /// The ways to sign in: all by default.
    pub mechanisms: Vec<Mechanism>,
    /// How long a connection may go on after it has signed in, unless it does so again; without end by default.
    pub max_session: Option<Duration>,
    /// The folder that topics, records and what groups commit are kept in, so that a broker that is started with
    /// it later goes on with them; none by default, and all is gone with the broker. An answer is given only
    /// when what it promises is written to a file, so the end of the process, by whatever signal, loses nothing
    /// of it. Members of groups are not kept: they join again. A folder has one broker at a time.
    pub data: Option<PathBuf>,
    /// Whether each write waits for the device, so that a loss of power takes nothing away either; false by
    /// default, like Kafka's.
    pub fsync: bool,
    /// How many of the last requests are kept for [`Broker::requests`]: 4,096 by default, 0 for none.
    pub requests_kept: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            advertised: None,
            auto_create: false,
            num_partitions: 1,
            initial_rebalance_delay: Duration::from_secs(3),
            min_session_timeout: Duration::from_secs(6),
            max_session_timeout: Duration::from_secs(1800),
            consumer_session_timeout: Duration::from_secs(45),
            consumer_heartbeat_interval: Duration::from_secs(5),
            max_message_bytes: 16 << 20,
            max_fetch_bytes: 55 << 20,
            max_frame_bytes: 32 << 20,
            retention_bytes: 1 << 30,
            users: Users::default(),
            mechanisms: Mechanism::ALL.to_vec(),
            max_session: None,
            data: None,
            fsync: false,
            requests_kept: 4096,
        }
    }
}

/// A running broker. Dropped, it ends without waiting for its connections.
#[derive(Debug)]
pub struct Broker {
    addr: SocketAddr,
    shared: Arc<Shared>,
    faults: Faults,
    serving: JoinHandle<()>,
    timing: JoinHandle<()>,
    /// To who serves streams, where it does not listen.
    door: Option<mpsc::UnboundedSender<DuplexStream>>,
}

/// A request that the broker received.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Received {
    /// Its API.
    pub api: ApiKey,
    /// Its version.
    pub version: i16,
    /// Its client id, empty where it has none.
    pub client_id: String,
    /// The connection that it came on.
    pub connection: ConnectionId,
    /// The request; a Produce without its records.
    pub request: Request,
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupMember {
    /// Its member id.
    pub member_id: String,
    /// The client id that it joined with.
    pub client_id: String,
    /// Its assignment, as the leader encoded it; empty before it has one.
    pub assignment: Bytes,
}

/// A member of a group in which the coordinator assigns.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsumerMember {
    /// Its member id.
    pub member_id: String,
    /// Its epoch.
    pub epoch: i32,
    /// The topics of the partitions that it has: those that it is given, and those that it has not given up yet. One that
    /// was deleted is there by its id.
    pub topics: Vec<String>,
}

/// What the machine is told once.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    node: Node,
    cluster_id: String,
    auto_create: bool,
    num_partitions: i32,
    max_message_bytes: usize,
    max_fetch_bytes: usize,
    retention_bytes: usize,
    requests_kept: usize,
    groups: Rules,
    sasl: sasl::Rules,
}

/// The one node of the cluster, as clients see it.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    id: i32,
    host: String,
    port: u16,
}

impl Broker {
    /// Listens and serves in tasks of the tokio runtime that this is called in.
    ///
    /// # Errors
    ///
    /// Those of listening, and of the folder for its data: another broker has it, it holds something else, or it
    /// is damaged elsewhere than at the end of a file.
    pub async fn start(config: Config) -> io::Result<Self> {
        let listener = TcpListener::bind(config.listen).await;
        let listener = listener.map_err(|error| about(config.listen, &error))?;
        let addr = listener.local_addr()?;
        let (host, port) = config.advertised.clone().unwrap_or_else(|| {
            let ip = if addr.ip().is_unspecified() {
                "127.0.0.1".to_owned()
            } else {
                addr.ip().to_string()
            };
            (ip, addr.port())
        });
        let seed = RandomState::new().hash_one(addr);
        let faults = Faults::default();
        let settings = config.settings(Node { id: 1, host, port });
        let mut machine = Machine::new(settings, faults.clone(), seed);
        if let Some(data) = config.data.clone() {
            let open = move || {
                let folder = Folder::take(&data, config.fsync);
                let opened = folder.and_then(|folder| Store::open(Arc::new(folder), SEGMENT));
                opened.map_err(|error| about(data.display(), &error))
            };
            let (store, kept) = tokio::task::spawn_blocking(open)
                .await
                .map_err(io::Error::other)??;
            machine.restore(store, kept);
        }
        let shared = Arc::new(Shared::new(machine, config.max_frame_bytes));
        Ok(Self {
            addr,
            faults,
            serving: tokio::spawn(serve::serve(listener, Arc::clone(&shared))),
            timing: tokio::spawn(serve::keep_time(Arc::clone(&shared))),
            shared,
            door: None,
        })
    }

    /// A broker that does not listen: it serves the streams of [`connect`](Self::connect), in tasks of the tokio runtime
    /// that this is called in. It keeps nothing in a folder, and draws its ids from `seed`; with a clock that is paused
    /// it does the same each time.
    #[must_use]
    pub fn detached(config: &Config, seed: u64) -> Self {
        let advertised = config.advertised.clone();
        let (host, port) =
            advertised.unwrap_or_else(|| (config.listen.ip().to_string(), config.listen.port()));
        let faults = Faults::default();
        let settings = config.settings(Node { id: 1, host, port });
        let machine = Machine::new(settings, faults.clone(), seed);
        let shared = Arc::new(Shared::new(machine, config.max_frame_bytes));
        let (door, streams) = mpsc::unbounded_channel();
        Self {
            addr: config.listen,
            faults,
            serving: tokio::spawn(serve::serve_streams(streams, Arc::clone(&shared))),
            timing: tokio::spawn(serve::keep_time(Arc::clone(&shared))),
            shared,
            door: Some(door),
        }
    }

    /// A client's end of a new stream to a broker that is [`detached`](Self::detached); of one that listens it is closed.
    #[must_use]
    pub fn connect(&self) -> DuplexStream {
        let (client, served) = duplex(STREAM_BYTES);
        if let Some(door) = &self.door {
            // One that was shut down serves nobody: the stream is closed.
            let _ = door.send(served);
        }
        client
    }

    /// Where it listens.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Closes the listener and all connections, and returns when they are closed.
    pub async fn shutdown(mut self) {
        self.shared.stop();
        // It fails only if serving panicked, and then everything is closed as well.
        let _ = (&mut self.serving).await;
        self.timing.abort();
        let _ = (&mut self.timing).await;
    }

    /// Its faults, none at first.
    #[must_use]
    pub const fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The last requests, the oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<Received> {
        self.shared
            .with(|machine, _| machine.requests.iter().cloned().collect())
    }

    /// Has `observe` told of each request as it comes: its API, its connection and its client id. It is called
    /// with the broker held, and should return soon. The one before it is told no more.
    pub fn observe(&self, observe: impl FnMut(ApiKey, ConnectionId, &str) + Send + 'static) {
        self.shared
            .with(|machine, _| machine.observer = Some(Observer(Box::new(observe))));
    }

    /// Has it advertise, and take, only these versions of an API; with an empty range it lacks the API.
    /// Connections that are open are not told.
    pub fn set_versions(&self, api: ApiKey, versions: RangeInclusive<i16>) {
        self.shared.with(|machine, _| {
            if versions.is_empty() {
                machine.versions.remove(&(api as i16));
            } else {
                machine.versions.insert(api as i16, versions);
            }
        });
    }

    /// Adds a user, or changes its password; `None` takes it away. Only for a broker that was started with users.
    /// Who has signed in stays so until the session ends.
    pub fn set_user(&self, name: &str, password: Option<&str>) {
        self.shared
            .with(|machine, _| machine.gate.set_user(name, password));
    }

    /// Creates a topic of one partition; false if its name is not valid or taken.
    pub fn create_topic(&self, topic: &str) -> bool {
        self.create_topic_with(topic, 1)
    }

    /// Creates a topic of this many partitions; false if its name is not valid or taken, or there are none.
    pub fn create_topic_with(&self, topic: &str, partitions: i32) -> bool {
        self.shared
            .with(|machine, _| machine.add_topic(topic, partitions, BTreeMap::new()).is_ok())
    }

    /// Deletes a topic; false if there is none.
    pub fn delete_topic(&self, topic: &str) -> bool {
        self.shared
            .with(|machine, now| machine.delete_topic(topic, now).is_ok())
    }

    /// Appends a record batch to partition 0 of a topic and returns its base offset, `None` where there is no
    /// such topic. Only the base offset and the leader epoch are written into it; nothing is checked, so that
    /// a partition may hold what no producer can send. With a folder for its data the broker takes only a whole
    /// batch with the right checksum, since it has to find it again: `None` for another one, and if the disk fails.
    pub fn append(&self, topic: &str, batch: impl AsRef<[u8]>) -> Option<i64> {
        self.shared
            .with(|machine, now| machine.append_unchecked(topic, batch.as_ref(), now).ok())
    }

    /// The record batch of partition 0 that holds an offset; `None` where there is none, and if it can't be read.
    #[must_use]
    pub fn read(&self, topic: &str, offset: i64) -> Option<Bytes> {
        self.shared.with(|machine, _| {
            let log = machine.topics.log(topic, 0)?;
            let batch = log.load(&log.find(offset, 0, true).ok()?).ok()?;
            Some(batch).filter(|batch| !batch.is_empty())
        })
    }

    /// The offset that the next record of partition 0 gets.
    #[must_use]
    pub fn end_offset(&self, topic: &str) -> Option<i64> {
        self.shared
            .with(|machine, _| Some(machine.topics.log(topic, 0)?.end()))
    }

    /// Gives partition 0 a new leader epoch and returns it, `None` where there is no such topic. The new leader
    /// lacks what lies from `truncate_to` on, by whole batches, as after an unclean election.
    pub fn elect(&self, topic: &str, truncate_to: Option<i64>) -> Option<i32> {
        self.shared
            .with(|machine, now| machine.elect(topic, 0, truncate_to, now).ok())
    }

    /// Deletes the records of partition 0 before an offset and returns the first one that is left; `None`
    /// where there is no such topic or offset.
    pub fn delete_records_before(&self, topic: &str, offset: i64) -> Option<i64> {
        self.shared
            .with(|machine, now| machine.delete_records_before(topic, 0, offset, now).ok())
    }

    /// What a group has committed for partition 0 of a topic.
    #[must_use]
    pub fn committed(&self, group: &str, topic: &str) -> Option<i64> {
        self.shared.with(|machine, _| {
            let offsets = &machine.groups.find(group)?.offsets;
            Some(offsets.get(&(topic.to_owned(), 0))?.offset)
        })
    }

    /// Commits for a group, whatever its members do.
    pub fn commit(&self, group: &str, topic: &str, offset: i64) {
        let committed = Committed {
            offset,
            leader_epoch: -1,
            metadata: String::new(),
        };
        self.shared.with(|machine, _| {
            let id = machine
                .topics
                .find(topic)
                .map_or_else(Uuid::nil, |topic| topic.id);
            // A disk that fails has been logged.
            let _ = machine.commit(group, vec![(topic.to_owned(), id, 0, committed)]);
        });
    }

    /// The members of a group by their ids.
    #[must_use]
    pub fn group_members(&self, group: &str) -> Vec<GroupMember> {
        self.shared.with(|machine, _| {
            let members = machine.groups.find(group).map(|group| &group.members);
            members
                .into_iter()
                .flatten()
                .map(|(id, member)| GroupMember {
                    member_id: id.clone(),
                    client_id: member.client_id.clone(),
                    assignment: member.assignment.clone(),
                })
                .collect()
        })
    }

    /// The members of a group in which the coordinator assigns.
    #[must_use]
    pub fn consumer_members(&self, group: &str) -> Vec<ConsumerMember> {
        self.shared.with(|machine, _| {
            let group = machine.groups.find(group);
            let consumers = group.and_then(|group| group.consumers.as_ref());
            let members = consumers.into_iter().flat_map(|consumers| &consumers.members);
            let topics = |member: &consumers::Member| {
                let held = member.assigned.keys().chain(member.revoking.keys());
                let name = |id| machine.topics.name_of(id).map(str::to_owned);
                held.map(|id| name(*id).unwrap_or_else(|| id.to_string()))
                    .collect()
            };
            members
                .map(|(id, member)| ConsumerMember {
                    member_id: id.clone(),
                    epoch: member.epoch,
                    topics: topics(member),
                })
                .collect()
        })
    }

    /// Where a group stands, and its generation.
    #[must_use]
    pub fn group_state(&self, group: &str) -> Option<(GroupState, i32)> {
        self.shared.with(|machine, _| {
            let group = machine.groups.find(group)?;
            Some((group.state, group.generation))
        })
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.serving.abort();
        self.timing.abort();
    }
}

/// An error, and what it is about.
fn about(what: impl fmt::Display, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

impl Config {
    fn settings(&self, node: Node) -> Settings {
        Settings {
            node,
            cluster_id: "octopus-embedded-broker".to_owned(),
            auto_create: self.auto_create,
            num_partitions: self.num_partitions,
            max_message_bytes: self.max_message_bytes,
            max_fetch_bytes: self.max_fetch_bytes,
            retention_bytes: self.retention_bytes,
            requests_kept: self.requests_kept,
            groups: Rules {
                initial_rebalance_delay: self.initial_rebalance_delay,
                min_session_timeout: self.min_session_timeout,
                max_session_timeout: self.max_session_timeout,
                consumer_session_timeout: self.consumer_session_timeout,
                consumer_heartbeat_interval: self.consumer_heartbeat_interval,
            },
            sasl: sasl::Rules {
                is_required: !self.users.is_empty(),
                users: self.users.clone(),
                mechanisms: self.mechanisms.clone(),
                max_session: self.max_session,
            },
        }
    }
}
