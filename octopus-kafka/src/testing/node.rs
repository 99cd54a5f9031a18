//! One node of Apache Kafka, from Maven Central's jars.

mod secure;

use std::{
    fs::{self, File},
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// The release that is fetched.
const VERSION: &str = "4.4.0";
/// The node's cluster id; any 16 bytes of base64 would do.
const CLUSTER_ID: &str = "b2N0b3B1cy10ZXN0LTAwMQ";
/// How often it is looked whether the node answers: 90 s in all.
const LOOKS: u32 = 900;

/// A running node on loopback. It ends with this value, or with the process that holds it, however that ends.
#[derive(Debug)]
pub struct Node {
    address: String,
    secured: [String; 3],
    process: Child,
}

/// What a node with secured listeners shows and takes. Beside its plain one it has one with a sign-in, one with TLS and
/// a sign-in, and one with TLS that wants a certificate of its clients. By PLAIN and SCRAM (SHA-256 and SHA-512) the
/// user `octopus` signs in, by OAUTHBEARER whoever says so without a signature.
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
    pub fn start() -> io::Result<Self> {
        Self::start_with(None)
    }

    /// As [`start`](Self::start), with secured listeners as well.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn start_secured(secured: &Secured) -> io::Result<Self> {
        Self::start_with(Some(secured))
    }

    fn start_with(secured: Option<&Secured>) -> io::Result<Self> {
        let home = home();
        let jars = jars(&home)?;
        let (broker, controller) = (free_port()?, free_port()?);
        let data = home.join(format!("node-{broker}"));
        fs::create_dir_all(&data)?;
        let conf = data.join("server.properties");
        let ports = [free_port()?, free_port()?, free_port()?];
        let mut lines = properties(broker, controller, &data);
        let mut users = Vec::new();
        if let Some(secured) = secured {
            lines = secure::properties(lines, secured, ports, &data)?;
            users = secure::users(secured);
        }
        fs::write(&conf, lines)?;
        let log4j = data.join("log4j2.properties");
        fs::write(&log4j, LOG4J)?;
        let classes = format!("{}/*", jars.display());
        let logging = format!("-Dlog4j2.configurationFile={}", log4j.display());

        let format = Command::new("java")
            .args([
                "-cp",
                &classes,
                &logging,
                "kafka.tools.StorageTool",
                "format",
                "-t",
                CLUSTER_ID,
                "-c",
            ])
            .arg(&conf)
            .args(users)
            .stdout(Stdio::null())
            .status()?;
        if !format.success() {
            return Err(io::Error::other("the storage tool of Apache Kafka failed"));
        }

        // The shell outlives a killed parent for as long as it takes to see its input end, and takes the node and its
        // folder along.
        let log = data.join("log");
        let process = Command::new("sh")
            .args([
                "-c",
                r#"data=$1; shift; "$@" </dev/null & node=$!; read -r _; kill -9 $node; wait $node; rm -rf "$data""#,
                "kafka",
            ])
            .arg(&data)
            .args(["java", "-Xmx512m", "-cp", &classes, &logging, "kafka.Kafka"])
            .arg(&conf)
            .stdin(Stdio::piped())
            .stdout(File::create(&log)?)
            .stderr(Stdio::null())
            .spawn()?;
        let node = Self {
            address: format!("127.0.0.1:{broker}"),
            secured: ports.map(|port| format!("localhost:{port}")),
            process,
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, broker));
        for _ in 0..LOOKS {
            if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok() {
                return Ok(node);
            }
            thread::sleep(Duration::from_millis(100));
        }
        let log = fs::read_to_string(&log).unwrap_or_default();
        let last: Vec<_> = log.lines().rev().take(5).collect();
        Err(io::Error::other(format!("Apache Kafka did not start: {last:?}")))
    }

    /// Its address, as `HOST:PORT`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
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
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// Where the jars and the data folders are kept, below the build's own folder.
fn home() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or_else(|| Path::new("."));
    workspace.join("target").join("kafka")
}

fn jars(home: &Path) -> io::Result<PathBuf> {
    let jars = home.join(format!("jars-{VERSION}"));
    if jars.join("complete").exists() {
        return Ok(jars);
    }
    fs::create_dir_all(&jars)?;
    let pom = home.join("pom.xml");
    fs::write(&pom, POM.replace("VERSION", VERSION))?;
    let fetch = Command::new("mvn")
        .args(["-q", "-B", "-f"])
        .arg(&pom)
        .arg("dependency:copy-dependencies")
        .arg(format!("-DoutputDirectory={}", jars.display()))
        .stdout(Stdio::null())
        .status()?;
    if !fetch.success() {
        return Err(io::Error::other("Maven could not fetch Apache Kafka"));
    }
    File::create(jars.join("complete"))?;
    Ok(jars)
}

/// A port that is free now. The node binds it a second later; ports are given out in turn, so that it is very
/// likely free still.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn properties(broker: u16, controller: u16, data: &Path) -> String {
    format!(
        "process.roles=broker,controller\n\
         node.id=1\n\
         controller.quorum.voters=1@127.0.0.1:{controller}\n\
         listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{broker}\n\
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
         inter.broker.listener.name=PLAINTEXT\n\
         controller.listener.names=CONTROLLER\n\
         log.dirs={}\n\
         auto.create.topics.enable=true\n\
         message.max.bytes=9000000\n\
         log.retention.ms=-1\n\
         group.initial.rebalance.delay.ms=0\n\
         group.consumer.min.heartbeat.interval.ms=300\n\
         group.consumer.heartbeat.interval.ms=300\n\
         offsets.topic.num.partitions=5\n\
         offsets.topic.replication.factor=1\n\
         transaction.state.log.num.partitions=5\n\
         transaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n\
         share.coordinator.state.topic.replication.factor=1\n\
         share.coordinator.state.topic.min.isr=1\n",
        data.join("data").display()
    )
}

const LOG4J: &str = "status=warn\n\
    appender.console.type=Console\n\
    appender.console.name=console\n\
    appender.console.layout.type=PatternLayout\n\
    appender.console.layout.pattern=%d{HH:mm:ss.SSS} %p %m (%c)%n\n\
    rootLogger.level=warn\n\
    rootLogger.appenderRef.console.ref=console\n";

const POM: &str = r#"<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>octopus</groupId>
  <artifactId>kafka-under-test</artifactId>
  <version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>VERSION</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>VERSION</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.1</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-core</artifactId><version>2.25.1</version></dependency>
  </dependencies>
</project>
"#;
