use std::sync::mpsc;

use super::*;
use crate::{ledger::Ledger, listener::Protocol};

fn a_receipt() -> (Receipt, mpsc::Receiver<Fate>) {
    let (tell, told) = mpsc::channel();
    let receipt = Receipt::new(move |fate| tell.send(fate).unwrap());
    (receipt, told)
}

fn frame(body: &mut ReplyBody) -> Option<Chunk> {
    match Pin::new(body).poll_frame(&mut Context::from_waker(std::task::Waker::noop())) {
        Poll::Ready(frame) => frame.map(|frame| frame.unwrap().into_data().unwrap()),
        Poll::Pending => panic!("a body is always ready"),
    }
}

#[test]
fn a_receipt_says_one_thing() {
    let (receipt, told) = a_receipt();
    receipt.delivered();
    assert_eq!(told.iter().collect::<Vec<_>>(), [Fate::Delivered]);

    let (receipt, told) = a_receipt();
    drop(receipt);
    assert_eq!(told.iter().collect::<Vec<_>>(), [Fate::Dropped]);
}

/// [RP-05]
#[test]
fn a_reply_is_delivered_by_the_flush_after_its_last_byte() {
    let ledger = Ledger::new(Protocol::Http1);
    let (receipt, told) = a_receipt();
    let slices = ["ab", "", "cde"].map(|slice| Bytes::from_static(slice.as_bytes()));
    let mut body = ReplyBody::whole(slices, Some(receipt)).bind(ledger.begin());
    assert!(!body.is_end_stream());
    assert_eq!(body.size_hint().exact(), Some(5));

    let mut chunk = frame(&mut body).unwrap();
    assert!(body.is_end_stream());
    assert!(frame(&mut body).is_none());
    drop(body);

    let mut slices = [IoSlice::new(&[]); 8];
    assert_eq!(chunk.chunks_vectored(&mut slices), 2);
    assert_eq!((&*slices[0], &*slices[1]), (&b"ab"[..], &b"cde"[..]));
    chunk.advance(1);
    assert_eq!(chunk.chunk(), b"b");
    chunk.advance(3);
    assert_eq!((chunk.chunk(), chunk.remaining()), (&b"e"[..], 1));
    ledger.flushed();
    assert!(told.try_recv().is_err());
    chunk.advance(1);
    drop(chunk);
    assert!(told.try_recv().is_err());
    ledger.flushed();
    assert_eq!(told.iter().collect::<Vec<_>>(), [Fate::Delivered]);
}

/// [RP-04]
#[test]
fn a_reply_that_falls_anywhere_is_dropped() {
    let whole = |receipt| ReplyBody::whole([Bytes::from_static(b"reply")], Some(receipt));

    let (receipt, told) = a_receipt();
    drop(whole(receipt));
    assert_eq!(told.iter().collect::<Vec<_>>(), [Fate::Dropped]);

    let ledger = Ledger::new(Protocol::Http1);
    let (receipt, told) = a_receipt();
    let mut chunk = frame(&mut whole(receipt).bind(ledger.begin())).unwrap();
    chunk.advance(4);
    drop(chunk);
    ledger.flushed();
    assert_eq!(told.iter().collect::<Vec<_>>(), [Fate::Dropped]);

    let (receipt, told) = a_receipt();
    let mut chunk = frame(&mut whole(receipt).bind(ledger.begin())).unwrap();
    chunk.advance(5);
    ledger.close();
    assert_eq!(told.iter().collect::<Vec<_>>(), [Fate::Dropped]);
}

/// [RP-04]
#[test]
fn a_body_without_a_connection_drops_its_receipt() {
    let (receipt, told) = a_receipt();
    let mut body = ReplyBody::whole([Bytes::from_static(b"reply")], Some(receipt));
    let mut chunk = frame(&mut body).unwrap();
    chunk.advance(5);
    drop((chunk, body));
    assert_eq!(told.iter().collect::<Vec<_>>(), [Fate::Dropped]);
}

/// [RP-02] [D-36]
#[test]
fn a_body_that_is_made_elsewhere_is_delivered_with_its_last_piece_only() {
    let piece = |is_last| Piece {
        bytes: Bytes::from_static(b"piece"),
        is_last,
    };
    let poll = |body: &mut ReplyBody| {
        let polled = Pin::new(body).poll_frame(&mut Context::from_waker(std::task::Waker::noop()));
        polled.map(|frame| frame.map(|frame| frame.map(|frame| frame.into_data().unwrap())))
    };
    for is_whole in [true, false] {
        let ledger = Ledger::new(Protocol::Http1);
        let (receipt, told) = a_receipt();
        let (maker, pieces) = tokio::sync::mpsc::channel(2);
        let mut body = ReplyBody::made(pieces, Some(receipt)).bind(ledger.begin());
        assert_eq!(body.size_hint().exact(), None);
        assert!(poll(&mut body).is_pending());
        maker.try_send(piece(false)).unwrap();
        frame(&mut body).unwrap().advance(5);
        ledger.flushed();
        assert!(!body.is_end_stream() && told.try_recv().is_err());
        if is_whole {
            maker.try_send(piece(true)).unwrap();
            let mut last = frame(&mut body).unwrap();
            assert!(body.is_end_stream());
            last.advance(5);
            ledger.flushed();
            assert_eq!(told.iter().collect::<Vec<_>>(), [Fate::Delivered]);
        } else {
            drop(maker);
            assert!(matches!(poll(&mut body), Poll::Ready(Some(Err(Unfinished)))));
            drop(body);
            assert_eq!(told.iter().collect::<Vec<_>>(), [Fate::Dropped]);
        }
    }
}

/// [RP-02]
#[test]
fn a_streamed_body_knows_its_last_window_and_makes_few_ahead() {
    let made = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = made.clone();
    let windows = ["", "one", "", "two", "three", ""]
        .into_iter()
        .map(move |window| {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Bytes::from_static(window.as_bytes())
        });
    let made = move || made.load(std::sync::atomic::Ordering::Relaxed);
    let ledger = Ledger::new(Protocol::Http1);
    let (receipt, told) = a_receipt();
    let mut body = ReplyBody::streamed(windows, Some(receipt)).bind(ledger.begin());
    assert_eq!(body.size_hint().exact(), None);
    assert_eq!(made(), 2);

    for (window, is_last, after) in [("one", false, 4), ("two", false, 5), ("three", true, 6)] {
        assert!(!body.is_end_stream());
        let mut chunk = frame(&mut body).unwrap();
        assert_eq!(chunk.chunk(), window.as_bytes());
        assert_eq!(body.is_end_stream(), is_last);
        assert_eq!(made(), after);
        ledger.flushed();
        assert!(told.try_recv().is_err());
        chunk.advance(window.len());
    }
    ledger.flushed();
    assert_eq!(told.iter().collect::<Vec<_>>(), [Fate::Delivered]);
}

#[test]
fn a_body_without_a_byte_is_at_its_end() {
    for body in [
        ReplyBody::empty(),
        ReplyBody::whole([Bytes::new()], None),
        ReplyBody::streamed([Bytes::new()].into_iter(), None),
    ] {
        assert!(body.is_end_stream());
        assert_eq!(body.size_hint().exact(), Some(0));
    }
}
