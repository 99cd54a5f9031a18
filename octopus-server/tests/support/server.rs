//! The binary, as an operator runs it.

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use tokio::time::{sleep, timeout};

use super::client::Client;

/// How many users a server knows.
const USERS: usize = 6;

/// A running `octopus-server` with a few users. It is killed when this falls.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) process: Child,
    folder: PathBuf,
    bootstrap: String,
    flags: Vec<String>,
    variables: Vec<(String, String)>,
}

impl Server {
    /// Starts it on Kafka at `bootstrap`, with more flags, and waits until it serves.
    pub(crate) async fn start(bootstrap: &str, flags: &[&str]) -> Self {
        Self::with(bootstrap, flags, &[]).await
    }

    /// As [`start`](Self::start), with variables too. A flag `--auth` stands in place of the tokens file.
    pub(crate) async fn with(bootstrap: &str, flags: &[&str], variables: &[(&str, &str)]) -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let name = format!("server-{}-{number}", std::process::id());
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&folder).expect("a folder");
        // Users are new with each server, so that runs against one Kafka do not meet.
        let lines: String = (0..USERS)
            .map(|user| format!("{} {}\n", token(user), subject(user, number)))
            .collect();
        fs::write(folder.join("tokens"), lines).expect("a tokens file");
        let flags: Vec<_> = flags.iter().map(|&flag| flag.to_owned()).collect();
        let variables: Vec<_> = variables
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let mut server = Self {
            address: ([127, 0, 0, 1], 0).into(),
            process: launch(&folder, bootstrap, &flags, &variables),
            folder,
            bootstrap: bootstrap.to_owned(),
            flags,
            variables,
        };
        server.serves().await;
        server
    }

    /// Stops it as a deploy does, and starts it again with the same users.
    pub(crate) async fn restart(&mut self) {
        self.signal("TERM");
        let status = self.ended().await;
        assert_eq!(status.code(), Some(0), "{}", self.log());
        fs::remove_file(self.folder.join("ready")).expect("a ready file");
        self.process = launch(&self.folder, &self.bootstrap, &self.flags, &self.variables);
        self.serves().await;
    }

    /// Waits until it serves.
    async fn serves(&mut self) {
        for _ in 0..600 {
            // The file is written whole, by a rename.
            if let Ok(address) = fs::read_to_string(self.folder.join("ready")) {
                self.address = address.trim().parse().expect("an address");
                return;
            }
            if let Some(status) = self.process.try_wait().expect("a process") {
                panic!("the server ended with {status}: {}", self.log());
            }
            sleep(Duration::from_millis(20)).await;
        }
        panic!("the server is not ready: {}", self.log());
    }

    /// One of its users, from 0 on.
    pub(crate) fn user(&self, user: usize) -> Client {
        assert!(user < USERS);
        let number = self
            .folder
            .file_name()
            .and_then(|n| n.to_str()?.rsplit('-').next()?.parse().ok());
        let subject = subject(user, number.expect("a server's number"));
        Client {
            address: self.address,
            subject,
            token: token(user),
        }
    }

    /// The file of its users, read when it starts.
    pub(crate) fn tokens(&self) -> PathBuf {
        self.folder.join("tokens")
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Sends it a signal, such as `TERM`.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill")
            .args(["-s", signal, &pid])
            .status()
            .expect("kill");
        assert!(sent.success());
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let end = async {
            loop {
                if let Some(status) = self.process.try_wait().expect("a process") {
                    return status;
                }
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(60), end)
            .await
            .expect("the server's end")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            std::io::Write::write_all(&mut std::io::stderr(), self.log().as_bytes()).ok();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The process, on what the folder holds.
fn launch(folder: &Path, bootstrap: &str, flags: &[String], variables: &[(String, String)]) -> Child {
    let log = File::options().create(true).append(true).open(folder.join("log"));
    let log = log.expect("a log");
    let mut command = Command::new(env!("CARGO_BIN_EXE_octopus-server"));
    if !bootstrap.is_empty() {
        command.args(["--bootstrap-servers", bootstrap]);
    }
    let is_given = |name: &str| flags.iter().any(|flag| flag.split('=').next() == Some(name));
    if !is_given("--auth") {
        command
            .args(["--auth", "tokens", "--tokens-file"])
            .arg(folder.join("tokens"));
    }
    if !is_given("--log") {
        command.args(["--log", "debug"]);
    }
    command
        .args(["--listen", "127.0.0.1:0", "--ready-file"])
        .arg(folder.join("ready"))
        .args(flags)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a log"))
        .stderr(log)
        .spawn()
        .expect("the server's process")
}

fn token(user: usize) -> String {
    format!("token_of_user_{user}_with_enough_characters")
}

fn subject(user: usize, number: u32) -> String {
    let server = std::process::id().wrapping_mul(64).wrapping_add(number);
    format!("6a0f4d3e-0000-4000-8000-{user:04x}{server:08x}")
}
