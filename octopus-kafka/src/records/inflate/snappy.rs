//! Snappy: blocks in xerial's framing, or one bare block.

use bytes::{Buf, Bytes};
use octopus_core::Fault;
use snap::raw::{Decoder, decompress_len};

use super::room;
use crate::records::MAX_RECORD_BYTES;

/// The framing's magic; its version and the oldest version that reads it follow.
const MAGIC: &[u8] = b"\x82SNAPPY\0";
const FRAME_HEADER: usize = 16;
/// The largest block, unpacked.
const MAX_BLOCK: usize = 2 * MAX_RECORD_BYTES;
/// No three bytes of a block unpack to more than 64.
const MAX_RATIO: usize = 22;

/// The unpacked bytes of one batch; its blocks are unpacked straight to where they are read.
pub(crate) struct Snappy {
    packed: Bytes,
    framed: bool,
}

impl Snappy {
    pub(crate) fn new(mut packed: Bytes) -> Result<Self, Fault> {
        let framed = packed.starts_with(MAGIC);
        if framed {
            if packed.len() < FRAME_HEADER {
                return Err(Fault::Corrupt);
            }
            packed.advance(FRAME_HEADER);
        }
        Ok(Self { packed, framed })
    }

    /// Unpacks the next block that is not empty.
    pub(crate) fn fill(&mut self, buffer: &mut Vec<u8>, at: usize) -> Result<usize, Fault> {
        while !self.packed.is_empty() {
            let written = self.block(buffer, at)?;
            if written > 0 {
                return Ok(written);
            }
        }
        Ok(0)
    }

    /// Unpacks a block. Its length is checked before anything is allocated: against the bound, and against what
    /// its packed bytes could unpack to at best.
    fn block(&mut self, buffer: &mut Vec<u8>, at: usize) -> Result<usize, Fault> {
        let packed = if self.framed {
            let length = self.packed.try_get_u32().map_err(|_| Fault::Corrupt)?;
            let length = usize::try_from(length).map_err(|_| Fault::Corrupt)?;
            if length > self.packed.len() {
                return Err(Fault::Corrupt);
            }
            self.packed.split_to(length)
        } else {
            std::mem::take(&mut self.packed)
        };
        let length = decompress_len(&packed).map_err(|_| Fault::Corrupt)?;
        if length > MAX_BLOCK {
            return Err(Fault::TooLarge);
        }
        if length > packed.len().saturating_mul(MAX_RATIO) {
            return Err(Fault::Corrupt);
        }
        let unpacked = Decoder::new()
            .decompress(&packed, room(buffer, at, length).1)
            .map_err(|_| Fault::Corrupt)?;
        if unpacked == length {
            Ok(length)
        } else {
            Err(Fault::Corrupt)
        }
    }
}
