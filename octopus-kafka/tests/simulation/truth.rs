//! What the logs of the world hold, and all that they ever held: kept beside the broker, to judge what a client reads.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;

/// How long an answer of before a change may still be on its way.
const LATE: Duration = Duration::from_secs(30);

/// One topic's only partition, over all of its time.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    /// What was ever at each offset, the latest last.
    records: BTreeMap<i64, Vec<Life>>,
    /// The log from each change to the next.
    logs: Vec<Log>,
    /// The change that it was last made anew with.
    made: usize,
    /// When records last went from its end, or it was made anew.
    shaken: Option<Instant>,
    /// When it last changed otherwise than by a write.
    changed: Option<Instant>,
}

/// A record, and the changes that it came and went with.
#[derive(Debug)]
struct Life {
    number: u64,
    born: usize,
    died: usize,
}

/// The log as one change left it.
#[derive(Debug, Clone, Copy)]
struct Log {
    since: Instant,
    start: i64,
    end: i64,
    /// It is the one before only up to here.
    parts: Option<i64>,
}

/// The changes behind which a consumer may have read what it read: what it was read in is one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen(BTreeSet<usize>);

impl Seen {
    /// What another one that stands at the same place may have read too.
    pub(crate) fn or(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }
}

impl Truth {
    /// A log without records.
    pub(crate) fn new() -> Self {
        let mut new = Self::default();
        new.change((0, 0), None);
        new
    }

    /// A batch: the numbers that are its records' values, by their offsets; and the log's end behind it.
    pub(crate) fn append(&mut self, records: impl IntoIterator<Item = (i64, u64)>, end: i64) {
        let (start, _) = self.bounds();
        self.change((start, end), None);
        let born = self.logs.len() - 1;
        for (offset, number) in records {
            self.records.entry(offset).or_default().push(Life {
                number,
                born,
                died: usize::MAX,
            });
        }
    }

    /// The records before this offset went.
    pub(crate) fn starts_at(&mut self, start: i64) {
        let (_, end) = self.bounds();
        self.changed = Some(Instant::now());
        self.change((start, end), None);
        self.bury(|offset| offset < start);
    }

    /// The records from this offset on went.
    pub(crate) fn cut(&mut self, end: i64) {
        let (start, _) = self.bounds();
        self.shake();
        self.change((start.min(end), end), Some(end));
        self.bury(|offset| offset >= end);
    }

    /// Another topic of the same name took its place.
    pub(crate) fn made_anew(&mut self) {
        self.shake();
        self.change((0, 0), Some(0));
        self.made = self.logs.len() - 1;
        self.bury(|_| true);
    }

    /// Where it starts and ends.
    pub(crate) fn bounds(&self) -> (i64, i64) {
        self.logs.last().map_or((0, 0), |log| (log.start, log.end))
    }

    /// Whether nothing was lost at its end for so long that no answer of before is still on its way.
    pub(crate) fn is_steady(&self) -> bool {
        self.shaken.is_none_or(|shaken| shaken.elapsed() > LATE)
    }

    /// Whether a position may have been out of the log.
    pub(crate) fn may_lack(&self, position: i64) -> bool {
        let (start, end) = self.bounds();
        !(start..=end).contains(&position)
            || self.changed.is_some_and(|changed| changed.elapsed() <= LATE)
            || !self.is_steady()
    }

    /// Whether it ever began there.
    pub(crate) fn began_at(&self, offset: i64) -> bool {
        self.logs.iter().any(|log| log.start == offset)
    }

    /// Whether it ever ended there.
    pub(crate) fn ended_at(&self, offset: i64) -> bool {
        self.logs.iter().any(|log| log.end == offset)
    }

    /// When exactly these records were all that the log held between these positions, of late. Not at any time: they are
    /// not in order, or one is missing, or twice, or was never written.
    pub(crate) fn held(&self, from: i64, to: i64, read: &[(i64, u64)]) -> Option<Seen> {
        let now = Instant::now();
        let ends = self.logs.iter().skip(1).map(|log| Some(log.since));
        let of_late = self
            .logs
            .iter()
            .zip(ends.chain([None]))
            .enumerate()
            .filter(|(_, (log, end))| {
                end.is_none_or(|end| now.duration_since(end) <= LATE) && from >= log.start && to <= log.end
            });
        let same = of_late.filter(|(at, _)| {
            let lives = self.records.range(from..to.max(from));
            let alive = lives.flat_map(|(offset, lives)| lives.iter().map(move |life| (*offset, life)));
            alive
                .filter(|(_, life)| (life.born..life.died).contains(at))
                .map(|(offset, life)| (offset, life.number))
                .eq(read.iter().copied())
        });
        let seen: BTreeSet<_> = same.map(|(at, _)| at).collect();
        Some(Seen(seen)).filter(|seen| !seen.0.is_empty())
    }

    /// Of what may have been read from a position on, that which goes on where the reader was: the log up to there is
    /// the one that was read before.
    pub(crate) fn going_on(&self, from: i64, before: &Seen, then: &Seen) -> Option<Seen> {
        let known: BTreeSet<_> = before.0.iter().map(|at| self.age(*at, from)).collect();
        let then = then.0.iter().filter(|at| known.contains(&self.age(**at, from)));
        let then: BTreeSet<_> = then.copied().collect();
        Some(Seen(then)).filter(|seen| !seen.0.is_empty())
    }

    /// Whether it was ever another topic of the same name.
    pub(crate) const fn was_made_anew(&self) -> bool {
        self.made > 0
    }

    /// Whether what was read is of the present topic, and not of one of the same name before it.
    pub(crate) fn is_of_it(&self, seen: &Seen) -> bool {
        seen.0.last().is_some_and(|last| *last >= self.made)
    }

    /// Whether a reader's log parted there from another one, below its position.
    pub(crate) fn parted_at(&self, offset: i64, position: i64, before: Option<&Seen>) -> bool {
        let first = before.and_then(|before| before.0.first()).map_or(0, |at| at + 1);
        let last = before.and_then(|before| before.0.last()).copied();
        let mut least = i64::MAX;
        self.logs.iter().enumerate().skip(first).any(|(at, log)| {
            let Some(parts) = log.parts else { return false };
            if last.is_none_or(|last| at <= last) {
                // It is not known whether it was read before this or after.
                return parts == offset && parts < position;
            }
            least = least.min(parts);
            least == offset && least < position
        })
    }

    /// How often the log below a position was another one before a change.
    fn age(&self, at: usize, position: i64) -> usize {
        let parted = |log: &&Log| log.parts.is_some_and(|parts| parts < position);
        self.logs[..=at].iter().filter(parted).count()
    }

    fn change(&mut self, (start, end): (i64, i64), parts: Option<i64>) {
        let since = Instant::now();
        self.logs.push(Log {
            since,
            start,
            end,
            parts,
        });
    }

    fn bury(&mut self, gone: impl Fn(i64) -> bool) {
        let died = self.logs.len() - 1;
        for (_, lives) in self.records.iter_mut().filter(|(offset, _)| gone(**offset)) {
            if let Some(life) = lives.last_mut().filter(|life| life.died == usize::MAX) {
                life.died = died;
            }
        }
    }

    fn shake(&mut self) {
        self.shaken = Some(Instant::now());
        self.changed = self.shaken;
    }
}
