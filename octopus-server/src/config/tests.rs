use std::{collections::HashMap, env, process::Command};

use super::{security::Variables, *};

/// What some of the flags say with these words; those with a `--` are flags, the others variables.
pub(super) fn read_words<F: clap::Args, T>(
    words: &[(&str, &str)],
    read: impl FnOnce(&F, Variables<'_>) -> Result<T, Stop>,
) -> Result<T, String> {
    #[derive(Parser)]
    struct Only<F: clap::Args> {
        #[command(flatten)]
        flags: F,
    }
    let (flags, variables): (Vec<_>, Vec<_>) = words.iter().partition(|(name, _)| name.starts_with("--"));
    let flags = flags.iter().map(|(flag, value)| format!("{flag}={value}"));
    let only = Only::<F>::try_parse_from(std::iter::once("x".to_owned()).chain(flags));
    let only = only.map_err(|error| Stop::of(&error).to_string())?;
    let variables: HashMap<&str, &str> = variables.into_iter().collect();
    let variable = |name: &str| variables.get(name).map(|value| (*value).to_owned());
    read(&only.flags, &variable).map_err(|stop| stop.to_string())
}

#[test]
fn the_defaults_are_the_specifications() {
    let config = parse(&["--auth", "tokens", "--tokens-file", "/etc/tokens"]).unwrap();
    assert_eq!(
        config,
        Config {
            listen: SocketAddr::from(([127, 0, 0, 1], 8000)),
            ready_file: None,
            https: None,
            kafka: Kafka::None,
            namespaces: NamespacesMode::Cluster,
            security: Security::default(),
            group_protocol: GroupProtocol::Classic,
            auth: Auth::Tokens("/etc/tokens".into()),
            limits: Limits::default(),
            max_connections: 10_000,
            max_connections_per_address: 5_000,
            log: "info".to_owned(),
            log_format: LogFormat::Text,
        }
    );
}

#[test]
fn dev_needs_nothing_else() {
    let config = parse(&["--dev"]).unwrap();
    let kafka = Kafka::Dev {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        data: None,
    };
    assert_eq!(config.kafka, kafka);
    assert_eq!(config.auth, Auth::Dev);
    assert_eq!(config.limits, Limits::default());

    let config = parse(&[
        "--dev",
        "--dev-kafka-listen=[::1]:9092",
        "--dev-data=d",
        "--tokens-file=t",
    ])
    .unwrap();
    let kafka = Kafka::Dev {
        listen: "[::1]:9092".parse().unwrap(),
        data: Some("d".into()),
    };
    assert_eq!(config.kafka, kafka);
    assert_eq!(config.auth, Auth::Tokens("t".into()));
}

#[test]
fn every_flag_reaches_its_setting() {
    let config = parse(&[
        "--auth=tokens",
        "--tokens-file=t",
        "--listen=0.0.0.0:0",
        "--ready-file=r",
        "--tls-cert=c",
        "--tls-key=k",
        "--bootstrap-servers=a:1, b.example.org:65535,[2001:db8::1]:9092,10.0.0.1:9092",
        "--kafka-group-protocol=consumer",
        "--max-topics-per-namespace=1",
        "--instance-timeout-ms=2",
        "--max-instances=3",
        "--max-instances-per-user=4",
        "--max-polls=5",
        "--max-fetches-per-user=6",
        "--max-requests-per-user=15",
        "--reap-interval-ms=7",
        "--lock-wait-ms=8",
        "--send-timeout-ms=9",
        "--shutdown-grace-ms=10",
        "--idle-rejoin-ms=0",
        "--keep-alive-ms=12",
        "--max-connections=13",
        "--max-connections-per-address=14",
        "--namespaces=registry",
        "--log=warn,octopus_server=debug",
        "--log-format=json",
    ])
    .unwrap();
    let ms = Duration::from_millis;
    let mut limits = Limits::default();
    limits.max_topics = 1;
    limits.idle_timeout = ms(2);
    limits.max_instances = 3;
    limits.max_instances_per_user = 4;
    limits.max_polls = 5;
    limits.max_fetches_per_user = 6;
    limits.max_requests_per_user = 15;
    limits.reap_interval = ms(7);
    limits.lock_wait = ms(8);
    limits.send_timeout = ms(9);
    limits.shutdown_grace = ms(10);
    limits.keep_alive = ms(12);
    limits.idle_rejoin = ms(0);
    let servers = [
        "a:1",
        "b.example.org:65535",
        "[2001:db8::1]:9092",
        "10.0.0.1:9092",
    ];
    assert_eq!(
        config,
        Config {
            listen: SocketAddr::from(([0, 0, 0, 0], 0)),
            ready_file: Some("r".into()),
            https: Some(Https {
                cert: "c".into(),
                key: "k".into(),
            }),
            kafka: Kafka::Cluster(servers.map(str::to_owned).to_vec()),
            namespaces: NamespacesMode::Registry,
            security: Security::default(),
            group_protocol: GroupProtocol::Consumer,
            auth: Auth::Tokens("t".into()),
            limits,
            max_connections: 13,
            max_connections_per_address: 14,
            log: "warn,octopus_server=debug".to_owned(),
            log_format: LogFormat::Json,
        }
    );
}

#[test]
fn a_bad_value_is_one_line_with_the_flag_the_value_and_what_is_allowed() {
    for (flag, value, allowed) in [
        ("--listen", "8000", "an IP address and a port"),
        ("--listen", "localhost:8000", "an IP address and a port"),
        ("--listen", "127.0.0.1:65536", "an IP address and a port"),
        ("--dev-kafka-listen", "x", "an IP address and a port"),
        ("--bootstrap-servers", "a", "HOST:PORT"),
        ("--bootstrap-servers", "a:1,", "HOST:PORT"),
        ("--bootstrap-servers", "a:0", "HOST:PORT"),
        ("--bootstrap-servers", "a:+1", "HOST:PORT"),
        ("--bootstrap-servers", ":1", "HOST:PORT"),
        ("--bootstrap-servers", "::1:9092", "HOST:PORT"),
        ("--bootstrap-servers", "[::1]", "HOST:PORT"),
        ("--bootstrap-servers", "kafka://a:1", "HOST:PORT"),
        ("--bootstrap-servers", "a b:1", "HOST:PORT"),
        ("--max-topics-per-namespace", "0", "from 1 to 1000000"),
        ("--max-instances", "-1", "from 1 to 1000000"),
        ("--max-instances-per-user", "x", "from 1 to 1000000"),
        ("--max-polls", "0", "from 1 to 1000000"),
        ("--max-fetches-per-user", "1.5", "from 1 to 1000000"),
        ("--max-connections", "1000001", "from 1 to 1000000"),
        ("--instance-timeout-ms", "0", "from 1 to 2147483647"),
        ("--reap-interval-ms", "0", "from 1 to 2147483647"),
        ("--lock-wait-ms", "2147483648", "from 1 to 2147483647"),
        ("--send-timeout-ms", "5s", "from 1 to 2147483647"),
        ("--shutdown-grace-ms", "0", "from 1 to 2147483647"),
        ("--idle-rejoin-ms", "-1", "from 0 to 2147483647"),
        (
            "--keep-alive-ms",
            "99999999999999999999999",
            "from 1 to 2147483647",
        ),
        ("--log", "a=b=c", "a filter of tracing"),
        ("--log", "", "a filter of tracing"),
        ("--log-format", "xml", "one of text, json"),
        ("--auth", "basic", "one of introspection, tokens"),
        ("--namespaces", "x", "one of cluster, registry"),
        ("--kafka-group-protocol", "KIP-848", "one of classic, consumer"),
    ] {
        let stop = parse(&["--dev", &format!("{flag}={value}")]).unwrap_err();
        let line = stop.to_string();
        assert_eq!(stop.status(), 2, "{line}");
        assert!(line.starts_with(&format!("{flag}: {value:?} ")), "{line}");
        assert!(line.contains(allowed), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
    }
}

#[test]
fn what_is_not_there_is_refused_at_start() {
    for (args, said) in [
        (
            &[][..],
            "--auth: \"introspection\" is refused: only together with the variables SERVER_CLIENT_ID",
        ),
        (
            &["--dev", "--auth=introspection"],
            "--auth: \"introspection\" is refused: only together with the variables SERVER_CLIENT_ID",
        ),
        (
            &["--tokens-file=t"],
            "--tokens-file: \"t\" is refused: only together with --auth tokens",
        ),
        (
            &["--auth=tokens"],
            "--auth: \"tokens\" is refused: only together with --tokens-file",
        ),
        (
            &["--dev", "--bootstrap-servers=a:1"],
            "--bootstrap-servers: \"a:1\" is refused: not together",
        ),
        (
            &[
                "--auth=tokens",
                "--tokens-file=t",
                "--dev-kafka-listen=127.0.0.1:0",
            ],
            "--dev-kafka-listen: \"127.0.0.1:0\" is refused: only together with --dev",
        ),
        (
            &["--dev", "--tls-cert=c"],
            "--tls-cert: \"c\" is refused: only together with --tls-key FILE",
        ),
        (
            &["--dev", "--tls-key=k"],
            "--tls-key: \"k\" is refused: only together with --tls-cert FILE",
        ),
        (&["--dev", "--tls"], "unexpected argument '--tls' found"),
        (
            &["--auth=tokens", "--tokens-file=t", "--dev-data=d"],
            "--dev-data: \"d\" is refused: only together with --dev",
        ),
        (&["--dev", "serve"], "unexpected argument 'serve' found"),
        (
            &["--dev", "--dev"],
            "the argument '--dev' cannot be used multiple times",
        ),
        (
            &["--dev", "--listen"],
            "--listen: \"\" is refused: it needs a value",
        ),
    ] {
        let stop = parse(args).unwrap_err();
        let line = stop.to_string();
        assert_eq!(stop.status(), 2, "{args:?}");
        assert!(line.starts_with(said), "{args:?}: {line}");
        assert_eq!(line.lines().count(), 1, "{line}");
    }
}

#[test]
fn the_help_names_every_flag_and_its_variable() {
    let stop = parse(&["--help"]).unwrap_err();
    assert_eq!(stop.status(), 0);
    let help = stop.to_string();
    for (flag, variable) in VARIABLES {
        assert!(help.contains(&format!("--{flag} ")), "{flag}");
        assert!(help.contains(&format!("[env: {variable}=")), "{variable}");
    }
    for word in [
        "--dev",
        "--dev-data",
        "--dev-kafka-listen",
        "--ready-file",
        "[default: 300000]",
        "Limits:",
        "Times:",
    ] {
        assert!(help.contains(word), "{word}");
    }
    assert_eq!(parse(&["--version"]).unwrap_err().status(), 0);
}

/// Variables belong to the process, so the test runs itself again with one set.
#[test]
fn a_variable_stands_where_its_flag_does_not() {
    const CHILD: &str = "OCTOPUS_TEST_CHILD";
    if env::var_os(CHILD).is_some() {
        let config = parse(&["--auth=tokens", "--max-polls=7"]).unwrap();
        assert_eq!(config.limits.max_polls, 7);
        assert_eq!(config.limits.idle_timeout, Duration::from_millis(21));
        assert_eq!(config.limits.max_topics, 22);
        assert_eq!(config.limits.lock_wait, Duration::from_millis(23));
        assert_eq!(config.kafka, Kafka::Cluster(vec!["kafka:9092".to_owned()]));
        assert_eq!(config.auth, Auth::Tokens("t".into()));
        let config = parse(&["--dev", "--bootstrap-servers=", "--max-polls=7"]).unwrap();
        assert!(matches!(config.kafka, Kafka::Dev { .. }));
        let stop = parse(&["--auth=tokens"]).unwrap_err();
        assert!(
            stop.to_string().starts_with("--max-polls: \"0\" is refused"),
            "{stop}"
        );
        return;
    }
    let output = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "config::tests::a_variable_stands_where_its_flag_does_not",
        ])
        .env(CHILD, "1")
        .env("OCTOPUS_MAX_POLLS", "0")
        .env("CONSUMER_INSTANCE_TIMEOUT_MS", "21")
        .env("MAX_TOPICS_PER_NAMESPACE", "22")
        .env("OCTOPUS_LOCK_WAIT_MS", "23")
        .env("DEFAULT_SERVERS", "kafka:9092")
        .env("OCTOPUS_TOKENS_FILE", "t")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

/// The flags that have a variable.
const VARIABLES: [(&str, &str); 36] = [
    ("kafka-group-protocol", "KAFKA_GROUP_PROTOCOL"),
    ("kafka-security-protocol", "KAFKA_SECURITY_PROTOCOL"),
    ("kafka-sasl-mechanism", "KAFKA_SASL_MECHANISM"),
    ("kafka-sasl-username", "KAFKA_SASL_USERNAME"),
    ("kafka-sasl-password-file", "KAFKA_SASL_PASSWORD_FILE"),
    ("kafka-oauth-token-url", "KAFKA_OAUTH_TOKEN_URL"),
    ("kafka-oauth-scope", "KAFKA_OAUTH_SCOPE"),
    ("kafka-ca-file", "KAFKA_CA_FILE"),
    ("kafka-client-cert", "KAFKA_CLIENT_CERT"),
    ("kafka-client-key", "KAFKA_CLIENT_KEY"),
    ("listen", "OCTOPUS_LISTEN"),
    ("tls-cert", "OCTOPUS_TLS_CERT"),
    ("tls-key", "OCTOPUS_TLS_KEY"),
    ("bootstrap-servers", "DEFAULT_SERVERS"),
    ("auth", "OCTOPUS_AUTH"),
    ("introspection-url", "OCTOPUS_INTROSPECTION_URL"),
    ("required-scope", "OCTOPUS_REQUIRED_SCOPE"),
    ("tokens-file", "OCTOPUS_TOKENS_FILE"),
    ("namespaces", "OCTOPUS_NAMESPACES"),
    ("max-topics-per-namespace", "MAX_TOPICS_PER_NAMESPACE"),
    ("instance-timeout-ms", "CONSUMER_INSTANCE_TIMEOUT_MS"),
    ("max-instances", "OCTOPUS_MAX_INSTANCES"),
    ("max-instances-per-user", "OCTOPUS_MAX_INSTANCES_PER_USER"),
    ("max-polls", "OCTOPUS_MAX_POLLS"),
    ("max-fetches-per-user", "OCTOPUS_MAX_FETCHES_PER_USER"),
    ("max-requests-per-user", "OCTOPUS_MAX_REQUESTS_PER_USER"),
    ("reap-interval-ms", "OCTOPUS_REAP_INTERVAL_MS"),
    ("lock-wait-ms", "OCTOPUS_LOCK_WAIT_MS"),
    ("send-timeout-ms", "OCTOPUS_SEND_TIMEOUT_MS"),
    ("shutdown-grace-ms", "OCTOPUS_SHUTDOWN_GRACE_MS"),
    ("idle-rejoin-ms", "OCTOPUS_IDLE_REJOIN_MS"),
    ("keep-alive-ms", "OCTOPUS_KEEP_ALIVE_MS"),
    ("max-connections", "OCTOPUS_MAX_CONNECTIONS"),
    (
        "max-connections-per-address",
        "OCTOPUS_MAX_CONNECTIONS_PER_ADDRESS",
    ),
    ("log", "OCTOPUS_LOG"),
    ("log-format", "OCTOPUS_LOG_FORMAT"),
];

fn parse(args: &[&str]) -> Result<Config, Stop> {
    Config::parse(["octopus-server"].iter().chain(args))
}
