//! The JSON check against serde_json.

use octopus_codec::{is_json, is_utf8};
use serde::{Deserialize as _, de::IgnoredAny};

/// The input is a text; both must say the same of it.
pub fn check(data: &[u8]) {
    let text = std::str::from_utf8(data);
    assert_eq!(is_utf8(data), text.is_ok());
    let verdict = is_json(data);
    if let Ok(text) = text {
        assert_eq!(verdict, oracle(text), "{text:?}");
    }
}

/// What serde_json says of a text, at any depth.
fn oracle(text: &str) -> bool {
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.disable_recursion_limit();
    IgnoredAny::deserialize(&mut reader).is_ok() && reader.end().is_ok()
}
