//! HTTPS by the binary: what it shows, what it speaks, and when it reads its files again.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod caller;
mod files;
mod refused;
mod renewed;
mod spoken;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../support/mod.rs"]
mod support;
