//! JSON without the blanks between its tokens; each token as it came.

/// Leaves the blanks between the tokens of one JSON value out. Numbers, escapes, the order of fields and repeated ones
/// stay as they are. Of a text that is not JSON, something.
pub(super) fn compact(json: &str) -> Vec<u8> {
    let mut compact = Vec::with_capacity(json.len());
    let mut rest = json.as_bytes();
    while let Some(first) = rest.first() {
        let end = match first {
            b'"' => string(rest),
            first if is_blank(first) => {
                rest = &rest[1..];
                continue;
            }
            _ => {
                let end = rest.iter().position(|byte| *byte == b'"' || is_blank(byte));
                end.unwrap_or(rest.len())
            }
        };
        compact.extend_from_slice(&rest[..end]);
        rest = &rest[end..];
    }
    compact
}

const fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

/// How long a string is, with its quotes.
fn string(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = text.get(at) {
        at += match byte {
            b'"' => return at + 1,
            b'\\' => 2,
            _ => 1,
        };
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use octopus_codec::is_json;
    use proptest::{collection::vec, prelude::*};
    use serde_json::Value;

    use super::*;

    #[test]
    fn only_blanks_between_tokens_go() {
        for (given, kept) in [
            (
                r#" { "b" : 1 , "a" : [ 1.00 , -0 , 1E+2 ] } "#,
                r#"{"b":1,"a":[1.00,-0,1E+2]}"#,
            ),
            ("{\"a\":\n\t1,\r\n\"a\":2}", r#"{"a":1,"a":2}"#),
            (r#" "a \" b\\" "#, r#""a \" b\\""#),
            (
                r#"["\ud800 x", "\u00e4 ä", "\/"]"#,
                r#"["\ud800 x","\u00e4 ä","\/"]"#,
            ),
            (
                "1234567890123456789012345678901234567890.50",
                "1234567890123456789012345678901234567890.50",
            ),
            ("null", "null"),
        ] {
            assert_eq!(String::from_utf8(compact(given)).unwrap(), kept);
        }
    }

    #[test]
    fn a_text_that_ends_early_ends_there() {
        for text in ["\"", "\"a", "\"\\", "{\"a", "[\"\\\"", ""] {
            assert_eq!(compact(text), text.as_bytes());
        }
    }

    /// JSON with blanks everywhere between its tokens, and the same without.
    fn spread() -> impl Strategy<Value = (String, String)> {
        let token = prop_oneof![
            "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,3})?",
            "(true|false|null)",
            r#""([ a-z\t{}:,\[\]ä€]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}){0,12}""#
                .prop_map(|text| text.replace('\t', " ")),
        ];
        let leaf =
            (token, "[ \n\r\t]{0,3}").prop_map(|(token, blanks)| (format!("{blanks}{token}{blanks}"), token));
        leaf.prop_recursive(5, 60, 6, |inner| {
            let name = r#""([a-c ]|\\n){0,3}""#;
            prop_oneof![
                (vec(inner.clone(), 0..6), "[ \n]{0,2}").prop_map(|(items, blanks)| {
                    let (spread, kept): (Vec<_>, Vec<_>) = items.into_iter().unzip();
                    (
                        format!("{blanks}[{blanks}{}]{blanks}", spread.join(",")),
                        format!("[{}]", kept.join(",")),
                    )
                }),
                (vec((name, inner), 0..6), "[ \t]{0,2}").prop_map(|(fields, blanks)| {
                    let spread: Vec<_> = fields
                        .iter()
                        .map(|(n, v)| format!("{blanks}{n}{blanks}:{}", v.0))
                        .collect();
                    let kept: Vec<_> = fields.iter().map(|(n, v)| format!("{n}:{}", v.1)).collect();
                    (
                        format!("{blanks}{{{}{blanks}}}", spread.join(",")),
                        format!("{{{}}}", kept.join(",")),
                    )
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_token_stays_as_it_came((given, kept) in spread()) {
            let compact = compact(&given);
            prop_assert!(is_json(&compact), "{given}");
            prop_assert_eq!(String::from_utf8(compact).unwrap(), kept);
        }

        #[test]
        fn what_it_means_stays((given, _) in spread()) {
            // Lone surrogates and numbers past a double have no meaning to compare.
            if let Ok(value) = serde_json::from_str::<Value>(&given) {
                prop_assert_eq!(serde_json::from_slice::<Value>(&compact(&given)).unwrap(), value);
            }
        }

        #[test]
        fn any_text_is_taken_without_harm(text in ".{0,60}") {
            prop_assert!(compact(&text).len() <= text.len());
        }
    }
}
