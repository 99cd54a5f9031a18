//! Record batches in a slice of bytes, one after the other.

use bytes::Buf;
use octopus_core::Fault;

/// The base offset and the length, in front of what the length counts.
const PREFIX: usize = 12;
/// A batch's header with its prefix; the records follow it.
const HEADER: usize = 61;
/// Where the bytes begin that the checksum covers: behind itself.
const CHECKED: usize = 21;
/// Where a message set of any age has its magic.
const MAGIC: usize = 16;
/// The least length of a message of magic 0, without the prefix.
const OLDEST: usize = 14;

/// The batches in a partition's bytes. Nothing is allocated; each batch is checked before it is given.
#[derive(Debug, Clone)]
pub struct Batches<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// What lies next in a partition's bytes.
#[derive(Debug, Clone, Copy)]
pub enum Next<'a> {
    /// A whole batch whose checksum and counts hold.
    Batch(Batch<'a>),
    /// The start of a batch that the broker cut off.
    Partial,
    /// Nothing.
    End,
    /// A batch that can't be read; what follows it is not looked at.
    Fault(Fault),
}

/// One batch of records, checked but for the records themselves.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// The offset of its first record as it was written; compaction may have taken that record away.
    pub base_offset: i64,
    /// The offset of its last record as it was written, likewise.
    pub last_offset: i64,
    /// The epoch of the leader that appended it, -1 if unknown.
    pub leader_epoch: i32,
    /// How its records are compressed.
    pub compression: Compression,
    /// What its records' timestamps say.
    pub timestamp_type: TimestampType,
    /// Whether it belongs to a transaction.
    pub transactional: bool,
    /// Whether it holds a transaction's marker and not records [D-21].
    pub control: bool,
    /// Milliseconds since 1970 UTC that its records' timestamps count from.
    pub base_timestamp: i64,
    /// The largest timestamp; with [`TimestampType::LogAppend`] that of every record.
    pub max_timestamp: i64,
    /// The producer's id, -1 for none.
    pub producer_id: i64,
    /// How many records it holds.
    pub record_count: u32,
    /// Its records, compressed as [`compression`](Self::compression) says.
    pub records: &'a [u8],
}

/// How a batch's records are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip.
    Gzip,
    /// snappy, in xerial's framing or bare.
    Snappy,
    /// LZ4 frames.
    Lz4,
    /// Zstandard.
    Zstd,
}

/// What the timestamps of a batch's records say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimestampType {
    /// When the producer made them.
    Create,
    /// When the broker appended the batch.
    LogAppend,
}

impl<'a> Batches<'a> {
    /// The batches in `bytes`, which start with a batch.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The batches in `bytes` from this place on.
    pub(super) const fn from(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// How many bytes the batches given so far have.
    #[must_use]
    pub const fn at(&self) -> usize {
        self.at
    }

    /// Whether one of them says that it is compressed, as far as their lengths lead.
    pub(super) fn any_is_packed(&self) -> bool {
        let mut rest = &self.bytes[self.at..];
        while let Some((head, _)) = rest.split_first_chunk::<{ CHECKED + size_of::<i16>() }>() {
            if Compression::of(i16::from(head[CHECKED + 1])) != Some(Compression::None) {
                return true;
            }
            let length = [head[8], head[9], head[10], head[11]];
            let next = usize::try_from(i32::from_be_bytes(length)).ok();
            match next.and_then(|length| rest.get(PREFIX + length..)) {
                Some(next) => rest = next,
                None => return false,
            }
        }
        false
    }

    /// The next batch. After [`Next::Partial`], [`Next::End`] and [`Next::Fault`] it stays what it is.
    #[expect(clippy::should_implement_trait, reason = "it says more than an iterator can")]
    pub fn next(&mut self) -> Next<'a> {
        let bytes = &self.bytes[self.at..];
        if bytes.is_empty() {
            return Next::End;
        }
        let Some((mut prefix, rest)) = bytes.split_at_checked(PREFIX) else {
            return Next::Partial;
        };
        let base_offset = prefix.get_i64();
        let Ok(length) = usize::try_from(prefix.get_i32()) else {
            return Next::Fault(Fault::Corrupt);
        };
        if rest.len() < length {
            return Next::Partial;
        }
        if length >= OLDEST && matches!(bytes[MAGIC], 0 | 1) {
            return Next::Fault(Fault::OldFormat);
        }
        match Batch::parse(base_offset, &bytes[..PREFIX + length]) {
            Some(batch) => {
                self.at += PREFIX + length;
                Next::Batch(batch)
            }
            None => Next::Fault(Fault::Corrupt),
        }
    }
}

impl<'a> Batch<'a> {
    /// The batch that these bytes are, all of them.
    fn parse(base_offset: i64, bytes: &'a [u8]) -> Option<Self> {
        let (mut header, records) = bytes.split_at_checked(HEADER)?;
        header.advance(PREFIX);
        let leader_epoch = header.get_i32();
        if header.get_i8() != 2 || header.get_u32() != crc32c::crc32c(&bytes[CHECKED..]) {
            return None;
        }
        let attributes = header.get_i16();
        let last_offset_delta = u32::try_from(header.get_i32()).ok()?;
        let base_timestamp = header.get_i64();
        let max_timestamp = header.get_i64();
        let producer_id = header.get_i64();
        header.advance(size_of::<i16>() + size_of::<i32>()); // The producer's epoch and sequence.
        let record_count = u32::try_from(header.get_i32()).ok()?;
        let last_offset = base_offset.checked_add(i64::from(last_offset_delta))?;
        let counts_hold = base_offset >= 0 && last_offset < i64::MAX && record_count <= last_offset_delta + 1;
        counts_hold.then_some(Self {
            base_offset,
            last_offset,
            leader_epoch,
            compression: Compression::of(attributes)?,
            timestamp_type: if attributes & LOG_APPEND == 0 {
                TimestampType::Create
            } else {
                TimestampType::LogAppend
            },
            transactional: attributes & TRANSACTIONAL != 0,
            control: attributes & CONTROL != 0,
            base_timestamp,
            max_timestamp,
            producer_id,
            record_count,
            records,
        })
    }
}

/// The bits of a batch's attributes beside the compression's.
pub(super) const LOG_APPEND: i16 = 1 << 3;
pub(super) const TRANSACTIONAL: i16 = 1 << 4;
pub(super) const CONTROL: i16 = 1 << 5;

impl Compression {
    /// Every compression, in the order of their numbers on the wire.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    fn of(attributes: i16) -> Option<Self> {
        Self::ALL.get(usize::try_from(attributes & 0b111).ok()?).copied()
    }
}
