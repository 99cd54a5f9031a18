//! Replies on their way, and what becomes of them.
//!
//! A [`Receipt`] says once whether its reply was handed to the network whole. It rides in the reply's last
//! [`Chunk`], moves to the connection's [`Ledger`](crate::ledger::Ledger) when hyper has written all of that chunk, and is settled
//! there by the flush that follows. Wherever it falls before that, it says [`Fate::Dropped`]. The end of a
//! body says nothing of delivery: hyper drops a body before it writes its first byte.

use std::{
    collections::VecDeque,
    fmt,
    io::IoSlice,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use crate::ledger::{InHand, Sending};

/// What became of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It was handed to the network whole [RP-05].
    Delivered,
    /// It was not: the client left, the connection broke or was closed, or the reply could not be made
    /// [RP-04].
    Dropped,
}

/// Says what became of one reply, exactly once.
///
/// Make it when the request starts, so that a request which never comes to its reply says
/// [`Fate::Dropped`] too.
#[must_use = "a receipt that is dropped says that its reply was"]
pub struct Receipt(Option<Box<dyn FnOnce(Fate) + Send + Sync>>);

impl Receipt {
    /// A receipt that calls `tell`. The call may come from the connection's task in the middle of its work:
    /// `tell` must be quick, must not wait, and must not call into the connection.
    pub fn new(tell: impl FnOnce(Fate) + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(tell)))
    }

    /// Says that the reply was delivered.
    pub fn delivered(mut self) {
        self.tell(Fate::Delivered);
    }

    fn tell(&mut self, fate: Fate) {
        if let Some(tell) = self.0.take() {
            tell(fate);
        }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        self.tell(Fate::Dropped);
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt").finish_non_exhaustive()
    }
}

/// A piece of a reply: a few slices, written together without being copied.
#[derive(Debug)]
pub struct Chunk {
    slices: VecDeque<Bytes>,
    left: usize,
    /// In the last chunk of a reply.
    sending: Option<Sending>,
}

impl Chunk {
    fn new(slices: VecDeque<Bytes>, sending: Option<Sending>) -> Self {
        let left = slices.iter().map(Bytes::len).sum();
        Self {
            slices,
            left,
            sending,
        }
    }
}

impl Buf for Chunk {
    fn remaining(&self) -> usize {
        self.left
    }

    fn chunk(&self) -> &[u8] {
        self.slices.front().map_or(&[], |slice| slice)
    }

    fn chunks_vectored<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        let mut count = 0;
        for (place, slice) in into.iter_mut().zip(&self.slices) {
            *place = IoSlice::new(slice);
            count += 1;
        }
        count
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.left, "advanced past the end of a chunk");
        self.left -= count;
        while let Some(slice) = self.slices.front_mut() {
            if count < slice.len() {
                slice.advance(count);
                break;
            }
            count -= slice.len();
            self.slices.pop_front();
        }
        if self.left == 0
            && let Some(sending) = self.sending.take()
        {
            written(sending);
        }
    }
}

/// Notes that the stream has taken a reply's end.
fn written(sending: Sending) {
    let ledger = sending.in_hand.ledger().clone();
    ledger.written(sending);
}

/// A piece of a reply that is made elsewhere.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) bytes: Bytes,
    pub(crate) is_last: bool,
}

/// The rest of a reply could not be made: its connection ends, over HTTP/2 its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unfinished;

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the rest of a reply could not be made")
    }
}

impl std::error::Error for Unfinished {}

/// A reply's body.
///
/// It is bound to its connection by [`bind`](Self::bind); a receipt in a body that never was says
/// [`Fate::Dropped`].
#[derive(Debug)]
pub struct ReplyBody {
    source: Source,
    receipt: Option<Receipt>,
    in_hand: Option<InHand>,
}

enum Source {
    Empty,
    Whole {
        slices: VecDeque<Bytes>,
        length: u64,
    },
    Streamed {
        ahead: Bytes,
        rest: Box<dyn Iterator<Item = Bytes> + Send>,
    },
    Made(mpsc::Receiver<Piece>),
}

impl ReplyBody {
    /// No body. It has no receipt: nothing of it tells when its head was sent.
    #[must_use]
    pub const fn empty() -> Self {
        Self {
            source: Source::Empty,
            receipt: None,
            in_hand: None,
        }
    }

