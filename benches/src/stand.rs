//! What a bench stands on: Kafka and the service, each in a process of its own, so that what one takes is not laid to
//! another. Each is this program again, started with the name of its part.

use std::{
    env,
    io::{self, BufRead as _, BufReader},
    net::SocketAddr,
    process::{self, Command, Stdio},
    sync::Arc,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result};
use octopus_auth::Tokens;
use octopus_core::{Limits, Namespace, Subject};
use octopus_kafka::{
    Cluster, Config,
    broker::{self, Broker},
    records::{BatchWriter, Compression},
};
use octopus_server::Server;
use tokio::{net::TcpListener, runtime::Runtime};

/// The one who calls.
pub const SUBJECT: Subject = Subject::from_uuid(0x6a0f_4d3e_0000_4000_8000_0000_0000_0be4);
/// What proves it.
pub const TOKEN: &str = "token_of_the_benches_with_enough_characters";

/// The variable that names a Kafka to read from, as `HOST:PORT`, in place of the embedded broker.
const ADDRESS: &str = "OCTOPUS_BENCH_KAFKA";
/// The variable that names a program, with its arguments, which the service's process runs under: what looks into it.
const UNDER: &str = "OCTOPUS_BENCH_UNDER";
/// The argument that makes a program the broker.
const BROKER: &str = "part-of-broker";
/// The argument that makes a program the service.
const SERVICE: &str = "part-of-service";
/// The longest that Kafka may take for a request.
const WITHIN: Duration = Duration::from_secs(60);
/// The bytes of values from which on a batch is full. Producers are set to 16 KiB to 1 MiB.
const BATCH_BYTES: usize = 128 * 1024;

/// Plays the part that a stand has started this program for, until the stand ends; false where it was not a stand. A
/// bench calls it before all else.
///
/// # Errors
///
/// Where the part can't be played.
pub fn play() -> Result<bool> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = match arguments[..] {
        [BROKER] => play_broker()?,
        [SERVICE, kafka, instances] => play_service(kafka, instances.parse()?)?,
        _ => return Ok(false),
    };
    // Its parent never writes: the input ends when the parent does.
    io::copy(&mut io::stdin(), &mut io::sink())?;
    runtime.shutdown_background();
    Ok(true)
}

fn play_broker() -> Result<Runtime> {
    let runtime = Runtime::new()?;
    let mut config = broker::Config::default();
    config.initial_rebalance_delay = Duration::ZERO;
    config.requests_kept = 0;
    let broker = runtime.block_on(Broker::start(config))?;
    tell(broker.addr());
    // It ends with its process.
    std::mem::forget(broker);
    Ok(runtime)
}

fn play_service(kafka: &str, instances: usize) -> Result<Runtime> {
    let runtime = Runtime::new()?;
    let tokens = Tokens::parse(&format!("{TOKEN} {SUBJECT}\n"), SystemTime::now)?;
    let mut limits = Limits::default();
    limits.max_instances = limits.max_instances.max(instances);
    limits.max_instances_per_user = limits.max_instances_per_user.max(instances);
    limits.max_polls = limits.max_polls.max(instances);
    limits.max_fetches_per_user = limits.max_fetches_per_user.max(instances);
    limits.max_requests_per_user = limits.max_requests_per_user.max(2 * instances);
    let address = runtime.block_on(async {
        let cluster = Cluster::new(Config::new(vec![kafka.to_owned()]));
        let server = Server::builder(Arc::new(tokens))
            .cluster(cluster)
            .limits(limits)
            .start();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr();
        tokio::spawn(server.serve(listener, std::future::pending()));
        address
    })?;
    tell(address);
    Ok(runtime)
}

/// Where it listens, for the parent.
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn tell(address: SocketAddr) {
    println!("{address}");
}

/// A process that plays a part. Dropped, it is ended.
#[derive(Debug)]
pub struct Part {
    process: process::Child,
    address: SocketAddr,
    /// It runs under a program that writes down what it saw when it ends, so that it is waited for.
    is_watched: bool,
}

/// Whether services run under a program that looks into them, which `OCTOPUS_BENCH_UNDER` names.
#[must_use]
pub fn is_watched() -> bool {
    !under().is_empty()
}

fn under() -> String {
    env::var(UNDER).unwrap_or_default()
}

impl Part {
    /// The service, with the specification's limits, or those that so many instances need that all fetch at once, where
    /// they are higher.
    ///
    /// # Errors
    ///
    /// Where it does not start.
    pub fn service(kafka: &Kafka, instances: usize) -> Result<Self> {
        Self::start(&under(), &[SERVICE, &kafka.address, &instances.to_string()])
    }

