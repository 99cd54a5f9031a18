//! Records that a reply left out, kept for a moment, so that reading a backlog in small replies asks Kafka about once
//! for each byte. Nothing depends on it: what is not kept is fetched again.

mod piece;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use tokio::{sync::Semaphore, time::Instant};
use uuid::Uuid;

use self::piece::Piece;
use super::{flight::KEPT_FOR, turn::Fetched};
use crate::cluster::TopicInfo;

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
    since: Instant,
    /// The reply had no room for any of it.
    is_whole: bool,
    /// Each from behind the one before it.
    pieces: Vec<Piece>,
}

/// What is kept of what comes at a position.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rest {
    /// The position behind it.
    pub(super) end: i64,
    /// It is no more than what was read of it last: the next reply will have room for all of it.
    pub(super) is_little: bool,
}

impl Kept {
    /// Keeps whole batches that are read from a position, if there is room for them.
    pub(super) fn keep(
        &mut self,
        topic: &str,
        from: i64,
        fetched: &Fetched,
        budget: &Arc<Semaphore>,
        now: Instant,
    ) {
        self.parts.remove(topic);
        if let Some(piece) = Piece::new(fetched, from, budget) {
            let part = Part {
                source: fetched.source,
                from,
                since: now,
                is_whole: false,
                pieces: vec![piece],
            };
            self.parts.insert(topic.to_owned(), part);
        }
    }

    /// Keeps what was read from behind what is kept as well, or nothing of the topic if there is no room for it.
    pub(super) fn keep_behind(&mut self, topic: &str, fetched: &Fetched, budget: &Arc<Semaphore>) {
        let Some(part) = self.parts.get_mut(topic) else {
            return;
        };
        match Piece::new(fetched, part.end(), budget) {
            Some(piece) => part.pieces.push(piece),
            None => _ = self.parts.remove(topic),
        }
    }

    /// The batches from this position on. Only for a position further on than the last one, unless the reply left all of
    /// it out: reading from the same place again may mean that what is kept is damaged.
    pub(super) fn take(
        &mut self,
        topic: &str,
        source: Source,
        position: i64,
        now: Instant,
    ) -> Option<(Vec<Bytes>, Rest)> {
        let part = self.parts.get_mut(topic)?;
        let is_fresh = now < part.since + KEPT_FOR;
        let rest = part.rest(source, position).filter(|_| is_fresh);
        let taken = rest.and_then(|rest| Some((part.pass(position)?, rest)));
        if taken.is_none() {
            self.parts.remove(topic);
            return None;
        }
        part.from = position;
        part.since = now;
        part.is_whole = false;
        taken
    }

    /// A reply was made that leaves out what comes at this position, if delivered. What of that is kept; if nothing is,
    /// nothing of the topic is.
    pub(super) fn left_out(&mut self, topic: &str, source: Source, position: i64) -> Option<Rest> {
        let part = self.parts.get_mut(topic)?;
        part.is_whole = part.from == position;
        let rest = part.rest(source, position);
        if rest.is_none() {
            self.parts.remove(topic);
        }
        rest
    }

    /// The position that what is kept of a topic was last read from.
    pub(super) fn from(&self, topic: &str) -> Option<i64> {
        self.parts.get(topic).map(|part| part.from)
    }

