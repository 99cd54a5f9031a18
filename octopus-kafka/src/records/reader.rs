//! The records of one partition, read out of what a fetch brought.

use std::{fmt, ops::Range};

use bytes::Bytes;
use octopus_core::{Fault, Offset, Position, Record, Records, varint};

use super::{
    Batch, Batches, Next, TimestampType,
    inflate::{Context, Inflate},
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
    batch: Option<Open>,
    window: Window,
    context: Option<Context>,
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
    source: Source,
}

/// Where a batch's records lie.
enum Source {
    /// In the fetched bytes.
    Plain(Range<usize>),
    /// In the window, as they are unpacked.
    Packed(Inflate),
}

/// A record that was found: where it lies behind its head.
struct Found {
    offset: i64,
    timestamp: i64,
    leader_epoch: Option<i32>,
    packed: bool,
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
            batch: None,
            window: Window::default(),
            context: None,
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
    fn find(&mut self) -> Result<Option<Found>, Stop> {
        loop {
            let Some(batch) = &mut self.batch else {
                if self.open()? {
                    continue;
                }
                return Ok(None);
            };
            if batch.left == 0 {
                self.close();
                continue;
            }
            batch.left -= 1;
            let (record, bytes) = match &mut batch.source {
                Source::Plain(rest) => {
                    let record = plain(&self.records, rest).ok_or(Stop::Fault(Fault::Corrupt))?;
                    (record, &*self.records)
                }
                Source::Packed(stream) => {
                    let record = self.window.record(stream)?;
                    (record, self.window.bytes())
                }
            };
            let head = Head::parse(&bytes[record.clone()]).ok_or(Stop::Fault(Fault::Corrupt))?;
            let offset = batch.base_offset + i64::from(head.offset_delta);
            if offset < batch.next_offset || offset > batch.last_offset {
                return Err(Stop::Fault(Fault::Corrupt));
            }
            batch.next_offset = offset + 1;
            if offset < self.position.offset {
                continue;
            }
            if batch.left == 0 && !batch.is_at_end(&self.window)? {
                return Err(Stop::Fault(Fault::Corrupt));
            }
            return Ok(Some(Found {
                offset,
                // A producer takes the difference modulo 2^64, too.
                timestamp: batch
                    .append_time
                    .unwrap_or_else(|| batch.base_timestamp.wrapping_add(head.timestamp_delta)),
                leader_epoch: batch.leader_epoch,
                packed: matches!(batch.source, Source::Packed(_)),
                body: record.start + head.length..record.end,
            }));
        }
    }

    /// Opens the next batch; `false` behind the last one.
    fn open(&mut self) -> Result<bool, Stop> {
        let mut batches = Batches::from(&self.records, self.at);
        let batch = match batches.next() {
            Next::Batch(batch) => batch,
            // No whole batch comes of this fetch, and none would of the next.
            Next::Partial if self.at == 0 => return Err(Stop::Fault(Fault::TooLarge)),
            Next::Partial | Next::End => return Ok(false),
            Next::Fault(fault) => return Err(Stop::Fault(fault)),
        };
        self.at = batches.at();
        let open = if batch.control || batch.record_count == 0 || batch.last_offset < self.position.offset {
            Open::new(&batch, 0, Source::Plain(0..0))
        } else {
            let packed = || self.records.slice_ref(batch.records);
            let source = match Inflate::open(batch.compression, packed, &mut self.context) {
                Ok(Some(stream)) => Source::Packed(stream),
                Ok(None) => Source::Plain(self.at - batch.records.len()..self.at),
                Err(fault) => return Err(Stop::Fault(fault)),
            };
            Open::new(&batch, batch.record_count, source)
        };
        self.batch = Some(open);
        Ok(true)
    }

    /// Leaves the batch that is being read: what is behind it comes next.
    fn close(&mut self) {
        let Some(batch) = self.batch.take() else { return };
        if let Source::Packed(stream) = batch.source {
            self.context = stream.into_context();
            self.window.clear();
        }
        if batch.last_offset >= self.position.offset {
            self.position = Position {
                offset: batch.last_offset + 1,
                leader_epoch: batch.leader_epoch,
            };
        }
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
            Err(Stop::Spent) if self.position.offset > self.start => {
                self.end(State::Ended);
                return None;
            }
            Err(stop) => {
                let fault = stop.fault();
                self.end(State::Failed(fault));
                return Some(Err(fault));
            }
        };
        let (bytes, buffer) = if found.packed {
            (self.window.bytes(), self.window.shared())
        } else {
            (&*self.records, Some(&self.records))
        };
        let Some(body) = Body::parse(&bytes[found.body]) else {
            self.state = State::Failed(Fault::Corrupt);
            return Some(Err(Fault::Corrupt));
        };
        self.position = Position {
            offset: found.offset + 1,
            leader_epoch: found.leader_epoch,
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

impl Reader {
    /// Stops for good and gives the memory of unpacking back.
    fn end(&mut self, state: State) {
        self.state = state;
        self.batch = None;
        self.context = None;
        self.window = Window::default();
    }
}

impl Open {
    fn new(batch: &Batch<'_>, left: u32, source: Source) -> Self {
        Self {
            base_offset: batch.base_offset,
            last_offset: batch.last_offset,
            leader_epoch: (batch.leader_epoch >= 0).then_some(batch.leader_epoch),
            base_timestamp: batch.base_timestamp,
            append_time: match batch.timestamp_type {
                TimestampType::Create => None,
                TimestampType::LogAppend => Some(batch.max_timestamp),
            },
            left,
            next_offset: batch.base_offset,
            source,
        }
    }

    /// Whether nothing follows the last record.
    fn is_at_end(&mut self, window: &Window) -> Result<bool, Stop> {
        match &mut self.source {
            Source::Plain(rest) => Ok(rest.start == rest.end),
            Source::Packed(stream) => window.is_at_end(stream),
        }
    }
}

/// Takes a record off the front of `rest`, which lies in `bytes`: where it is, without its length.
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
