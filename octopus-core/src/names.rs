//! The names of callers, groups, instances and namespaces.

use std::{borrow::Borrow, fmt, sync::Arc};

use crate::limits::NAME_LENGTH;

/// A caller's identity: a UUID, shown as 8-4-4-4-12 lower-case hex digits [D-42].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject(u128);

impl Subject {
    /// The subject with the UUID of this number.
    #[must_use]
    pub const fn from_uuid(uuid: u128) -> Self {
        Self(uuid)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.0;
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            id >> 96,
            (id >> 80) & 0xffff,
            (id >> 64) & 0xffff,
            (id >> 48) & 0xffff,
            id & 0xffff_ffff_ffff,
        )
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The prefix of a caller's topics and groups on Kafka, without the dot that follows it [NS-01].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(Arc<str>);

impl Namespace {
    /// The default namespace of a subject: `ns-` and its last 12 hex digits [NS-01].
    #[must_use]
    pub fn of(subject: Subject) -> Self {
        Self(format!("ns-{:012x}", subject.0 & 0xffff_ffff_ffff).into())
    }

    /// No namespace: topics and groups go by the names that Kafka knows them by. For programs that have a cluster
    /// of their own; no subject of the service has it.
    #[must_use]
    pub fn none() -> Self {
        Self("".into())
    }

    /// The name as text; empty for [`none`](Self::none).
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What this namespace's topic or group `name` is called on Kafka [NS-02] [NS-03].
    #[must_use]
    pub fn qualify(&self, name: &str) -> String {
        if self.0.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.0)
        }
    }

    /// What a topic or a group of Kafka's is called within this namespace; `None` for one of another [NS-02].
    #[must_use]
    pub fn strip<'a>(&self, name: &'a str) -> Option<&'a str> {
        if self.0.is_empty() {
            Some(name)
        } else {
            name.strip_prefix(&*self.0)?.strip_prefix('.')
        }
    }
}

/// A consumer group's or an instance's name: 1 to 128 letters, digits, dots, dashes or underscores of
/// ASCII, the first a letter or a digit [CR-02].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// The name, or `None` if `text` breaks the rule.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let starts_well = text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
        let all_allowed = text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'));
        (starts_well && all_allowed && text.len() <= NAME_LENGTH).then(|| Self(text.into()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// How an instance is known: by its owner, its group and its name [D-42].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceKey {
    /// Who created it; another subject's request never finds it [AU-03].
    pub subject: Subject,
    /// The consumer group, without the namespace.
    pub group: Name,
    /// The instance's name within its group.
    pub name: Name,
}

macro_rules! shown_as_text {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    )*};
}

shown_as_text!(Name, Namespace);

#[cfg(test)]
mod tests {
    use super::*;

    /// [NS-01] [D-42]
    #[test]
    fn a_namespace_is_the_end_of_its_subject() {
        let subject = Subject::from_uuid(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
        assert_eq!(subject.to_string(), "01234567-89ab-cdef-0011-223344556677");
        assert_eq!(Namespace::of(subject).as_str(), "ns-223344556677");
        assert_eq!(Namespace::of(Subject::from_uuid(1)).as_str(), "ns-000000000001");
    }

    /// [NS-02] [NS-03]
    #[test]
    fn names_on_kafka_start_with_the_namespace_and_a_dot() {
        assert_eq!(
            Namespace::of(Subject::from_uuid(1)).qualify("my-group"),
            "ns-000000000001.my-group"
        );
    }

    /// [NS-02]
    #[test]
    fn what_a_namespace_puts_before_a_name_it_takes_off_again() {
        let own = Namespace::of(Subject::from_uuid(1));
        assert_eq!(own.strip("ns-000000000001.a.b"), Some("a.b"));
        assert_eq!(
            own.strip(&own.qualify(&own.qualify("x"))),
            Some("ns-000000000001.x")
        );
        for other in [
            "ns-000000000002.a",
            "ns-000000000001",
            "ns-000000000001a.b",
            "a",
            "",
        ] {
            assert_eq!(own.strip(other), None, "{other}");
        }
        let none = Namespace::none();
        for name in ["a", ".a", "a.b"] {
            assert_eq!(none.qualify(name), name);
            assert_eq!(none.strip(name), Some(name));
        }
    }

    /// [CR-02]
    #[test]
    fn a_name_keeps_to_its_rule() {
        for good in ["a", "7", "my-group", "A.b_c-9", &"x".repeat(128)] {
            assert!(Name::parse(good).is_some(), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            ".a",
            "-a",
            "_a",
            "a b",
            "a/b",
            "ä",
            "a\0",
            "٣",
            &"x".repeat(129),
        ] {
            assert!(Name::parse(bad).is_none(), "{bad}");
        }
    }
}
