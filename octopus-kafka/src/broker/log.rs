//! One partition's log: the producers' batches as they sent them, in memory or on disk.

use std::{cmp::Ordering, collections::VecDeque, io};

use bytes::{Bytes, BytesMut};

use super::code::{self, Code};

mod header;
mod producers;
mod read;
mod segments;
#[cfg(test)]
mod tests;

pub(crate) use read::Found;
pub(crate) use segments::Segments;

use header::{Header, counts, is_whole};
use producers::{Producers, Sent};
use segments::Spot;

/// The length of a record batch up to its records.
const HEADER: usize = 61;
const CRC_FROM: usize = 21;

/// A partition's records.
#[derive(Debug)]
pub(crate) struct Log {
    batches: VecDeque<Batch>,
    /// Each leader epoch with the offset that it began at; there is always one.
    epochs: Vec<(i32, i64)>,
    start: i64,
    end: i64,
    bytes: usize,
    producers: Producers,
    /// The files of a log on disk.
    segments: Option<Segments>,
}

#[derive(Debug)]
struct Batch {
    base: i64,
    last: i64,
    max_timestamp: i64,
    size: usize,
    place: Place,
    sent: Option<Sent>,
}

/// Where a batch's bytes are.
#[derive(Debug)]
enum Place {
    Memory(Bytes),
    Disk(Spot),
}

/// What a log has beside its batches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The first offset that can be read.
    pub(crate) start: i64,
    /// Each leader epoch with the offset that it began at; there is always one.
    pub(crate) epochs: Vec<(i32, i64)>,
}

impl Default for Mark {
    fn default() -> Self {
        Self {
            start: 0,
            epochs: vec![(0, 0)],
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        let Mark { start, epochs } = Mark::default();
        Self {
            batches: VecDeque::new(),
            epochs,
            start,
            end: start,
            bytes: 0,
            producers: Producers::default(),
            segments: None,
        }
    }
}

impl Log {
    /// A log on disk with what its files hold.
    ///
    /// # Errors
    ///
    /// Those of the disk, and of files that are damaged elsewhere than at their end.
    pub(crate) fn open(mut segments: Segments, mark: Mark) -> io::Result<Self> {
        let mut log = Self::default();
        segments.scan(|header, spot| {
            log.push(header, header.base_offset, header.length, Place::Disk(spot));
            if let Some(sent) = Sent::of(header) {
                log.producers.remember(sent, header.base_offset);
            }
        })?;
        log.segments = Some(segments);
        let first = log.batches.front().map_or(mark.start, |first| first.base);
        log.start = first.max(mark.start);
        log.end = log.end.max(log.start);
        log.drop_before_start();
        log.epochs = mark.epochs;
        for (_, first) in &mut log.epochs {
            // An epoch can't begin behind what was lost with the device's power.
            *first = (*first).min(log.end);
        }
        Ok(log)
    }

