//! Generated documents, which shrink to a small one where a verdict is wrong.

use proptest::{collection::vec, prelude::*, sample::select};

use crate::{oracle, verdict};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    /// [FE-03] [FE-04]
    #[test]
    fn the_verdict_on_a_document_is_that_of_serde_json(text in document()) {
        prop_assert!(oracle(&text), "the generator makes JSON");
        prop_assert!(verdict(text.as_bytes()));
    }

    /// [FE-03] [FE-04]
    #[test]
    fn the_verdict_on_a_changed_document_is_that_of_serde_json(
        text in document(),
        changes in vec((any::<prop::sample::Index>(), 0..4u8, select(CHARACTERS)), 1..4),
    ) {
        let mut text: Vec<char> = text.chars().collect();
        for (index, change, character) in changes {
            let at = index.index(text.len() + 1);
            match change {
                0 if at < text.len() => drop(text.remove(at)),
                1 if at < text.len() => text[at] = character,
                2 => text.truncate(at),
                _ => text.insert(at, character),
            }
        }
        let text: String = text.into_iter().collect();
        prop_assert_eq!(verdict(text.as_bytes()), oracle(&text));
    }

    /// [FE-03] [FE-04]
    #[test]
    fn the_verdict_on_a_row_of_tokens_is_that_of_serde_json(tokens in vec(select(TOKENS), 0..8)) {
        let text = tokens.concat();
        prop_assert_eq!(verdict(text.as_bytes()), oracle(&text));
    }

    /// [FE-03] [FE-04]
    #[test]
    fn the_verdict_on_any_text_is_that_of_serde_json(text in "\\PC{0,40}") {
        prop_assert_eq!(verdict(text.as_bytes()), oracle(&text));
    }

    /// [FE-03] what another parser takes is JSON; it refuses some that is.
    #[test]
    fn what_simd_json_takes_is_json(tokens in vec(select(TOKENS), 1..6)) {
        let text = tokens.concat();
        if simd_json::to_tape(&mut text.clone().into_bytes()).is_ok() {
            prop_assert!(verdict(text.as_bytes()));
        }
    }
}

const CHARACTERS: &[char] = &[
    '[', ']', '{', '}', ',', ':', '"', '\\', 'u', '0', '1', '-', '+', '.', 'e', 'E', 't', 'n', ' ', '\n',
    '\t', '\r', '\u{b}', '\0', '\u{1f}', '/', 'f', 'D', 'ä', '\u{feff}', '\u{2028}', '𝄞',
];

const TOKENS: &[&str] = &[
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "\"\"",
    "\"a\"",
    "\"a\":",
    "\"\\ud800\"",
    "\"",
    "\\",
    "0",
    "-",
    "1",
    "1.5",
    "1e9",
    "-0",
    "true",
    "false",
    "null",
    "nul",
    " ",
    "\n",
    "[]",
    "{}",
    "[1]",
    "{\"a\":1}",
    "e",
    ".",
    "\u{1}",
    "ä",
];

fn document() -> impl Strategy<Value = String> {
    let blank = || "[ \n\r\t]{0,2}";
    let string = || r#""([ !#-\[\]-~ä€𝄞]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}){0,12}""#;
    let leaf = prop_oneof![
        string(),
        r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,6})?",
        select(&["true", "false", "null", "[]", "{}"][..]).prop_map(str::to_owned),
        "\"[a-z ]{60,140}\"",
    ];
    let value = leaf.prop_recursive(6, 40, 4, move |inner| {
        let item = (blank(), inner, blank()).prop_map(|(before, value, after)| before + &value + &after);
        let member = (blank(), string(), blank(), item.clone())
            .prop_map(|(before, name, after, value)| before + &name + &after + ":" + &value);
        prop_oneof![
            vec(item, 1..4).prop_map(|items| format!("[{}]", items.join(","))),
            vec(member, 1..4).prop_map(|members| format!("{{{}}}", members.join(","))),
        ]
    });
    (blank(), value, blank()).prop_map(|(before, value, after)| before + &value + &after)
}
