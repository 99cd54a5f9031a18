//! A line: first come, first served, and anyone may leave it.

use std::collections::BTreeMap;

/// Those who wait, in the order in which they came. Every operation is O(log n).
#[derive(Debug)]
pub(crate) struct Line<Id> {
    next: u64,
    order: BTreeMap<u64, Id>,
    places: BTreeMap<Id, u64>,
}

impl<Id> Default for Line<Id> {
    fn default() -> Self {
        Self {
            next: 0,
            order: BTreeMap::new(),
            places: BTreeMap::new(),
        }
    }
}

impl<Id: Copy + Ord> Line<Id> {
    /// Goes to the back; who stands in the line already keeps its place.
    pub(crate) fn push(&mut self, id: Id) {
        if let std::collections::btree_map::Entry::Vacant(place) = self.places.entry(id) {
            place.insert(self.next);
            self.order.insert(self.next, id);
            self.next += 1;
        }
    }

    /// Takes the first out.
    pub(crate) fn pop(&mut self) -> Option<Id> {
        let (_, id) = self.order.pop_first()?;
        self.places.remove(&id);
        Some(id)
    }

    /// Takes one out, wherever it stands.
    pub(crate) fn remove(&mut self, id: Id) {
        if let Some(place) = self.places.remove(&id) {
            self.order.remove(&place);
        }
    }

    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_to_come_is_the_first_to_go() {
        let mut line = Line::default();
        for id in [3, 1, 2, 1] {
            line.push(id);
        }
        line.remove(2);
        assert_eq!(line.pop(), Some(3));
        line.push(3);
        assert_eq!(line.pop(), Some(1));
        assert_eq!(line.pop(), Some(3));
        assert_eq!(line.pop(), None);
        assert!(line.is_empty());
    }
}
