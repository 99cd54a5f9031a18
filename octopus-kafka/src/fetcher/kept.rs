//! Records that a reply left out, kept for a moment, so that reading a backlog in small replies asks Kafka about once
//! for each byte. Nothing depends on it: what is not kept is fetched again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use uuid::Uuid;

use super::flight::KEPT_FOR;
use crate::cluster::TopicInfo;

/// The bytes that one permit of the budget stands for.
const PERMIT_BYTES: usize = 1024;
/// What all consumers of a cluster keep, in bytes.
const BUDGET_BYTES: usize = 16 * 1024 * 1024;

/// The budget of a cluster's consumers.
pub(crate) fn budget() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(BUDGET_BYTES / PERMIT_BYTES))
}

/// Room for so many bytes, if there is.
pub(super) fn room_for(bytes: usize, budget: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    let permits = u32::try_from(bytes.div_ceil(PERMIT_BYTES)).ok()?;
    Arc::clone(budget).try_acquire_many_owned(permits).ok()
}

/// The bytes of the budget that are taken.
#[cfg(feature = "testing")]
pub(crate) fn taken(budget: &Semaphore) -> usize {
    BUDGET_BYTES - budget.available_permits() * PERMIT_BYTES
}

/// Which log records are of: another leader's may have others from some offset on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Source {
    /// The topic's.
    pub(super) id: Uuid,
    /// The leader's.
    pub(super) leader_epoch: i32,
}

impl Source {
    /// The log that is read at present.
    pub(super) const fn of(info: &TopicInfo) -> Self {
        Self {
            id: info.id,
            leader_epoch: info.leader_epoch,
        }
    }
}

/// What one consumer keeps of each topic.
#[derive(Debug, Default)]
pub(super) struct Kept {
    parts: BTreeMap<String, Part>,
    /// A task drops what is too old.
    pub(super) is_swept: bool,
}

#[derive(Debug)]
struct Part {
    source: Source,
    /// The position that it was last read from.
    from: i64,
    /// The position behind it.
    end: i64,
    records: Bytes,
    since: Instant,
    /// The reply had no room for any of it.
    is_whole: bool,
    _permit: OwnedSemaphorePermit,
}

impl Kept {
    /// Keeps whole batches that are read from a position, if there is room for them.
    pub(super) fn keep(
        &mut self,
        topic: &str,
        source: Source,
        from: i64,
        records: Bytes,
        budget: &Arc<Semaphore>,
        now: Instant,
    ) {
        self.parts.remove(topic);
        let Some(end) = batches(&records)
            .map(|(_, end)| end)
            .last()
            .filter(|end| *end > from)
        else {
            return;
        };
        if let Some(permit) = room_for(records.len(), budget) {
            let part = Part {
                source,
                from,
                end,
                records,
                since: now,
                is_whole: false,
                _permit: permit,
            };
            self.parts.insert(topic.to_owned(), part);
        }
    }

    /// The batches from this position on. Only for a position further on than the last one, unless the reply left all of
    /// it out: reading from the same place again may mean that what is kept is damaged.
    pub(super) fn take(&mut self, topic: &str, source: Source, position: i64, now: Instant) -> Option<Bytes> {
        let part = self.parts.get_mut(topic)?;
        let useful = part.holds(source, position) && now < part.since + KEPT_FOR;
        let found = batches(&part.records).find(|(_, end)| useful && position < *end);
        let Some((start, _)) = found else {
            self.parts.remove(topic);
            return None;
        };
        part.from = position;
        part.since = now;
        part.is_whole = false;
        Some(part.records.slice(start..))
    }

    /// A reply was made that leaves out what comes at this position, if delivered. Whether that is kept; if not, nothing of
    /// the topic is.
    pub(super) fn left_out(&mut self, topic: &str, source: Source, position: i64) -> bool {
        let Some(part) = self.parts.get_mut(topic) else {
            return false;
        };
        part.is_whole = part.from == position;
        let has = part.holds(source, position);
        if !has {
            self.parts.remove(topic);
        }
        has
    }

    /// Keeps nothing of other topics than these.
    pub(super) fn only(&mut self, topics: &BTreeSet<String>) {
        self.parts.retain(|topic, _| topics.contains(topic));
    }

    /// Drops what is kept of a topic.
    pub(super) fn forget(&mut self, topic: &str) {
        self.parts.remove(topic);
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        self.parts.clear();
    }

