#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod base_uri;
pub mod body;
pub mod clock;
mod compress;
pub mod config;
mod crowds;
pub mod dev;
mod driver;
pub mod headers;
mod keys;
pub mod ledger;
pub mod left;
pub mod listener;
mod namespaces;
mod outgoing;
pub mod parse;
pub mod process;
pub mod produce;
mod random;
pub mod reply;
pub mod route;
pub mod send;
mod server;
mod service;
pub mod tls;
mod token_authority;
mod token_source;
pub mod topics;
pub mod wire;

pub use octopus_auth::TokenCheck;
pub use server::{Builder, Server};
pub use token_authority::TokenAuthority;
pub use token_source::TokenSource;
pub use topics::Topics;

/// The examples of the project's own page.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
