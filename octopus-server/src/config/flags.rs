//! The command line as clap reads it.

use std::{
    net::{Ipv6Addr, SocketAddr},
    path::PathBuf,
};

use clap::{Parser, ValueEnum};
use tracing_subscriber::EnvFilter;

use super::{callers::CallerFlags, security::SecurityFlags};

/// Octopus: a Kafka consume API over HTTP with the paths and bodies of Confluent's REST Proxy v2.
#[derive(Debug, Parser)]
#[command(name = "octopus-server", version, max_term_width = 110)]
pub(super) struct Flags {
    /// Everything on one machine: a Kafka broker of its own, one ready subject and token, and topics made on the
    /// first produce; prints the curl lines to try
    #[arg(long, help_heading = "On one machine")]
    pub(super) dev: bool,
    /// With --dev: a folder that its Kafka broker keeps topics, records and commits in [default: memory]
    #[arg(long, value_name = "DIR", help_heading = "On one machine")]
    pub(super) dev_data: Option<PathBuf>,
    /// With --dev: the address of its Kafka broker [default: a free port of 127.0.0.1]
    #[arg(long, value_name = "ADDR", value_parser = address, help_heading = "On one machine")]
    pub(super) dev_kafka_listen: Option<SocketAddr>,

    /// HTTP address; port 0 picks a free one
    #[arg(
        long,
        env = "OCTOPUS_LISTEN",
        value_name = "ADDR",
        default_value = "127.0.0.1:8000",
        value_parser = address,
        help_heading = "Service"
    )]
    pub(super) listen: SocketAddr,
    /// Where to write the bound address as HOST:PORT once requests are accepted
    #[arg(long, value_name = "FILE", help_heading = "Service")]
    pub(super) ready_file: Option<PathBuf>,
    /// Serve HTTPS with this certificate, and those between it and the root, in PEM; SIGHUP reads both files again
    #[arg(long, env = "OCTOPUS_TLS_CERT", value_name = "FILE", help_heading = "Service")]
    pub(super) tls_cert: Option<PathBuf>,
    /// Its private key, in PEM and not encrypted
    #[arg(long, env = "OCTOPUS_TLS_KEY", value_name = "FILE", help_heading = "Service")]
    pub(super) tls_key: Option<PathBuf>,
    /// Connections held at once
    #[arg(
        long,
        env = "OCTOPUS_MAX_CONNECTIONS",
        value_name = "N",
        default_value = "10000",
        value_parser = count,
        help_heading = "Service"
    )]
    pub(super) max_connections: usize,
    /// Connections of one address, or of one IPv6 network (/64), held at once; more are closed [default: half of
    /// --max-connections]
    #[arg(
        long,
        env = "OCTOPUS_MAX_CONNECTIONS_PER_ADDRESS",
        value_name = "N",
        value_parser = count,
        help_heading = "Service"
    )]
    pub(super) max_connections_per_address: Option<usize>,
    /// How long a connection is kept without a request
    #[arg(
        long,
        env = "OCTOPUS_KEEP_ALIVE_MS",
        value_name = "N",
        default_value = "75000",
        value_parser = millis,
        help_heading = "Service"
    )]
    pub(super) keep_alive_ms: u64,

    /// Kafka's bootstrap servers, HOST:PORT with commas between; none: creates answer 50002
    #[arg(
        long,
        env = "DEFAULT_SERVERS",
        value_name = "LIST",
        default_value = "",
        hide_default_value = true,
        value_parser = servers,
        help_heading = "Kafka"
    )]
    pub(super) bootstrap_servers: Servers,
    /// How a namespace's topics are known
    #[arg(
        long,
        env = "OCTOPUS_NAMESPACES",
        value_name = "MODE",
        default_value = "cluster",
        help_heading = "Kafka"
    )]
    pub(super) namespaces: NamespacesMode,

    /// How instances are members of their groups: consumer is for Kafka 4.0 and later
    #[arg(
        long,
        env = "KAFKA_GROUP_PROTOCOL",
        value_name = "P",
        default_value = "classic",
        help_heading = "Kafka"
    )]
    pub(super) kafka_group_protocol: GroupProtocolName,

    #[command(flatten)]
    pub(super) security: SecurityFlags,

    #[command(flatten)]
    pub(super) callers: CallerFlags,

    /// Topics that a namespace may hold, and so items of a list in a request
    #[arg(
        long,
        env = "MAX_TOPICS_PER_NAMESPACE",
        value_name = "N",
        default_value = "50",
        value_parser = count,
        help_heading = "Limits"
    )]
    pub(super) max_topics_per_namespace: usize,
    /// Instances of the service
    #[arg(
        long,
        env = "OCTOPUS_MAX_INSTANCES",
        value_name = "N",
        default_value = "12",
        value_parser = count,
        help_heading = "Limits"
    )]
    pub(super) max_instances: usize,
    /// Instances of one user
    #[arg(
        long,
        env = "OCTOPUS_MAX_INSTANCES_PER_USER",
        value_name = "N",
        default_value = "4",
        value_parser = count,
        help_heading = "Limits"
    )]
    pub(super) max_instances_per_user: usize,
    /// Fetches that are polled for at once
    #[arg(
        long,
        env = "OCTOPUS_MAX_POLLS",
        value_name = "N",
        default_value = "3",
        value_parser = count,
        help_heading = "Limits"
    )]
    pub(super) max_polls: usize,
    /// Fetches that one user has in progress
    #[arg(
        long,
        env = "OCTOPUS_MAX_FETCHES_PER_USER",
        value_name = "N",
        default_value = "2",
        value_parser = count,
        help_heading = "Limits"
    )]
    pub(super) max_fetches_per_user: usize,
    /// Requests of any kind that one user has in progress
    #[arg(
        long,
        env = "OCTOPUS_MAX_REQUESTS_PER_USER",
        value_name = "N",
        default_value = "64",
        value_parser = count,
        help_heading = "Limits"
    )]
    pub(super) max_requests_per_user: usize,

    /// Idle time after which an instance is closed
    #[arg(
        long,
        env = "CONSUMER_INSTANCE_TIMEOUT_MS",
        value_name = "N",
        default_value = "300000",
        value_parser = millis,
        help_heading = "Times"
    )]
    pub(super) instance_timeout_ms: u64,
    /// Time between two looks for idle instances
    #[arg(
        long,
        env = "OCTOPUS_REAP_INTERVAL_MS",
        value_name = "N",
        default_value = "30000",
        value_parser = millis,
        help_heading = "Times"
    )]
    pub(super) reap_interval_ms: u64,
    /// Longest wait of a request for another one on its instance
    #[arg(
        long,
        env = "OCTOPUS_LOCK_WAIT_MS",
        value_name = "N",
        default_value = "10000",
        value_parser = millis,
        help_heading = "Times"
    )]
    pub(super) lock_wait_ms: u64,
    /// Longest time that a reply takes to send
    #[arg(
        long,
        env = "OCTOPUS_SEND_TIMEOUT_MS",
        value_name = "N",
        default_value = "30000",
        value_parser = millis,
        help_heading = "Times"
    )]
    pub(super) send_timeout_ms: u64,
    /// Time that all instances share at shutdown
    #[arg(
        long,
        env = "OCTOPUS_SHUTDOWN_GRACE_MS",
        value_name = "N",
        default_value = "8000",
        value_parser = millis,
        help_heading = "Times"
    )]
    pub(super) shutdown_grace_ms: u64,
    /// How long a rebalance waits for an idle instance's next fetch; 0: for ever
    #[arg(
        long,
        env = "OCTOPUS_IDLE_REJOIN_MS",
        value_name = "N",
        default_value = "10000",
        value_parser = millis_or_zero,
        help_heading = "Times"
    )]
    pub(super) idle_rejoin_ms: u64,

    /// What is logged: a filter of tracing
    #[arg(
        long,
        env = "OCTOPUS_LOG",
        value_name = "FILTER",
        default_value = "info",
        value_parser = filter,
        help_heading = "Log"
    )]
    pub(super) log: String,
    /// How a line of the log is written
    #[arg(
        long,
        env = "OCTOPUS_LOG_FORMAT",
        value_name = "F",
        default_value = "text",
        help_heading = "Log"
    )]
    pub(super) log_format: LogFormat,
}

