//! Where the service's secret comes from, and where it does not go.

use std::{fs, io::Write as _, process::Command};

use tempfile::NamedTempFile;

use crate::{
    ADMITTED, ANN, AWAY, BEN, CLIENT_ID, REFUSED, SCOPE, SECRET, active, asks,
    authority::{Authority, Mode},
    caller, serve,
    support::server::Server,
    token_of,
};

/// `octopus-of-the-tests:the_s3cret_of_octopus` in base64.
const BASIC: &str = "b2N0b3B1cy1vZi10aGUtdGVzdHM6dGhlX3MzY3JldF9vZl9vY3RvcHVz";

/// The authority has the id and the secret; neither they nor a token are in the log at its most talkative, in an error, or in
/// what other users of the machine see of the process.
#[tokio::test]
async fn the_secret_goes_to_the_authority_and_nowhere_else() {
    let authority = Authority::start().await;
    let server = serve(&authority, "").await;
    authority.knows("ann", active(ANN, ""));
    let (ann, ben) = (caller(&server, ANN, "ann"), caller(&server, BEN, "ben"));
    let mut said = String::new();
    for (caller, answer) in [(&ann, ADMITTED), (&ben, REFUSED)] {
        let reply = caller.delete(crate::PATH).await;
        assert_eq!(reply.error(), answer);
        said += reply.text();
    }
    let request = &authority.requests()[0];
    assert!(
        request.contains(&format!("\r\nauthorization: Basic {BASIC}\r\n")),
        "{request}"
    );
    assert!(
        request.contains(&format!("\r\n\r\ntoken={}&", token_of("ann"))),
        "{request}"
    );

    // It tells what it was asked.
    let echo = format!("HTTP/1.1 401 {SECRET}\r\nX: {BASIC}\r\nContent-Length: 0\r\n\r\n{request}");
    for bytes in [echo, format!("{SECRET} {BASIC} {request}")] {
        authority.set(Mode::Bytes(bytes.into_bytes()));
        let reply = caller(&server, BEN, "third").delete(crate::PATH).await;
        assert_eq!(reply.error(), AWAY);
        said += reply.text();
    }
    said += &server.log();
    said += &fs::read_to_string(format!("/proc/{}/cmdline", server.process.id())).unwrap_or_default();
    for secret in [SECRET, BASIC, "t0ken"] {
        assert!(!said.contains(secret), "{secret}: {said}");
    }
    assert!(said.contains("the token authority does not answer"), "{said}");
}

/// [AU-02]
#[tokio::test]
async fn the_secret_may_be_in_a_file() {
    let authority = Authority::start().await;
    authority.knows("ann", active(ANN, ""));
    let mut file = NamedTempFile::new().unwrap();
    writeln!(file, "{SECRET}").unwrap();
    let variables = [
        ("OCTOPUS_INTROSPECTION_URL", &*authority.url()),
        ("OCTOPUS_REQUIRED_SCOPE", SCOPE),
        ("SERVER_CLIENT_ID", CLIENT_ID),
        ("SERVER_SECRET_FILE", file.path().to_str().unwrap()),
    ];
    let server = Server::with("", &["--auth=introspection"], &variables).await;
    assert_eq!(asks(&caller(&server, ANN, "ann")).await, ADMITTED);
    assert!(authority.requests()[0].contains(BASIC));
}

/// A start that can't ask the authority is refused with status 2 and one line, which has no secret in it.
#[test]
fn a_start_without_what_introspection_needs_is_refused() {
    let empty = NamedTempFile::new().unwrap();
    let empty = empty.path().to_str().unwrap();
    let (id, secret) = (("SERVER_CLIENT_ID", CLIENT_ID), ("SERVER_SECRET", SECRET));
    for (variables, flags, said) in [
        (
            &[][..],
            &[][..],
            "--auth: \"introspection\" is refused: only together with the variables SERVER_CLIENT_ID",
        ),
        (
            &[secret],
            &[],
            "--auth: \"introspection\" is refused: only together with the variables SERVER_CLIENT_ID",
        ),
        (
            &[id],
            &[],
            "--auth: \"introspection\" is refused: only together with the variable SERVER_SECRET",
        ),
        (
            &[id, ("SERVER_SECRET", "")],
            &[],
            "--auth: \"introspection\" is refused: only together with the variable",
        ),
        (
            &[id, ("SERVER_SECRET_FILE", "/nonexistent")],
            &[],
            "SERVER_SECRET_FILE: /nonexistent: No such file",
        ),
        (
            &[id, ("SERVER_SECRET_FILE", empty)],
            &[],
            &*format!("SERVER_SECRET_FILE: {empty}: it is empty"),
        ),
        (
            &[id, secret, ("SERVER_SECRET_FILE", "f")],
            &[],
            "SERVER_SECRET_FILE: \"f\" is refused: not together with SERVER_SECRET",
        ),
        (
            &[id, secret],
            &["--introspection-url=http://auth.example.org/"],
            "--introspection-url: \"http://auth.example.org/\" is refused: it must be a URL with https",
        ),
        (
            &[id, secret],
            &["--required-scope=a b"],
            "--required-scope: \"a b\" is refused: it must be one scope",
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_octopus-server"))
            .args(["--listen=127.0.0.1:0", "--auth=introspection"])
            .args(flags)
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{variables:?}: {line}");
        assert!(line.starts_with(said), "{said}: {line}");
        assert!(line.lines().count() == 1 && !line.contains(SECRET), "{line}");
    }
}
