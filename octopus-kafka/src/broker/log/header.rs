//! The header of a record batch.

use octopus_core::varint;

use super::{CRC_FROM, HEADER};

/// The fields of a batch's header that the log looks at.
#[derive(Debug, Default)]
pub(super) struct Header {
    pub(super) base_offset: i64,
    /// Of the whole batch, with the twelve bytes before the length field's end.
    pub(super) length: usize,
    pub(super) magic: u8,
    pub(super) crc: u32,
    pub(super) codec: u8,
    pub(super) transactional: bool,
    pub(super) control: bool,
    pub(super) last_offset_delta: i32,
    pub(super) max_timestamp: i64,
    pub(super) producer_id: i64,
    pub(super) producer_epoch: i16,
    pub(super) base_sequence: i32,
    pub(super) count: i32,
}

impl Header {
    pub(super) fn read(batch: &[u8]) -> Option<Self> {
        let attributes = i16::from_be_bytes(array(batch, 21)?);
        Some(Self {
            base_offset: i64::from_be_bytes(array(batch, 0)?),
            length: usize::try_from(i32::from_be_bytes(array(batch, 8)?))
                .ok()?
                .checked_add(12)?,
            magic: *batch.get(16)?,
            crc: u32::from_be_bytes(array(batch, 17)?),
            codec: u8::try_from(attributes & 7).ok()?,
            transactional: attributes & 0x10 != 0,
            control: attributes & 0x20 != 0,
            last_offset_delta: i32::from_be_bytes(array(batch, 23)?),
            max_timestamp: i64::from_be_bytes(array(batch, 35)?),
            producer_id: i64::from_be_bytes(array(batch, 43)?),
            producer_epoch: i16::from_be_bytes(array(batch, 51)?),
            base_sequence: i32::from_be_bytes(array(batch, 53)?),
            count: i32::from_be_bytes(array(batch, 57)?),
        })
    }

    /// Whether a producer may send it: it makes no gaps, no markers and no offsets.
    pub(super) const fn is_a_producers(&self) -> bool {
        self.base_offset == 0
            && self.count >= 1
            && self.last_offset_delta == self.count - 1
            && self.codec <= 4
            && !self.control
            && (self.producer_id < 0 || self.base_sequence >= 0)
    }

    /// The offset behind its last record.
    pub(super) fn next_offset(&self) -> i64 {
        self.base_offset
            .saturating_add(i64::from(self.last_offset_delta.max(0)))
            .saturating_add(1)
    }

    pub(super) fn last_sequence(&self) -> i32 {
        sequence_after(self.base_sequence, self.last_offset_delta)
    }
}

/// The header of the batch that the bytes begin with, `None` unless it is all there and undamaged.
pub(super) fn is_whole(bytes: &[u8]) -> Option<Header> {
    let header = Header::read(bytes)?;
    let batch = bytes.get(..header.length)?;
    let holds = header.magic == 2 && header.length >= HEADER && header.last_offset_delta >= 0;
    (holds && crc32c::crc32c(&batch[CRC_FROM..]) == header.crc).then_some(header)
}

/// Whether the bytes are so many records by their lengths.
pub(super) fn counts(mut records: &[u8], count: i32) -> bool {
    for _ in 0..count {
        let record = varint(records).and_then(|(length, rest)| rest.get(usize::try_from(length).ok()?..));
        match record {
            Some(rest) => records = rest,
            None => return false,
        }
    }
    records.is_empty()
}

fn array<const N: usize>(bytes: &[u8], from: usize) -> Option<[u8; N]> {
    bytes.get(from..from.checked_add(N)?)?.try_into().ok()
}

/// Sequences go on at 0 behind the largest number.
pub(super) const fn sequence_after(sequence: i32, by: i32) -> i32 {
    sequence.wrapping_add(by) & i32::MAX
}
