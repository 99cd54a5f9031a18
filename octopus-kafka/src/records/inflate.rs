//! Unpacks a batch's records as a stream, in bounded memory.

mod gzip;
mod lz4;
mod snappy;
mod zstandard;

use bytes::Bytes;
use octopus_core::Fault;

pub(super) use self::{gzip::Deflated, zstandard::Frames};
use self::{gzip::Gzip, lz4::Lz4, snappy::Snappy, zstandard::Zstandard};
use super::{Compression, WINDOW_BYTES, kit::Kit};
use crate::large::LARGE;

/// The unpacked bytes of one batch.
pub(super) enum Inflate {
    Gzip(Gzip),
    Snappy(Snappy),
    Lz4(Lz4),
    Zstd(Zstandard),
}

impl Inflate {
    /// Unpacks `packed`, with what the kit has; `None` where it is not packed at all.
    ///
    /// # Errors
    ///
    /// [`Fault`] where the start of `packed` is wrong, or there is no memory for a context.
    pub(super) fn open(
        compression: Compression,
        packed: Bytes,
        kit: &mut Kit,
    ) -> Result<Option<Self>, Fault> {
        Ok(Some(match compression {
            Compression::None => return Ok(None),
            Compression::Gzip => Self::Gzip(Gzip::new(packed, kit.deflated.take())),
            Compression::Snappy => Self::Snappy(Snappy::new(packed)?),
            Compression::Lz4 => Self::Lz4(Lz4::new(packed)?),
            Compression::Zstd => Self::Zstd(Zstandard::new(packed, kit.frames.take())?),
        }))
    }

    /// Writes the next unpacked bytes to `buffer` from `at` on, which it grows where it has to, and says how many
    /// there are: 0 at the end, and only there. They are at most `most`, not 0, or one block, where blocks are
    /// unpacked whole.
    ///
    /// # Errors
    ///
    /// [`Fault`] where the packed bytes are wrong, or a block of them is too large.
    pub(super) fn fill(&mut self, buffer: &mut Vec<u8>, at: usize, most: usize) -> Result<usize, Fault> {
        match self {
            Self::Snappy(stream) => stream.fill(buffer, at),
            Self::Lz4(stream) => stream.fill(buffer, at),
            Self::Gzip(stream) => stream.read(space(buffer, at, most)),
            Self::Zstd(stream) => stream.read(space(buffer, at, most)),
        }
    }

    /// How many bytes before those to come must stay before them.
    pub(super) fn history(&self) -> usize {
        match self {
            Self::Lz4(stream) => stream.history(),
            Self::Gzip(_) | Self::Snappy(_) | Self::Zstd(_) => 0,
        }
    }

    /// Gives the kit back what another batch can use.
    pub(super) fn close(self, kit: &mut Kit) {
        match self {
            Self::Gzip(stream) => kit.deflated = Some(stream.into_deflated()),
            Self::Zstd(stream) => kit.frames = Some(stream.into_frames()),
            Self::Snappy(_) | Self::Lz4(_) => {}
        }
    }
}

/// What is free behind `at`, at most `most` bytes. A full buffer grows to twice its size, within what a record that is
/// not large needs.
fn space(buffer: &mut Vec<u8>, at: usize, most: usize) -> &mut [u8] {
    if at == buffer.len() {
        let length = (2 * at).clamp(WINDOW_BYTES, LARGE + WINDOW_BYTES);
        buffer.resize(length.max(at + 1), 0);
    }
    let end = buffer.len().min(at.saturating_add(most));
    &mut buffer[at..end]
}

/// The part of the buffer that a block of so many bytes is unpacked to.
fn room(buffer: &mut Vec<u8>, at: usize, length: usize) -> (&[u8], &mut [u8]) {
    let end = at + length;
    if end > buffer.len() {
        buffer.resize(end.next_multiple_of(WINDOW_BYTES), 0);
    }
    let (before, behind) = buffer.split_at_mut(at);
    (before, &mut behind[..length])
}
