//! The bytes of a reply.

use std::fmt;

use bytes::Bytes;

use super::{
    Stream,
    out::{Out, Share},
    scratch::Scratch,
};

/// A reply's JSON.
pub enum Body {
    /// All of it, as slices to send in this order; large values are slices of the buffer that they were fetched in.
    Whole(Vec<Bytes>),
    /// One record whose reply is over 2 MiB, made while it is sent [RP-02].
    Streamed(Stream),
}

impl Body {
    /// The bytes of the body, which a reply in slices says before it is sent; `None` for one that is streamed
    /// [RP-02].
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a body holds two brackets at least")]
    pub fn len(&self) -> Option<usize> {
        match self {
            Self::Whole(slices) => Some(slices.iter().map(Bytes::len).sum()),
            Self::Streamed(_) => None,
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never what is in it: keys and values stay out of logs.
        match self {
            Self::Whole(slices) => write!(f, "Whole({:?} bytes in {} slices)", self.len(), slices.len()),
            Self::Streamed(stream) => write!(f, "Streamed({stream:?})"),
        }
    }
}

/// A body in the making: a buffer, and the slices of other buffers that come between its bytes.
#[derive(Default)]
pub(crate) struct Pieces {
    /// `None` before anything is written.
    scratch: Option<Scratch>,
    /// The bytes of the buffer that are the body's.
    length: usize,
    /// The slices of others.
    shares: Vec<Share>,
}

impl Pieces {
    /// Adds what `write` writes.
    pub(crate) fn write(&mut self, write: impl FnOnce(&mut Out<'_>)) {
        self.length = self.written(write);
    }

    /// Adds what `write` writes, which shares nothing, and says how many bytes that is; nothing if they are more than
    /// `most`.
    #[inline]
    pub(crate) fn write_within(&mut self, most: usize, write: impl FnOnce(&mut Out<'_>)) -> Option<usize> {
        let end = self.written(write);
        let written = end - self.length;
        (written <= most).then(|| {
            self.length = end;
            written
        })
    }

    /// Where the buffer is written to behind what is the body's.
    #[inline]
    fn written(&mut self, write: impl FnOnce(&mut Out<'_>)) -> usize {
        let scratch = self.scratch.get_or_insert_with(Scratch::take);
        let mut out = Out::new(scratch, self.length, &mut self.shares);
        write(&mut out);
        out.at()
    }

    /// The slices to send. Those that are less than half of their buffer are copied, since all of it is in memory for as long
    /// as they wait to be sent.
    pub(crate) fn finish(mut self) -> Vec<Bytes> {
        for shares in self.shares.chunk_by_mut(|one, other| one.of == other.of) {
            let used: usize = shares.iter().map(|share| share.bytes.len()).sum();
            if used < shares[0].of.1 / 2 {
                for share in shares {
                    share.bytes = Bytes::copy_from_slice(&share.bytes);
                }
            }
        }
        let Some(scratch) = self.scratch else {
            return Vec::new();
        };
        let buffer = scratch.into_bytes(self.length);
        let mut slices = Vec::with_capacity(2 * self.shares.len() + 1);
        let mut start = 0;
        for Share { at, bytes, .. } in self.shares {
            slices.push(buffer.slice(start..at));
            slices.push(bytes);
            start = at;
        }
        slices.push(buffer.slice(start..));
        slices
    }
}

impl fmt::Debug for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pieces({} bytes, {} shares)", self.length, self.shares.len())
    }
}
