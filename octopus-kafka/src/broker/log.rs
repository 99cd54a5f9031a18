//! One partition's log: the producers' batches as they sent them, in memory.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, VecDeque},
};

use bytes::{Bytes, BytesMut};
use octopus_core::{Position, Records as _};

use super::code::{self, Code};
use crate::records::Reader;

mod header;
#[cfg(test)]
mod tests;

use header::{Header, counts, sequence_after};

/// The length of a record batch up to its records.
const HEADER: usize = 61;
const CRC_FROM: usize = 21;
/// How many of a producer's last batches are known again, as Kafka does.
const REMEMBERED: usize = 5;
/// How many producers a partition knows.
const PRODUCERS: usize = 1024;

/// A partition's records.
#[derive(Debug)]
pub(crate) struct Log {
    batches: VecDeque<Batch>,
    /// Each leader epoch with the offset that it began at; there is always one.
    epochs: Vec<(i32, i64)>,
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
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Slice {
    pub(crate) records: Bytes,
    /// Bytes that wait from the offset on, at most the limit: what `min_bytes` is held against.
    pub(crate) ready: usize,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            batches: VecDeque::new(),
            epochs: vec![(0, 0)],
            start: 0,
            end: 0,
            bytes: 0,
            producers: BTreeMap::new(),
        }
    }
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

    /// The epoch of the partition's leader.
    pub(crate) fn leader_epoch(&self) -> i32 {
        self.epochs.last().map_or(0, |(epoch, _)| *epoch)
    }

    /// The epoch of the leader that an offset was written under.
    pub(crate) fn epoch_at(&self, offset: i64) -> i32 {
        let epoch = self.epochs.iter().rfind(|(_, first)| *first <= offset);
        epoch.map_or(-1, |(epoch, _)| *epoch)
    }

    /// The last epoch that is not above `epoch`, and the offset behind its last record; -1 and -1 for an
    /// epoch that there has not been.
    pub(crate) fn end_of_epoch(&self, epoch: i32) -> (i32, i64) {
        if epoch == self.leader_epoch() {
            return (epoch, self.end);
        }
        let above = self.epochs.iter().position(|(other, _)| *other > epoch);
        match above {
            Some(above) if epoch >= 0 => {
                let floor = above.checked_sub(1).map_or(epoch, |floor| self.epochs[floor].0);
                (floor, self.epochs[above].1)
            }
            Some(_) | None => (-1, -1),
        }
    }

    /// Checks the leader epoch that a client has for the partition; -1 says nothing.
    ///
    /// # Errors
    ///
    /// `FENCED_LEADER_EPOCH` for an older one, `UNKNOWN_LEADER_EPOCH` for a newer one.
    pub(crate) fn check_epoch(&self, epoch: i32) -> Result<(), Code> {
        match epoch.cmp(&self.leader_epoch()) {
            _ if epoch < 0 => Ok(()),
            Ordering::Equal => Ok(()),
            Ordering::Less => Err(code::FENCED_LEADER_EPOCH),
            Ordering::Greater => Err(code::UNKNOWN_LEADER_EPOCH),
        }
    }

    /// Where the log of a client parts from this one: its last record is of epoch `last` (-1 says nothing) and
    /// before `offset`. Answers the end of the epoch that they have in common, `None` where they agree.
    ///
    /// # Errors
    ///
    /// `OFFSET_OUT_OF_RANGE` for an epoch that there has not been, and before the start.
    pub(crate) fn diverges(&self, last: i32, offset: i64) -> Result<Option<(i32, i64)>, Code> {
        if last < 0 {
            return Ok(None);
        }
        let (epoch, end) = self.end_of_epoch(last);
        if epoch < 0 || offset < self.start {
            return Err(code::OFFSET_OUT_OF_RANGE);
        }
        Ok((epoch < last || end < offset).then_some((epoch, end)))
    }

    /// Has a new leader take over that lacks what lies from `truncate_to` on, by whole batches.
    pub(crate) fn elect(&mut self, truncate_to: Option<i64>) -> i32 {
        if let Some(offset) = truncate_to {
            while let Some(last) = self.batches.back()
                && last.last >= offset
            {
                self.end = last.base;
                self.bytes -= last.bytes.len();
                self.batches.pop_back();
            }
            self.start = self.start.min(self.end);
        }
        let epoch = self.leader_epoch() + 1;
        let end = self.end;
        self.epochs.retain(|(_, first)| *first < end);
        self.epochs.push((epoch, end));
        epoch
    }

    /// Appends a producer's batch and returns its base offset, the old one if it was sent before. What
    /// follows the batch is ignored unless it is another one.
    ///
    /// # Errors
    ///
    /// Kafka's code where the batch is damaged, malformed, too large or out of its producer's order.
    pub(crate) fn produce(&mut self, records: &[u8], max_bytes: usize, zstd: bool) -> Result<i64, Code> {
        let header = Header::read(records).ok_or(code::INVALID_RECORD)?;
        if header.magic != 2 || header.length < HEADER {
            return Err(code::INVALID_RECORD);
        }
        let (batch, behind) = records
            .split_at_checked(header.length)
            .ok_or(code::INVALID_RECORD)?;
        if Header::read(behind).is_some_and(|next| next.length <= behind.len()) {
            return Err(code::INVALID_RECORD);
        }
        if batch.len() > max_bytes {
            return Err(code::MESSAGE_TOO_LARGE);
        }
        if crc32c::crc32c(&batch[CRC_FROM..]) != header.crc {
            return Err(code::CORRUPT_MESSAGE);
        }
        if !header.is_a_producers() || (header.codec == 0 && !counts(&batch[HEADER..], header.count)) {
            return Err(code::INVALID_RECORD);
        }
        if header.codec == 4 && !zstd {
            return Err(code::UNSUPPORTED_COMPRESSION_TYPE);
        }
        if header.transactional {
            return Err(code::TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
        }
        if header.producer_id >= 0
            && let Some(base) = self.check_sequence(&header)?
        {
            return Ok(base);
        }
        let base = self.append(batch);
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
            bytes[12..16].copy_from_slice(&self.leader_epoch().to_be_bytes());
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
        let batches = self.batches.iter();
        let mut candidates = batches.filter(|batch| batch.max_timestamp >= timestamp);
        candidates.find_map(|batch| batch.at_time(timestamp, self.start))
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
    /// Its first record from an offset on that is not older than `timestamp`: its offset and time.
    fn at_time(&self, timestamp: i64, from: i64) -> Option<(i64, i64)> {
        let mut reader = Reader::new(self.bytes.clone(), Position::at(from.max(self.base)));
        while let Some(Ok(record)) = reader.next() {
            if record.timestamp >= timestamp {
                return Some((record.offset.0, record.timestamp));
            }
        }
        None
    }
}
