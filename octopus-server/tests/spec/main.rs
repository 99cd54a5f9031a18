//! The specification, a file a section: the real server over sockets, bytes in and bytes out, on a clock that is
//! moved by hand, over an embedded broker.
#![allow(clippy::unwrap_used, reason = "tests")]

mod accept;
mod auto_commit;
mod backlog;
mod base_uri;
mod callers;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../support/client.rs"]
mod client;
mod compressed;
mod create;
mod differences;
mod errors;
mod fetch;
mod fields;
mod kafka_errors;
mod lifecycle;
mod lock;
mod namespaces;
mod offsets;
mod order;
mod produce;
#[allow(dead_code, reason = "each section takes what it needs")]
mod raw;
#[allow(dead_code, reason = "each section takes what it needs")]
mod reader;
mod registry;
mod replies;
mod requests;
mod routes;
#[allow(dead_code, reason = "each section takes what it needs")]
mod service;
mod settings;
mod slow;
mod subscription;
mod turns;
mod values;
