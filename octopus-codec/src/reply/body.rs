//! The bytes of a reply.

use std::{fmt, mem};

use bytes::Bytes;

use super::Stream;

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

/// A body in the making: a growing buffer, closed where a slice of another buffer comes between.
pub(crate) struct Pieces {
    done: Vec<Bytes>,
    buffer: Vec<u8>,
    /// The most bytes that the buffer is ever asked to hold.
    most: usize,
}

impl Pieces {
    pub(crate) const fn new(most: usize) -> Self {
        Self {
            done: Vec::new(),
            buffer: Vec::new(),
            most,
        }
    }

    /// Makes room for so many bytes more, and for as many again as there are, but for no more than can come.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        // The separator of the next object and the last bracket.
        let needed = self.buffer.len() + bytes + 2;
        if needed > self.buffer.capacity() {
            let target = needed.max(self.most.min(self.buffer.capacity() * 2));
            self.buffer.reserve_exact(target - self.buffer.len());
        }
    }

    /// Where bytes that are copied go.
    pub(crate) const fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Adds bytes without copying them.
    pub(crate) fn share(&mut self, bytes: Bytes) {
        self.close();
        self.done.push(bytes);
    }

    pub(crate) fn finish(mut self) -> Vec<Bytes> {
        self.close();
        self.done
    }

    fn close(&mut self) {
        if !self.buffer.is_empty() {
            self.done.push(mem::take(&mut self.buffer).into());
        }
    }
}

impl fmt::Debug for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Pieces({} closed, {} bytes open)",
            self.done.len(),
            self.buffer.len()
        )
    }
}
