use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::send::Fate;

fn sending(ledger: &Ledger, receipt: Receipt) -> Sending {
    Sending {
        receipt: Some(receipt),
        in_hand: ledger.begin(),
    }
}

#[test]
fn a_receipt_may_call_the_ledger() {
    let ledger = Ledger::new(Protocol::Http1);
    let told = Arc::new(AtomicUsize::new(0));
    for fate in [Fate::Delivered, Fate::Dropped] {
        let (told, same) = (told.clone(), ledger.clone());
        let receipt = Receipt::new(move |said| {
            assert_eq!(said, fate);
            same.stand(); // Would never return under the lock.
            told.fetch_add(1, Ordering::Relaxed);
        });
        ledger.written(sending(&ledger, receipt));
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
    let ledger = Ledger::new(Protocol::Http1);
    let (tell, told) = std::sync::mpsc::channel();
    ledger.close();
    let same = ledger.clone();
    let receipt = Receipt::new(move |fate| {
        same.stand();
        tell.send(fate).unwrap();
    });
    ledger.written(sending(&ledger, receipt));
    assert_eq!(told.recv().unwrap(), Fate::Dropped);
    ledger.flushed();
    assert!(told.recv().is_err());
    assert_eq!(ledger.stand().work, Work::Idle(1));
}

/// [D-32]
#[test]
fn the_stand_of_one_request_after_the_other() {
    let ledger = Ledger::new(Protocol::Http1);
    let at = |head, work| assert_eq!(ledger.stand(), Stand { head, work });
    at(None, Work::Idle(0));
    ledger.flushed();
    at(None, Work::Idle(0));
    ledger.received(b"GET");
    at(Some(1), Work::Idle(0));
    let first = ledger.begin();
    let watch = first.watch();
    ledger.flushed();
    ledger.received(b"body");
    at(None, Work::Busy(1));
    assert!(watch.is_in_hand());
    ledger.written(Sending {
        receipt: None,
        in_hand: first,
    });
    at(None, Work::Busy(1));
    assert!(watch.is_in_hand());
    ledger.flushed();
    at(None, Work::Idle(1));
    assert!(!watch.is_in_hand());
    let second = ledger.begin();
    at(None, Work::Busy(2));
    assert!(!watch.is_in_hand() && second.watch().is_in_hand());
}

/// [D-32]
#[test]
fn the_oldest_of_many_requests_is_the_one_that_counts() {
    let ledger = Ledger::new(Protocol::Http2);
    let [first, second, third] = [ledger.begin(), ledger.begin(), ledger.begin()];
    drop(second);
    assert_eq!(ledger.stand().work, Work::Busy(1));
    drop(first);
    assert_eq!(ledger.stand().work, Work::Busy(3));
    drop(third);
    assert_eq!(ledger.stand().work, Work::Idle(3));
}
