//! Where reading starts, per topic, as a machine without I/O: what is not known yet, what was found, and what became
//! void because the topic was made anew.

mod check;
mod few;
mod resolve;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use octopus_core::{Error, Position};
use uuid::Uuid;

use self::few::Few;
pub(crate) use self::resolve::{Found, Resolver, each_topic};

/// How long a topic that can't be read is not asked about again.
const FAILED_FOR: Duration = Duration::from_secs(1);

/// The starts of one consumer's topics. A start that was found is kept until the consumer reads from it.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    entries: Few<String, Box<Entry>>,
    /// The topic ids at which the positions were taken [D-22].
    ids: Few<String, Uuid>,
    /// The leader's epoch in which each position was last known to be of the leader's log.
    checked: Few<String, i32>,
    /// What was last sent to be committed, and the id of the topic that it was taken in.
    sent: Few<String, (Uuid, i64)>,
    asked: u64,
}

#[derive(Debug)]
struct Entry {
    /// The position that this start replaces.
    instead_of: Option<Position>,
    /// The topic's id, where that position is void for its being made anew.
    anew: Option<Uuid>,
    /// The id of the topic that the replaced position was taken in.
    before: Option<Uuid>,
    number: u64,
    found: Option<Result<Position, (Error, Instant)>>,
}

/// What can be done with a topic.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Place {
    /// Read it from here.
    At(Position),
    /// Its start is found, and takes the place of the position: read it once the consumer holds it there. What is read
    /// before may end at the very position that it replaces, and then it could not be told which one is meant.
    Moved,
    /// Its start is being looked for.
    Wait,
    /// Look for its start.
    Ask(Ask),
    /// It can't be read.
    Failed(Error),
}

/// A start to look for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ask {
    /// Comes back with what is found.
    pub(crate) number: u64,
    /// What it starts from.
    pub(crate) sought: Sought,
}

/// What is known of a start that is looked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Sought {
    /// Its topic was made anew: it starts as one that was never read, and this commit, which may have come to the group
    /// after the topic of old took the others along, is not of it.
    Anew(Option<i64>),
    /// Nothing: it starts as one that was never read.
    Start,
    /// A position was out of range in the topic of this id: if it is the same still, there is no use in looking at what
    /// the group committed.
    OutOfRange(Uuid),
    /// This position was taken under an earlier leader, whose log the present one may not have whole.
    Check(Position),
}

impl Starts {
    /// Keeps only what concerns these topics.
    pub(crate) fn keep(&mut self, topics: &BTreeSet<String>) {
        self.entries.retain(|topic| topics.contains(topic));
        self.ids.retain(|topic| topics.contains(topic));
        self.checked.retain(|topic| topics.contains(topic));
        self.sent.retain(|topic| topics.contains(topic));
    }

    /// Forgets every start that was found or is looked for. The positions that they were to replace stand, and are void as
    /// before where their topic was made anew.
    pub(crate) fn clear(&mut self) {
        for (topic, entry) in std::mem::take(&mut self.entries) {
            if let Some(before) = entry.before {
                self.ids.insert(topic, before);
            }
        }
        self.checked.clear();
    }

    /// Where a topic of this id is read, that the consumer holds at `position`, from a leader of this epoch (-1 if it is
    /// not known).
    pub(crate) fn place(
        &mut self,
        topic: &str,
        position: Option<Position>,
        id: Uuid,
        leader_epoch: i32,
        now: Instant,
    ) -> Place {
        if let Some(entry) = self
            .entries
            .get(topic)
            .filter(|entry| entry.instead_of == position)
        {
            match &entry.found {
                None => return Place::Wait,
                Some(Ok(start)) if self.ids.get(topic).is_none_or(|known| same(*known, id)) => {
                    let (start, instead_of) = (*start, entry.instead_of);
                    let place = self.at(topic, start, leader_epoch, instead_of);
                    let replaces = instead_of.is_some() && matches!(place, Place::At(_));
                    return if replaces { Place::Moved } else { place };
                }
                Some(Ok(_)) => {}
                Some(Err((error, at))) if now < *at + FAILED_FOR => return Place::Failed(error.clone()),
                Some(Err(_)) => {}
            }
        }
        let entry = self.entries.remove(topic);
        let Some(position) = position else {
            return Place::Ask(self.ask(topic, None, Sought::Start));
        };
        let is_anew = entry.is_some_and(|entry| entry.anew == Some(id) && entry.instead_of != Some(position));
        if is_anew && position.leader_epoch.is_none() {
            // It was sought since; what was read of the topic of old meanwhile has an epoch.
            self.ids.insert(topic.to_owned(), id);
        }
        let known = *self.ids.or_insert(topic.to_owned(), id);
        if same(known, id) {
            self.at(topic, position, leader_epoch, Some(position))
        } else {
            tracing::info!(topic, "the topic was made anew: its position is void");
            self.checked.remove(topic);
            let sent = self.sent.get(topic).filter(|(id, _)| *id == known);
            let sought = Sought::Anew(sent.map(|(_, offset)| *offset));
            let ask = self.ask(topic, Some(position), sought);
            if let Some(entry) = self.entries.get_mut(topic) {
                entry.anew = Some(id);
            }
            Place::Ask(ask)
        }
    }

