//! LZ4's frame: blocks, which are unpacked straight to where they are read.

use std::hash::Hasher as _;

use bytes::{Buf, Bytes};
use lz4_flex::block::{decompress_into, decompress_into_with_dict};
use octopus_core::Fault;
use twox_hash::XxHash32;

use super::room;

const MAGIC: [u8; 4] = 0x184d_2204u32.to_le_bytes();
/// The bits of the first byte behind the magic.
const VERSION: u8 = 0b1100_0000;
const VERSION_1: u8 = 0b0100_0000;
const INDEPENDENT: u8 = 1 << 5;
const BLOCK_CHECKSUMS: u8 = 1 << 4;
const CONTENT_SIZE: u8 = 1 << 3;
const CONTENT_CHECKSUM: u8 = 1 << 2;
const RESERVED: u8 = 1 << 1;
const DICTIONARY: u8 = 1;
/// The bit of a block's length that says that it is stored as it is.
const STORED: u32 = 1 << 31;
/// How far back a block may refer to those before it.
const REACH: usize = 64 * 1024;
/// No byte of a block unpacks to more.
const MAX_RATIO: usize = 255;

/// The unpacked bytes of one batch: of its first frame alone, as Kafka's own reader has it.
pub(crate) struct Lz4 {
    /// From the next block on.
    packed: Bytes,
    /// The most that a block unpacks to.
    block_bytes: usize,
    /// Whether blocks refer to those before them.
    linked: bool,
    block_checksums: bool,
    content_size: Option<u64>,
    /// Of what was unpacked so far.
    content: Option<XxHash32>,
    unpacked: u64,
    ended: bool,
}

impl Lz4 {
    pub(crate) fn new(packed: Bytes) -> Result<Self, Fault> {
        Self::begin(packed).ok_or(Fault::Corrupt)
    }

    /// Reads the frame's header.
    fn begin(mut packed: Bytes) -> Option<Self> {
        let descriptor = packed.strip_prefix(&MAGIC)?;
        let (&[flags, sizes], mut rest) = descriptor.split_first_chunk()?;
        if flags & VERSION != VERSION_1 || flags & (RESERVED | DICTIONARY) != 0 {
            return None;
        }
        let block_bytes = match sizes {
            0x40 => 64 << 10,
            0x50 => 256 << 10,
            0x60 => 1 << 20,
            0x70 => 4 << 20,
            _ => return None,
        };
        let mut content_size = None;
        if flags & CONTENT_SIZE != 0 {
            let (size, behind) = rest.split_first_chunk()?;
            content_size = Some(u64::from_le_bytes(*size));
            rest = behind;
        }
        let hash = XxHash32::oneshot(0, &descriptor[..descriptor.len() - rest.len()]);
        let (checksum, rest) = rest.split_first()?;
        if hash.to_le_bytes()[1] != *checksum {
            return None;
        }
        packed.advance(packed.len() - rest.len());
        Some(Self {
            packed,
            block_bytes,
            linked: flags & INDEPENDENT == 0,
            block_checksums: flags & BLOCK_CHECKSUMS != 0,
            content_size,
            content: (flags & CONTENT_CHECKSUM != 0).then(|| XxHash32::with_seed(0)),
            unpacked: 0,
            ended: false,
        })
    }

    /// How many of the unpacked bytes the next block may refer to.
    pub(crate) fn history(&self) -> usize {
        if self.linked {
            usize::try_from(self.unpacked).map_or(REACH, |unpacked| unpacked.min(REACH))
        } else {
            0
        }
    }

    /// Unpacks the next block that is not empty.
    pub(crate) fn fill(&mut self, buffer: &mut Vec<u8>, at: usize) -> Result<usize, Fault> {
        while !self.ended {
            let written = self.block(buffer, at).ok_or(Fault::Corrupt)?;
            if written > 0 {
                return Ok(written);
            }
        }
        Ok(0)
    }

    /// Unpacks a block, or comes to the frame's end.
    fn block(&mut self, buffer: &mut Vec<u8>, at: usize) -> Option<usize> {
        let Some((head, rest)) = self.packed.split_first_chunk() else {
            self.ended = true; // What was written out at the last moment may lack its end mark.
            return Some(0);
        };
        let head = u32::from_le_bytes(*head);
        if head == 0 {
            self.ended = true;
            return self.end_holds(rest).then_some(0);
        }
        let length = (head & !STORED) as usize;
        if length > self.block_bytes {
            return None;
        }
        let (block, mut rest) = rest.split_at_checked(length)?;
        if self.block_checksums {
            let (checksum, behind) = rest.split_first_chunk()?;
            if XxHash32::oneshot(0, block) != u32::from_le_bytes(*checksum) {
                return None;
            }
            rest = behind;
        }
        let written = if head & STORED != 0 {
            room(buffer, at, length).1.copy_from_slice(block);
            length
        } else {
            // What its bytes can unpack to at best, before what it may claim.
            let most = self.block_bytes.min(length.saturating_mul(MAX_RATIO));
            let (before, out) = room(buffer, at, most);
            match self.history() {
                0 => decompress_into(block, out).ok()?,
                reach => decompress_into_with_dict(block, out, &before[at.checked_sub(reach)?..]).ok()?,
            }
        };
        if let Some(content) = &mut self.content {
            content.write(&buffer[at..at + written]);
        }
        self.unpacked += written as u64;
        self.packed.advance(self.packed.len() - rest.len());
        Some(written)
    }

