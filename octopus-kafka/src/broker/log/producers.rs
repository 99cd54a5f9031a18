//! The idempotent producers of a partition: which of their batches it has.

use std::collections::{BTreeMap, VecDeque};

use super::header::{Header, sequence_after};
use crate::broker::code::{self, Code};

/// How many of a producer's last batches are known again, as Kafka does.
const REMEMBERED: usize = 5;
/// How many producers a partition knows.
const PRODUCERS: usize = 1024;

/// A partition's producers by their ids.
#[derive(Debug, Default)]
pub(super) struct Producers {
    by_id: BTreeMap<i64, Producer>,
}

/// What of a producer's batches a log has.
#[derive(Debug)]
struct Producer {
    epoch: i16,
    /// First and last sequence, and base offset, of the last batches.
    batches: VecDeque<(i32, i32, i64)>,
}

/// What a batch says of its producer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    producer_id: i64,
    epoch: i16,
    first: i32,
    last: i32,
}

impl Sent {
    /// `None` for a batch of a producer that is not idempotent.
    pub(super) fn of(header: &Header) -> Option<Self> {
        (header.producer_id >= 0).then(|| Self {
            producer_id: header.producer_id,
            epoch: header.producer_epoch,
            first: header.base_sequence,
            last: header.last_sequence(),
        })
    }
}

impl Producers {
    /// The base offset of the same batch sent before, `None` where it is the producer's next one.
    pub(super) fn check(&self, header: &Header) -> Result<Option<i64>, Code> {
        let Some(producer) = self.by_id.get(&header.producer_id) else {
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

    pub(super) fn remember(&mut self, sent: Sent, base: i64) {
        if self.by_id.len() >= PRODUCERS && !self.by_id.contains_key(&sent.producer_id) {
            self.by_id.pop_first();
        }
        let producer = self.by_id.entry(sent.producer_id).or_insert(Producer {
            epoch: sent.epoch,
            batches: VecDeque::new(),
        });
        if producer.epoch != sent.epoch {
            producer.epoch = sent.epoch;
            producer.batches.clear();
        }
        producer.batches.push_back((sent.first, sent.last, base));
        if producer.batches.len() > REMEMBERED {
            producer.batches.pop_front();
        }
    }
}
