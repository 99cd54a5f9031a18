//! Where a connection's requests and replies stand.

mod heads;
#[cfg(test)]
mod tests;

use std::{
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use self::heads::Heads;
use crate::{listener::Protocol, send::Receipt};

/// The book that one connection keeps: the requests in hand, the receipts of replies written but not flushed yet, and
/// whether a request's head is coming.
///
/// The parts of a connection share it by cloning. Receipts are told outside its lock.
#[derive(Debug, Clone)]
pub struct Ledger(Arc<Mutex<Book>>);

#[derive(Debug)]
struct Book {
    written: Vec<Sending>,
    is_closed: bool,
    heads: Heads,
    /// The numbers of the requests in hand, in their order.
    in_hand: Vec<u64>,
    /// The number of the last request.
    last: u64,
}

/// A request in hand, until this falls: its body is read, it is answered, or its reply is made or written.
#[must_use = "a request is in hand as long as this is kept"]
pub struct InHand {
    ledger: Ledger,
    number: u64,
}

/// The end of a reply on its way: who waits for it.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) receipt: Option<Receipt>,
    pub(crate) in_hand: InHand,
}

/// What a connection is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stand {
    /// The number of the head that is coming, if one is.
    pub(crate) head: Option<u64>,
    pub(crate) work: Work,
}

/// Whether a connection has requests in hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// None. The number of the last one that it had.
    Idle(u64),
    /// At least one. The number of the oldest.
    Busy(u64),
}

impl Ledger {
    /// An empty book of a new connection that speaks this.
    #[must_use]
    pub fn new(protocol: Protocol) -> Self {
        Self(Arc::new(Mutex::new(Book {
            written: Vec::new(),
            is_closed: false,
            heads: Heads::new(protocol),
            in_hand: Vec::new(),
            last: 0,
        })))
    }

    /// A request's head is whole, and the request in hand.
    pub fn begin(&self) -> InHand {
        let mut book = self.book();
        book.last += 1;
        let number = book.last;
        book.in_hand.push(number);
        book.heads.ended();
        drop(book);
        InHand {
            ledger: self.clone(),
            number,
        }
    }

    /// Keeps the end of a reply whose last byte the stream has taken, until the stream is flushed.
    pub(crate) fn written(&self, sending: Sending) {
        let mut book = self.book();
        if book.is_closed {
            drop(book); // It says `Dropped`, outside the lock.
        } else {
            book.written.push(sending);
        }
    }

    /// The stream was flushed: all that was written is with the network [RP-05].
    pub(crate) fn flushed(&self) {
        let mut book = self.book();
        if book.written.is_empty() {
            return;
        }
        let written = mem::take(&mut book.written);
        drop(book);
        for Sending { receipt, in_hand } in written {
            drop(in_hand);
            if let Some(receipt) = receipt {
                receipt.delivered();
            }
        }
    }

    /// The stream is gone: what was not flushed was not delivered [RP-04].
    pub(crate) fn close(&self) {
        let mut book = self.book();
        book.is_closed = true;
        let dropped = mem::take(&mut book.written);
        drop(book);
        drop(dropped);
    }

    /// These bytes came from the client.
    pub(crate) fn received(&self, bytes: &[u8]) {
        let mut book = self.book();
        let is_idle = book.in_hand.is_empty();
        book.heads.received(bytes, is_idle);
    }

    /// What the connection is at.
    pub(crate) fn stand(&self) -> Stand {
        let book = self.book();
        Stand {
            head: book.heads.coming(),
            work: match book.in_hand.first() {
                Some(oldest) => Work::Busy(*oldest),
                None => Work::Idle(book.last),
            },
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // Nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InHand {
    /// The connection's book.
    pub(crate) const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What tells of it later whether it is still in hand.
    pub(crate) fn watch(&self) -> Watch {
        Watch {
            ledger: self.ledger.clone(),
            number: self.number,
        }
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        let mut book = self.ledger.book();
        if let Ok(at) = book.in_hand.binary_search(&self.number) {
            book.in_hand.remove(at);
        }
    }
}

impl fmt::Debug for InHand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InHand").field(&self.number).finish()
    }
}

/// Tells whether a request is still in hand.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    ledger: Ledger,
    number: u64,
}

impl Watch {
    /// Whether its reply is still to be sent, or on its way.
    pub(crate) fn is_in_hand(&self) -> bool {
        self.ledger.book().in_hand.binary_search(&self.number).is_ok()
    }
}
