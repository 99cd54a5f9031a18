//! Writes one record batch.

use std::io::Write;

use bytes::{BufMut, Bytes};
use flate2::write::GzEncoder;
use lz4_flex::frame::{BlockSize, FrameEncoder, FrameInfo};

use super::Compression;
#[cfg(any(test, feature = "broker"))]
use super::batch;

/// A header to write: its name and its value, `None` for null.
type Header<'a> = (&'a [u8], Option<&'a [u8]>);

/// The bytes of records from which on a batch may get smaller when it is compressed.
const WORTH_PACKING: usize = 128;
/// A block in xerial's framing, unpacked.
const SNAPPY_BLOCK: usize = 32 * 1024;
/// The framing's magic, its version and the oldest version that reads it.
const SNAPPY_HEADER: &[u8] = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";

/// Makes one record batch as a producer sends it: its timestamps are the producer's, it has no producer id,
/// and its first offset is 0 until a broker gives it another. Repeated header names and null values are kept.
#[derive(Debug, Clone)]
pub struct BatchWriter {
    compression: Compression,
    records: Vec<u8>,
    count: i32,
    next_delta: i32,
    base_timestamp: i64,
    max_timestamp: i64,
    base_offset: i64,
    leader_epoch: i32,
    attributes: i16,
    producer: (i64, i16, i32),
    last_offset_delta: Option<i32>,
}

impl BatchWriter {
    /// An empty batch whose records will be compressed so.
    #[must_use]
    pub const fn new(compression: Compression) -> Self {
        Self {
            compression,
            records: Vec::new(),
            count: 0,
            next_delta: 0,
            base_timestamp: 0,
            max_timestamp: -1,
            base_offset: 0,
            leader_epoch: -1,
            attributes: 0,
            producer: (-1, -1, -1),
            last_offset_delta: None,
        }
    }

    /// Adds a record behind the last one: its timestamp in milliseconds since 1970 UTC, its key, its value
    /// and its headers, each `None` for null.
    ///
    /// # Panics
    ///
    /// Panics if a part of the record has 2 GiB or more.
    pub fn push(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[Header<'_>],
    ) -> &mut Self {
        if self.count == 0 {
            self.base_timestamp = timestamp;
        }
        self.max_timestamp = self.max_timestamp.max(timestamp);
        let mut record = vec![0]; // No attributes.
        put_varint(&mut record, timestamp.wrapping_sub(self.base_timestamp));
        put_varint(&mut record, self.next_delta.into());
        put_nullable(&mut record, key);
        put_nullable(&mut record, value);
        put_length(&mut record, headers.len());
        for (name, value) in headers {
            put_nullable(&mut record, Some(name));
            put_nullable(&mut record, *value);
        }
        put_length(&mut self.records, record.len());
        self.records.extend_from_slice(&record);
        self.count += 1;
        self.next_delta += 1;
        self
    }

    /// Makes it a batch of an idempotent producer: its id and epoch, and the sequence number of the first record.
    pub const fn idempotent(&mut self, producer_id: i64, epoch: i16, base_sequence: i32) -> &mut Self {
        self.producer = (producer_id, epoch, base_sequence);
        self
    }

    /// The batch's bytes.
    ///
    /// # Panics
    ///
    /// Panics if the batch has 2 GiB or more.
    #[must_use]
    pub fn finish(mut self) -> Bytes {
        let records = std::mem::take(&mut self.records);
        self.seal(self.compression, &pack(self.compression, records))
    }

    /// As [`finish`](Self::finish), and not compressed where that would make it no smaller.
    ///
    /// # Panics
    ///
    /// As there.
    #[must_use]
    pub fn finish_smaller(mut self) -> Bytes {
        let records = std::mem::take(&mut self.records);
        if self.compression == Compression::None || records.len() < WORTH_PACKING {
            return self.seal(Compression::None, &records);
        }
        let packed = pack(self.compression, records.clone());
        if packed.len() < records.len() {
            self.seal(self.compression, &packed)
        } else {
            self.seal(Compression::None, &records)
        }
    }

    /// The batch with these records, which are compressed so.
    fn seal(&self, compression: Compression, body: &[u8]) -> Bytes {
        let mut checked = Vec::with_capacity(body.len() + 40);
        checked.put_i16(self.attributes | compression as i16);
        checked.put_i32(self.last_offset_delta.unwrap_or(self.next_delta - 1));
        checked.put_i64(self.base_timestamp);
        checked.put_i64(self.max_timestamp);
        checked.put_i64(self.producer.0);
        checked.put_i16(self.producer.1);
        checked.put_i32(self.producer.2);
        checked.put_i32(self.count);
        checked.extend_from_slice(body);

        let mut bytes = Vec::with_capacity(checked.len() + 21);
        bytes.put_i64(self.base_offset);
        bytes.put_i32(i32::try_from(checked.len() + 9).expect("a batch is far below 2 GiB"));
        bytes.put_i32(self.leader_epoch);
        bytes.put_i8(2);
        bytes.put_u32(crc32c::crc32c(&checked));
        bytes.extend_from_slice(&checked);
        bytes.into()
    }
}

/// What only a broker writes.
#[cfg(any(test, feature = "broker"))]
impl BatchWriter {
    /// The offset that the batch starts from.
    pub const fn base_offset(&mut self, offset: i64) -> &mut Self {
        self.base_offset = offset;
        self
    }

