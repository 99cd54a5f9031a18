//! One turn, while it lasts.

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_protocol::messages::BrokerId;
use octopus_core::{Error, FetchPlan, Position};
use tokio::time::Instant;

use super::{MARGIN, kept::Source};
use crate::{pace::Pace, records::Reader};

/// One turn.
pub(super) struct Turn<'a> {
    pub(super) plan: &'a FetchPlan,
    /// When it ends.
    pub(super) end: Instant,
    /// How long its answers are waited for.
    pub(super) limit: Instant,
    /// Where each topic is read from Kafka: at its position, or behind what was kept of it.
    pub(super) reads: BTreeMap<String, i64>,
    pub(super) parts: BTreeMap<String, Part>,
    /// What can't be read at present.
    pub(super) failed: BTreeMap<String, Error>,
    /// What a broker refused in this turn.
    pub(super) refused: BTreeMap<String, Error>,
    /// The brokers asked in this turn, and when and after which wait they may be asked again.
    pub(super) asked: BTreeMap<BrokerId, (Instant, Pace)>,
    /// A broker answered.
    pub(super) reached: bool,
    /// It has records that the last reply left out.
    pub(super) left_out: bool,
    /// A position was replaced, and is read from by the next turn.
    pub(super) moved: bool,
}

impl<'a> Turn<'a> {
    pub(super) const fn new(plan: &'a FetchPlan, end: Instant, limit: Instant) -> Self {
        Self {
            plan,
            end,
            limit,
            reads: BTreeMap::new(),
            parts: BTreeMap::new(),
            failed: BTreeMap::new(),
            refused: BTreeMap::new(),
            asked: BTreeMap::new(),
            reached: false,
            left_out: false,
            moved: false,
        }
    }

    /// Whether it has time to let a broker wait.
    pub(super) fn waits(&self) -> bool {
        Instant::now() + MARGIN < self.end
    }

    /// Its time ends sooner: nothing more is asked, and what has not come is left to the next turn.
    pub(super) fn end_at(&mut self, now: Instant) {
        self.end = self.end.min(now);
        self.limit = self.limit.min(now);
    }
}

/// What was read of one topic.
pub(super) struct Part {
    pub(super) position: Position,
    /// What was kept of it.
    pub(super) kept: Vec<Bytes>,
    /// What came from a broker just now, behind what was kept.
    pub(super) fetched: Option<Fetched>,
}

/// The records of one topic in a broker's answer.
pub(super) struct Fetched {
    /// Of which log they are.
    pub(super) source: Source,
    pub(super) records: Bytes,
    /// They are less than half of the answer, all of which is in memory for as long as they are.
    pub(super) is_small_part: bool,
}

impl Part {
    /// Reads it, if there is something.
    pub(super) fn into_reader(self) -> Option<Reader> {
        let fetched = self.fetched.map(|fetched| fetched.records);
        let mut records = self.kept.into_iter().chain(fetched);
        let first = Reader::new(records.next()?, self.position);
        Some(records.fold(first, Reader::then))
    }
}
