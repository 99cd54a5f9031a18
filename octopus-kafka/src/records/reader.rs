//! The records of one partition, read out of what a fetch brought.

use std::{fmt, ops::Range};

use bytes::Bytes;
use octopus_core::{Fault, Offset, Position, Record, Records, varint};

use super::{
    Batch, Batches, Compression, Next, TimestampType,
    record::{Body, Head},
    window::{Stop, Window},
};

/// The records of one partition from a position on, in the order of their offsets [FE-11].
///
/// Left out are records below the position (a compressed batch starts before it) and transaction markers;
/// records of open and aborted transactions are given [D-21]. Records of uncompressed batches are borrowed
/// from the fetched bytes, those of compressed ones from a window of [`WINDOW_BYTES`](super::WINDOW_BYTES), or where one
/// is of a megabyte and more from a buffer of its own, which may be shared as the fetched bytes may.
///
/// A batch that the broker cut off at the end is left for the next fetch. A batch of which bytes are left
/// over behind its last record is [`Fault::Corrupt`], as for Kafka's own consumer.
pub struct Reader {
    records: Bytes,
    /// Where the next batch starts.
    at: usize,
    position: Position,
    /// The offset that reading started from.
    start: i64,
    batch: Open,
    /// What unpacks, once a batch was compressed.
    window: Option<Window>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Reading,
    Ended,
    Failed(Fault),
}

/// The batch that is being read.
struct Open {
    base_offset: i64,
    last_offset: i64,
    leader_epoch: Option<i32>,
    base_timestamp: i64,
    /// The one timestamp of all records, where the broker set it.
    append_time: Option<i64>,
    /// The records not read yet.
    left: u32,
    /// The least offset that the next record may have.
    next_offset: i64,
    /// Whether its records come unpacked from the window.
    packed: bool,
    /// Where the records not read yet lie in the fetched bytes, if not in the window.
    plain: Range<usize>,
}

/// A record that was found: where it lies behind its head.
struct Found {
    offset: i64,
    timestamp: i64,
    body: Range<usize>,
}

impl Reader {
    /// Reads `records`, the bytes of one partition in a fetch's answer, from `position` on.
    #[must_use]
    pub fn new(records: Bytes, position: Position) -> Self {
        Self {
            records,
            at: 0,
            position,
            start: position.offset,
            batch: Open::NONE,
            window: None,
            state: State::Reading,
        }
    }

    /// The bytes that were fetched, as they are stored.
    #[must_use]
    pub const fn stored_bytes(&self) -> usize {
        self.records.len()
    }

    /// Whether a batch among them is compressed: a few bytes of it may be many records, or large ones.
    #[must_use]
    pub fn unpacks(&self) -> bool {
        Batches::from(&self.records, self.at).any_is_packed()
    }

    /// Finds the next record at or behind the position; `None` at the end.
    #[inline]
    fn find(&mut self) -> Result<Option<Found>, Stop> {
        loop {
            if self.batch.left == 0 {
                if self.turn()? {
                    continue;
                }
                return Ok(None);
            }
            let batch = &mut self.batch;
            let (record, bytes) = match &mut self.window {
                Some(window) if batch.packed => (window.record()?, window.bytes()),
                Some(_) | None => {
                    let record = plain(&self.records, &mut batch.plain).ok_or(Stop::CORRUPT)?;
                    (record, &*self.records)
                }
            };
            let head = Head::parse(&bytes[record.clone()]).ok_or(Stop::CORRUPT)?;
            let offset = batch.base_offset + i64::from(head.offset_delta);
            if offset < batch.next_offset || offset > batch.last_offset {
                return Err(Stop::CORRUPT);
            }
            batch.left -= 1;
            batch.next_offset = offset + 1;
            if offset < self.position.offset {
                continue;
            }
            if batch.left == 0 && !self.is_at_end()? {
                return Err(Stop::CORRUPT);
            }
            let batch = &self.batch;
            return Ok(Some(Found {
                offset,
                // A producer takes the difference modulo 2^64, too.
                timestamp: batch
                    .append_time
                    .unwrap_or_else(|| batch.base_timestamp.wrapping_add(head.timestamp_delta)),
                body: record.start + head.length..record.end,
            }));
        }
    }

    /// Whether nothing follows the batch's last record.
    #[inline(never)]
    fn is_at_end(&mut self) -> Result<bool, Stop> {
        match &mut self.window {
            Some(window) if self.batch.packed => window.is_at_end(),
            Some(_) | None => Ok(self.batch.plain.is_empty()),
        }
    }