/// How a namespace's topics are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NamespacesMode {
    /// The topics on Kafka whose name starts with the namespace.
    #[value(help = "The topics on Kafka whose name starts with the namespace")]
    Cluster,
    /// Those that the topic routes made, kept in a compacted topic on Kafka.
    #[value(help = "Those that the topic routes made, kept in a compacted topic on Kafka")]
    Registry,
}

/// How instances are members of their groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum GroupProtocolName {
    /// All members stop while the group rebalances, and one of them assigns
    Classic,
    /// Kafka assigns, and only those whose topics change notice (KIP-848)
    Consumer,
}

/// How a line of the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Bootstrap servers, each `HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Servers(pub(super) Vec<String>);

fn servers(text: &str) -> Result<Servers, &'static str> {
    let items = text.split(',').map(str::trim).collect::<Vec<_>>();
    if items == [""] {
        return Ok(Servers(Vec::new()));
    }
    if items.iter().all(|item| is_server(item)) {
        Ok(Servers(items.into_iter().map(str::to_owned).collect()))
    } else {
        Err("HOST:PORT with commas between, such as kafka-1:9092,[::1]:9092")
    }
}

fn is_server(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let host_is_good = match host.strip_prefix('[') {
        Some(inner) => inner
            .strip_suffix(']')
            .is_some_and(|inner| inner.parse::<Ipv6Addr>().is_ok()),
        None => {
            !host.is_empty()
                && host
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
        }
    };
    let port_is_good =
        port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0);
    host_is_good && port_is_good
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse()
        .map_err(|_| "an IP address and a port, such as 127.0.0.1:8000 or [::1]:0")
}

fn count(text: &str) -> Result<usize, &'static str> {
    let count = text.parse().ok().filter(|count| (1..=1_000_000).contains(count));
    count.ok_or("a whole number from 1 to 1000000")
}

/// The longest of the settable times: 24 days, which no clock overflows by.
const LONGEST_MS: u64 = i32::MAX as u64;

fn millis(text: &str) -> Result<u64, &'static str> {
    let ms = text.parse().ok().filter(|ms| (1..=LONGEST_MS).contains(ms));
    ms.ok_or("a whole number of milliseconds from 1 to 2147483647")
}

fn millis_or_zero(text: &str) -> Result<u64, &'static str> {
    let ms = text.parse().ok().filter(|ms| *ms <= LONGEST_MS);
    ms.ok_or("a whole number of milliseconds from 0 to 2147483647")
}

fn filter(text: &str) -> Result<String, &'static str> {
    match EnvFilter::try_new(text) {
        Ok(_) if !text.trim().is_empty() => Ok(text.to_owned()),
        Ok(_) | Err(_) => Err("a filter of tracing, such as info or warn,octopus_server=debug"),
    }
}
