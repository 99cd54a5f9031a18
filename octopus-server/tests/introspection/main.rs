//! The binary with a token authority of the test's own: who is let in, what the authority is asked, and what happens when it
//! is away.
#![allow(clippy::unwrap_used, reason = "tests")]

mod admitted;
mod authority;
mod outage;
mod remembered;
mod secret;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../support/mod.rs"]
mod support;
mod tls;

use self::{
    authority::Authority,
    support::{client::Client, server::Server},
};

const CLIENT_ID: &str = "octopus-of-the-tests";
const SECRET: &str = "the_s3cret_of_octopus";
const SCOPE: &str = "urn:octopus:all";
const ANN: &str = "01234567-89ab-cdef-0011-aaaaaaaaaaaa";
const BEN: &str = "01234567-89ab-cdef-0011-bbbbbbbbbbbb";
/// A request that an engine without instances answers.
const PATH: &str = "/api/v2/consumers/g/instances/i";
/// What it answers to whom the token check lets in.
const ADMITTED: (u16, u64) = (404, 40403);
const REFUSED: (u16, u64) = (401, 40101);
const AWAY: (u16, u64) = (503, 503);

/// A server that asks this authority, over Kafka at `bootstrap` or none.
async fn serve(authority: &Authority, bootstrap: &str) -> Server {
    let url = format!("--introspection-url={}", authority.url());
    let flags = [
        "--auth=introspection",
        &*url,
        "--required-scope",
        SCOPE,
        "--log=trace",
    ];
    let variables = [("SERVER_CLIENT_ID", CLIENT_ID), ("SERVER_SECRET", SECRET)];
    Server::with(bootstrap, &flags, &variables).await
}

/// A caller with this token, whose form is right whatever its name.
fn caller(server: &Server, subject: &str, token: &str) -> Client {
    Client {
        address: server.address,
        subject: subject.to_owned(),
        token: token_of(token),
    }
}

fn token_of(name: &str) -> String {
    format!("{name}_{}", "t0ken".repeat(8))
}

/// The status and code that a caller meets.
async fn asks(caller: &Client) -> (u16, u64) {
    caller.delete(PATH).await.error()
}

/// An answer of the authority: an active token of this subject, with these members more.
fn active(subject: &str, more: &str) -> String {
    format!(r#"{{"active": true, "scope": "openid {SCOPE}", "sub": "{subject}", "exp": 4102444800{more}}}"#)
}