    /// What it has beside its batches.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            start: self.start,
            epochs: self.epochs.clone(),
        }
    }

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
    ///
    /// # Errors
    ///
    /// `KAFKA_STORAGE_ERROR`; the old leader stays then.
    pub(crate) fn elect(&mut self, truncate_to: Option<i64>) -> Result<i32, Code> {
        if let Some(offset) = truncate_to {
            let kept = self.batches.partition_point(|batch| batch.last < offset);
            if let (
                Some(segments),
                Some(Batch {
                    place: Place::Disk(spot),
                    ..
                }),
            ) = (&mut self.segments, self.batches.get(kept))
            {
                segments.truncate(*spot).map_err(|_| code::KAFKA_STORAGE_ERROR)?;
            }
            for lost in self.batches.drain(kept..).rev() {
                self.end = lost.base;
                self.bytes -= lost.size;
            }
            self.start = self.start.min(self.end);
            self.recall_producers();
        }
        let epoch = self.leader_epoch() + 1;
        let end = self.end;
        self.epochs.retain(|(_, first)| *first < end);
        self.epochs.push((epoch, end));
        Ok(epoch)
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
            && let Some(base) = self.producers.check(&header)?
        {
            return Ok(base);
        }
        let base = self.append(batch)?;
        if let Some(sent) = Sent::of(&header) {
            self.producers.remember(sent, base);
        }
        Ok(base)
    }

    /// Appends a batch unchecked, only its base offset and leader epoch set, and returns the base offset.
    ///
    /// # Errors
    ///
    /// `KAFKA_STORAGE_ERROR`, and `INVALID_RECORD` where a log on disk could not be read again with it.
    pub(crate) fn append(&mut self, records: &[u8]) -> Result<i64, Code> {
        let header = Header::read(records).unwrap_or_default();
        let base = self.end;
        let mut bytes = BytesMut::from(records);
        if bytes.len() >= 16 {
            bytes[..8].copy_from_slice(&base.to_be_bytes());
            bytes[12..16].copy_from_slice(&self.leader_epoch().to_be_bytes());
        }
        let size = bytes.len();
        let place = match &mut self.segments {
            None => Place::Memory(bytes.freeze()),
            Some(_) if is_whole(&bytes).is_none_or(|header| header.length != size) => {
                return Err(code::INVALID_RECORD);
            }
            Some(segments) => {
                let spot = segments.append(base, &bytes);
                Place::Disk(spot.map_err(|_| code::KAFKA_STORAGE_ERROR)?)
            }
        };
        self.push(&header, base, size, place);
        Ok(base)
    }

    /// Drops the oldest batches until at most this many bytes are left, or one batch.
    pub(crate) fn retain(&mut self, max_bytes: usize) {
        let mut left = self.bytes;
        let many = self.batches.len().saturating_sub(1);
        for batch in self.batches.iter().take(many) {
            if left <= max_bytes {
                break;
            }
            left -= batch.size;
            self.start = self.start.max(batch.last + 1);
        }
        self.drop_before_start();
    }

    /// Where the log would start without the records before `offset` (-1: without any).
    ///
    /// # Errors
    ///
    /// `OFFSET_OUT_OF_RANGE` below -1 and behind the end.
    pub(crate) fn start_at(&self, offset: i64) -> Result<i64, Code> {
        let offset = if offset == -1 { self.end } else { offset };
        if offset < 0 || offset > self.end {
            return Err(code::OFFSET_OUT_OF_RANGE);
        }
        Ok(self.start.max(offset))
    }

    /// Drops the records before `offset` (-1: all) and returns the new start.
    ///
    /// # Errors
    ///
    /// Those of [`start_at`](Self::start_at).
    pub(crate) fn delete_before(&mut self, offset: i64) -> Result<i64, Code> {
        self.start = self.start_at(offset)?;
        self.drop_before_start();
        Ok(self.start)
    }

    /// Knows of the producers what the batches tell that are left.
    fn recall_producers(&mut self) {
        self.producers = Producers::default();
        for batch in &self.batches {
            if let Some(sent) = batch.sent {
                self.producers.remember(sent, batch.base);
            }
        }
    }

    fn push(&mut self, header: &Header, base: i64, size: usize, place: Place) {
        let last = base.saturating_add(i64::from(header.last_offset_delta.max(0)));
        self.bytes += size;
        self.batches.push_back(Batch {
            base,
            last,
            max_timestamp: header.max_timestamp,
            size,
            place,
            sent: Sent::of(header),
        });
        self.end = last.saturating_add(1);
    }

    fn drop_before_start(&mut self) {
        while let Some(first) = self.batches.front()
            && first.last < self.start
        {
            self.bytes -= first.size;
            self.batches.pop_front();
        }
        if let Some(segments) = &mut self.segments {
            segments.drop_before(self.batches.front().and_then(Batch::spot));
        }
    }
}

impl Batch {
    const fn spot(&self) -> Option<Spot> {
        match &self.place {
            Place::Memory(_) => None,
            Place::Disk(spot) => Some(*spot),
        }
    }
}