    /// A body of known length, sent as one piece that is made of `slices` in their order, with a
    /// `Content-Length`.
    ///
    /// A body without a byte is as [`empty`](Self::empty), and a receipt given to it says [`Fate::Dropped`].
    #[must_use]
    pub fn whole(slices: impl IntoIterator<Item = Bytes>, receipt: Option<Receipt>) -> Self {
        let slices: VecDeque<_> = slices.into_iter().filter(|slice| !slice.is_empty()).collect();
        let length = slices.iter().map(|slice| slice.len() as u64).sum();
        let source = if slices.is_empty() {
            Source::Empty
        } else {
            Source::Whole { slices, length }
        };
        Self {
            source,
            receipt,
            in_hand: None,
        }
    }

    /// A body of unknown length, sent in chunks [RP-02]. A window is asked for shortly before it is sent, in the
    /// connection's task, so that few of them exist at once.
    ///
    /// The body stays one window ahead, so that it knows its last one.
    #[must_use]
    pub fn streamed<I>(windows: I, receipt: Option<Receipt>) -> Self
    where
        I: Iterator<Item = Bytes> + Send + 'static,
    {
        let mut rest: Box<dyn Iterator<Item = Bytes> + Send> =
            Box::new(windows.fuse().filter(|window| !window.is_empty()));
        let source = match rest.next() {
            Some(ahead) => Source::Streamed { ahead, rest },
            None => Source::Empty,
        };
        Self {
            source,
            receipt,
            in_hand: None,
        }
    }

    /// A body of unknown length whose pieces are made elsewhere, one of them the last.
    pub(crate) const fn made(pieces: mpsc::Receiver<Piece>, receipt: Option<Receipt>) -> Self {
        Self {
            source: Source::Made(pieces),
            receipt,
            in_hand: None,
        }
    }

    /// Binds the body to the request that it answers, and so to the connection that sends it.
    /// [`listener::serve`](crate::listener::serve) does it for every reply.
    #[must_use]
    pub fn bind(mut self, in_hand: InHand) -> Self {
        self.in_hand = Some(in_hand);
        self
    }

    /// What the last chunk carries.
    fn sending(&mut self) -> Option<Sending> {
        let in_hand = self.in_hand.take()?;
        Some(Sending {
            receipt: self.receipt.take(),
            in_hand,
        })
    }
}

impl Body for ReplyBody {
    type Data = Chunk;
    type Error = Unfinished;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Chunk>, Unfinished>>> {
        let (slices, is_last) = match std::mem::replace(&mut self.source, Source::Empty) {
            Source::Empty => return Poll::Ready(None),
            Source::Whole { slices, .. } => (slices, true),
            Source::Streamed { ahead, mut rest } => {
                let slices = VecDeque::from([ahead]);
                match rest.next() {
                    Some(ahead) => {
                        self.source = Source::Streamed { ahead, rest };
                        (slices, false)
                    }
                    None => (slices, true),
                }
            }
            Source::Made(mut pieces) => {
                let piece = match pieces.poll_recv(cx) {
                    Poll::Ready(Some(piece)) => piece,
                    Poll::Ready(None) => return Poll::Ready(Some(Err(Unfinished))),
                    Poll::Pending => {
                        self.source = Source::Made(pieces);
                        return Poll::Pending;
                    }
                };
                if !piece.is_last {
                    self.source = Source::Made(pieces);
                }
                (VecDeque::from([piece.bytes]), piece.is_last)
            }
        };
        let sending = if is_last { self.sending() } else { None };
        Poll::Ready(Some(Ok(Frame::data(Chunk::new(slices, sending)))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.source, Source::Empty)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Empty => SizeHint::with_exact(0),
            Source::Whole { length, .. } => SizeHint::with_exact(*length),
            Source::Streamed { .. } | Source::Made(_) => SizeHint::default(),
        }
    }
}

impl Drop for ReplyBody {
    fn drop(&mut self) {
        // Without a byte of a body it is sent with the next flush, which its head comes before.
        if let Some(in_hand) = self.in_hand.take() {
            written(Sending {
                receipt: None,
                in_hand,
            });
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("Empty"),
            Self::Whole { length, .. } => write!(f, "Whole({length} bytes)"),
            Self::Streamed { .. } => f.write_str("Streamed"),
            Self::Made(_) => f.write_str("Made"),
        }
    }
}

#[cfg(test)]
mod tests;
