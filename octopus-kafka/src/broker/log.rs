//! One partition's log: the producers' batches as they sent them, in memory.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};

use super::code::{self, Code};

/// The length of a record batch up to its records.
pub(crate) const HEADER: usize = 61;
/// The leader epoch of every partition: one broker never changes its leader.
pub(crate) const LEADER_EPOCH: i32 = 0;

const CRC_FROM: usize = 21;
/// How many of a producer's last batches are known again, as Kafka does.
const REMEMBERED: usize = 5;
/// How many producers a partition knows.
const PRODUCERS: usize = 1024;

/// A partition's records.
#[derive(Debug, Default)]
pub(crate) struct Log {
    batches: VecDeque<Batch>,
    start: i64,
    end: i64,
    bytes: usize,
    producers: BTreeMap<i64, Producer>,
}

#[derive(Debug)]
struct Batch {
    base: i64,
    last: i64,
    max_timestamp: i64,
    bytes: Bytes,
}

/// What of a producer's batches a log has.
#[derive(Debug)]
struct Producer {
    epoch: i16,
    /// First and last sequence, and base offset, of the last batches.
    batches: VecDeque<(i32, i32, i64)>,
}

/// What a read found.
#[derive(Debug, PartialEq)]
pub(crate) struct Slice {
    pub(crate) records: Bytes,
    /// Bytes that wait from the offset on, at most the limit: what `min_bytes` is held against.
    pub(crate) ready: usize,
}

impl Log {
    /// The first offset that can be read.
    pub(crate) const fn start(&self) -> i64 {
        self.start
    }

    /// The offset that the next record gets: the high watermark.
    pub(crate) const fn end(&self) -> i64 {
        self.end
    }

    /// Appends a producer's batch and returns its base offset, the old one if it was sent before.
    ///
    /// # Errors
    ///
    /// Kafka's code where the batch is damaged, malformed, too large or out of its producer's order.
    pub(crate) fn produce(&mut self, records: &[u8], max_bytes: usize, zstd: bool) -> Result<i64, Code> {
        let header = Header::read(records).ok_or(code::INVALID_RECORD)?;
        if header.magic != 2 || header.length != records.len() || records.len() < HEADER {
            // Behind the first batch there may be another, which Kafka refuses too.
            return Err(code::INVALID_RECORD);
        }
        if records.len() > max_bytes {
            return Err(code::MESSAGE_TOO_LARGE);
        }
        if crc32c::crc32c(&records[CRC_FROM..]) != header.crc {
            return Err(code::CORRUPT_MESSAGE);
        }
        let well_formed = header.count >= 1
            && header.last_offset_delta == header.count - 1
            && header.codec <= 4
            && !header.control;
        if !well_formed {
            return Err(code::INVALID_RECORD);
        }
        if header.codec == 4 && !zstd {
            return Err(code::UNSUPPORTED_COMPRESSION_TYPE);
        }
        if header.transactional {
            return Err(code::INVALID_REQUEST);
        }
        if header.producer_id >= 0
            && let Some(base) = self.check_sequence(&header)?
        {
            return Ok(base);
        }
        let base = self.append(records);
        if header.producer_id >= 0 {
            self.remember(&header, base);
        }
        Ok(base)
    }

    /// Appends a batch unchecked, only its base offset and leader epoch set, and returns the base offset.
    pub(crate) fn append(&mut self, records: &[u8]) -> i64 {
        let header = Header::read(records).unwrap_or_default();
        let base = self.end;
        let mut bytes = BytesMut::from(records);
        if bytes.len() >= 16 {
            bytes[..8].copy_from_slice(&base.to_be_bytes());
            bytes[12..16].copy_from_slice(&LEADER_EPOCH.to_be_bytes());
        }
        let last = base.saturating_add(i64::from(header.last_offset_delta.max(0)));
        self.bytes += bytes.len();
        self.batches.push_back(Batch {
            base,
            last,
            max_timestamp: header.max_timestamp,
            bytes: bytes.freeze(),
        });
        self.end = last.saturating_add(1);
        base
    }

