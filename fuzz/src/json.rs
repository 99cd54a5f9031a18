//! The JSON check against serde_json, by each way that the machine has.

use octopus_codec::{is_json, is_utf8, json::Tier};
use serde::{Deserialize as _, de::IgnoredAny};

/// A text of this many bytes is looked at in several blocks.
const BLOCKS: usize = 200;

/// The input is a text, which is checked as it is, further on in a block, and as the items of a list that is long.
/// Everyone must say the same of each.
pub fn check(data: &[u8]) {
    let text = std::str::from_utf8(data);
    assert_eq!(is_utf8(data), text.is_ok());
    let Ok(text) = text else {
        // Nothing is promised of it but to come to an end.
        let _ = is_json(data);
        Tier::available().for_each(|tier| _ = tier.is_json(data));
        return;
    };
    one(text);
    let sum = data
        .iter()
        .fold(data.len(), |sum, byte| sum * 31 % 65_521 + usize::from(*byte));
    one(&format!("{}{text}", " ".repeat(1 + sum % 64)));
    let items = 1 + BLOCKS / (data.len() + 1);
    one(&format!("[{}]", vec![text; items].join(",")));
}

fn one(text: &str) {
    let verdict = oracle(text);
    assert_eq!(is_json(text.as_bytes()), verdict, "{text:?}");
    for tier in Tier::available() {
        assert_eq!(tier.is_json(text.as_bytes()), verdict, "{tier:?} of {text:?}");
    }
}

/// What serde_json says of a text, at any depth.
fn oracle(text: &str) -> bool {
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.disable_recursion_limit();
    IgnoredAny::deserialize(&mut reader).is_ok() && reader.end().is_ok()
}
