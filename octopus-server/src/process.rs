//! What the process does around the service: its files, its log, its signals.

mod https;

use std::{
    ffi::OsString,
    fmt, fs,
    io::{self, IsTerminal, Write},
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{Duration, SystemTime},
};

use octopus_auth::{Introspection, TokenCheck, Tokens, introspection::Now};
use octopus_kafka::{
    Cluster, GroupProtocol,
    security::{self, BadTls, Identity, Login, Renewed, Secret, Token, Trust},
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;

pub use self::https::renew_at_hangup;
use crate::{
    TokenAuthority, TokenSource,
    clock::{Clock as _, SystemClock},
    config::{self, Auth, Config, LogFormat, LoginMechanism, Password, Sasl, Stop, Tls},
    random,
};

/// Tells whoever started the program. Nobody may listen any more, and that is no reason to end.
pub fn say(mut to: impl Write, text: &str) {
    let _ = to.write_all(text.as_bytes()).and_then(|()| to.flush());
}

/// Says why the program ends before it serves, and gives its exit status.
#[must_use]
pub fn stopped(stop: &Stop) -> ExitCode {
    match stop {
        Stop::Said(text) => say(io::stdout(), text),
        Stop::Refused(line) => say(io::stderr(), &format!("{line}\n")),
    }
    ExitCode::from(stop.status())
}

/// Reads the command line and the files that it names, and begins the log.
///
/// # Errors
///
/// Where the program ends before it serves: for what was only asked, and for a bad flag or file.
pub fn begin(args: impl IntoIterator<Item = OsString>) -> Result<(Config, Files), Stop> {
    let config = Config::parse(args)?;
    let files = Files::read(&config)?;
    log(&config)?;
    Ok((config, files))
}

/// What the files hold that the flags name.
#[derive(Clone)]
pub struct Files {
    /// Who decides who calls; `None` where `--dev` brings a token of its own.
    pub tokens: Option<Arc<dyn TokenCheck>>,
    /// How Kafka is reached and signed in to.
    pub security: octopus_kafka::Security,
    /// The certificate of HTTPS; `None` for plain HTTP.
    pub tls: Option<crate::tls::Tls>,
}

impl Files {
    /// Reads them.
    ///
    /// # Errors
    ///
    /// Where one can't be read, or what is in it can't be used.
    pub fn read(config: &Config) -> Result<Self, Stop> {
        Ok(Self {
            tokens: sign_in(config)?,
            security: security(config)?,
            tls: config.https.as_ref().map(https::https).transpose()?,
        })
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files")
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

/// Who decides who calls; `None` where `--dev` brings a token of its own.
fn sign_in(config: &Config) -> Result<Option<Arc<dyn TokenCheck>>, Stop> {
    match &config.auth {
        Auth::Dev => Ok(None),
        Auth::Tokens(file) => Ok(Some(Arc::new(tokens(file)?))),
        Auth::Introspection(authority) => Ok(Some(Arc::new(introspection(authority)?))),
    }
}

fn tokens(file: &Path) -> Result<Tokens, Stop> {
    let refused = |why: &dyn fmt::Display| Stop::Refused(format!("--tokens-file: {}: {why}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| refused(&error))?;
    Tokens::parse(&text, SystemTime::now).map_err(|error| refused(&error))
}

fn introspection(settings: &config::Introspection) -> Result<Introspection, Stop> {
    let config::Introspection {
        url,
        client_id,
        client_secret,
        scope,
    } = settings;
    let secret = match client_secret {
        Password::Given(secret) => secret.clone(),
        Password::File(file) => secret_of("SERVER_SECRET_FILE", file)?,
    };
    let system = security::Tls::new(Trust::System, None)
        .map_err(|bad| Stop::Refused(format!("--introspection-url: {url}: {bad}")))?;
    let key = random::bytes().map_err(|error| Stop::Refused(format!("no random bytes: {error}")))?;
    let authority = TokenAuthority::new(url.clone(), client_id.clone(), secret, system);
    let clock = || Now {
        monotonic: SystemClock.now(),
        wall: SystemTime::now(),
    };
    Ok(Introspection::new(authority, scope.clone(), &key, clock))
}

/// How Kafka is reached and signed in to, with the files that the settings name.
fn security(config: &Config) -> Result<octopus_kafka::Security, Stop> {
    let tls = config.security.tls.as_ref().map(tls).transpose()?;
    let sasl = config.security.sasl.clone().map(sasl).transpose()?;
    Ok(octopus_kafka::Security::new(tls, sasl))
}

fn tls(tls: &Tls) -> Result<security::Tls, Stop> {
    let refused = |flag: &str, file: &Path, why: &dyn fmt::Display| {
        Stop::Refused(format!("{flag}: {}: {why}", file.display()))
    };
    let read = |flag: &str, file: &Path| fs::read(file).map_err(|error| refused(flag, file, &error));
    let (ca, cert, key) = ("--kafka-ca-file", "--kafka-client-cert", "--kafka-client-key");
    let trusted = tls.ca_file.as_ref().map(|file| read(ca, file)).transpose()?;
    let shown = match &tls.identity {
        None => None,
        Some((chain, private)) => Some((read(cert, chain)?, read(key, private)?)),
    };
    let identity = shown.as_ref().map(|(chain, key)| Identity { chain, key });
    let trust = trusted.as_deref().map_or(Trust::System, Trust::Pem);
    security::Tls::new(trust, identity).map_err(|bad| match (&bad, &tls.ca_file, &tls.identity) {
        (BadTls::Trust(_), Some(file), _) => refused(ca, file, &bad),
        (BadTls::Chain(_), _, Some((file, _))) => refused(cert, file, &bad),
        (BadTls::Key(_), _, Some((_, file))) => refused(key, file, &bad),
        (BadTls::Trust(_) | BadTls::Chain(_) | BadTls::Key(_), ..) => Stop::Refused(format!("{ca}: {bad}")),
    })
}

fn sasl(sasl: Sasl) -> Result<security::Sasl, Stop> {
    Ok(match sasl {
        Sasl::Login(mechanism, username, password) => {
            let password = match password {
                Password::Given(password) => password,
                Password::File(file) => secret_of("--kafka-sasl-password-file", &file)?,
            };
            let login = Login { username, password };
            match mechanism {
                LoginMechanism::Plain => security::Sasl::Plain(login),
                LoginMechanism::ScramSha256 => security::Sasl::ScramSha256(login),
                LoginMechanism::ScramSha512 => security::Sasl::ScramSha512(login),
            }
        }
        Sasl::Token(token) => security::Sasl::OAuthBearer(Renewed::new(Token::new(token))),
        Sasl::Endpoint(endpoint) => {
            let system = security::Tls::new(Trust::System, None)
                .map_err(|bad| Stop::Refused(format!("--kafka-oauth-token-url: {}: {bad}", endpoint.url)))?;
            security::Sasl::OAuthBearer(Renewed::new(TokenSource::new(endpoint, system)))
        }
        Sasl::Aws { region, credentials } => security::Sasl::AwsMskIam {
            region,
            credentials: Renewed::new(credentials),
        },
    })
}

/// The secret in a file, whose last line end is none of it. `setting` is what names the file.
fn secret_of(setting: &str, file: &Path) -> Result<Secret, Stop> {
    let refused = |why: &dyn fmt::Display| Stop::Refused(format!("{setting}: {}: {why}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| refused(&error))?;
    let secret = text.strip_suffix('\n').unwrap_or(&text);
    let secret = secret.strip_suffix('\r').unwrap_or(secret);
    if secret.is_empty() {
        return Err(refused(&"it is empty"));
    }
    Ok(secret.into())
}

/// The cluster of these bootstrap servers.
#[must_use]
pub fn cluster(
    servers: Vec<String>,
    security: octopus_kafka::Security,
    group_protocol: GroupProtocol,
) -> Cluster {
    tracing::info!(protocol = %security, "Kafka's protocol");
    if let (None, Some(security::Sasl::Plain(_) | security::Sasl::OAuthBearer(_))) =
        (&security.tls, &security.sasl)
    {
        tracing::warn!("the secret that signs in to Kafka is sent without TLS");
    }
    let mut config = octopus_kafka::Config::new(servers);
    config.security = security;
    config.group_protocol = group_protocol;
    Cluster::new(config)
}

/// How long a start waits for Kafka to say what it speaks.
const ASKED_WITHIN: Duration = Duration::from_secs(5);

/// Looks whether the cluster speaks what the flags ask for, where it is there to be asked.
///
/// # Errors
///
/// [`Stop`] where it does not.
pub async fn speaks(cluster: &Cluster, protocol: GroupProtocol) -> Result<(), Stop> {
    // Every Kafka speaks the other one.
    if protocol != GroupProtocol::Consumer {
        return Ok(());
    }
    match cluster.speaks(protocol, ASKED_WITHIN).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(Stop::Refused(
            "--kafka-group-protocol: \"consumer\" is refused: the cluster does not speak it; Kafka does from 4.0 on, so use classic"
                .to_owned(),
        )),
        Err(error) => {
            tracing::warn!(%error, "the cluster can't be asked whether it speaks --kafka-group-protocol consumer");
            Ok(())
        }
    }
}

/// Starts the log on the standard error stream.
///
/// # Errors
///
/// Where the filter has no meaning.
pub fn log(config: &Config) -> Result<(), Stop> {
    let filter = EnvFilter::try_new(&config.log)
        .map_err(|why| Stop::Refused(format!("--log: {:?} is refused: {why}", config.log)))?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr)
        // A line that nobody reads any more must not end who writes it.
        .log_internal_errors(false);
    match config.log_format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    Ok(())
}

/// Writes the ready file whole or not at all.
///
/// # Errors
///
/// Where the file can't be written.
pub fn ready(file: &Path, address: &str) -> io::Result<()> {
    let new = file.with_extension("new");
    fs::write(&new, format!("{address}\n"))?;
    fs::rename(new, file)
}

/// The signals that stop the service, SIGTERM and SIGINT.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens for them from here on. Needs a tokio runtime.
    ///
    /// # Errors
    ///
    /// Where the system refuses.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Ends with the first signal. The second ends the process at once, with status 1.
    pub async fn stop(mut self) {
        self.next().await;
        tokio::spawn(async move {
            self.next().await;
            std::process::exit(1);
        });
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
