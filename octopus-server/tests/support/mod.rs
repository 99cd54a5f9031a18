//! What the black-box tests share.

pub(crate) mod client;
pub(crate) mod kafka;
pub(crate) mod server;
