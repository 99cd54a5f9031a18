//! octopus-server
#![forbid(unsafe_code)]

pub mod base_uri;
pub mod body;
pub mod config;
pub mod headers;
pub mod ledger;
pub mod left;
pub mod listener;
pub mod parse;
pub mod reply;
pub mod route;
pub mod send;
pub mod wire;