    /// Starts this program with these arguments under another one, if there are words that name it.
    fn start(under: &str, arguments: &[&str]) -> Result<Self> {
        let this = env::current_exe()?;
        let this = this.to_str().context("a path that is text")?;
        let mut words = under.split_whitespace().chain([this]);
        let mut process = Command::new(words.next().context("this program")?)
            .args(words)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut address = String::new();
        let output = process.stdout.take().context("its output")?;
        BufReader::new(output).read_line(&mut address)?;
        let address = address.trim_end().parse();
        let address = address.context("a part says where it listens, unless it has failed")?;
        Ok(Self {
            process,
            address,
            is_watched: !under.is_empty(),
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.is_watched {
            // It ends when its input does.
            drop(self.process.stdin.take());
        } else {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}

/// The Kafka that is read from, and the topics that were made in it. Dropped, it has none of them any more.
#[derive(Debug)]
pub struct Kafka {
    address: String,
    cluster: Cluster,
    runtime: Runtime,
    topics: Vec<String>,
    /// How many there were.
    made: usize,
    /// The embedded broker.
    part: Option<Part>,
}

impl Kafka {
    /// The embedded broker in a process of its own, or the Kafka that `OCTOPUS_BENCH_KAFKA` names.
    ///
    /// # Errors
    ///
    /// Where it does not start, or is not there.
    pub fn start() -> Result<Self> {
        let part = match env::var(ADDRESS) {
            Ok(address) => Err(address),
            Err(_) => Ok(Part::start("", &[BROKER])?),
        };
        let address = match &part {
            Ok(part) => part.address().to_string(),
            Err(address) => address.clone(),
        };
        let runtime = Runtime::new()?;
        let cluster = {
            let _inside = runtime.enter();
            Cluster::new(Config::new(vec![address.clone()]))
        };
        runtime.block_on(cluster.reach(WITHIN))?;
        Ok(Self {
            address,
            cluster,
            runtime,
            topics: Vec::new(),
            made: 0,
            part: part.ok(),
        })
    }

    /// Where it listens, as `HOST:PORT`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its process, where it is the embedded broker.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.part.as_ref().map(Part::id)
    }

    /// Which it is.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self.part {
            Some(_) => "the embedded broker",
            None => "Apache Kafka",
        }
    }

    /// Makes a topic of these values, and gives the name that callers know it by; [`full_name`] is its name on Kafka. It
    /// is another one in each run.
    ///
    /// # Errors
    ///
    /// Where Kafka does not take it.
    pub fn fill(
        &mut self,
        topic: &str,
        compression: Compression,
        values: impl IntoIterator<Item = Vec<u8>>,
    ) -> Result<String> {
        self.made += 1;
        let name = format!("bench-{}-{}-{topic}", process::id(), self.made);
        let topic = full_name(&name);
        self.runtime.block_on(self.cluster.create_topic(&topic, WITHIN))?;
        self.topics.push(topic);
        let mut batch = BatchWriter::new(compression);
        let mut bytes = 0;
        for value in values {
            batch.push(timestamp(), None, Some(&value), &[]);
            bytes += value.len();
            if bytes >= BATCH_BYTES {
                let full = std::mem::replace(&mut batch, BatchWriter::new(compression));
                self.write(&name, full)?;
                bytes = 0;
            }
        }
        if bytes > 0 {
            self.write(&name, batch)?;
        }
        Ok(name)
    }

    /// Writes one record behind those of a topic, and returns when Kafka has it.
    ///
    /// # Errors
    ///
    /// Where Kafka does not take it.
    pub fn append(&self, topic: &str, value: &[u8]) -> Result<()> {
        let mut batch = BatchWriter::new(Compression::None);
        batch.push(timestamp(), None, Some(value), &[]);
        self.write(topic, batch)
    }

    fn write(&self, topic: &str, batch: BatchWriter) -> Result<()> {
        let topic = full_name(topic);
        let write = self.cluster.produce(&topic, batch.finish(), WITHIN);
        self.runtime.block_on(write)?;
        Ok(())
    }

    /// Deletes the topics that were made.
    ///
    /// # Errors
    ///
    /// Where Kafka does not.
    pub fn clear(&mut self) -> Result<()> {
        let topics = std::mem::take(&mut self.topics);
        self.runtime
            .block_on(self.cluster.delete_topics(&topics, WITHIN))?;
        Ok(())
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        let _ = self.clear();
    }
}

/// A topic's name on Kafka.
#[must_use]
pub fn full_name(topic: &str) -> String {
    Namespace::of(SUBJECT).qualify(topic)
}

/// The time, as a producer has it: Kafka deletes what is old.
fn timestamp() -> i64 {
    let time = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
