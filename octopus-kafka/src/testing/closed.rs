//! An address where nothing answers.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use socket2::{Domain, Socket, Type};

/// A port on loopback that refuses connections and is nobody else's while this is held.
#[derive(Debug)]
pub struct ClosedPort {
    address: SocketAddr,
    _bound: Socket,
}

impl ClosedPort {
    /// Binds a port without listening on it.
    ///
    /// # Errors
    ///
    /// Where the system has none.
    pub fn new() -> io::Result<Self> {
        let bound = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        bound.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
        let address = bound
            .local_addr()?
            .as_socket()
            .ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self {
            address,
            _bound: bound,
        })
    }

    /// Its address, as `HOST:PORT`.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.to_string()
    }
}
