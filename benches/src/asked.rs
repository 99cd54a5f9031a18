//! What a bench is asked for by its arguments.

use std::env;

/// The arguments of a bench, as `cargo bench` and `cargo test` give them.
#[derive(Debug)]
pub struct Asked {
    /// To measure, and not only to show that it works.
    pub is_whole: bool,
    /// The parts that are named.
    pub names: Vec<String>,
}

impl Asked {
    /// What this process is asked for.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self::of(env::args().skip(1))
    }

    fn of(arguments: impl Iterator<Item = String>) -> Self {
        let (flags, names): (Vec<_>, Vec<_>) = arguments.partition(|argument| argument.starts_with('-'));
        let has = |flag: &str| flags.iter().any(|given| given == flag);
        Self {
            is_whole: has("--bench") && !has("--test"),
            names,
        }
    }

    /// Whether a part is asked for: by its name, or as all of them are where none is named.
    #[must_use]
    pub fn wants(&self, part: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|name| name == part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bench_measures_what_is_named_unless_it_is_a_test() {
        let asked = |arguments: &str| Asked::of(arguments.split_whitespace().map(str::to_owned));
        assert!(asked("--bench").is_whole && asked("--bench").wants("any"));
        assert!(!asked("").is_whole && !asked("--bench --test").is_whole);
        let named = asked("a --bench b");
        assert_eq!(named.names, ["a", "b"]);
        assert!(named.is_whole && named.wants("a") && !named.wants("c"));
    }
}
