//! How many of something each owner has, kept and not computed.

use std::collections::BTreeMap;

/// A count for each owner, and their sum.
#[derive(Debug)]
pub(crate) struct Tally<Owner> {
    counts: BTreeMap<Owner, usize>,
    total: usize,
}

impl<Owner> Default for Tally<Owner> {
    fn default() -> Self {
        Self {
            counts: BTreeMap::new(),
            total: 0,
        }
    }
}

impl<Owner: Ord> Tally<Owner> {
    /// One more.
    pub(crate) fn add(&mut self, owner: Owner) {
        *self.counts.entry(owner).or_default() += 1;
        self.total += 1;
    }

    /// One less; nothing where there is none.
    pub(crate) fn remove(&mut self, owner: &Owner) {
        let Some(count) = self.counts.get_mut(owner) else {
            return;
        };
        *count -= 1;
        self.total -= 1;
        if *count == 0 {
            self.counts.remove(owner);
        }
    }

    /// How many this owner has.
    pub(crate) fn of(&self, owner: &Owner) -> usize {
        self.counts.get(owner).copied().unwrap_or_default()
    }

    /// How many there are in all.
    pub(crate) const fn total(&self) -> usize {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_counted_apart_and_together() {
        let mut tally = Tally::default();
        tally.add('a');
        tally.add('a');
        tally.add('b');
        tally.remove(&'a');
        tally.remove(&'c');
        assert_eq!((tally.of(&'a'), tally.of(&'b'), tally.total()), (1, 1, 2));
        tally.remove(&'a');
        assert_eq!((tally.of(&'a'), tally.total()), (0, 1));
    }
}
