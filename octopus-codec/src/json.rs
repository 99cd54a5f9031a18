//! Is it exactly one JSON value [FE-03]? Exact by RFC 8259 at any depth and length, with one bit a nesting
//! level [FE-07] [D-40].

#[cfg(target_arch = "x86_64")]
#[expect(
    unsafe_code,
    reason = "it loads vectors and runs code for processor features that it has asked for"
)]
mod avx2;
mod nesting;
mod scalar;
mod tier;

pub use tier::Tier;

/// Whether this UTF-8 text is exactly one JSON value, with blanks around it allowed [FE-03] [D-27].
///
/// That `text` is UTF-8 is for the caller to know ([`is_utf8`](crate::is_utf8)); it is not checked here. Numbers
/// may be of any size and length, escapes of lone surrogates count as characters, and a byte order mark is not
/// JSON. Nothing is allocated to a depth of 512; past that it is a bit a level, so at most a sixteenth of the
/// text's length, and no stack grows with the text.
#[must_use]
pub fn is_json(text: &[u8]) -> bool {
    (text.len() < tier::LONG || is_likely(text)) && Tier::of(text.len()).is_json(text)
}

/// Whether the text's first and last characters are those of one value, which tells most texts at once.
fn is_likely(text: &[u8]) -> bool {
    let is_blank = |byte: &&u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
    let first = text.iter().find(|byte| !is_blank(byte));
    let last = text.iter().rfind(|byte| !is_blank(byte));
    matches!(
        (first, last),
        (Some(b'{'), Some(b'}'))
            | (Some(b'['), Some(b']'))
            | (Some(b'"'), Some(b'"'))
            | (Some(b't' | b'f'), Some(b'e'))
            | (Some(b'n'), Some(b'l'))
            | (Some(b'-' | b'0'..=b'9'), Some(b'0'..=b'9'))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What every tier says of a text.
    #[track_caller]
    fn verdict(text: &[u8]) -> bool {
        let verdict = is_json(text);
        for tier in Tier::available() {
            assert_eq!(tier.is_json(text), verdict, "{tier:?}");
        }
        verdict
    }

    /// [FE-03]
    #[test]
    fn one_value_is_json() {
        for text in [
            "null",
            "true",
            "false",
            "0",
            "-0",
            "0e0",
            "1E+05",
            "1e999999",
            "-1.5e-999999",
            "\"\"",
            "\"abc\"",
            "{}",
            "[]",
            "[{}]",
            "{\"\":[]}",
            "{\"a\":1,\"a\":2}",
            "[[],{\"b\":[null]},3]",
            "\"\\ud800\"",
            "\"\\udead\\ud800\"",
            "\"\\u0000\\/\"",
            "\"\u{7f}\u{85}\u{ffff}\u{10ffff}\"",
            "[1 , 2]",
            "{ \"a\" : 1 }",
        ] {
            assert!(verdict(text.as_bytes()), "{text}");
        }
        assert!(verdict("1".repeat(100_000).as_bytes()));
        assert!(verdict(format!("-1.{0}e-{0}", "7".repeat(100_000)).as_bytes()));
    }

    /// [D-27]
    #[test]
    fn blanks_around_a_value_are_allowed() {
        assert!(verdict(b"\r\n null \t"));
        assert!(verdict(b"{\"a\":1}\r\n"));
        for other in ["\u{b}1", "\u{c}1", "\u{a0}1", "\u{2028}1", "1\0", "\0"] {
            assert!(!verdict(other.as_bytes()), "{other:?}");
        }
    }

    /// [FE-04]
    #[test]
    fn anything_else_is_text() {
        for text in [
            "",
            " ",
            "\n",
            "abc",
            "NULL",
            "nul",
            "nulll",
            "truefalse",
            "NaN",
            "-Infinity",
            "-",
            "+1",
            "01",
            "-01",
            "00",
            "1.",
            ".5",
            "1e",
            "1e+",
            "1.e1",
            "0x1F",
            "1_000",
            "{\"a\":1} {\"b\":2}",
            "{\"a\":1}\n{\"b\":2}",
            "1 2",
            "[1,]",
            "[,1]",
            "{\"a\":1,}",
            "{,}",
            "{a:1}",
            "{'a':1}",
            "{\"a\" 1}",
            "{\"a\":}",
            "{\"a\"}",
            "{1:2}",
            "[1 2]",
            "[}",
            "{]",
            "]",
            "[",
            "{",
            "[[]",
            "[]]",
            "\"",
            "\"a",
            "\"\\\"",
            "\"\t\"",
            "\"\n\"",
            "\"\u{1f}\"",
            "\"\\uD8\"",
            "\"\\U0041\"",
            "\"\\x41\"",
            "\"\\'\"",
            "\"\\u12g4\"",
            "'a'",
            "/**/1",
            "1//",
            "\u{feff}{}",
            "\u{feff}",
        ] {
            assert!(!verdict(text.as_bytes()), "{text:?}");
        }
        assert!(!verdict(format!("{}x", "1".repeat(100_000)).as_bytes()));
    }

    /// [D-40]
    #[test]
    fn any_depth_is_read_exactly() {
        for depth in [1, 63, 64, 65, 511, 512, 513, 40_000, 1_000_000] {
            let open: String = (0..depth)
                .map(|i| if i % 3 == 0 { "{\"k\":" } else { "[" })
                .collect();
            let close: String = (0..depth)
                .rev()
                .map(|i| if i % 3 == 0 { '}' } else { ']' })
                .collect();
            assert!(verdict(format!("{open}0{close}").as_bytes()), "{depth}");
            assert!(!verdict(format!("{open}0{}", &close[1..]).as_bytes()), "{depth}");
            assert!(!verdict(format!("{open}0{close}]").as_bytes()), "{depth}");
            let swapped = close.replacen(']', "}", 1);
            if swapped != close {
                assert!(!verdict(format!("{open}0{swapped}").as_bytes()), "{depth}");
            }
        }
    }
}