    /// Drops what is too old; `false` if nothing is left.
    pub(super) fn sweep(&mut self, now: Instant) -> bool {
        self.parts.retain(|_, part| now < part.since + KEPT_FOR);
        self.is_swept = !self.parts.is_empty();
        self.is_swept
    }
}

impl Part {
    fn holds(&self, source: Source, position: i64) -> bool {
        let is_read_on = self.from < position || self.is_whole && self.from == position;
        self.source == source && is_read_on && position < self.end
    }
}

/// Where each whole batch of magic 2 starts in these bytes, and the position behind it.
fn batches(bytes: &[u8]) -> impl Iterator<Item = (usize, i64)> {
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
        Some((std::mem::replace(&mut start, next), end))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::{BufMut, BytesMut};
    use proptest::prelude::*;

    use super::*;

    const LOG: Source = Source {
        id: Uuid::from_u128(1),
        leader_epoch: 3,
    };
    const ANEW: Source = Source {
        id: Uuid::from_u128(2),
        ..LOG
    };
    const LED_ANEW: Source = Source {
        leader_epoch: 4,
        ..LOG
    };

    /// Batches of ten offsets from these on, each of 100 bytes.
    fn log(bases: &[i64]) -> Bytes {
        let mut out = BytesMut::new();
        for &base in bases {
            out.put_i64(base);
            out.put_i32(88);
            out.put_i32(0);
            out.put_u8(2);
            out.put_i32(0);
            out.put_i16(0);
            out.put_i32(9);
            out.put_bytes(0, 73);
        }
        out.freeze()
    }

    #[test]
    fn what_was_left_out_is_given_from_the_batch_that_holds_it() {
        let (mut kept, budget, now) = (Kept::default(), budget(), Instant::now());
        kept.keep("t", LOG, 3, log(&[0, 10, 20]), &budget, now);
        assert!(kept.left_out("t", LOG, 3));
        assert_eq!(kept.take("t", LOG, 3, now), Some(log(&[0, 10, 20])));
        assert_eq!(kept.take("t", LOG, 5, now), Some(log(&[0, 10, 20])));
        assert_eq!(kept.take("t", LOG, 10, now), Some(log(&[10, 20])));
        assert_eq!(kept.take("t", LOG, 29, now), Some(log(&[20])));
        assert_eq!(kept.take("t", LOG, 30, now), None, "all was read");
        assert_eq!(budget.available_permits(), BUDGET_BYTES / PERMIT_BYTES);
    }

    /// [FE-11] what a reply has whole is let go of at once.
    #[test]
    fn what_a_reply_has_whole_is_not_kept() {
        let (mut kept, budget, now) = (Kept::default(), budget(), Instant::now());
        kept.keep("t", LOG, 3, log(&[0, 10]), &budget, now);
        assert!(kept.left_out("t", LOG, 12));
        assert!(!kept.left_out("t", LOG, 20));
        assert_eq!(budget.available_permits(), BUDGET_BYTES / PERMIT_BYTES);
        assert!(!kept.left_out("t", LOG, 12));
    }

    /// [KF-21] what one leader had past the position, the next one may not have.
    #[test]
    fn it_is_not_used_for_another_place_topic_leader_or_time() {
        let now = Instant::now();
        for (position, log_then, after) in [
            (3, LOG, 0),
            (2, LOG, 0),
            (10, LOG, 0),
            (5, ANEW, 0),
            (5, LED_ANEW, 0),
            (5, LOG, 2),
        ] {
            let (mut kept, budget) = (Kept::default(), budget());
            kept.keep("t", LOG, 3, log(&[0]), &budget, now);
            assert_eq!(
                kept.take("t", log_then, position, now + Duration::from_secs(after)),
                None
            );
            assert_eq!(
                budget.available_permits(),
                BUDGET_BYTES / PERMIT_BYTES,
                "nor kept on"
            );
        }
    }

    #[test]
    fn no_more_is_kept_than_the_budget() {
        let (mut kept, now) = (Kept::default(), Instant::now());
        let budget = Arc::new(Semaphore::new(1));
        kept.keep("t", LOG, 3, log(&[0]), &budget, now);
        kept.keep("u", LOG, 3, log(&[0]), &budget, now);
        assert_eq!(kept.take("u", LOG, 5, now), None);
        assert_eq!(kept.take("t", LOG, 5, now), Some(log(&[0])));
        assert!(kept.sweep(now));
        assert!(!kept.sweep(now + KEPT_FOR));
        assert_eq!(budget.available_permits(), 1);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for (start, _) in batches(&bytes) {
                prop_assert!(start < bytes.len());
            }
        }
    }
}
