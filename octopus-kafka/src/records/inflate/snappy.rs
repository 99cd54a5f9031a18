//! Snappy: blocks in xerial's framing, or one bare block.

use bytes::{Buf, Bytes};
use octopus_core::Fault;
use snap::raw::{Decoder, decompress_len};

use crate::records::MAX_RECORD_BYTES;

/// The framing's magic; its version and the oldest version that reads it follow.
const MAGIC: &[u8] = b"\x82SNAPPY\0";
const FRAME_HEADER: usize = 16;
/// The largest block, unpacked.
const MAX_BLOCK: usize = 2 * MAX_RECORD_BYTES;
/// No three bytes of a block unpack to more than 64.
const MAX_RATIO: usize = 22;

/// The unpacked bytes of one batch; a block of them is held at a time.
pub(crate) struct Snappy {
    packed: Bytes,
    framed: bool,
    block: Vec<u8>,
    at: usize,
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
        Ok(Self {
            packed,
            framed,
            block: Vec::new(),
            at: 0,
        })
    }

    pub(crate) fn read(&mut self, out: &mut [u8]) -> Result<usize, Fault> {
        while self.at == self.block.len() {
            if self.packed.is_empty() {
                return Ok(0);
            }
            self.unpack()?;
        }
        let length = out.len().min(self.block.len() - self.at);
        out[..length].copy_from_slice(&self.block[self.at..self.at + length]);
        self.at += length;
        Ok(length)
    }

    /// Unpacks the next block. Its length is checked before anything is allocated: against the bound, and
    /// against what its packed bytes could unpack to at best.
    fn unpack(&mut self) -> Result<(), Fault> {
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
        self.at = 0;
        self.block.resize(length, 0);
        let unpacked = Decoder::new()
            .decompress(&packed, &mut self.block)
            .map_err(|_| Fault::Corrupt)?;
        if unpacked == length {
            Ok(())
        } else {
            Err(Fault::Corrupt)
        }
    }
}
