//! Is it exactly one JSON value [FE-03]? Exact by RFC 8259 at any depth and length, with one bit a nesting
//! level [FE-07] [D-40].

use crate::text::plain;

/// Whether this UTF-8 text is exactly one JSON value, with blanks around it allowed [FE-03] [D-27].
///
/// That `text` is UTF-8 is for the caller to know ([`is_utf8`](crate::is_utf8)); it is not checked here. Numbers
/// may be of any size and length, escapes of lone surrogates count as characters, and a byte order mark is not
/// JSON. Nothing is allocated to a depth of 512; past that it is a bit a level, so at most a sixteenth of the
/// text's length, and no stack grows with the text.
#[must_use]
pub fn is_json(text: &[u8]) -> bool {
    check(text).is_some()
}

fn check(text: &[u8]) -> Option<()> {
    let mut nesting = Nesting::new();
    let mut innermost = None;
    let mut at = blanks(text, 0);
    loop {
        let first = *text.get(at)?;
        at = match first {
            b'"' => string(text, at + 1)?,
            b'{' => {
                at = blanks(text, at + 1);
                if text.get(at) == Some(&b'}') {
                    at + 1
                } else {
                    nesting.open(Kind::Object, text.len() - at)?;
                    innermost = Some(Kind::Object);
                    at = name(text, at)?;
                    continue;
                }
            }
            b'[' => {
                at = blanks(text, at + 1);
                if text.get(at) == Some(&b']') {
                    at + 1
                } else {
                    nesting.open(Kind::Array, text.len() - at)?;
                    innermost = Some(Kind::Array);
                    continue;
                }
            }
            b'-' => number(text, at + 1)?,
            b'0'..=b'9' => number(text, at)?,
            b't' => literal(text, at, b"true")?,
            b'f' => literal(text, at, b"false")?,
            b'n' => literal(text, at, b"null")?,
            _ => return None,
        };
        // A value has ended: close what ends with it, up to a comma.
        loop {
            at = blanks(text, at);
            let Some(kind) = innermost else {
                return (at == text.len()).then_some(());
            };
            match (kind, *text.get(at)?) {
                (Kind::Array, b',') => {
                    at = blanks(text, at + 1);
                    break;
                }
                (Kind::Object, b',') => {
                    at = name(text, blanks(text, at + 1))?;
                    break;
                }
                (Kind::Array, b']') | (Kind::Object, b'}') => {
                    innermost = nesting.close();
                    at += 1;
                }
                (Kind::Array | Kind::Object, _) => return None,
            }
        }
    }
}

/// Behind the blanks from `at` on.
#[inline]
fn blanks(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = text.get(at) {
        at += 1;
    }
    at
}

/// Behind an object's member name, its colon and the blanks around that.
fn name(text: &[u8], at: usize) -> Option<usize> {
    let at = blanks(text, string(text, literal(text, at, b"\"")?)?);
    Some(blanks(text, literal(text, at, b":")?))
}

/// Behind the end of a string whose quote was read.
fn string(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let rest = text.get(at..)?;
        let clean = plain(rest);
        at += clean
            + match &rest[clean..] {
                [b'"', ..] => return Some(at + clean + 1),
                [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
                [b'\\', b'u', a, b, c, d, ..] if [a, b, c, d].iter().all(|x| x.is_ascii_hexdigit()) => 6,
                _ => return None,
            };
    }
}

/// Behind a number whose minus was read.
fn number(text: &[u8], mut at: usize) -> Option<usize> {
    at = if text.get(at) == Some(&b'0') {
        at + 1
    } else {
        digits(text, at)?
    };
    if text.get(at) == Some(&b'.') {
        at = digits(text, at + 1)?;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        let signed = matches!(text.get(at + 1), Some(b'+' | b'-'));
        at = digits(text, at + 1 + usize::from(signed))?;
    }
    Some(at)
}

/// Behind at least one digit.
#[inline]
fn digits(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    while let Some(b'0'..=b'9') = text.get(at) {
        at += 1;
    }
    (at > start).then_some(at)
}

/// Behind these characters.
#[inline]
fn literal(text: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    text.get(at..)?.starts_with(word).then_some(at + word.len())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Array,
    Object,
}

/// What is open, outermost first: a bit each, clear for an array and set for an object.
struct Nesting {
    depth: usize,
    first: [u64; INLINE],
    more: Vec<Box<[u64; STEP]>>,
}

/// The words for levels up to 512, which need no allocation.
const INLINE: usize = 8;
/// The words of one step of growth.
const STEP: usize = 512;

impl Nesting {
    const fn new() -> Self {
        Self {
            depth: 0,
            first: [0; INLINE],
            more: Vec::new(),
        }
    }

    /// Opens one more level, or `None` where the `left` bytes can't close them all.
    fn open(&mut self, kind: Kind, left: usize) -> Option<()> {
        if self.depth >= left {
            return None;
        }
        let (index, bit) = (self.depth / 64, 1u64 << (self.depth % 64));
        let word = match index.checked_sub(INLINE) {
            None => &mut self.first[index],
            Some(index) => {
                if index / STEP == self.more.len() {
                    self.more.push(Box::new([0; STEP]));
                }
                &mut self.more[index / STEP][index % STEP]
            }
        };
        match kind {
            Kind::Array => *word &= !bit,
            Kind::Object => *word |= bit,
        }
        self.depth += 1;
        Some(())
    }

    /// Closes the innermost level and says what is around it.
    fn close(&mut self) -> Option<Kind> {
        self.depth = self.depth.saturating_sub(1);
        let level = self.depth.checked_sub(1)?;
        let word = match (level / 64).checked_sub(INLINE) {
            None => self.first[level / 64],
            Some(index) => self.more[index / STEP][index % STEP],
        };
        Some(if word >> (level % 64) & 1 == 0 {
            Kind::Array
        } else {
            Kind::Object
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert!(is_json(text.as_bytes()), "{text}");
        }
        assert!(is_json("1".repeat(100_000).as_bytes()));
        assert!(is_json(format!("-1.{0}e-{0}", "7".repeat(100_000)).as_bytes()));
    }

    /// [D-27]
    #[test]
    fn blanks_around_a_value_are_allowed() {
        assert!(is_json(b"\r\n null \t"));
        assert!(is_json(b"{\"a\":1}\r\n"));
        for other in ["\u{b}1", "\u{c}1", "\u{a0}1", "\u{2028}1", "1\0", "\0"] {
            assert!(!is_json(other.as_bytes()), "{other:?}");
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
            assert!(!is_json(text.as_bytes()), "{text:?}");
        }
        assert!(!is_json(format!("{}x", "1".repeat(100_000)).as_bytes()));
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
            assert!(is_json(format!("{open}0{close}").as_bytes()), "{depth}");
            assert!(!is_json(format!("{open}0{}", &close[1..]).as_bytes()), "{depth}");
            assert!(!is_json(format!("{open}0{close}]").as_bytes()), "{depth}");
            let swapped = close.replacen(']', "}", 1);
            if swapped != close {
                assert!(!is_json(format!("{open}0{swapped}").as_bytes()), "{depth}");
            }
        }
    }
}