    /// The epoch of the leader that appended the batch.
    pub const fn leader_epoch(&mut self, epoch: i32) -> &mut Self {
        self.leader_epoch = epoch;
        self
    }

    /// Leaves out as many offsets before the next record, as compaction does.
    pub const fn skip(&mut self, offsets: i32) -> &mut Self {
        self.next_delta += offsets;
        self
    }

    /// The last offset counted from the first, where it is not the last record's.
    pub const fn last_offset_delta(&mut self, delta: i32) -> &mut Self {
        self.last_offset_delta = Some(delta);
        self
    }

    /// Marks the batch as a part of a transaction of this producer.
    pub const fn transactional(&mut self, producer_id: i64) -> &mut Self {
        self.attributes |= batch::TRANSACTIONAL;
        self.producer = (producer_id, 0, 0);
        self
    }

    /// Marks the batch as one that holds a transaction's marker.
    pub const fn control(&mut self) -> &mut Self {
        self.attributes |= batch::CONTROL;
        self
    }

    /// Gives all records the time of their append.
    pub const fn append_time(&mut self, timestamp: i64) -> &mut Self {
        self.attributes |= batch::LOG_APPEND;
        self.max_timestamp = timestamp;
        self
    }
}

/// Compresses a batch's records.
pub(super) fn pack(compression: Compression, records: Vec<u8>) -> Vec<u8> {
    let packed = match compression {
        Compression::None => Ok(records),
        Compression::Gzip => {
            let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::default());
            gzip.write_all(&records).and_then(|()| gzip.finish())
        }
        Compression::Snappy => Ok(snappy(&records)),
        Compression::Lz4 => {
            let blocks = FrameInfo::new().block_size(BlockSize::Max64KB);
            let mut lz4 = FrameEncoder::with_frame_info(blocks, Vec::new());
            lz4.write_all(&records).and_then(|()| Ok(lz4.finish()?))
        }
        Compression::Zstd => zstd::bulk::compress(&records, 0),
    };
    packed.expect("a Vec takes all that is written to it")
}

fn snappy(records: &[u8]) -> Vec<u8> {
    let mut packed = SNAPPY_HEADER.to_vec();
    for block in records.chunks(SNAPPY_BLOCK) {
        let block = snap::raw::Encoder::new()
            .compress_vec(block)
            .expect("a block is far below 4 GiB");
        packed.put_u32(u32::try_from(block.len()).expect("a block is far below 4 GiB"));
        packed.extend_from_slice(&block);
    }
    packed
}

fn put_nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            put_length(out, bytes.len());
            out.extend_from_slice(bytes);
        }
        None => put_varint(out, -1),
    }
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    let length = i32::try_from(length).expect("a part of a record is far below 2 GiB");
    put_varint(out, length.into());
}

/// Writes a zigzag varint; one of 32 bits is written alike.
fn put_varint(out: &mut Vec<u8>, number: i64) {
    let mut left = (number << 1 ^ number >> 63).cast_unsigned();
    while left >= 0x80 {
        out.push(left.to_le_bytes()[0] | 0x80);
        left >>= 7;
    }
    out.push(left.to_le_bytes()[0]);
}
