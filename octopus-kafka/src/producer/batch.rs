//! Records that are sent together.

use std::sync::Arc;

use bytes::Bytes;
use tokio::{sync::OwnedSemaphorePermit, time::Instant};

use super::NewRecord;
use crate::records::{BatchWriter, Compression};

/// Who a batch is of, to Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) producer_id: i64,
    pub(super) epoch: i16,
}

/// A record that was given to the producer.
#[derive(Debug)]
pub(super) struct Queued {
    /// Later ones have larger numbers.
    pub(super) id: u64,
    pub(super) record: NewRecord,
    /// What it takes in a batch, at most, in bytes.
    pub(super) size: usize,
    pub(super) deadline: Instant,
    /// Its share of the producer's memory.
    pub(super) _hold: Option<OwnedSemaphorePermit>,
}

/// Records that go into one batch. Sent again, it has the same bytes.
#[derive(Debug)]
pub(super) struct Batch {
    /// In the order of their ids; there is one at least.
    pub(super) records: Vec<Arc<Queued>>,
    pub(super) identity: Identity,
    pub(super) base_sequence: i32,
}

impl Batch {
    /// The bytes that go over the wire.
    pub(super) fn encode(&self) -> Bytes {
        let mut batch = BatchWriter::new(Compression::Lz4);
        batch.idempotent(self.identity.producer_id, self.identity.epoch, self.base_sequence);
        for queued in &self.records {
            let record = &queued.record;
            let headers: Vec<_> = record
                .headers
                .iter()
                .map(|(name, value)| (name.as_bytes(), value.as_deref()))
                .collect();
            let timestamp = record.timestamp.unwrap_or(-1);
            batch.push(
                timestamp,
                record.key.as_deref(),
                record.value.as_deref(),
                &headers,
            );
        }
        batch.finish_smaller()
    }

    /// What its records take, at most, in bytes.
    pub(super) fn size(&self) -> usize {
        self.records.iter().map(|queued| queued.size).sum()
    }

    /// The sequence number behind its last record. Numbers go on at 0 behind the largest one.
    pub(super) fn next_sequence(&self) -> i32 {
        let count = i32::try_from(self.records.len()).unwrap_or(i32::MAX);
        self.base_sequence.wrapping_add(count) & i32::MAX
    }

    /// The largest of its records' timestamps.
    pub(super) fn max_timestamp(&self) -> Option<i64> {
        self.records
            .iter()
            .filter_map(|queued| queued.record.timestamp)
            .max()
    }

    /// The place of a record in it.
    pub(super) fn place(&self, id: u64) -> Option<usize> {
        self.records.binary_search_by_key(&id, |queued| queued.id).ok()
    }
}

impl Identity {
    /// The same producer in its next epoch, which fences what it sent in this one; `None` behind the last epoch. Kafka
    /// lets a producer without transactions do so on its own.
    pub(super) fn next(self) -> Option<Self> {
        let epoch = self.epoch.checked_add(1)?;
        Some(Self { epoch, ..self })
    }
}
