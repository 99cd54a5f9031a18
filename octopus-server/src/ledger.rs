//! Where a connection's requests and replies stand.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::send::Receipt;

/// The book that one connection keeps: the receipts of replies written but not flushed yet, and whether it
/// has a request in hand.
///
/// The parts of a connection share it by cloning. Receipts are told outside its lock.
#[derive(Debug, Clone, Default)]
pub struct Ledger(Arc<Mutex<Book>>);

#[derive(Debug, Default)]
struct Book {
    written: Vec<Receipt>,
    is_closed: bool,
    phase: Phase,
    changes: u64,
}

/// What a connection is at. In HTTP/1 it has one request in hand at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Phase {
    /// No byte of a next request has come.
    #[default]
    Idle,
    /// A request's head has begun to come.
    Head,
    /// A request is in hand: its body is read, it is answered, or its reply is made or written.
    Busy,
    /// The last of a reply was given to hyper, and is not flushed yet.
    Ending,
}

impl Ledger {
    /// An empty book of a new connection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps the receipt of a reply whose last byte the stream has taken, until the stream is flushed.
    pub(crate) fn written(&self, receipt: Receipt) {
        let mut book = self.book();
        if book.is_closed {
            drop(book); // It says `Dropped`, outside the lock.
        } else {
            book.written.push(receipt);
        }
    }

    /// The stream was flushed: all that was written is with the network [RP-05].
    pub(crate) fn flushed(&self) {
        let mut book = self.book();
        if book.phase == Phase::Ending {
            book.enter(Phase::Idle);
        }
        let delivered = mem::take(&mut book.written);
        drop(book);
        delivered.into_iter().for_each(Receipt::delivered);
    }

    /// The stream is gone: what was not flushed was not delivered [RP-04].
    pub(crate) fn close(&self) {
        let mut book = self.book();
        book.is_closed = true;
        let dropped = mem::take(&mut book.written);
        drop(book);
        drop(dropped);
    }

    /// Bytes came from the client.
    pub(crate) fn received(&self) {
        let mut book = self.book();
        if book.phase == Phase::Idle {
            book.enter(Phase::Head);
        }
    }

    /// A request's head is whole. Returns the number that [`is_at`](Self::is_at) knows it by.
    pub(crate) fn begin(&self) -> u64 {
        let mut book = self.book();
        book.enter(Phase::Busy);
        book.changes
    }

    /// The reply's body has nothing more to give.
    pub(crate) fn body_gone(&self) {
        let mut book = self.book();
        if book.phase == Phase::Busy {
            book.phase = Phase::Ending;
        }
    }

    /// Whether this request's reply is still to be sent, or on its way.
    pub(crate) fn is_at(&self, request: u64) -> bool {
        self.book().changes == request
    }

    /// What the connection is at, and how often that has changed.
    pub(crate) fn phase(&self) -> (Phase, u64) {
        let book = self.book();
        (book.phase, book.changes)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // Nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    const fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.changes += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::send::Fate;

    #[test]
    fn a_receipt_may_call_the_ledger() {
        let ledger = Ledger::new();
        let told = Arc::new(AtomicUsize::new(0));
        for fate in [Fate::Delivered, Fate::Dropped] {
            let (told, same) = (told.clone(), ledger.clone());
            ledger.written(Receipt::new(move |said| {
                assert_eq!(said, fate);
                same.phase(); // Would never return under the lock.
                told.fetch_add(1, Ordering::Relaxed);
            }));
            match fate {
                Fate::Delivered => ledger.flushed(),
                Fate::Dropped => ledger.close(),
            }
        }
        assert_eq!(told.load(Ordering::Relaxed), 2);
    }

    /// [RP-04]
    #[test]
    fn what_is_written_after_the_close_is_dropped() {
        let ledger = Ledger::new();
        let (tell, told) = std::sync::mpsc::channel();
        ledger.close();
        let same = ledger.clone();
        ledger.written(Receipt::new(move |fate| {
            same.phase();
            tell.send(fate).unwrap();
        }));
        assert_eq!(told.recv().unwrap(), Fate::Dropped);
        ledger.flushed();
        assert!(told.recv().is_err());
    }

    /// [D-32]
    #[test]
    fn the_phases_of_a_request() {
        let ledger = Ledger::new();
        let at = |phase| assert_eq!(ledger.phase().0, phase);
        at(Phase::Idle);
        ledger.flushed();
        at(Phase::Idle);
        ledger.received();
        at(Phase::Head);
        let first = ledger.begin();
        ledger.flushed();
        ledger.received();
        at(Phase::Busy);
        assert!(ledger.is_at(first));
        ledger.body_gone();
        at(Phase::Ending);
        assert!(ledger.is_at(first));
        ledger.flushed();
        at(Phase::Idle);
        assert!(!ledger.is_at(first));
        ledger.body_gone();
        at(Phase::Idle);
        let second = ledger.begin();
        assert_ne!(first, second);
    }
}