    /// Turns from a batch of which all was read to the next one; `false` behind the last one.
    #[inline(never)]
    fn turn(&mut self) -> Result<bool, Stop> {
        if self.batch.last_offset >= self.position.offset {
            self.position = Position {
                offset: self.batch.last_offset + 1,
                leader_epoch: self.batch.leader_epoch,
            };
        }
        self.batch = Open::NONE;
        let mut batches = Batches::from(&self.records, self.at);
        let batch = match batches.next() {
            Next::Batch(batch) => batch,
            // No whole batch comes of this fetch, and none would of the next.
            Next::Partial if self.at == 0 => return Err(Stop::Fault(Fault::TooLarge)),
            Next::Partial | Next::End => return Ok(false),
            Next::Fault(fault) => return Err(Stop::Fault(fault)),
        };
        self.at = batches.at();
        self.batch = Open::new(&batch);
        if batch.control || batch.record_count == 0 || batch.last_offset < self.position.offset {
            return Ok(true);
        }
        if batch.compression == Compression::None {
            self.batch.plain = self.at - batch.records.len()..self.at;
        } else {
            let window = self.window.get_or_insert_with(Window::new);
            window.open(&batch, &self.records).map_err(Stop::Fault)?;
            self.batch.packed = true;
        }
        self.batch.left = batch.record_count;
        Ok(true)
    }

    /// Stops for good and gives the memory of unpacking back.
    #[inline(never)]
    fn end(&mut self, state: State) {
        self.state = state;
        self.batch = Open::NONE;
        self.window = None;
    }

    /// Stops where a record can't be read, unless reading can go on from here.
    #[inline(never)]
    fn stop(&mut self, stop: Stop) -> Option<Fault> {
        if stop == Stop::Spent && self.position.offset > self.start {
            self.end(State::Ended);
            return None;
        }
        let fault = stop.fault();
        self.end(State::Failed(fault));
        Some(fault)
    }
}

impl Records for Reader {
    fn next(&mut self) -> Option<Result<Record<'_>, Fault>> {
        match self.state {
            State::Reading => {}
            State::Ended => return None,
            State::Failed(fault) => return Some(Err(fault)),
        }
        let found = match self.find() {
            Ok(Some(found)) => found,
            Ok(None) => {
                self.end(State::Ended);
                return None;
            }
            Err(stop) => return self.stop(stop).map(Err),
        };
        let (bytes, buffer) = match &self.window {
            Some(window) if self.batch.packed => (window.bytes(), window.shared()),
            Some(_) | None => (&*self.records, Some(&self.records)),
        };
        let Some(body) = Body::parse(&bytes[found.body]) else {
            self.state = State::Failed(Fault::Corrupt);
            return Some(Err(Fault::Corrupt));
        };
        self.position = Position {
            offset: found.offset + 1,
            leader_epoch: self.batch.leader_epoch,
        };
        Some(Ok(Record {
            offset: Offset(found.offset),
            timestamp: found.timestamp,
            key: body.key,
            value: body.value,
            headers: body.headers,
            buffer,
        }))
    }

    fn position(&self) -> Position {
        self.position
    }
}

impl Open {
    /// No batch.
    const NONE: Self = Self {
        base_offset: 0,
        last_offset: -1,
        leader_epoch: None,
        base_timestamp: 0,
        append_time: None,
        left: 0,
        next_offset: 0,
        packed: false,
        plain: 0..0,
    };

    /// A batch of which no record is to be read.
    fn new(batch: &Batch<'_>) -> Self {
        Self {
            base_offset: batch.base_offset,
            last_offset: batch.last_offset,
            leader_epoch: (batch.leader_epoch >= 0).then_some(batch.leader_epoch),
            base_timestamp: batch.base_timestamp,
            append_time: match batch.timestamp_type {
                TimestampType::Create => None,
                TimestampType::LogAppend => Some(batch.max_timestamp),
            },
            next_offset: batch.base_offset,
            ..Self::NONE
        }
    }
}

/// Takes a record off the front of `rest`, which lies in `bytes`: where it is, without its length.
#[inline]
fn plain(bytes: &[u8], rest: &mut Range<usize>) -> Option<Range<usize>> {
    let held = &bytes[rest.clone()];
    let (length, behind) = varint(held)?;
    let start = rest.start + held.len() - behind.len();
    let length = usize::try_from(length)
        .ok()
        .filter(|length| *length <= behind.len())?;
    rest.start = start + length;
    Some(start..rest.start)
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("bytes", &self.records.len())
            .field("at", &self.at)
            .field("position", &self.position)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
