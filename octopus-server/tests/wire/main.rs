//! Large replies on the wire: what becomes of them when their client reads slowly, not at all, or leaves; what the next
//! fetch returns and what auto-commit has committed then; and the memory that they take.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod fate;
mod memory;
mod rate;
mod reader;
mod record;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../spec/service.rs"]
mod service;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../support/mod.rs"]
mod support;

use support::client;
