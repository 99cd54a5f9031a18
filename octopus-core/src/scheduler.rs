//! The turns that fetches poll in, and the line for them. It knows no time.

use std::collections::BTreeSet;

use crate::line::Line;

/// Who has a turn and who waits for one [LI-02] [LI-03].
#[derive(Debug)]
pub(crate) struct Scheduler<Id> {
    turns: usize,
    holding: BTreeSet<Id>,
    /// Those of them whose turn is longer than it would be had others waited when it began.
    long: BTreeSet<Id>,
    line: Line<Id>,
}

impl<Id: Copy + Ord> Scheduler<Id> {
    /// So many turns at once.
    pub(crate) fn new(turns: usize) -> Self {
        Self {
            turns,
            holding: BTreeSet::new(),
            long: BTreeSet::new(),
            line: Line::default(),
        }
    }

    /// Goes to the back of the line.
    pub(crate) fn join(&mut self, id: Id) {
        self.line.push(id);
    }

    /// Gives the first of the line a turn, if one is free.
    pub(crate) fn grant(&mut self) -> Option<Id> {
        if self.holding.len() >= self.turns {
            return None;
        }
        let id = self.line.pop()?;
        self.holding.insert(id);
        Some(id)
    }

    /// A turn that found nothing: back to the end of the line [LI-03].
    pub(crate) fn requeue(&mut self, id: Id) {
        self.holding.remove(&id);
        self.long.remove(&id);
        self.line.push(id);
    }

    /// The turn that this one has is a long one.
    pub(crate) fn lengthen(&mut self, id: Id) {
        if self.holding.contains(&id) {
            self.long.insert(id);
        }
    }

    /// A turn that is to be short from here on; `None` where nobody waits for it, or none is long.
    pub(crate) fn shorten(&mut self) -> Option<Id> {
        if self.is_waited_for() {
            self.long.pop_first()
        } else {
            None
        }
    }

    /// A turn that is kept whoever waits: its reply is being sent [LI-03].
    pub(crate) fn keep(&mut self, id: Id) {
        self.long.remove(&id);
    }

    /// Gives up a turn or a place in the line.
    pub(crate) fn leave(&mut self, id: Id) {
        self.holding.remove(&id);
        self.long.remove(&id);
        self.line.remove(id);
    }

    /// Whether anyone waits for a turn.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.line.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [LI-02] three at once, in the order asked.
    #[test]
    fn turns_are_granted_in_the_order_asked() {
        let mut scheduler = Scheduler::new(3);
        for id in [7, 3, 9, 1] {
            scheduler.join(id);
        }
        let granted: Vec<_> = std::iter::from_fn(|| scheduler.grant()).collect();
        assert_eq!(granted, [7, 3, 9]);
        assert!(scheduler.is_waited_for());
        scheduler.leave(3);
        assert_eq!(scheduler.grant(), Some(1));
        assert_eq!(scheduler.grant(), None);
        assert!(!scheduler.is_waited_for());
    }

    /// [LI-03] a turn that found nothing goes behind those who wait; one that is kept blocks nobody else's place.
    #[test]
    fn a_turn_that_found_nothing_goes_to_the_back() {
        let mut scheduler = Scheduler::new(1);
        for id in [1, 2, 3] {
            scheduler.join(id);
        }
        assert_eq!(scheduler.grant(), Some(1));
        scheduler.requeue(1);
        assert_eq!(scheduler.grant(), Some(2));
        scheduler.leave(3);
        scheduler.leave(2);
        assert_eq!(scheduler.grant(), Some(1));
    }

    /// [LI-03] [LI-04]
    #[test]
    fn long_turns_are_shortened_once_and_only_for_those_who_wait() {
        let mut scheduler = Scheduler::new(2);
        for id in [1, 2] {
            scheduler.join(id);
            scheduler.grant();
            scheduler.lengthen(id);
        }
        scheduler.lengthen(9);
        assert_eq!(scheduler.shorten(), None);
        scheduler.join(3);
        scheduler.keep(1);
        assert_eq!(scheduler.shorten(), Some(2));
        assert_eq!(scheduler.shorten(), None);
        scheduler.lengthen(2);
        scheduler.requeue(2);
        assert_eq!(scheduler.shorten(), None);
    }

    /// [LI-04] behind eleven quiet ones there are at most three rounds of turns before it.
    #[test]
    fn a_fetch_behind_eleven_quiet_ones_waits_three_rounds() {
        let mut scheduler = Scheduler::new(3);
        for id in 0..12 {
            scheduler.join(id);
        }
        let mut rounds = 0;
        loop {
            let granted: Vec<_> = std::iter::from_fn(|| scheduler.grant()).collect();
            if granted.contains(&11) {
                break;
            }
            rounds += 1;
            granted.into_iter().for_each(|id| scheduler.requeue(id));
        }
        assert_eq!(rounds, 3);
    }
}
