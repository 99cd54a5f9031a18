//! The broker in a process of its own, and what it saw: who was heard when, and who connected.
//!
//! Its parent writes a command a line, and reads an answer a line.

use std::{
    collections::{BTreeMap, HashMap},
    env,
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    process::{self, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use octopus_benches::event;
use octopus_kafka::{
    broker::{self, ApiKey, Broker, ConnectionId, GroupState, always},
    records::{BatchWriter, Compression},
};
use tokio::{runtime::Runtime, time::Instant};

use crate::crowd::{HEARTBEAT, LOAD, PATIENCE, Shape};

/// The argument that makes this program the broker.
pub(crate) const ROLE: &str = "broker";
/// The requests of a consumer.
const REQUESTS: [ApiKey; 9] = [
    ApiKey::ApiVersions,
    ApiKey::Fetch,
    ApiKey::FindCoordinator,
    ApiKey::Heartbeat,
    ApiKey::JoinGroup,
    ApiKey::ListOffsets,
    ApiKey::Metadata,
    ApiKey::OffsetFetch,
    ApiKey::SyncGroup,
];

/// How late heartbeats came, in milliseconds after the interval since the one before.
pub(crate) struct Lateness {
    pub(crate) count: usize,
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) max: u64,
}

/// The broker's process.
pub(crate) struct Child {
    shape: Shape,
    address: SocketAddr,
    data: tempfile::TempDir,
    running: Option<Running>,
}

struct Running {
    process: process::Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Child {
    pub(crate) fn start(shape: Shape) -> Result<Self> {
        let mut child = Self {
            shape,
            address: ([127, 0, 0, 1], 0).into(),
            data: tempfile::tempdir()?,
            running: None,
        };
        child.start_again()?;
        Ok(child)
    }

    /// Starts it on the port and with the folder that it had.
    pub(crate) fn start_again(&mut self) -> Result<()> {
        let mut process = Command::new(env::current_exe()?)
            .args([ROLE, &self.address.to_string()])
            .arg(self.data.path())
            .arg(self.shape.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let commands = process.stdin.take().context("its input")?;
        let answers = BufReader::new(process.stdout.take().context("its output")?);
        self.running = Some(Running {
            process,
            commands,
            answers,
        });
        self.address = self.ask("address")?.parse()?;
        Ok(())
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it as by a loss of the machine.
    pub(crate) fn kill(&mut self) -> Result<()> {
        let mut running = self.running.take().context("a process")?;
        running.process.kill()?;
        running.process.wait()?;
        Ok(())
    }

    /// What it sees from here on is counted anew.
    pub(crate) fn mark(&mut self) -> Result<()> {
        self.ask("mark").map(drop)
    }

    /// Closes every connection with its next request, also those that come, for this long.
    pub(crate) fn refuse(&mut self, time: Duration) -> Result<()> {
        self.ask(&format!("refuse {}", time.as_millis())).map(drop)
    }

    /// The members of all groups that have settled.
    pub(crate) fn members(&mut self) -> Result<usize> {
        Ok(self.ask("members")?.parse()?)
    }

    /// The most connections that were opened in any second since the mark.
    pub(crate) fn most_hellos(&mut self) -> Result<usize> {
        Ok(self.ask("hellos")?.parse()?)
    }

    pub(crate) fn lateness(&mut self) -> Result<Lateness> {
        let answer = self.ask("lateness")?;
        let numbers: Vec<u64> = answer.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let [count, p50, p99, max] = numbers[..] else {
            bail!("{answer}")
        };
        Ok(Lateness {
            count: usize::try_from(count)?,
            p50,
            p99,
            max,
        })
    }

    /// Waits until so many have sent a heartbeat since the mark that was taken; how long after the mark.
    pub(crate) fn until_all_are_heard(&mut self, count: usize) -> Result<Duration> {
        let start = Instant::now();
        while self.ask("heard")?.parse::<usize>()? < count {
            if start.elapsed() > PATIENCE {
                bail!("only {} of {count} were heard", self.ask("heard")?);
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(start.elapsed())
    }

    fn ask(&mut self, command: &str) -> Result<String> {
        let running = self.running.as_mut().context("a process")?;
        writeln!(running.commands, "{command}")?;
        let mut answer = String::new();
        running.answers.read_line(&mut answer)?;
        Ok(answer.trim_end().to_owned())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// What the broker saw since the mark.
struct Seen {
    since: Instant,
    /// When each member was heard last, also before the mark.
    heard: HashMap<String, Instant>,
    /// How late each heartbeat was.
    late: Vec<Duration>,
    /// When each connection came.
    hellos: BTreeMap<ConnectionId, Instant>,
}

impl Seen {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            heard: HashMap::new(),
            late: Vec::new(),
            hellos: BTreeMap::new(),
        }
    }

    fn mark(&mut self) {
        self.since = Instant::now();
        self.late.clear();
        self.hellos.clear();
    }

    fn see(&mut self, api: ApiKey, connection: ConnectionId, client_id: &str) {
        let now = Instant::now();
        if api == ApiKey::ApiVersions {
            self.hellos.entry(connection).or_insert(now);
        } else if api == ApiKey::Heartbeat {
            match self.heard.get_mut(client_id) {
                Some(last) => {
                    self.late.push((now - *last).saturating_sub(HEARTBEAT));
                    *last = now;
                }
                None => _ = self.heard.insert(client_id.to_owned(), now),
            }
        } else if api == ApiKey::JoinGroup {
            // Its heartbeats are counted from the next one on.
            self.heard.remove(client_id);
        }
    }

    /// The most that came within a second.
    fn most_hellos(&self) -> usize {
        let hellos: Vec<Instant> = self.hellos.values().copied().collect();
        let within = |first: Instant| {
            hellos
                .iter()
                .filter(move |at| **at >= first && **at < first + Duration::from_secs(1))
        };
        hellos
            .iter()
            .map(|first| within(*first).count())
            .max()
            .unwrap_or(0)
    }

    fn lateness(&mut self) -> String {
        self.late.sort_unstable();
        let part = |of: usize| {
            let at = (self.late.len() * of / 100).min(self.late.len().saturating_sub(1));
            self.late.get(at).map_or(0, Duration::as_millis)
        };
        format!("{} {} {} {}", self.late.len(), part(50), part(99), part(100))
    }
}

/// The broker, until its input ends: its address, its folder and the crowd that will come.
#[expect(clippy::print_stdout, reason = "its parent reads it")]
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let [address, data, shape] = arguments else {
        bail!("an address, a folder and a crowd")
    };
    let shape = Shape::parse(shape)?;
    let mut config = broker::Config::default();
    config.listen = address.parse()?;
    config.data = Some(data.into());
    config.requests_kept = 0;
    config.initial_rebalance_delay = shape.delay;
    let runtime = Runtime::new()?;
    let broker = runtime.block_on(Broker::start(config))?;
    fill(&broker, shape);
    let seen = Arc::new(Mutex::new(Seen::new()));
    broker.observe({
        let seen = Arc::clone(&seen);
        move |api, connection, client_id| lock(&seen).see(api, connection, client_id)
    });
    for command in std::io::stdin().lines() {
        let command = command?;
        let (command, argument) = command.split_once(' ').unwrap_or((&command, ""));
        let answer = match command {
            "address" => broker.addr().to_string(),
            "mark" => {
                lock(&seen).mark();
                String::new()
            }
            "refuse" => {
                for api in REQUESTS {
                    broker.faults().on(api, always()).close();
                }
                let faults = broker.faults().clone();
                let time = Duration::from_millis(argument.parse()?);
                runtime.spawn(async move {
                    tokio::time::sleep(time).await;
                    faults.clear();
                });
                String::new()
            }
            "members" => members(&broker, shape).to_string(),
            "hellos" => lock(&seen).most_hellos().to_string(),
            "heard" => {
                let seen = lock(&seen);
                seen.heard
                    .values()
                    .filter(|at| **at >= seen.since)
                    .count()
                    .to_string()
            }
            "lateness" => lock(&seen).lateness(),
            other => bail!("{other}?"),
        };
        println!("{answer}");
    }
    Ok(())
}

/// The topics of the crowd, and one to fetch from; where they are there already, nothing.
fn fill(broker: &Broker, shape: Shape) {
    for topic in shape.topics() {
        broker.create_topic(&topic);
    }
    if broker.create_topic(LOAD) {
        for batch in 0..64 {
            let mut writer = BatchWriter::new(Compression::None);
            for record in 0..1000 {
                writer.push(0, None, Some(&event(batch * 1000 + record, 1000)), &[]);
            }
            broker.append(LOAD, writer.finish());
        }
    }
}

fn members(broker: &Broker, shape: Shape) -> usize {
    let settled = shape
        .group_ids()
        .filter(|group| matches!(broker.group_state(group), Some((GroupState::Stable, _))));
    settled.map(|group| broker.group_members(&group).len()).sum()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
