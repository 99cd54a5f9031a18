//! What an operator gets wrong, and is told.

use std::process::{Command, Output};

use octopus_kafka::broker::{self, ApiKey, Broker};

use crate::support::server::Server;

fn refused(flags: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_octopus-server"))
        .args(flags)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{flags:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_bad_flag_is_refused_in_one_line_that_names_it() {
    for (flags, words) in [
        (&["--listen", "nowhere"][..], &["--listen", "nowhere"][..]),
        (&["--max-polls", "0"], &["--max-polls", "0"]),
        (
            &["--auth", "open"],
            &["--auth", "open", "introspection", "tokens"],
        ),
        (
            &["--auth", "introspection"],
            &["introspection", "SERVER_CLIENT_ID", "SERVER_SECRET"],
        ),
        (
            &["--auth", "tokens", "--tokens-file", "/nonexistent/file"],
            &["--tokens-file", "/nonexistent/file"],
        ),
        (
            &["--dev", "--namespaces", "both"],
            &["--namespaces", "both", "cluster, registry"],
        ),
        (&["--tls-cert", "x"], &["--tls-cert"]),
    ] {
        let message = refused(flags);
        for word in words {
            assert!(message.contains(word), "{flags:?}: {message}");
        }
    }
}

#[test]
fn help_lists_every_flag_with_its_default() {
    let output = Command::new(env!("CARGO_BIN_EXE_octopus-server"))
        .arg("--help")
        .output()
        .unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for flag in [
        "--dev",
        "--listen",
        "--bootstrap-servers",
        "--instance-timeout-ms",
        "--ready-file",
        "300000",
    ] {
        assert!(help.contains(flag), "{flag} is missing in {help}");
    }
}

/// [ER-01] a cluster that does not have the protocol of groups that is asked for is known at once; one that is not there
/// does not hold the start up for long.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_the_protocol_of_groups_is_refused_at_start() {
    let broker = Broker::start(broker::Config::default()).await.unwrap();
    let address = broker.addr().to_string();
    let flags = ["--kafka-group-protocol", "consumer"];
    drop(Server::start(&address, &flags).await);

    broker.set_versions(ApiKey::ConsumerGroupHeartbeat, 0..=0);
    let Output { status, stderr, .. } = tokio::task::spawn_blocking(move || {
        Command::new(env!("CARGO_BIN_EXE_octopus-server"))
            .args(["--bootstrap-servers", &address, "--listen", "127.0.0.1:0"])
            .args(["--auth", "tokens", "--tokens-file", "/dev/null"])
            .args(flags)
            .output()
            .unwrap()
    })
    .await
    .unwrap();
    let message = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(1), "{message}");
    let line = message.lines().last().unwrap();
    assert!(
        line.contains("--kafka-group-protocol: \"consumer\" is refused"),
        "{line}"
    );
    assert!(line.contains("from 4.0 on") && line.contains("classic"), "{line}");

    let server = Server::start("127.0.0.1:1", &flags).await;
    assert!(server.log().contains("can't be asked whether it speaks"));
}
