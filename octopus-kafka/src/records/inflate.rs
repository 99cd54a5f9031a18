//! Unpacks a batch's records as a stream, in bounded memory.

mod snappy;
mod zstandard;

use std::io::{ErrorKind, Read};

use bytes::{Buf, Bytes, buf};
use flate2::bufread::MultiGzDecoder;
use lz4_flex::frame::FrameDecoder;
use octopus_core::Fault;

pub(super) use self::zstandard::Context;
use self::{snappy::Snappy, zstandard::Zstandard};
use super::Compression;

/// The unpacked bytes of one batch.
pub(super) enum Inflate {
    Gzip(Box<MultiGzDecoder<buf::Reader<Bytes>>>),
    Snappy(Snappy),
    /// The first frame alone, as Kafka's own reader has it.
    Lz4(Box<FrameDecoder<buf::Reader<Bytes>>>),
    Zstd(Zstandard),
}

impl Inflate {
    /// Unpacks `packed`; `None` where it is not packed at all. A context that an earlier batch left is used
    /// again.
    ///
    /// # Errors
    ///
    /// [`Fault`] where the start of `packed` is wrong, or there is no memory for a context.
    pub(super) fn open(
        compression: Compression,
        packed: impl FnOnce() -> Bytes,
        context: &mut Option<Context>,
    ) -> Result<Option<Self>, Fault> {
        Ok(Some(match compression {
            Compression::None => return Ok(None),
            Compression::Gzip => Self::Gzip(Box::new(MultiGzDecoder::new(packed().reader()))),
            Compression::Snappy => Self::Snappy(Snappy::new(packed())?),
            Compression::Lz4 => Self::Lz4(Box::new(FrameDecoder::new(packed().reader()))),
            Compression::Zstd => Self::Zstd(Zstandard::new(packed(), context.take())?),
        }))
    }

    /// Writes the next unpacked bytes to the start of `out` and says how many: 0 at the end, and only there.
    /// `out` is not empty. Not to be called behind the end.
    ///
    /// # Errors
    ///
    /// [`Fault`] where the packed bytes are wrong, or a block of them is too large.
    pub(super) fn read(&mut self, out: &mut [u8]) -> Result<usize, Fault> {
        match self {
            Self::Gzip(stream) => read(stream, out),
            Self::Snappy(stream) => stream.read(out),
            Self::Lz4(stream) => read(stream, out),
            Self::Zstd(stream) => stream.read(out),
        }
    }

    /// What the next batch's stream can use again.
    pub(super) fn into_context(self) -> Option<Context> {
        match self {
            Self::Zstd(stream) => Some(stream.into_context()),
            Self::Gzip(_) | Self::Snappy(_) | Self::Lz4(_) => None,
        }
    }
}

fn read(stream: &mut impl Read, out: &mut [u8]) -> Result<usize, Fault> {
    loop {
        match stream.read(out) {
            Ok(read) => return Ok(read),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Err(Fault::Corrupt),
        }
    }
}
