//! Who sent a request.

use std::{net::SocketAddr, sync::Arc};

use tokio::sync::Notify;

use crate::ledger::Ledger;

/// The other end of a request's connection.
#[derive(Debug, Clone)]
pub struct Peer {
    addr: SocketAddr,
    local: SocketAddr,
    ledger: Ledger,
    request: u64,
    abort: Arc<Notify>,
}

impl Peer {
    pub(super) const fn new(
        addr: SocketAddr,
        local: SocketAddr,
        ledger: Ledger,
        request: u64,
        abort: Arc<Notify>,
    ) -> Self {
        Self {
            addr,
            local,
            ledger,
            request,
            abort,
        }
    }

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
    /// says [`Fate::Dropped`](crate::send::Fate::Dropped) [RP-03]. Does nothing once this request's reply was
    /// sent whole, since the connection may be at another request then.
    pub fn abort(&self) {
        if self.ledger.is_at(self.request) {
            self.abort.notify_one();
        }
    }
}
