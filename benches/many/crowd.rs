//! Many consumers in this process, each a member of a group, which join again when their group says so.

use std::{
    fmt, fs,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use octopus_core::{
    AutoOffsetReset, Effect, FetchPlan, InstanceKey, Join, Name, Namespace, Open, Outcome, Position,
    Records as _, Settings, Subject, TopicPartition,
};
use octopus_kafka::{Cluster, Config, Consumer, Signal};
use tokio::{
    runtime::Runtime,
    sync::mpsc,
    task::{JoinHandle, JoinSet},
    time::Instant,
};

use crate::broker::Child;

/// The time between two heartbeats of a member.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(3);
/// The topic that is fetched from.
pub(crate) const LOAD: &str = "load";
/// The topic of each group, within its namespace.
const TOPIC: &str = "training-events";
/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);
/// How long one try of a join is waited for.
const ONE_TRY: Duration = Duration::from_secs(30);
/// How many groups begin to join at first before one of them has: as with clients that come one after the other. When
/// they lose their coordinator, all join at once.
const COMING: usize = 256;
/// The tasks that fetch as fast as they can.
const FETCHING: usize = 2;

/// How many groups of how many members, each group with one topic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) groups: usize,
    pub(crate) members: usize,
    /// How long the broker lets a new group wait for more members.
    pub(crate) delay: Duration,
}

impl Shape {
    /// `GROUPSxMEMBERS`, and after another `x` the milliseconds that a new group waits for more members: 3,000 as on
    /// Kafka.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let numbers: Vec<usize> = text.split('x').map(str::parse).collect::<Result<_, _>>()?;
        let (groups, members, delay) = match numbers[..] {
            [groups, members] => (groups, members, 3000),
            [groups, members, delay] => (groups, members, delay),
            _ => anyhow::bail!("{text} is no crowd"),
        };
        ensure!(groups > 0 && members > 0, "a crowd is some");
        Ok(Self {
            groups,
            members,
            delay: Duration::from_millis(u64::try_from(delay)?),
        })
    }

    pub(crate) const fn count(&self) -> usize {
        self.groups * self.members
    }

    /// The topics on Kafka.
    pub(crate) fn topics(self) -> impl Iterator<Item = String> {
        (0..self.groups).map(|group| namespace(group).qualify(TOPIC))
    }

    /// The groups on Kafka.
    pub(crate) fn group_ids(self) -> impl Iterator<Item = String> {
        (0..self.groups).map(|group| namespace(group).qualify(&group_name(group)))
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.groups, self.members, self.delay.as_millis())
    }
}

/// Each group is of a user of its own.
fn subject(group: usize) -> Subject {
    Subject::from_uuid(group as u128 + 1)
}

fn namespace(group: usize) -> Namespace {
    Namespace::of(subject(group))
}

fn group_name(group: usize) -> String {
    format!("readers-{group}")
}

/// The consumers, and the tasks that have them join.
pub(crate) struct Crowd {
    runtime: Runtime,
    address: SocketAddr,
    cluster: Cluster,
    state: Arc<State>,
    joining: JoinHandle<()>,
}

/// What the crowd is at.
struct State {
    consumers: Vec<Consumer>,
    /// Whether each has joined, and was told nothing since.
    joined: Vec<AtomicBool>,
    members: AtomicUsize,
    lost: AtomicUsize,
}

impl Crowd {
    /// The consumers, which begin to join.
    pub(crate) fn new(shape: Shape, address: SocketAddr) -> Result<Self> {
        let runtime = Runtime::new()?;
        let cluster = Cluster::new(Config::new(vec![address.to_string()]));
        let (told, signals) = mpsc::unbounded_channel();
        let consumer = |number: usize| -> Result<Consumer> {
            let (group, member) = (number / shape.members, number % shape.members);
            let name = |text: String| Name::parse(&text).context(text);
            let open = Open {
                namespace: namespace(group),
                key: InstanceKey {
                    subject: subject(group),
                    group: name(group_name(group))?,
                    name: name(format!("worker-{member}"))?,
                },
                settings: Settings::default(),
            };
            let told = told.clone();
            Ok(cluster.consumer(&open, move |signal| _ = told.send((number, signal))))
        };
        let consumers = (0..shape.count()).map(consumer).collect::<Result<Vec<_>>>()?;
        let state = Arc::new(State {
            joined: consumers.iter().map(|_| AtomicBool::new(false)).collect(),
            consumers,
            members: AtomicUsize::new(0),
            lost: AtomicUsize::new(0),
        });
        let joining = runtime.spawn(Arc::clone(&state).join_all(shape.members, signals));
        Ok(Self {
            runtime,
            address,
            cluster,
            state,
            joining,
        })
    }

    pub(crate) fn rest(&self, time: Duration) {
        let _entered = self.runtime.enter();
        thread::sleep(time);
    }

