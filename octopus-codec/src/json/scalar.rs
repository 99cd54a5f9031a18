//! The JSON check byte by byte.

use super::nesting::{Kind, Nesting};
use crate::text::{lowest_special, plain};

/// Whether this UTF-8 text is exactly one JSON value.
pub(super) fn is_json(text: &[u8]) -> bool {
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
#[inline]
fn string(text: &[u8], at: usize) -> Option<usize> {
    // Most strings end within a word.
    let special = lowest_special(word(text, at));
    let end = at + special.trailing_zeros() as usize / 8;
    if special != 0 && text.get(end) == Some(&b'"') {
        return Some(end + 1);
    }
    long_string(text, end)
}

/// [`string`] from any place in it on.
fn long_string(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        // Where one escape stands, another one or the end is often next.
        if !matches!(text.get(at), Some(b'\\' | b'"')) {
            at += plain(text.get(at..)?);
        }
        at += match &text[at..] {
            [b'"', ..] => return Some(at + 1),
            [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
            [b'\\', b'u', a, b, c, d, ..] if [a, b, c, d].iter().all(|x| x.is_ascii_hexdigit()) => 6,
            _ => return None,
        };
    }
}

/// The eight bytes from `at` on, the first one lowest; NULs stand in for those behind the end.
#[inline]
fn word(text: &[u8], at: usize) -> u64 {
    if let Some(word) = text.get(at..).and_then(|rest| rest.first_chunk()) {
        return u64::from_le_bytes(*word);
    }
    let missing = 8 - text.len().saturating_sub(at);
    match text.last_chunk() {
        Some(last) if missing < 8 => u64::from_le_bytes(*last) >> (8 * missing),
        Some(_) | None => 0,
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
