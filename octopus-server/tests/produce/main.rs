//! Records that the binary writes while what it writes to fails: all that were acknowledged are read back, each once, and
//! none that were said not to be written.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stdout, reason = "how it went is worth a line")]

mod outlive;
mod senders;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../support/mod.rs"]
mod support;
