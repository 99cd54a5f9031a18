//! Large replies on the wire: what becomes of them when their client reads slowly, not at all, or leaves; what the next
//! fetch returns and what auto-commit has committed then; and the memory that they take.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod memory;
mod reader;
mod record;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../support/mod.rs"]
mod support;
