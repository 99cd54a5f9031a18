//! Names of topics, as a member keeps them: a set takes ten times as much.

use std::{collections::BTreeSet, sync::Arc};

/// A set of names, few and never changed. Its clones are the same one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Topics(Arc<[Box<str>]>);

impl Topics {
    /// These names; a clone of `like` where they are the same.
    pub(super) fn new(names: impl IntoIterator<Item = String>, like: &Self) -> Self {
        let names: BTreeSet<String> = names.into_iter().collect();
        if names.iter().map(String::as_str).eq(like.iter()) {
            return like.clone();
        }
        Self(names.into_iter().map(String::into_boxed_str).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.binary_search_by(|known| (**known).cmp(name)).is_ok()
    }

    /// In their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|name| &**name)
    }

    pub(super) fn to_set(&self) -> BTreeSet<String> {
        self.iter().map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topics(names: &[&str]) -> Topics {
        Topics::new(names.iter().map(|name| (*name).to_owned()), &Topics::default())
    }

    #[test]
    fn names_are_a_set() {
        let some = topics(&["b", "a", "c", "a"]);
        assert_eq!(some.iter().collect::<Vec<_>>(), ["a", "b", "c"]);
        for (name, held) in [
            ("a", true),
            ("b", true),
            ("c", true),
            ("", false),
            ("d", false),
            ("ab", false),
        ] {
            assert_eq!(some.contains(name), held, "{name}");
        }
        assert_eq!(some, topics(&["c", "b", "a"]));
        assert_ne!(some, topics(&["c", "b"]));
        assert_eq!(Topics::new(some.to_set(), &Topics::default()), some);
        assert!(topics(&[]).is_empty() && !some.is_empty());
    }

    #[test]
    fn the_same_names_are_kept_once() {
        let some = topics(&["a", "b"]);
        let again = Topics::new(some.to_set(), &some);
        assert!(Arc::ptr_eq(&some.0, &again.0));
        let fewer = Topics::new(["a".to_owned()], &some);
        assert_eq!(fewer, topics(&["a"]));
    }
}
