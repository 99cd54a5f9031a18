//! Flags and variables: everything that an operator sets.

mod callers;
mod endpoint;
mod flags;
mod security;
mod stop;

use std::{
    ffi::OsString,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Parser;
use octopus_core::Limits;
use octopus_kafka::GroupProtocol;

pub use callers::{Auth, Introspection};
use flags::{Flags, GroupProtocolName};
pub use flags::{LogFormat, NamespacesMode};
pub use security::{LoginMechanism, Password, Sasl, Security, Tls, TokenEndpoint};
pub use stop::Stop;

/// The service's settings, each within its bounds.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// The HTTP address; port 0 picks a free one.
    pub listen: SocketAddr,
    /// The file that the bound address is written to, as `HOST:PORT`, once requests are accepted.
    pub ready_file: Option<PathBuf>,
    /// The certificate and the key of HTTPS; without them plain HTTP is spoken.
    pub https: Option<Https>,
    /// Where the records are.
    pub kafka: Kafka,
    /// How a namespace's topics are known.
    pub namespaces: NamespacesMode,
    /// How the cluster is reached and signed in to.
    pub security: Security,
    /// How instances are members of their groups.
    pub group_protocol: GroupProtocol,
    /// Who may call.
    pub auth: Auth,
    /// The specification's limits and times.
    pub limits: Limits,
    /// The most connections at once.
    pub max_connections: usize,
    /// The most of them of one address.
    pub max_connections_per_address: usize,
    /// A filter of `tracing` for the log.
    pub log: String,
    /// How a line of the log is written.
    pub log_format: LogFormat,
}

/// The files of HTTPS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Https {
    /// The certificate, and those between it and the root.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Where the records are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kafka {
    /// A cluster, by at least one `HOST:PORT`.
    Cluster(Vec<String>),
    /// A broker of the service's own.
    Dev {
        /// Where it listens; port 0 picks a free one.
        listen: SocketAddr,
        /// The folder that it keeps all in, memory if there is none.
        data: Option<PathBuf>,
    },
    /// Nowhere: creates answer 50002 [CR-11].
    None,
}

impl Config {
    /// Reads the command line, whose first word is the program, and the variables for the flags that it leaves
    /// out.
    ///
    /// # Errors
    ///
    /// [`Stop`] where the program has only something to say: its help, or what is wrong.
    pub fn parse<I>(args: I) -> Result<Self, Stop>
    where
        I: IntoIterator<Item: Into<OsString> + Clone>,
    {
        let flags = Flags::try_parse_from(args).map_err(|error| Stop::of(&error))?;
        let https = https(&flags)?;
        let kafka = kafka(&flags)?;
        let variables = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let security = flags.security.read(flags.dev, &variables)?;
        let auth = flags.callers.read(flags.dev, &variables)?;
        let limits = limits(&flags);
        Ok(Self {
            listen: flags.listen,
            ready_file: flags.ready_file,
            https,
            kafka,
            namespaces: flags.namespaces,
            security,
            group_protocol: match flags.kafka_group_protocol {
                GroupProtocolName::Classic => GroupProtocol::Classic,
                GroupProtocolName::Consumer => GroupProtocol::Consumer,
            },
            auth,
            limits,
            max_connections: flags.max_connections,
            max_connections_per_address: flags
                .max_connections_per_address
                .unwrap_or_else(|| flags.max_connections.div_ceil(2)),
            log: flags.log,
            log_format: flags.log_format,
        })
    }
}

fn https(flags: &Flags) -> Result<Option<Https>, Stop> {
    let refused = |flag, file: &Path, rule| Stop::refused(flag, &file.to_string_lossy(), rule);
    match (flags.tls_cert.clone(), flags.tls_key.clone()) {
        (Some(cert), Some(key)) => Ok(Some(Https { cert, key })),
        (None, None) => Ok(None),
        (Some(cert), None) => Err(refused("--tls-cert", &cert, "only together with --tls-key FILE")),
        (None, Some(key)) => Err(refused("--tls-key", &key, "only together with --tls-cert FILE")),
    }
}

fn kafka(flags: &Flags) -> Result<Kafka, Stop> {
    let servers = &flags.bootstrap_servers.0;
    if let (false, Some(data)) = (flags.dev, &flags.dev_data) {
        let data = data.to_string_lossy();
        return Err(Stop::refused("--dev-data", &data, "only together with --dev"));
    }
    match (flags.dev, flags.dev_kafka_listen) {
        (true, _) if !servers.is_empty() => {
            let servers = servers.join(",");
            Err(Stop::refused(
                "--bootstrap-servers",
                &servers,
                "not together with --dev, which has its own broker",
            ))
        }
        (true, listen) => Ok(Kafka::Dev {
            listen: listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0))),
            data: flags.dev_data.clone(),
        }),
        (false, Some(listen)) => Err(Stop::refused(
            "--dev-kafka-listen",
            &listen.to_string(),
            "only together with --dev",
        )),
        (false, None) if servers.is_empty() => Ok(Kafka::None),
        (false, None) => Ok(Kafka::Cluster(servers.clone())),
    }
}

fn limits(flags: &Flags) -> Limits {
    let mut limits = Limits::default();
    limits.max_topics = flags.max_topics_per_namespace;
    limits.max_instances = flags.max_instances;
    limits.max_instances_per_user = flags.max_instances_per_user;
    limits.max_polls = flags.max_polls;
    limits.max_fetches_per_user = flags.max_fetches_per_user;
    limits.max_requests_per_user = flags.max_requests_per_user;
    limits.idle_timeout = Duration::from_millis(flags.instance_timeout_ms);
    limits.reap_interval = Duration::from_millis(flags.reap_interval_ms);
    limits.lock_wait = Duration::from_millis(flags.lock_wait_ms);
    limits.send_timeout = Duration::from_millis(flags.send_timeout_ms);
    limits.shutdown_grace = Duration::from_millis(flags.shutdown_grace_ms);
    limits.keep_alive = Duration::from_millis(flags.keep_alive_ms);
    limits.idle_rejoin = Duration::from_millis(flags.idle_rejoin_ms);
    limits
}

#[cfg(test)]
mod tests;
