//! Is each reply told delivered or dropped, once, and as its client saw it? Clients of raw bytes against the
//! listener.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod client;
mod counted;
mod floods;
mod frames;
mod http2;
mod leave;
mod limits;
mod over;
mod panic;
mod read;
mod server;
mod shutdown;
mod stalled;
mod stress;
