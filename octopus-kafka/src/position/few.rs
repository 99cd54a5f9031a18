//! A map of few entries, mostly of one: it takes the room of what it holds, where a tree has that of eleven.

use std::borrow::Borrow;

/// Values by key, in the order of the keys.
#[derive(Debug)]
pub(super) struct Few<K, V>(Vec<(K, V)>);

impl<K, V> Default for Few<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Ord, V> Few<K, V> {
    pub(super) fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.find(key).ok().map(|at| &self.0[at].1)
    }

    pub(super) fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.find(key).ok().map(|at| &mut self.0[at].1)
    }

    pub(super) fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.find(key).is_ok()
    }

    /// The value of a key, which is this one where it had none.
    pub(super) fn or_insert(&mut self, key: K, value: V) -> &mut V {
        let at = self.find(&key).unwrap_or_else(|at| {
            self.push(at, key, value);
            at
        });
        &mut self.0[at].1
    }

    /// Sets a key's value, and gives the one that it had.
    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                self.push(at, key, value);
                None
            }
        }
    }

    /// Takes a key and its value out.
    pub(super) fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.find(key).ok().map(|at| self.0.remove(at).1)
    }

    /// Keeps those whose key is one of these.
    pub(super) fn retain(&mut self, mut stays: impl FnMut(&K) -> bool) {
        self.0.retain(|(key, _)| stays(key));
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn find<Q>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.0.binary_search_by(|(known, _)| known.borrow().cmp(key))
    }

    fn push(&mut self, at: usize, key: K, value: V) {
        if self.0.len() == self.0.capacity() {
            // Room for one is enough for most; a vector begins with that of four.
            self.0.reserve_exact(self.0.len().max(1));
        }
        self.0.insert(at, (key, value));
    }
}

impl<K, V> IntoIterator for Few<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        #[test]
        fn it_holds_what_a_tree_holds(steps in vec((0..5u8, 0..6u8, any::<u8>()), 0..64)) {
            let (mut few, mut tree) = (Few::default(), BTreeMap::new());
            for (what, key, value) in steps {
                match what {
                    0 => prop_assert_eq!(few.insert(key, value), tree.insert(key, value)),
                    1 => prop_assert_eq!(few.remove(&key), tree.remove(&key)),
                    2 => prop_assert_eq!(few.or_insert(key, value), tree.entry(key).or_insert(value)),
                    3 => prop_assert_eq!(few.get_mut(&key), tree.get_mut(&key)),
                    _ => {
                        few.retain(|known| *known <= key);
                        tree.retain(|known, _| *known <= key);
                    }
                }
                prop_assert_eq!(few.get(&key), tree.get(&key));
                prop_assert_eq!(few.contains_key(&key), tree.contains_key(&key));
            }
            prop_assert!(few.into_iter().eq(tree));
        }
    }

    #[test]
    fn one_entry_takes_the_room_of_one() {
        let mut few = Few::default();
        few.insert("a", 1);
        assert_eq!(few.0.capacity(), 1);
    }
}
