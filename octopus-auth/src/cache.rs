//! What the token authority said of tokens, remembered for a while. The time is passed in.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use octopus_core::Subject;

use crate::introspection::{Now, TokenHash, answer::Answer};

/// How long an answer lets its subjects in without another look-up.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(60);
/// How long a refusal stands without another look-up.
pub(crate) const REFUSED: Duration = Duration::from_secs(5);

/// What the cache says of a token and a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The token holds, and is this subject's.
    Admitted,
    /// It does not hold, or is another's.
    Refused,
}

/// Answers by the hash of their token.
///
/// Tokens that hold and tokens that do not have shelves of their own, so that whoever makes tokens up pushes out nothing
/// but other refusals. On a full shelf the oldest answer goes first.
#[derive(Debug)]
pub(crate) struct Cache {
    holding: Shelf,
    refused: Shelf,
}

/// The most that a [`Cache`] holds, counted in subjects: an answer takes one place for each of its subjects, a refusal one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places {
    pub(crate) holding: usize,
    pub(crate) refused: usize,
}

impl Cache {
    pub(crate) fn new(places: Places) -> Self {
        Self {
            holding: Shelf::new(places.holding, REMEMBERED),
            refused: Shelf::new(places.refused, REFUSED),
        }
    }

    /// What is remembered of this token for this subject; `None` where the authority must be asked.
    pub(crate) fn find(&self, token: &TokenHash, subject: Subject, now: Now) -> Option<Verdict> {
        if self.refused.find(token, now.monotonic).is_some() {
            return Some(Verdict::Refused);
        }
        let entry = self.holding.find(token, now.monotonic)?;
        // A token that has come to its end may have been told of by a clock that is wrong: the authority says so.
        if entry.answer.is_over(now.wall) {
            return None;
        }
        match entry.answer.verdict(subject, now.wall) {
            Verdict::Admitted => Some(Verdict::Admitted),
            // The subject may have been linked to the token's owner since: it is asked for again as after any refusal.
            Verdict::Refused => is_within(REFUSED, entry.asked, now.monotonic).then_some(Verdict::Refused),
        }
    }

    /// Remembers an answer to what was asked at `asked`, in place of an older one of the same token.
    pub(crate) fn keep(&mut self, token: TokenHash, answer: Arc<Answer>, asked: Instant) {
        self.holding.remove(&token);
        self.refused.remove(&token);
        let shelf = match &*answer {
            Answer::Holds(_) => &mut self.holding,
            Answer::Refused => &mut self.refused,
        };
        shelf.keep(token, answer, asked);
    }

    /// How many places are taken, of answers that let in and of refusals.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> Places {
        Places {
            holding: self.holding.taken,
            refused: self.refused.taken,
        }
    }
}

/// Answers of one kind in the order in which they were kept.
#[derive(Debug)]
struct Shelf {
    entries: HashMap<TokenHash, Entry>,
    order: BTreeMap<u64, TokenHash>,
    next: u64,
    taken: usize,
    places: usize,
    life: Duration,
}

#[derive(Debug)]
struct Entry {
    answer: Arc<Answer>,
    asked: Instant,
    number: u64,
}

impl Shelf {
    fn new(places: usize, life: Duration) -> Self {
        Self {
            entries: HashMap::new(),
            order: BTreeMap::new(),
            next: 0,
            taken: 0,
            places,
            life,
        }
    }

    fn find(&self, token: &TokenHash, now: Instant) -> Option<&Entry> {
        let entry = self.entries.get(token)?;
        is_within(self.life, entry.asked, now).then_some(entry)
    }

    fn keep(&mut self, token: TokenHash, answer: Arc<Answer>, asked: Instant) {
        self.taken += answer.places();
        let number = self.next;
        self.next += 1;
        self.order.insert(number, token);
        let entry = Entry {
            answer,
            asked,
            number,
        };
        self.entries.insert(token, entry);
        while let Some(oldest) = self.order.first_entry().map(|oldest| *oldest.get()) {
            let is_over = |entry: &Entry| !is_within(self.life, entry.asked, asked);
            if self.taken <= self.places && !self.entries.get(&oldest).is_some_and(is_over) {
                break;
            }
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, token: &TokenHash) {
        if let Some(entry) = self.entries.remove(token) {
            self.order.remove(&entry.number);
            self.taken -= entry.answer.places();
        }
    }
}

/// Whether what was asked at `asked` is younger than `life`.
fn is_within(life: Duration, asked: Instant, now: Instant) -> bool {
    now.saturating_duration_since(asked) < life
}

#[cfg(test)]
mod tests;