    /// Drops the oldest batches until at most this many bytes are left, or one batch.
    pub(crate) fn retain(&mut self, max_bytes: usize) {
        while self.bytes > max_bytes && self.batches.len() > 1 {
            let Some(first) = self.batches.pop_front() else {
                return;
            };
            self.bytes -= first.bytes.len();
            self.start = self.start.max(first.last + 1);
        }
    }

    /// Reads from `offset` on, as Kafka does: whole batches and at most one cut short at the limit behind
    /// them; the first batch whole when `first_whole` though it is over the limit.
    ///
    /// # Errors
    ///
    /// `OFFSET_OUT_OF_RANGE` before the start and behind the end.
    pub(crate) fn read(&self, offset: i64, max_bytes: usize, first_whole: bool) -> Result<Slice, Code> {
        if offset < self.start || offset > self.end {
            return Err(code::OFFSET_OUT_OF_RANGE);
        }
        let from = self.batches.partition_point(|batch| batch.last < offset);
        let mut parts: Vec<Bytes> = Vec::new();
        let mut ready = 0;
        for batch in self.batches.range(from..) {
            let left = max_bytes.saturating_sub(ready);
            if batch.bytes.len() <= left || (parts.is_empty() && first_whole) {
                parts.push(batch.bytes.clone());
                ready += batch.bytes.len();
                continue;
            }
            if !parts.is_empty() && left > 0 {
                parts.push(batch.bytes.slice(..left));
            }
            ready += left;
            break;
        }
        let records = match parts.as_slice() {
            [] => Bytes::new(),
            [one] => one.clone(),
            several => {
                let mut joined = BytesMut::with_capacity(several.iter().map(Bytes::len).sum());
                several.iter().for_each(|part| joined.extend_from_slice(part));
                joined.freeze()
            }
        };
        Ok(Slice { records, ready })
    }

    /// The first offset whose record is not older than `timestamp`, with its time.
    pub(crate) fn at_time(&self, timestamp: i64) -> Option<(i64, i64)> {
        self.batches
            .iter()
            .filter(|batch| batch.max_timestamp >= timestamp)
            .find_map(|batch| {
                batch
                    .times()
                    .into_iter()
                    .find(|(offset, time)| *offset >= self.start && *time >= timestamp)
            })
    }

    /// The first record of the latest time: its offset and time.
    pub(crate) fn latest(&self) -> Option<(i64, i64)> {
        let newest = self.batches.iter().map(|batch| batch.max_timestamp).max()?;
        self.at_time(newest)
    }

    /// Drops the records before `offset` (-1: all) and returns the new start.
    ///
    /// # Errors
    ///
    /// `OFFSET_OUT_OF_RANGE` below -1 and behind the end.
    pub(crate) fn delete_before(&mut self, offset: i64) -> Result<i64, Code> {
        let offset = if offset == -1 { self.end } else { offset };
        if offset < 0 || offset > self.end {
            return Err(code::OFFSET_OUT_OF_RANGE);
        }
        self.start = self.start.max(offset);
        while let Some(first) = self.batches.front()
            && first.last < self.start
        {
            self.bytes -= first.bytes.len();
            self.batches.pop_front();
        }
        Ok(self.start)
    }

    /// The base offset of the same batch sent before, `None` where it is the producer's next one.
    fn check_sequence(&self, header: &Header) -> Result<Option<i64>, Code> {
        let Some(producer) = self.producers.get(&header.producer_id) else {
            return Ok(None);
        };
        if header.producer_epoch < producer.epoch {
            return Err(code::INVALID_PRODUCER_EPOCH);
        }
        if header.producer_epoch > producer.epoch {
            return if header.base_sequence == 0 {
                Ok(None)
            } else {
                Err(code::OUT_OF_ORDER_SEQUENCE_NUMBER)
            };
        }
        let last_sequence = header.last_sequence();
        for &(first, last, base) in &producer.batches {
            if first == header.base_sequence && last == last_sequence {
                return Ok(Some(base));
            }
        }
        let Some(&(_, last, _)) = producer.batches.back() else {
            return Ok(None);
        };
        if header.base_sequence == sequence_after(last, 1) {
            Ok(None)
        } else if header.base_sequence <= last {
            Err(code::DUPLICATE_SEQUENCE_NUMBER)
        } else {
            Err(code::OUT_OF_ORDER_SEQUENCE_NUMBER)
        }
    }

