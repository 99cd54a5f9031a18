//! octopus-auth
#![forbid(unsafe_code)]
