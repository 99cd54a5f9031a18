//! octopus-server
#![forbid(unsafe_code)]
