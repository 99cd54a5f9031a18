//! The binary's end under load: what is committed, what is answered, and how long it takes; and a service that is
//! stopped and started while its clients read on.
#![allow(clippy::unwrap_used, reason = "tests")]

mod deploy;
mod reader;
mod stalled;
mod states;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../support/mod.rs"]
mod support;
