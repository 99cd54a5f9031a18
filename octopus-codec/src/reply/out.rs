//! Where a reply is written.

use bytes::Bytes;

/// How far writing what fits a room came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The bytes that were read.
    pub(crate) taken: usize,
    /// The bytes that were written.
    pub(crate) written: usize,
}

/// A buffer that is written from its start on. There must be room for what is written and for [`SLACK`](Out::SLACK)
/// more, since small things are copied by whole blocks; what they leave behind themselves is written over.
pub(crate) struct Out<'a> {
    buffer: &'a mut [u8],
    /// Where it is written next.
    at: usize,
    /// What is sent between the bytes of the buffer, and where in it.
    shares: &'a mut Vec<Share>,
}

impl<'a> Out<'a> {
    /// The bytes behind what is written that must be there.
    pub(crate) const SLACK: usize = 128;

    /// Goes on in `buffer` at this place.
    #[inline]
    pub(crate) const fn new(buffer: &'a mut [u8], at: usize, shares: &'a mut Vec<Share>) -> Self {
        Self { buffer, at, shares }
    }

    /// Where it is written next.
    #[inline]
    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    #[inline]
    pub(crate) fn byte(&mut self, byte: u8) {
        self.buffer[self.at] = byte;
        self.at += 1;
    }

    /// Copies what the compiler knows the length of.
    #[inline]
    pub(crate) fn bytes<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.buffer[self.at..][..N].copy_from_slice(bytes);
        self.at += N;
    }

    /// Copies the first `length` bytes of a block of at most [`SLACK`](Self::SLACK).
    #[inline]
    pub(crate) fn start_of<const N: usize>(&mut self, block: &[u8; N], length: usize) {
        const { assert!(N <= Self::SLACK) };
        self.buffer[self.at..][..N].copy_from_slice(block);
        self.at += length;
    }

    /// Adds what `write` writes to the start of the room that it is given.
    #[inline]
    pub(crate) fn with(&mut self, write: impl FnOnce(&mut [u8]) -> usize) {
        self.at += write(&mut self.buffer[self.at..]);
    }

    /// Adds a slice of a buffer without copying it.
    pub(crate) fn share(&mut self, bytes: Bytes, buffer: &Bytes) {
        self.shares.push(Share {
            at: self.at,
            bytes,
            of: (buffer.as_ptr().addr(), buffer.len()),
        });
    }
}

/// A slice that is sent between the bytes of a buffer.
#[derive(Debug)]
pub(crate) struct Share {
    /// Where in the buffer.
    pub(crate) at: usize,
    pub(crate) bytes: Bytes,
    /// The address and the length of the buffer that it is a slice of.
    pub(crate) of: (usize, usize),
}

/// What `write_some` makes of all of `rest` in rooms of this size, one behind the other.
#[cfg(test)]
pub(crate) fn in_rooms(
    mut rest: &[u8],
    room: usize,
    write_some: impl Fn(&[u8], &mut [u8]) -> Progress,
) -> Vec<u8> {
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let mut out = vec![b'-'; room];
        let Progress { taken, written } = write_some(rest, &mut out);
        assert!(taken > 0);
        pieces.extend_from_slice(&out[..written]);
        rest = &rest[taken..];
    }
    pieces
}
