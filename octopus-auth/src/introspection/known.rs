//! Which tokens held before.

use std::collections::HashSet;

use super::TokenHash;

/// The tokens that were last told to hold, as many as have their place. The oldest half goes at once.
#[derive(Debug)]
pub(super) struct Known {
    most: usize,
    newer: HashSet<TokenHash>,
    older: HashSet<TokenHash>,
}

impl Known {
    /// None yet; `most` in each half.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            newer: HashSet::new(),
            older: HashSet::new(),
        }
    }

    pub(super) fn contains(&self, token: &TokenHash) -> bool {
        self.newer.contains(token) || self.older.contains(token)
    }

    pub(super) fn keep(&mut self, token: TokenHash) {
        if self.newer.len() >= self.most && !self.newer.contains(&token) {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(token);
    }

    pub(super) fn remove(&mut self, token: &TokenHash) {
        self.newer.remove(token);
        self.older.remove(token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_known_and_never_more_than_both_halves_hold() {
        let token = |number: u8| [number; 32];
        let mut known = Known::new(2);
        for number in 0..4 {
            known.keep(token(number));
        }
        assert!((0..4).all(|number| known.contains(&token(number))));
        known.keep(token(2));
        assert!(known.contains(&token(0)), "one that is there takes no place");
        known.keep(token(4));
        let kept: Vec<_> = (0..5).filter(|number| known.contains(&token(*number))).collect();
        assert_eq!(kept, [2, 3, 4]);
        known.remove(&token(2));
        known.remove(&token(4));
        assert!(!known.contains(&token(2)) && !known.contains(&token(4)));
    }
}
