//! Who sent a request.

use std::{net::SocketAddr, sync::Arc};

use tokio::sync::Notify;

use super::Protocol;
use crate::ledger::Watch;

/// The other end of a request's connection.
#[derive(Debug, Clone)]
pub struct Peer {
    pub(super) addr: SocketAddr,
    pub(super) local: SocketAddr,
    pub(super) protocol: Protocol,
    pub(super) request: Watch,
    /// Ends the connection.
    pub(super) abort: Arc<Notify>,
    /// Ends the request.
    pub(super) cut: Arc<Notify>,
}

impl Peer {
    /// The client's address, or that of the proxy before us.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The address here that the client connected to.
    #[must_use]
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Resets the connection, whatever it is at: what the client has not got yet is lost, and an open receipt
    /// says [`Fate::Dropped`](crate::send::Fate::Dropped), also those of other requests on the connection [RP-03]. Does
    /// nothing once this request's reply was sent whole, since the connection may be at another request then.
    ///
    /// A stream of HTTP/2 alone would not do: one whose reply the HTTP library has taken whole can't be reset any more.
    pub fn abort(&self) {
        if self.request.is_in_hand() {
            self.abort.notify_one();
        }
    }

    /// Ends the request, which has no answer yet, without one [D-32]: over HTTP/1.1 with its connection, over HTTP/2 by a
    /// reset of its stream, which leaves the others alone. The service's future is dropped.
    pub fn hang_up(&self) {
        match self.protocol {
            Protocol::Http1 => self.abort(),
            Protocol::Http2 => self.cut.notify_one(),
        }
    }
}
