//! octopus-server
#![forbid(unsafe_code)]

pub mod base_uri;
pub mod body;
pub mod config;
pub mod headers;
pub mod parse;
pub mod reply;
pub mod route;
