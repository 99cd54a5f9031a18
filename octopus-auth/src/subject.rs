//! Who a caller is, and where its topics and groups live.

use octopus_core::{Namespace, Subject};

/// A caller whose token holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Who it is: its instances are its own [AU-03].
    pub subject: Subject,
    /// The namespace that its routes act in [NS-01].
    pub namespace: Namespace,
}

impl Caller {
    /// The caller of this subject, in its default namespace [NS-01].
    #[must_use]
    pub fn of(subject: Subject) -> Self {
        Self {
            subject,
            namespace: Namespace::of(subject),
        }
    }
}

/// Reads a subject: a UUID of 8-4-4-4-12 hex digits in any case; any other form is `None` [D-42].
#[must_use]
pub fn subject(text: &str) -> Option<Subject> {
    const LENGTH: usize = 36;
    const DASHES: [usize; 4] = [8, 13, 18, 23];
    if text.len() != LENGTH {
        return None;
    }
    let mut uuid = 0u128;
    for (i, byte) in text.bytes().enumerate() {
        if DASHES.contains(&i) {
            if byte != b'-' {
                return None;
            }
        } else {
            uuid = uuid << 4 | u128::from(char::from(byte).to_digit(16)?);
        }
    }
    Some(Subject::from_uuid(uuid))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// [D-42] [NS-01]
    #[test]
    fn a_subject_is_read_in_any_case() {
        for text in [
            "01234567-89ab-cdef-0011-aabbccddeeff",
            "01234567-89AB-CDEF-0011-AABBCCDDEEFF",
            "01234567-89aB-cDEf-0011-AaBbCcDdEeFf",
        ] {
            let caller = Caller::of(subject(text).unwrap());
            assert_eq!(caller.subject.to_string(), "01234567-89ab-cdef-0011-aabbccddeeff");
            assert_eq!(caller.namespace.as_str(), "ns-aabbccddeeff");
        }
    }

    /// [AU-02] [D-42]
    #[test]
    fn anything_but_a_uuid_is_no_subject() {
        for text in [
            "",
            "0",
            "0123456789abcdef0011aabbccddeeff",
            "{01234567-89ab-cdef-0011-aabbccddeeff}",
            "urn:uuid:01234567-89ab-cdef-0011-aabbccddeeff",
            "01234567-89ab-cdef-0011-aabbccddeef",
            "01234567-89ab-cdef-0011-aabbccddeeff0",
            "01234567-89ab-cdef-0011-aabbccddeefg",
            "0123456-789ab-cdef-0011-aabbccddeeff",
            "01234567-89ab-cdef-00110aabbccddeeff",
            " 1234567-89ab-cdef-0011-aabbccddeeff",
            "+1234567-89ab-cdef-0011-aabbccddeeff",
            "0123456ä-89ab-cdef-0011-aabbccddeef",
        ] {
            assert_eq!(subject(text), None, "{text}");
        }
    }

    proptest! {
        /// [D-42]
        #[test]
        fn what_is_shown_is_read_back(uuid: u128) {
            let shown = Subject::from_uuid(uuid).to_string();
            prop_assert_eq!(subject(&shown), Some(Subject::from_uuid(uuid)));
            prop_assert_eq!(subject(&shown.to_uppercase()), Some(Subject::from_uuid(uuid)));
        }

        #[test]
        fn no_text_is_too_strange(text in "\\PC{0,40}") {
            if let Some(read) = subject(&text) {
                prop_assert_eq!(read.to_string(), text.to_lowercase());
            }
        }
    }
}