    /// Whether a topic of this id, held at `position`, is read from there without further ado.
    pub(crate) fn stands(&self, topic: &str, position: Position, id: Uuid, leader_epoch: i32) -> bool {
        !self.entries.contains_key(topic)
            && self.ids.get(topic).is_some_and(|known| same(*known, id))
            && !self.is_of_the_past(topic, position, leader_epoch)
    }

    /// Whether it is known which topic of this name a position was taken in.
    pub(crate) fn is_known(&self, topic: &str) -> bool {
        self.ids.contains_key(topic)
    }

    /// Whether the position was taken in another topic of this name than that of this id.
    pub(crate) fn is_void(&self, topic: &str, id: Uuid) -> bool {
        self.ids.get(topic).is_some_and(|known| !same(*known, id))
    }

    /// A position is sent to be committed.
    pub(crate) fn sending(&mut self, topic: &str, offset: i64) {
        if let Some(id) = self.ids.get(topic) {
            self.sent.insert(topic.to_owned(), (*id, offset));
        }
    }

    /// A leader of this epoch was read at the topic's position, or answered that there is nothing yet.
    pub(crate) fn read(&mut self, topic: &str, leader_epoch: i32) {
        if leader_epoch >= 0 {
            self.checked.insert(topic.to_owned(), leader_epoch);
        }
    }

    /// A place to read from, unless the leader is a newer one than that which the position was taken or last read under:
    /// then it is asked first whether its log is the same up to there. `instead_of` is the position that it replaces.
    fn at(
        &mut self,
        topic: &str,
        position: Position,
        leader_epoch: i32,
        instead_of: Option<Position>,
    ) -> Place {
        if self.is_of_the_past(topic, position, leader_epoch) {
            Place::Ask(self.ask(topic, instead_of, Sought::Check(position)))
        } else {
            Place::At(position)
        }
    }

    /// Whether the position was taken and last read under an earlier leader than this one.
    fn is_of_the_past(&self, topic: &str, position: Position, leader_epoch: i32) -> bool {
        let checked = self.checked.get(topic).copied();
        let known = position
            .leader_epoch
            .map(|epoch| checked.unwrap_or(epoch).max(epoch));
        known.is_some_and(|known| known < leader_epoch)
    }

    /// A position turned out not to be in the log: what to look for.
    pub(crate) fn out_of_range(&mut self, topic: &str, position: Position) -> Ask {
        let id = self.ids.get(topic).copied().unwrap_or_default();
        // A start that was just found is itself out of range: what it stood for still is.
        let instead_of = match self.entries.get(topic).map(|entry| &**entry) {
            Some(Entry {
                instead_of,
                found: Some(Ok(start)),
                ..
            }) if start.offset == position.offset => *instead_of,
            Some(_) | None => Some(position),
        };
        self.ask(topic, instead_of, Sought::OutOfRange(id))
    }

    /// What came of an [`Ask`].
    pub(crate) fn found(&mut self, topic: &str, number: u64, found: Found, now: Instant) {
        let Some(entry) = self.entries.get_mut(topic).filter(|entry| entry.number == number) else {
            return;
        };
        match found {
            Found::At(position, id) => {
                self.replace(topic, position);
                let before = self.ids.insert(topic.to_owned(), id);
                if let Some(entry) = self.entries.get_mut(topic)
                    && entry.instead_of.is_some()
                {
                    entry.before = entry.before.or(before);
                }
            }
            Found::Checked(position, leader_epoch) => {
                self.replace(topic, position);
                self.checked.insert(topic.to_owned(), leader_epoch);
            }
            Found::Missing => _ = self.entries.remove(topic),
            Found::Failed(error) => entry.found = Some(Err((error, now))),
        }
    }

    fn replace(&mut self, topic: &str, position: Position) {
        if let Some(entry) = self.entries.get_mut(topic) {
            if entry.instead_of == Some(position) {
                self.entries.remove(topic);
            } else {
                entry.found = Some(Ok(position));
            }
        }
    }

    /// The start that was found for a topic that the consumer holds at `position`.
    pub(crate) fn started(&self, topic: &str, position: Option<Position>) -> Option<Position> {
        let entry = self.entries.get(topic)?;
        let current = entry.instead_of == position;
        entry.found.as_ref()?.as_ref().ok().filter(|_| current).copied()
    }

    /// Whether a topic's start is being looked for.
    pub(crate) fn is_pending(&self, topic: &str) -> bool {
        self.entries.get(topic).is_some_and(|entry| entry.found.is_none())
    }

    fn ask(&mut self, topic: &str, instead_of: Option<Position>, sought: Sought) -> Ask {
        self.asked += 1;
        let number = self.asked;
        let same = self
            .entries
            .get(topic)
            .filter(|entry| entry.instead_of == instead_of);
        let before = same.and_then(|entry| entry.before);
        self.entries.insert(
            topic.to_owned(),
            Box::new(Entry {
                instead_of,
                anew: None,
                before,
                number,
                found: None,
            }),
        );
        Ask { number, sought }
    }
}

/// Whether two ids may be one topic's; a broker without topic ids gives zeros.
fn same(a: Uuid, b: Uuid) -> bool {
    a == b || a.is_nil() || b.is_nil()
}

#[cfg(test)]
mod tests;
