//! The records of one partition, read out of what a fetch brought.

use std::{collections::VecDeque, fmt, ops::Range};

use bytes::Bytes;
use octopus_core::{Fault, Offset, Position, Record, Records};

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
/// A batch that the broker cut off at the end is left for the next fetch, and so is what comes behind it. A batch of which bytes are left
/// over behind its last record is [`Fault::Corrupt`], as for Kafka's own consumer.
pub struct Reader {
    records: Bytes,
    /// What comes behind these.
    more: VecDeque<Bytes>,
    /// Others came before these.
    is_behind: bool,
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
    /// The bytes of the record given last, which is still at the front of the window.
    given: usize,
}

impl Reader {
    /// Reads `records`, the bytes of one partition in a fetch's answer, from `position` on.
    #[must_use]
    pub fn new(records: Bytes, position: Position) -> Self {
        Self {
            records,
            more: VecDeque::new(),
            is_behind: false,
            at: 0,
            position,
            start: position.offset,
            batch: Open::NONE,
            window: None,
            state: State::Reading,
        }
    }

    /// Goes on in `records`, which another fetch brought from behind the last batch of what it reads so far, all of which
    /// are whole.
    #[must_use]
    pub fn then(mut self, records: Bytes) -> Self {
        self.more.push_back(records);
        self
    }

    /// The bytes that were fetched, as they are stored.
    #[must_use]
    pub fn stored_bytes(&self) -> usize {
        self.records.len() + self.more.iter().map(Bytes::len).sum::<usize>()
    }

    /// Whether a batch among them is compressed: a few bytes of it may be many records, or large ones.
    #[must_use]
    pub fn unpacks(&self) -> bool {
        Batches::from(&self.records, self.at).any_is_packed()
            || self
                .more
                .iter()
                .any(|more| Batches::from(more, 0).any_is_packed())
    }

    /// Comes to the next batch with a record at or behind the position. Where there is none: why, if it is a fault.
    #[cold]
    fn turn(&mut self) -> Option<Option<Fault>> {
        match self.state {
            State::Reading => {}
            State::Ended => return Some(None),
            State::Failed(fault) => return Some(Some(fault)),
        }
        loop {
            match self.open().and_then(|opened| Ok((opened, self.skip()?))) {
                Ok((_, true)) => return None,
                Ok((true, false)) => {}
                Ok((false, false)) => {
                    self.end(State::Ended);
                    return Some(None);
                }
                Err(stop) => return Some(self.stop(stop)),
            }
        }
    }

    /// Leaves the batch that is open, and opens the one behind it; `false` behind the last one.
    fn open(&mut self) -> Result<bool, Stop> {
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
            Next::Partial if self.at == 0 && !self.is_behind => return Err(Stop::Fault(Fault::TooLarge)),
            Next::Partial => return Ok(false),
            Next::End => return Ok(self.go_on()),
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

    /// Comes to what another fetch brought, if there is more.
    fn go_on(&mut self) -> bool {
        let Some(records) = self.more.pop_front() else {
            return false;
        };
        (self.records, self.at, self.is_behind) = (records, 0, true);
        true
    }

    /// Passes the records of the open batch below the position; `false` where there is none behind them.
    fn skip(&mut self) -> Result<bool, Stop> {
        while self.batch.left > 0 && self.batch.next_offset < self.position.offset {
            self.unpack()?;
            let head = Head::parse(self.front()).ok_or(Stop::CORRUPT)?;
            let (offset, length) = (self.batch.offset(&head).ok_or(Stop::CORRUPT)?, head.length);
            if offset >= self.position.offset {
                return Ok(true);
            }
            self.batch.pass(offset, length);
        }
        Ok(self.batch.left > 0)
    }

    /// Has the next record of a packed batch at the window's front, whole.
    #[inline]
    fn unpack(&mut self) -> Result<(), Stop> {
        let Some(window) = self.window.as_mut().filter(|_| self.batch.packed) else {
            return Ok(());
        };
        if self.batch.given > 0 {
            window.pass(std::mem::take(&mut self.batch.given));
        }
        window.ensure()
    }

    /// The records not read yet, as far as they are unpacked. They begin with the next record.
    #[inline]
    fn front(&self) -> &[u8] {
        match &self.window {
            Some(window) if self.batch.packed => window.front(),
            Some(_) | None => &self.records[self.batch.plain.clone()],
        }
    }

    /// Whether nothing follows the record at the front, which is the batch's last one.
    #[cold]
    fn is_last(&mut self) -> Result<(), Stop> {
        let length = Head::parse(self.front()).ok_or(Stop::CORRUPT)?.length;
        let is_last = match &mut self.window {
            Some(window) if self.batch.packed => window.is_last(length)?,
            Some(_) | None => self.batch.plain.len() == length,
        };
        if is_last { Ok(()) } else { Err(Stop::CORRUPT) }
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
    #[inline]
    fn next(&mut self) -> Option<Result<Record<'_>, Fault>> {
        if self.batch.left == 0
            && let Some(end) = self.turn()
        {
            return end.map(Err);
        }
        if self.batch.packed
            && let Err(stop) = self.unpack()
        {
            return self.stop(stop).map(Err);
        }
        if self.batch.left == 1
            && let Err(stop) = self.is_last()
        {
            return self.stop(stop).map(Err);
        }
        let (front, buffer) = match &self.window {
            Some(window) if self.batch.packed => (window.front(), window.shared()),
            Some(_) | None => (&self.records[self.batch.plain.clone()], Some(&self.records)),
        };
        let record = Head::parse(front).and_then(|head| {
            let offset = self.batch.offset(&head)?;
            Some((offset, head, Body::parse(head.body)?))
        });
        let Some((offset, head, body)) = record else {
            self.batch.left = 0;
            self.state = State::Failed(Fault::Corrupt);
            return Some(Err(Fault::Corrupt));
        };
        self.batch.pass(offset, head.length);
        self.position = Position {
            offset: offset + 1,
            leader_epoch: self.batch.leader_epoch,
        };
        Some(Ok(Record {
            offset: Offset(offset),
            timestamp: self.batch.timestamp(&head),
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
        given: 0,
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

    /// The offset of its next record, which begins so.
    #[inline]
    fn offset(&self, head: &Head<'_>) -> Option<i64> {
        let offset = self.base_offset + i64::from(head.offset_delta);
        (offset >= self.next_offset && offset <= self.last_offset).then_some(offset)
    }

    /// The timestamp of a record that begins so.
    #[inline]
    fn timestamp(&self, head: &Head<'_>) -> i64 {
        // A producer takes the difference modulo 2^64, too.
        self.append_time
            .unwrap_or_else(|| self.base_timestamp.wrapping_add(head.timestamp_delta))
    }

    /// Passes a record of this offset and so many bytes.
    #[inline]
    const fn pass(&mut self, offset: i64, bytes: usize) {
        self.left -= 1;
        self.next_offset = offset + 1;
        if self.packed {
            self.given = bytes;
        } else {
            self.plain.start += bytes;
        }
    }
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