    /// Whether what stands behind the end mark fits what was unpacked.
    fn end_holds(&self, rest: &[u8]) -> bool {
        let checksum_holds = |content: &XxHash32| {
            let checksum = rest.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
            checksum == Some(content.finish_32())
        };
        self.content_size.is_none_or(|size| size == self.unpacked)
            && self.content.as_ref().is_none_or(checksum_holds)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};

    use super::*;

    /// Text that repeats near and far.
    fn text(length: usize) -> Vec<u8> {
        let words = (0u32..).map(|i| format!("{} and {},", i % 7, i.wrapping_mul(2_654_435_761) % 5000));
        let mut text: Vec<u8> = words.take(length / 8).flat_map(String::into_bytes).collect();
        text.truncate(length);
        text
    }

    fn pack(info: FrameInfo, bytes: &[u8]) -> Vec<u8> {
        let mut lz4 = FrameEncoder::with_frame_info(info, Vec::new());
        lz4.write_all(bytes).unwrap();
        lz4.finish().unwrap()
    }

    /// Unpacks as a window does, which keeps no more than the history before what it unpacks.
    fn unpack(packed: &[u8]) -> Result<Vec<u8>, Fault> {
        let mut lz4 = Lz4::new(Bytes::copy_from_slice(packed))?;
        let (mut unpacked, mut buffer, mut end) = (Vec::new(), Vec::new(), 0);
        loop {
            let kept = end - lz4.history();
            buffer.copy_within(kept..end, 0);
            end -= kept;
            match lz4.fill(&mut buffer, end)? {
                0 => return Ok(unpacked),
                written => {
                    unpacked.extend_from_slice(&buffer[end..end + written]);
                    end += written;
                }
            }
        }
    }

    #[test]
    fn frames_of_every_kind_are_read() {
        let noise: Vec<u8> = (0..100_000u32)
            .flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes())
            .collect();
        for bytes in [text(0), text(1), text(70_000), text(3_000_000), noise] {
            for size in [
                BlockSize::Max64KB,
                BlockSize::Max256KB,
                BlockSize::Max1MB,
                BlockSize::Max4MB,
            ] {
                for mode in [BlockMode::Independent, BlockMode::Linked] {
                    for checked in [false, true] {
                        let info = FrameInfo::new()
                            .block_size(size)
                            .block_mode(mode)
                            .block_checksums(checked)
                            .content_checksum(checked)
                            .content_size(checked.then_some(bytes.len() as u64));
                        let packed = pack(info, &bytes);
                        assert!(unpack(&packed).unwrap() == bytes, "{size:?} {mode:?} {checked}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_byte_that_is_changed_is_found_where_there_are_checksums() {
        let bytes = text(70_000);
        let info = FrameInfo::new()
            .block_size(BlockSize::Max64KB)
            .block_checksums(true)
            .content_checksum(true)
            .content_size(Some(70_000));
        let packed = pack(info, &bytes);
        let sparse = (0..packed.len()).filter(|at| at % 97 == 0 || *at < 40 || *at + 20 > packed.len());
        for at in sparse {
            let mut changed = packed.clone();
            changed[at] ^= 0x10;
            assert!(unpack(&changed) != Ok(bytes.clone()), "{at}");
            assert!(unpack(&changed).is_err(), "{at}");
        }
    }

    #[test]
    fn what_a_block_claims_is_not_taken_for_true() {
        let packed = pack(FrameInfo::new().block_size(BlockSize::Max4MB), b"short");
        let mut lz4 = Lz4::new(Bytes::from(packed)).unwrap();
        let mut buffer = Vec::new();
        assert_eq!(lz4.fill(&mut buffer, 0), Ok(5));
        assert!(buffer.len() <= 64 * 1024);
        // A block longer than the frame says that blocks are.
        let mut packed = pack(FrameInfo::new().block_size(BlockSize::Max64KB), b"");
        packed.truncate(7);
        packed.extend_from_slice(&(65_537 | STORED).to_le_bytes());
        packed.extend_from_slice(&[0; 65_537]);
        assert_eq!(unpack(&packed), Err(Fault::Corrupt));
    }

    #[test]
    fn what_is_behind_the_first_frame_is_not_read() {
        let one = pack(FrameInfo::new(), b"one");
        assert_eq!(unpack(&[&one[..], &one, b"more"].concat()).unwrap(), b"one");
    }
}
