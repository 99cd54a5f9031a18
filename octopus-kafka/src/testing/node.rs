//! One node of Apache Kafka, from Maven Central's jars.

mod secure;
mod settings;

use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

pub(super) use settings::Place;

use super::{
    keeper::{Keeper, Order},
    ports,
    release::Release,
};

/// The node's cluster id; any 16 bytes of base64 would do.
const CLUSTER_ID: &str = "b2N0b3B1cy10ZXN0LTAwMQ";
/// How often it is looked whether the node answers: 90 s in all.
const LOOKS: u32 = 900;

/// A running node on loopback. It ends with this value, or with the process that holds it, however that ends.
#[derive(Debug)]
pub struct Node {
    address: SocketAddr,
    secured: [String; 3],
    log: PathBuf,
    process: Keeper,
}

/// What a node with secured listeners shows and takes. Beside its plain one it has one with a sign-in, one with TLS and
/// a sign-in, and one with TLS that wants a certificate of its clients. By PLAIN and SCRAM (SHA-256 and SHA-512) the
/// user `octopus` signs in, by OAUTHBEARER whoever says so without a signature. Other users may do what rules let them.
#[derive(Debug, Clone)]
pub struct Secured {
    /// The node's private key (PKCS #8) and its certificate for `localhost`, in PEM.
    pub identity: String,
    /// Who signed its clients' certificates, in PEM.
    pub clients: String,
    /// The password of its user: no quotes, backslashes, commas or brackets.
    pub password: String,
    /// How long a session lasts at most.
    pub session: Duration,
    /// The port that the listener with a sign-in and without TLS tells clients to connect to; its own if it is none.
    pub advertised: Option<u16>,
}

impl Node {
    /// Fetches the jars, if they are not there, and starts a node on free ports. Blocks until it answers.
    ///
    /// # Errors
    ///
    /// Where Maven or Java fails, or the node does not answer within 90 s; its log is named.
    pub fn start(release: Release) -> io::Result<Self> {
        Self::start_at(release, &alone()?, None)
    }

    /// As [`start`](Self::start), with secured listeners as well.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn start_secured(secured: &Secured) -> io::Result<Self> {
        Self::start_at(Release::default(), &alone()?, Some(secured))
    }

    /// Starts the node at a place among others.
    pub(super) fn start_at(release: Release, place: &Place, secured: Option<&Secured>) -> io::Result<Self> {
        let home = home();
        let jars = release.jars(&home)?;
        let data = home.join(format!("node-{}", place.broker()));
        fs::create_dir_all(&data)?;
        let conf = data.join("server.properties");
        let mut lines = settings::properties(place, &data.join("data"));
        let mut listeners = <[String; 3]>::default();
        let mut users = Vec::new();
        if let Some(secured) = secured {
            let ports = ports::free(3)?;
            let ports = [ports[0], ports[1], ports[2]];
            lines = secure::properties(lines, secured, ports, &data)?;
            listeners = ports.map(|port| format!("localhost:{port}"));
            users = secure::users(secured);
        }
        fs::write(&conf, lines)?;
        let log4j = data.join("log4j2.properties");
        fs::write(&log4j, LOG4J)?;
        let classes = format!("{}/*", jars.display());
        let logging = format!("-Dlog4j2.configurationFile={}", log4j.display());

        let format = Command::new("java")
            .args([&FRUGAL[..], &["-cp", &classes, &logging]].concat())
            .args(["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c"])
            .arg(&conf)
            .args(users)
            .stdout(Stdio::null())
            .status()?;
        if !format.success() {
            return Err(io::Error::other("the storage tool of Apache Kafka failed"));
        }

        let log = data.join("log");
        let mut command = vec!["java"];
        if place.nodes() == 1 {
            command.push("-Xmx512m");
        } else {
            command.extend(FRUGAL);
        }
        let conf = conf.to_string_lossy();
        command.extend(["-cp", &classes, &logging, "kafka.Kafka", &conf]);
        let command: Vec<_> = command.into_iter().map(str::to_owned).collect();
        let node = Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, place.broker())),
            secured: listeners,
            process: Keeper::start(&data, &log, &command)?,
            log,
        };
        node.answers()?;
        Ok(node)
    }

    /// Its address, as `HOST:PORT`.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Where it wants a sign-in; of use only for a node that was [started so](Self::start_secured).
    #[must_use]
    pub fn sasl_address(&self) -> &str {
        &self.secured[0]
    }

    /// Where it wants TLS and a sign-in; as there.
    #[must_use]
    pub fn sasl_tls_address(&self) -> &str {
        &self.secured[1]
    }

    /// Where it wants TLS and a certificate; as there.
    #[must_use]
    pub fn mutual_tls_address(&self) -> &str {
        &self.secured[2]
    }

    /// Kills it (`SIGKILL`). It is gone when this returns.
    ///
    /// # Errors
    ///
    /// Where it does not run.
    pub fn kill(&self) -> io::Result<()> {
        self.process.order(Order::Kill)
    }

    /// Asks it to end (`SIGTERM`), as a roll does, and waits for that; it is killed where that takes over 20 s.
    ///
    /// # Errors
    ///
    /// Where it does not run.
    pub fn terminate(&self) -> io::Result<()> {
        self.process.order(Order::Term)
    }

    /// Halts it where it is (`SIGSTOP`).
    ///
    /// # Errors
    ///
    /// Where it does not run.
    pub fn stop(&self) -> io::Result<()> {
        self.process.order(Order::Stop)
    }

    /// Lets it run on (`SIGCONT`) after a [`stop`](Self::stop).
    ///
    /// # Errors
    ///
    /// Where it does not run.
    pub fn cont(&self) -> io::Result<()> {
        self.process.order(Order::Cont)
    }

    /// Starts it again on its own data. Blocks until it answers.
    ///
    /// # Errors
    ///
    /// Where it runs, or does not answer within 90 s.
    pub fn restart(&self) -> io::Result<()> {
        self.process.order(Order::Start)?;
        self.answers()
    }

    /// Waits until it answers.
    fn answers(&self) -> io::Result<()> {
        for _ in 0..LOOKS {
            if TcpStream::connect_timeout(&self.address, Duration::from_secs(1)).is_ok() {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(100));
        }
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let last: Vec<_> = log.lines().rev().take(5).collect();
        Err(io::Error::other(format!("Apache Kafka did not start: {last:?}")))
    }
}

/// The place of a node that is a whole cluster.
fn alone() -> io::Result<Place> {
    let ports = ports::free(2)?;
    Ok(Place {
        id: 1,
        brokers: vec![ports[0]],
        controllers: vec![ports[1]],
    })
}

/// Where the jars and the data folders are kept, below the build's own folder.
pub(super) fn home() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or_else(|| Path::new("."));
    workspace.join("target").join("kafka")
}

/// What keeps a node small where several share a machine.
const FRUGAL: [&str; 4] = [
    "-Xms64m",
    "-Xmx320m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
];

const LOG4J: &str = "status=warn\n\
    appender.console.type=Console\n\
    appender.console.name=console\n\
    appender.console.layout.type=PatternLayout\n\
    appender.console.layout.pattern=%d{HH:mm:ss.SSS} %p %m (%c)%n\n\
    rootLogger.level=warn\n\
    rootLogger.appenderRef.console.ref=console\n";
