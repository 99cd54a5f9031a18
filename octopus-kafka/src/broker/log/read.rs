//! Reading a partition's log.

use std::ops::Range;

use bytes::Bytes;
use octopus_core::{Position, Records as _};

use super::{Log, Place, segments::Spot};
use crate::{
    broker::code::{self, Code},
    records::Reader,
};

/// What a read finds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Which batches, by their places in the log.
    whole: Range<usize>,
    /// How much of the batch behind them.
    part: usize,
    /// How many bytes these are.
    pub(crate) bytes: usize,
    /// Bytes that wait from the offset on, at most the limit: what `min_bytes` is held against.
    pub(crate) ready: usize,
}

impl Log {
    /// Looks up what a read from `offset` on returns, as Kafka does: whole batches and at most one cut short at
    /// the limit behind them; the first batch whole when `first_whole` though it is over the limit.
    ///
    /// # Errors
    ///
    /// `OFFSET_OUT_OF_RANGE` before the start and behind the end.
    pub(crate) fn find(&self, offset: i64, max_bytes: usize, first_whole: bool) -> Result<Found, Code> {
        if offset < self.start || offset > self.end {
            return Err(code::OFFSET_OUT_OF_RANGE);
        }
        let from = self.batches.partition_point(|batch| batch.last < offset);
        let mut found = Found {
            whole: from..from,
            ..Found::default()
        };
        for batch in self.batches.range(from..) {
            let left = max_bytes.saturating_sub(found.ready);
            if batch.size <= left || (found.whole.is_empty() && first_whole) {
                found.whole.end += 1;
                found.bytes += batch.size;
                found.ready += batch.size;
                continue;
            }
            if !found.whole.is_empty() {
                found.part = left;
                found.bytes += left;
            }
            found.ready += left;
            break;
        }
        Ok(found)
    }

    /// The bytes that [`find`](Self::find) has found.
    ///
    /// # Errors
    ///
    /// `KAFKA_STORAGE_ERROR`.
    pub(crate) fn load(&self, found: &Found) -> Result<Bytes, Code> {
        let parts = self
            .batches
            .range(found.whole.clone())
            .map(|batch| (batch, batch.size));
        let last = self.batches.get(found.whole.end).filter(|_| found.part > 0);
        let mut parts = parts.chain(last.map(|batch| (batch, found.part))).peekable();
        let mut loaded: Vec<Bytes> = Vec::new();
        while let Some((batch, mut size)) = parts.next() {
            loaded.push(match &batch.place {
                Place::Memory(bytes) => bytes.slice(..size),
                Place::Disk(spot) => {
                    // Those that lie behind one another in a file are read at once.
                    while let Some((_, more)) = parts.next_if(
                        |(next, _)| matches!(&next.place, Place::Disk(at) if at.segment == spot.segment),
                    ) {
                        size += more;
                    }
                    self.read_disk(*spot, size)?
                }
            });
        }
        Ok(match loaded.as_slice() {
            [] => Bytes::new(),
            [one] => one.clone(),
            several => several.concat().into(),
        })
    }

    /// The first offset whose record is not older than `timestamp`, with its time.
    ///
    /// # Errors
    ///
    /// `KAFKA_STORAGE_ERROR`.
    pub(crate) fn at_time(&self, timestamp: i64) -> Result<Option<(i64, i64)>, Code> {
        for batch in self
            .batches
            .iter()
            .filter(|batch| batch.max_timestamp >= timestamp)
        {
            let bytes = match &batch.place {
                Place::Memory(bytes) => bytes.clone(),
                Place::Disk(spot) => self.read_disk(*spot, batch.size)?,
            };
            let mut reader = Reader::new(bytes, Position::at(self.start.max(batch.base)));
            while let Some(Ok(record)) = reader.next() {
                if record.timestamp >= timestamp {
                    return Ok(Some((record.offset.0, record.timestamp)));
                }
            }
        }
        Ok(None)
    }

    /// The first record of the latest time: its offset and time.
    ///
    /// # Errors
    ///
    /// `KAFKA_STORAGE_ERROR`.
    pub(crate) fn latest(&self) -> Result<Option<(i64, i64)>, Code> {
        let newest = self.batches.iter().map(|batch| batch.max_timestamp).max();
        newest.map_or(Ok(None), |newest| self.at_time(newest))
    }

    fn read_disk(&self, spot: Spot, size: usize) -> Result<Bytes, Code> {
        let segments = self.segments.as_ref().ok_or(code::KAFKA_STORAGE_ERROR)?;
        segments.read(spot, size).map_err(|error| {
            tracing::error!(%error, "records could not be read");
            code::KAFKA_STORAGE_ERROR
        })
    }
}
