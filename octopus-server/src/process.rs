//! What the process does around the service: its files, its log, its signals.

use std::{
    fs,
    io::{self, IsTerminal},
    path::Path,
    time::SystemTime,
};

use octopus_auth::Tokens;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::config::{Auth, Config, LogFormat, Stop};

/// The tokens of the file that the settings name; `None` where `--dev` brings its own.
///
/// # Errors
///
/// Where the file can't be read, or a line of it has another form.
pub fn tokens(config: &Config) -> Result<Option<Tokens>, Stop> {
    let Auth::Tokens(file) = &config.auth else {
        return Ok(None);
    };
    let refused =
        |why: &dyn std::fmt::Display| Stop::Refused(format!("--tokens-file: {}: {why}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| refused(&error))?;
    Tokens::parse(&text, SystemTime::now)
        .map(Some)
        .map_err(|error| refused(&error))
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