    /// How many were put out of their groups so far.
    pub(crate) fn lost(&self) -> usize {
        self.state.lost.load(Ordering::Relaxed)
    }

    /// The broker has forgotten all of them, though they don't know yet: they count as members when they joined again.
    pub(crate) fn forget(&self) {
        for number in 0..self.state.joined.len() {
            self.state.out(number);
        }
    }

    /// Waits until all are members, and the broker says so too; how long that took.
    pub(crate) fn until_all_are_members(&self, broker: &mut Child) -> Result<Duration> {
        let start = Instant::now();
        let count = self.state.joined.len();
        loop {
            let members = self.state.members.load(Ordering::Relaxed);
            if members == count && broker.members()? == count {
                return Ok(start.elapsed());
            }
            ensure!(
                start.elapsed() < PATIENCE,
                "only {members} of {count} have joined"
            );
            ensure!(!self.joining.is_finished(), "joins go on");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// The connections of this process to the broker.
    pub(crate) fn connections(&self) -> Result<usize> {
        let port = format!(":{:04X}", self.address.port());
        let sockets = fs::read_to_string("/proc/self/net/tcp")?;
        let to_broker = sockets.lines().filter(|line| {
            let mut fields = line.split_whitespace().skip(2);
            // Established.
            fields.next().is_some_and(|remote| remote.ends_with(&port)) && fields.next() == Some("01")
        });
        Ok(to_broker.count())
    }

    /// Fetches as fast as can be, until it is dropped.
    pub(crate) fn fetch(&self) -> Fetching {
        let records = Arc::new(AtomicU64::new(0));
        let tasks = (0..FETCHING).map(|_| {
            let cluster = self.cluster.clone();
            self.runtime.spawn(fetch_for_ever(cluster, Arc::clone(&records)))
        });
        Fetching {
            tasks: tasks.collect(),
            records,
        }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.joining.abort();
    }
}

/// Fetches that go on until it is dropped.
pub(crate) struct Fetching {
    tasks: Vec<JoinHandle<()>>,
    records: Arc<AtomicU64>,
}

impl Fetching {
    /// How many records were read.
    pub(crate) fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl State {
    /// Has each join, and again when it is told to.
    async fn join_all(
        self: Arc<Self>,
        members: usize,
        mut signals: mpsc::UnboundedReceiver<(usize, Signal)>,
    ) {
        tokio::spawn(Arc::clone(&self).come(members));
        while let Some((number, signal)) = signals.recv().await {
            self.out(number);
            if signal == Signal::Lost {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
            tokio::spawn(Arc::clone(&self).join(number));
        }
    }

    /// Has each group join, some of them at a time.
    async fn come(self: Arc<Self>, members: usize) {
        let mut coming = JoinSet::new();
        for number in 0..self.consumers.len() {
            if number % members == 0 && coming.len() >= COMING * members {
                for _ in 0..members {
                    coming.join_next().await;
                }
            }
            coming.spawn(Arc::clone(&self).join(number));
        }
        coming.join_all().await;
    }

    async fn join(self: Arc<Self>, number: usize) {
        let join = Join {
            topics: vec![TOPIC.into()],
            commit: Vec::new(),
        };
        loop {
            let effect = Effect::Join(join.clone());
            match self.consumers[number].run(effect, ONE_TRY).await {
                Ok(Outcome::Joined(_)) => break,
                Ok(_) => {}
                // As a client would that hears of an error.
                Err(_) => tokio::time::sleep(Duration::from_millis(500)).await,
            }
        }
        if !self.joined[number].swap(true, Ordering::Relaxed) {
            self.members.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn out(&self, number: usize) {
        if self.joined[number].swap(false, Ordering::Relaxed) {
            self.members.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

async fn fetch_for_ever(cluster: Cluster, records: Arc<AtomicU64>) {
    let mut settings = Settings::default();
    settings.auto_offset_reset = AutoOffsetReset::Earliest;
    let Some(group) = Name::parse("fetching") else {
        return;
    };
    let consumer = cluster.consumer(&Open::outside(group, settings), |_| {});
    let at = TopicPartition::only(LOAD.into());
    let mut plan = FetchPlan::of([at.clone()]);
    loop {
        let Ok(polled) = consumer.poll(&plan, Duration::from_millis(500)).await else {
            continue;
        };
        for (partition, start) in polled.started {
            plan.advance(&partition, start);
        }
        if polled.parts.is_empty() {
            plan.advance(&at, Position::at(0));
        }
        for (partition, mut read) in polled.parts {
            let mut count = 0;
            while let Some(Ok(record)) = read.next() {
                std::hint::black_box(record.value);
                count += 1;
            }
            plan.advance(&partition, read.position());
            records.fetch_add(count, Ordering::Relaxed);
        }
        // Others have their turn.
        tokio::task::yield_now().await;
    }
}
