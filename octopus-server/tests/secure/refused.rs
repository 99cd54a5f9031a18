//! What fails on the way to Kafka, as callers and the log are told.

use std::process::Command;

use octopus_kafka::broker::{self, Broker};

use crate::{OwnFile, scripted, self_signed, support::server::Server};

const PASSWORD: &str = "the-password-of-octopus";

/// The lines of a log that warn of a broker.
fn warnings(log: &str) -> Vec<&str> {
    let warns = |line: &&str| line.contains("WARN") && line.contains("a broker can't be");
    log.lines().filter(warns).collect()
}

/// [ER-05] [RT-04] a wrong password is 50002; the log has one line about it, and the password is nowhere, though the
/// broker itself repeats it.
#[tokio::test]
async fn a_sign_in_that_is_refused_is_50002_and_one_line() {
    let address = scripted::start().await.to_string();
    let password = OwnFile::new(&format!("{PASSWORD}\n"));
    let server = Server::start(
        &address,
        &[
            "--kafka-security-protocol=SASL_PLAINTEXT",
            "--kafka-sasl-mechanism=PLAIN",
            "--kafka-sasl-username=octopus",
            "--kafka-sasl-password-file",
            password.path(),
        ],
    )
    .await;
    let user = server.user(0);
    for _ in 0..2 {
        let reply = user.post("/api/v2/consumers/g", "{}").await;
        assert_eq!(reply.error(), (500, 50002));
        assert!(
            !reply.text().contains("octopus") && !reply.text().contains(&address),
            "{}",
            reply.text()
        );
    }
    let log = server.log();
    let lines = warnings(&log);
    assert_eq!(lines.len(), 1, "{log}");
    assert!(
        lines[0].contains(&format!("{address}: PLAIN: refused by the broker")),
        "{}",
        lines[0]
    );
    assert!(!log.contains(PASSWORD), "{log}");
}

/// [ER-07] a plaintext port behind a TLS setting.
#[tokio::test]
async fn a_port_without_tls_is_50302_and_one_line() {
    let broker = Broker::start(broker::Config::default()).await.unwrap();
    let address = broker.addr().to_string();
    let ca = OwnFile::new(&self_signed().0);
    let server = Server::start(
        &address,
        &["--kafka-security-protocol=SSL", "--kafka-ca-file", ca.path()],
    )
    .await;
    let reply = server.user(0).post("/api/v2/consumers/g", "{}").await;
    assert_eq!(reply.error(), (503, 50302));
    let log = server.log();
    let lines = warnings(&log);
    assert_eq!(lines.len(), 1, "{log}");
    assert!(
        lines[0].contains(&address) && lines[0].contains("is it a plaintext port?"),
        "{}",
        lines[0]
    );
}

/// Files that can't be used are refused at start, with one line that names flag and file and shows nothing of them.
#[test]
fn a_file_that_can_not_be_used_is_refused_at_start() {
    let (certificate, key) = self_signed();
    let other_key = self_signed().1;
    let [certificate, key, other_key, empty, nothing] =
        [&*certificate, &key, &other_key, "\n", "nothing"].map(OwnFile::new);
    let tokens = OwnFile::new("");
    let ssl = "--kafka-security-protocol=SSL".to_owned();
    let flag = |flag: &str, file: &OwnFile| format!("{flag}={}", file.path());
    let scram = || {
        [
            "--kafka-security-protocol=SASL_PLAINTEXT",
            "--kafka-sasl-mechanism=SCRAM-SHA-512",
            "--kafka-sasl-username=u",
        ]
        .map(str::to_owned)
        .to_vec()
    };
    for (flags, said) in [
        (
            vec![ssl.clone(), "--kafka-ca-file=/nonexistent/ca".to_owned()],
            "--kafka-ca-file: /nonexistent/ca: No such file".to_owned(),
        ),
        (
            vec![ssl.clone(), flag("--kafka-ca-file", &nothing)],
            format!("--kafka-ca-file: {}: there is no certificate", nothing.path()),
        ),
        (
            vec![
                ssl.clone(),
                flag("--kafka-ca-file", &certificate),
                flag("--kafka-client-cert", &key),
                flag("--kafka-client-key", &key),
            ],
            format!("--kafka-client-cert: {}: there is no certificate", key.path()),
        ),
        (
            vec![
                ssl,
                flag("--kafka-ca-file", &certificate),
                flag("--kafka-client-cert", &certificate),
                flag("--kafka-client-key", &other_key),
            ],
            format!(
                "--kafka-client-key: {}: it is not the key of the certificate",
                other_key.path()
            ),
        ),
        (
            [scram(), vec![flag("--kafka-sasl-password-file", &empty)]].concat(),
            format!("--kafka-sasl-password-file: {}: it is empty", empty.path()),
        ),
        (
            [
                scram(),
                vec!["--kafka-sasl-password-file=/nonexistent/p".to_owned()],
            ]
            .concat(),
            "--kafka-sasl-password-file: /nonexistent/p: No such file".to_owned(),
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_octopus-server"))
            .args([
                "--bootstrap-servers=localhost:1",
                "--listen=127.0.0.1:0",
                "--auth=tokens",
            ])
            .arg(flag("--tokens-file", &tokens))
            .args(&flags)
            .output()
            .unwrap();
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {line}");
        assert!(line.starts_with(&said), "{said}: {line}");
        assert_eq!(line.lines().count(), 1, "{line}");
    }
}