    fn remember(&mut self, header: &Header, base: i64) {
        if self.producers.len() >= PRODUCERS && !self.producers.contains_key(&header.producer_id) {
            self.producers.pop_first();
        }
        let producer = self.producers.entry(header.producer_id).or_insert(Producer {
            epoch: header.producer_epoch,
            batches: VecDeque::new(),
        });
        if producer.epoch != header.producer_epoch {
            producer.epoch = header.producer_epoch;
            producer.batches.clear();
        }
        producer
            .batches
            .push_back((header.base_sequence, header.last_sequence(), base));
        if producer.batches.len() > REMEMBERED {
            producer.batches.pop_front();
        }
    }
}

impl Batch {
    /// Offset and time of each record; of a batch that does not unpack, its last one alone.
    fn times(&self) -> Vec<(i64, i64)> {
        vec![(self.base, self.max_timestamp)]
    }
}

/// The fields of a batch's header that the log looks at.
#[derive(Debug, Default)]
struct Header {
    /// Of the whole batch, with the twelve bytes before the length field's end.
    length: usize,
    magic: u8,
    crc: u32,
    codec: u8,
    transactional: bool,
    control: bool,
    last_offset_delta: i32,
    max_timestamp: i64,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    count: i32,
}

impl Header {
    fn read(batch: &[u8]) -> Option<Self> {
        let attributes = i16::from_be_bytes(array(batch, 21)?);
        Some(Self {
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

    fn last_sequence(&self) -> i32 {
        sequence_after(self.base_sequence, self.last_offset_delta)
    }
}

fn array<const N: usize>(bytes: &[u8], from: usize) -> Option<[u8; N]> {
    bytes.get(from..from.checked_add(N)?)?.try_into().ok()
}

/// Sequences go on at 0 behind the largest number.
const fn sequence_after(sequence: i32, by: i32) -> i32 {
    sequence.wrapping_add(by) & i32::MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::tests::{batch, seal};

    const MAX: usize = 1 << 20;

    fn sequenced(epoch: i16, sequence: i32) -> BytesMut {
        let mut batch = batch(&[b"a", b"b"], 5);
        batch[43..51].copy_from_slice(&7i64.to_be_bytes());
        batch[51..53].copy_from_slice(&epoch.to_be_bytes());
        batch[53..57].copy_from_slice(&sequence.to_be_bytes());
        seal(&mut batch);
        batch
    }

    #[test]
    fn a_batch_is_kept_as_it_was_sent_but_for_its_offset_and_epoch() {
        let mut log = Log::default();
        let sent = batch(&[b"a", b"b"], 5);
        assert_eq!(log.produce(&sent, MAX, true), Ok(0));
        assert_eq!(log.produce(&sent, MAX, true), Ok(2));
        let read = log.read(2, MAX, true).unwrap().records;
        assert_eq!(read[..8], 2i64.to_be_bytes());
        assert_eq!(read[8..12], sent[8..12]);
        assert_eq!(read[12..16], LEADER_EPOCH.to_be_bytes());
        assert_eq!(read[16..], sent[16..]);
        assert_eq!(
            log.read(1, MAX, true).unwrap().records.len(),
            2 * sent.len(),
            "the batch that holds it"
        );
    }

    #[test]
    fn a_damaged_or_malformed_batch_is_refused() {
        let good = batch(&[b"a", b"b"], 5);
        let refused = |change: fn(&mut BytesMut), sealed: bool| {
            let mut bad = good.clone();
            change(&mut bad);
            if sealed {
                seal(&mut bad);
            }
            let mut log = Log::default();
            let result = log.produce(&bad, MAX, false);
            assert_eq!(log.end(), 0);
            result
        };
        let flip = |batch: &mut BytesMut| *batch.last_mut().unwrap() ^= 1;
        assert_eq!(refused(flip, false), Err(code::CORRUPT_MESSAGE));
        assert_eq!(refused(|batch| batch[16] = 1, false), Err(code::INVALID_RECORD));
        assert_eq!(refused(|batch| batch[60] = 9, true), Err(code::INVALID_RECORD));
        assert_eq!(refused(|batch| batch[22] = 0x20, true), Err(code::INVALID_RECORD));
        assert_eq!(
            refused(|batch| batch.truncate(70), false),
            Err(code::INVALID_RECORD)
        );
        assert_eq!(refused(BytesMut::clear, false), Err(code::INVALID_RECORD));
        let zstd: fn(&mut BytesMut) = |batch| batch[22] = 4;
        assert_eq!(refused(zstd, true), Err(code::UNSUPPORTED_COMPRESSION_TYPE));
        let mut log = Log::default();
        assert_eq!(
            log.produce(&good, good.len() - 1, true),
            Err(code::MESSAGE_TOO_LARGE)
        );
        let two = [&good[..], &good[..]].concat();
        assert_eq!(log.produce(&two, MAX, true), Err(code::INVALID_RECORD));
    }

    #[test]
    fn a_batch_sent_twice_is_stored_once() {
        let mut log = Log::default();
        assert_eq!(log.produce(&sequenced(0, 0), MAX, true), Ok(0));
        assert_eq!(log.produce(&sequenced(0, 2), MAX, true), Ok(2));
        assert_eq!(log.produce(&sequenced(0, 0), MAX, true), Ok(0));
        assert_eq!(log.end(), 4);
        let gap = log.produce(&sequenced(0, 9), MAX, true);
        assert_eq!(gap, Err(code::OUT_OF_ORDER_SEQUENCE_NUMBER));
        let overlap = log.produce(&sequenced(0, 1), MAX, true);
        assert_eq!(overlap, Err(code::DUPLICATE_SEQUENCE_NUMBER));
        let restart = log.produce(&sequenced(1, 3), MAX, true);
        assert_eq!(restart, Err(code::OUT_OF_ORDER_SEQUENCE_NUMBER));
        assert_eq!(log.produce(&sequenced(1, 0), MAX, true), Ok(4));
        let fenced = log.produce(&sequenced(0, 4), MAX, true);
        assert_eq!(fenced, Err(code::INVALID_PRODUCER_EPOCH));
    }

    #[test]
    fn sequences_go_on_at_zero() {
        assert_eq!(sequence_after(i32::MAX, 1), 0);
        assert_eq!(sequence_after(i32::MAX - 1, 3), 1);
    }

    #[test]
    fn what_is_deleted_or_not_there_is_out_of_range() {
        let mut log = Log::default();
        let sent = batch(&[b"a", b"b"], 5);
        for _ in 0..3 {
            log.append(&sent);
        }
        assert_eq!(log.read(6, MAX, true).unwrap().records.len(), 0);
        assert_eq!(log.read(7, MAX, true), Err(code::OFFSET_OUT_OF_RANGE));
        assert_eq!(log.read(-1, MAX, true), Err(code::OFFSET_OUT_OF_RANGE));
        assert_eq!(log.delete_before(3), Ok(3));
        assert_eq!(log.read(2, MAX, true), Err(code::OFFSET_OUT_OF_RANGE));
        assert_eq!(log.read(3, MAX, true).unwrap().records.len(), 2 * sent.len());
        assert_eq!(log.delete_before(1), Ok(3));
        assert_eq!(log.delete_before(7), Err(code::OFFSET_OUT_OF_RANGE));
        assert_eq!(log.delete_before(-1), Ok(6));
        assert_eq!(log.bytes, 0);
    }

    #[test]
    fn the_oldest_batches_make_room() {
        let mut log = Log::default();
        let sent = batch(&[b"a", b"b"], 5);
        for _ in 0..3 {
            log.append(&sent);
        }
        log.retain(2 * sent.len());
        assert_eq!((log.start(), log.end()), (2, 6));
        log.retain(0);
        assert_eq!((log.start(), log.end()), (4, 6), "the last one stays");
    }
}