    /// The position behind what is kept of a topic that was just read from this position.
    pub(super) fn end(&self, topic: &str, from: i64) -> Option<i64> {
        let part = self.parts.get(topic).filter(|part| part.from == from)?;
        Some(part.end())
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
    /// The position behind it.
    fn end(&self) -> i64 {
        self.pieces.last().map_or(self.from, Piece::end)
    }

    /// What it has of this log from a position on.
    fn rest(&self, source: Source, position: i64) -> Option<Rest> {
        let end = self.end();
        let is_read_on = self.from < position || self.is_whole && self.from == position;
        (self.source == source && is_read_on && position < end).then(|| Rest {
            end,
            is_little: end - position <= position - self.from,
        })
    }

    /// Lets go of the pieces before this position, and says what comes from the batch on that holds it.
    fn pass(&mut self, position: i64) -> Option<Vec<Bytes>> {
        self.pieces.retain(|piece| position < piece.end());
        let (first, rest) = self.pieces.split_first()?;
        let rest = rest.iter().map(Piece::records);
        Some(std::iter::once(first.from(position)?).chain(rest).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::{BufMut, BytesMut};

    use super::*;
    use crate::fetcher::budget::{BUDGET_BYTES, PERMIT_BYTES, budget};

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

    fn fetched(records: &Bytes) -> Fetched {
        Fetched {
            source: LOG,
            records: records.clone(),
            is_small_part: false,
        }
    }

    fn took(kept: &mut Kept, source: Source, position: i64, now: Instant) -> Option<Vec<Bytes>> {
        kept.take("t", source, position, now).map(|(records, _)| records)
    }

    #[test]
    fn what_was_left_out_is_given_from_the_batch_that_holds_it() {
        let (mut kept, budget, now) = (Kept::default(), budget(), Instant::now());
        kept.keep("t", 3, &fetched(&log(&[0, 10, 20])), &budget, now);
        assert!(kept.left_out("t", LOG, 3).is_some());
        assert_eq!(took(&mut kept, LOG, 3, now), Some(vec![log(&[0, 10, 20])]));
        assert_eq!(took(&mut kept, LOG, 5, now), Some(vec![log(&[0, 10, 20])]));
        assert_eq!(took(&mut kept, LOG, 10, now), Some(vec![log(&[10, 20])]));
        assert_eq!(took(&mut kept, LOG, 29, now), Some(vec![log(&[20])]));
        assert_eq!(took(&mut kept, LOG, 30, now), None, "all was read");
        assert_eq!(budget.available_permits(), BUDGET_BYTES / PERMIT_BYTES);
    }

    #[test]
    fn what_was_read_behind_it_comes_behind_it() {
        let (mut kept, budget, now) = (Kept::default(), budget(), Instant::now());
        let mut cut = log(&[0, 10, 20]);
        cut.truncate(250);
        kept.keep("t", 3, &fetched(&cut), &budget, now);
        assert_eq!(kept.end("t", 3), Some(20));
        assert_eq!(kept.end("t", 4), None, "it was not read from there");
        assert_eq!(took(&mut kept, LOG, 15, now), Some(vec![log(&[10])]));
        kept.keep_behind("t", &fetched(&log(&[20, 30])), &budget);
        assert_eq!(kept.end("t", 15), Some(40));
        let both = vec![log(&[10]), log(&[20, 30])];
        assert_eq!(took(&mut kept, LOG, 16, now), Some(both));
        assert_eq!(took(&mut kept, LOG, 31, now), Some(vec![log(&[30])]));
        kept.keep_behind("t", &fetched(&log(&[20])), &budget);
        assert_eq!(took(&mut kept, LOG, 32, now), None, "that came before it");
        assert_eq!(budget.available_permits(), BUDGET_BYTES / PERMIT_BYTES);
    }

    /// What is kept of a large answer is what counts against the budget, and not all of the answer.
    #[test]
    fn a_small_part_of_an_answer_does_not_hold_all_of_it() {
        for is_small_part in [false, true] {
            let (mut kept, budget, now) = (Kept::default(), budget(), Instant::now());
            let mut fetched = fetched(&log(&[0, 10, 20]));
            fetched.is_small_part = is_small_part;
            kept.keep("t", 3, &fetched, &budget, now);
            assert_eq!(fetched.records.is_unique(), is_small_part);
            let behind = Fetched {
                records: log(&[30]),
                ..fetched
            };
            kept.keep_behind("t", &behind, &budget);
            assert_eq!(behind.records.is_unique(), is_small_part);
            let both = vec![log(&[10, 20]), log(&[30])];
            assert_eq!(took(&mut kept, LOG, 10, now), Some(both));
        }
    }

    #[test]
    fn little_is_no_more_than_the_last_reply_took() {
        for (position, is_little) in [(3, false), (11, false), (12, true), (19, true)] {
            let (mut kept, budget, now) = (Kept::default(), budget(), Instant::now());
            kept.keep("t", 3, &fetched(&log(&[0, 10])), &budget, now);
            let rest = Rest { end: 20, is_little };
            assert_eq!(kept.left_out("t", LOG, position).as_ref(), Some(&rest));
            let taken = kept.take("t", LOG, position, now);
            assert_eq!(taken.map(|(_, taken)| taken), Some(rest));
        }
    }

    /// [FE-11] what a reply has whole is let go of at once.
    #[test]
    fn what_a_reply_has_whole_is_not_kept() {
        let (mut kept, budget, now) = (Kept::default(), budget(), Instant::now());
        kept.keep("t", 3, &fetched(&log(&[0, 10])), &budget, now);
        assert!(kept.left_out("t", LOG, 12).is_some());
        assert!(kept.left_out("t", LOG, 20).is_none());
        assert_eq!(budget.available_permits(), BUDGET_BYTES / PERMIT_BYTES);
        assert!(kept.left_out("t", LOG, 12).is_none());
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
            kept.keep("t", 3, &fetched(&log(&[0])), &budget, now);
            assert_eq!(
                took(&mut kept, log_then, position, now + Duration::from_secs(after)),
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
        kept.keep("t", 3, &fetched(&log(&[0])), &budget, now);
        kept.keep("u", 3, &fetched(&log(&[0])), &budget, now);
        assert!(kept.take("u", LOG, 5, now).is_none());
        assert_eq!(took(&mut kept, LOG, 5, now), Some(vec![log(&[0])]));
        assert!(kept.sweep(now));
        assert!(!kept.sweep(now + KEPT_FOR));
        assert_eq!(budget.available_permits(), 1);
    }
}
