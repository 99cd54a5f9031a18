//! Free ports for processes that take them later, and take them again.

use std::{
    fs,
    hash::{BuildHasher, RandomState},
    io,
    net::{Ipv4Addr, TcpListener},
};

/// The first port that a node may have.
const FIRST: u16 = 10_000;

/// As many ports of loopback as asked for, free now. They lie below those that the kernel gives to connections: a node
/// that is down for a while would find one of those taken, even by a connection to itself.
pub(super) fn free(many: usize) -> io::Result<Vec<u16>> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let end = range.split_whitespace().next().and_then(|low| low.parse().ok());
    let end = end.filter(|&end| end > FIRST + 1000).unwrap_or(32_768);
    // A start of its own for each call, so that processes that ask at one time do not meet.
    let start = RandomState::new().hash_one(()) % u64::from(end - FIRST);
    let start = u16::try_from(start).unwrap_or(0);
    let mut held = Vec::new();
    for step in 0..end - FIRST {
        if held.len() == many {
            break;
        }
        let port = FIRST + (start + step) % (end - FIRST);
        held.extend(TcpListener::bind((Ipv4Addr::LOCALHOST, port)));
    }
    held.iter()
        .map(|listener| Ok(listener.local_addr()?.port()))
        .collect()
}
