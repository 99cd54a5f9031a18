//! The JSON check by each way of doing it that this machine has, against other judges.
//!
//! `OCTOPUS_CASES` plays that many random cases, in place of what takes a second or two.

mod document;
mod random;
mod row;
mod suite;

use octopus_codec::{is_json, json::Tier};
use serde::{Deserialize as _, de::IgnoredAny};

/// The verdict that every tier gives on a text.
#[track_caller]
fn verdict(text: &[u8]) -> bool {
    let verdict = is_json(text);
    for tier in Tier::available() {
        assert_eq!(tier.is_json(text), verdict, "{tier:?}: {}", text.escape_ascii());
    }
    verdict
}

/// What serde_json says of a text, at any depth.
fn oracle(text: &str) -> bool {
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.disable_recursion_limit();
    IgnoredAny::deserialize(&mut reader).is_ok() && reader.end().is_ok()
}
