//! Who sent a request.

use std::{net::SocketAddr, sync::Arc};

use tokio::{
    net::TcpStream,
    sync::{Notify, futures::Notified},
};

use crate::ledger::Watch;

/// The two ends of a connection.
#[derive(Debug)]
pub(super) struct Ends {
    addr: SocketAddr,
    local: SocketAddr,
    abort: Notify,
}

impl Ends {
    /// Those of a connection from `addr`.
    pub(super) fn new(socket: &TcpStream, addr: SocketAddr) -> Self {
        Self {
            addr,
            local: socket.local_addr().unwrap_or(addr),
            abort: Notify::new(),
        }
    }

    /// Completes once a request has asked for the connection's reset.
    pub(super) fn aborted(&self) -> Notified<'_> {
        self.abort.notified()
    }
}

/// The other end of a request's connection.
#[derive(Debug, Clone)]
pub struct Peer {
    pub(super) ends: Arc<Ends>,
    pub(super) request: Watch,
    /// Ends the request alone, where the protocol can.
    pub(super) cut: Option<Arc<Notify>>,
}

impl Peer {
    /// The client's address, or that of the proxy before us.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.ends.addr
    }

    /// The address here that the client connected to.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.ends.local
    }

    /// Resets the connection, whatever it is at: what the client has not got yet is lost, and an open receipt
    /// says [`Fate::Dropped`](crate::send::Fate::Dropped), also those of other requests on the connection [RP-03]. Does
    /// nothing once this request's reply was sent whole, since the connection may be at another request then.
    ///
    /// A stream of HTTP/2 alone would not do: one whose reply the HTTP library has taken whole can't be reset any more.
    pub fn abort(&self) {
        if self.request.is_in_hand() {
            self.ends.abort.notify_one();
        }
    }

    /// Ends the request, which has no answer yet, without one [D-32]: over HTTP/1.1 with its connection, over HTTP/2 by a
    /// reset of its stream, which leaves the others alone. The service's future is dropped.
    pub fn hang_up(&self) {
        match &self.cut {
            None => self.abort(),
            Some(cut) => cut.notify_one(),
        }
    }
}
