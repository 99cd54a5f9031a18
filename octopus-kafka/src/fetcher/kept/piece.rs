//! What is kept of one answer.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use tokio::sync::Semaphore;

use crate::fetcher::{budget::Room, turn::Fetched};

/// Whole batches that one answer brought.
#[derive(Debug)]
pub(super) struct Piece {
    /// The position behind them.
    end: i64,
    records: Bytes,
    _room: Room,
}

impl Piece {
    /// The whole batches of an answer, if one of them has what comes at this position and there is room for them.
    /// Where they are a small part of their answer they are copied, so that what is kept is what there is room for.
    pub(super) fn new(fetched: &Fetched, from: i64, budget: &Arc<Semaphore>) -> Option<Self> {
        let Fetched {
            records,
            is_small_part,
            ..
        } = fetched;
        let last = batches(records).last().filter(|last| last.end > from)?;
        let room = Room::of(records.len(), budget)?;
        let whole = ..last.bytes.end;
        Some(Self {
            _room: room,
            end: last.end,
            records: if *is_small_part {
                Bytes::copy_from_slice(&records[whole])
            } else {
                records.slice(whole)
            },
        })
    }

    /// The position behind it.
    pub(super) const fn end(&self) -> i64 {
        self.end
    }

    /// All of it.
    pub(super) fn records(&self) -> Bytes {
        self.records.clone()
    }

    /// What there is from the batch on that holds this position, or comes behind it.
    pub(super) fn from(&self, position: i64) -> Option<Bytes> {
        let batch = batches(&self.records).find(|batch| position < batch.end)?;
        Some(self.records.slice(batch.bytes.start..))
    }
}

/// A whole batch.
struct Whole {
    /// Where it lies.
    bytes: Range<usize>,
    /// The position behind it.
    end: i64,
}

/// Each whole batch of magic 2 in these bytes, up to the first other one.
fn batches(bytes: &[u8]) -> impl Iterator<Item = Whole> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let head = bytes.get(start..)?.first_chunk::<27>()?;
        let base = i64::from_be_bytes(*head.first_chunk()?);
        let length = i32::from_be_bytes(head[8..12].try_into().ok()?);
        let last_delta = i32::from_be_bytes(head[23..27].try_into().ok()?);
        let next = start
            .checked_add(12)?
            .checked_add(usize::try_from(length).ok()?)?;
        if head[16] != 2 || last_delta < 0 || next > bytes.len() {
            return None;
        }
        let end = base.checked_add(i64::from(last_delta))?.checked_add(1)?;
        let bytes = std::mem::replace(&mut start, next)..next;
        Some(Whole { bytes, end })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for batch in batches(&bytes) {
                prop_assert!(batch.bytes.start < batch.bytes.end && batch.bytes.end <= bytes.len());
            }
        }
    }
}
