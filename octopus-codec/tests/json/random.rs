//! Many random texts, fast: each case follows from its number.

use std::{env, fmt::Write as _, ops::Range};

use crate::{oracle, verdict};

/// [FE-03] [FE-04]
#[test]
fn the_verdict_on_random_texts_is_that_of_serde_json() {
    let cases = env::var("OCTOPUS_CASES").map_or(100_000, |cases| cases.parse().expect("a number of cases"));
    let mut good = 0u64;
    for case in 0..cases {
        let text = text(&mut Random(case));
        let expected = oracle(&text);
        assert_eq!(verdict(text.as_bytes()), expected, "case {case}: {text:?}");
        good += u64::from(expected);
    }
    // Both verdicts must be tried.
    assert!(
        good > cases / 5 && good < cases - cases / 5,
        "{good} of {cases} are JSON"
    );
}

fn text(random: &mut Random) -> String {
    let mut text = String::new();
    if random.below(5) == 0 {
        for _ in 0..random.below(14) {
            text.push_str(random.one_of(TOKENS));
        }
    } else {
        let mut size = random.below(40) + 1;
        value(random, &mut text, &mut size);
        if random.below(2) == 0 {
            for _ in 0..random.below(3) + 1 {
                change(random, &mut text);
            }
        }
    }
    // Every place in a block, behind blanks and behind a string.
    let shift = random.below(130);
    match random.below(4) {
        0 => format!("{:shift$}{text}", ""),
        1 => format!("[\"{:x<shift$}\",{text}]", ""),
        2 => format!("{{\"{:\u{e4}<shift$}\\\\\":{text}}}{:shift$}", "", ""),
        _ => text,
    }
}

fn value(random: &mut Random, text: &mut String, size: &mut usize) {
    *size = size.saturating_sub(1);
    text.push_str(random.one_of(BLANKS));
    match random.below(if *size == 0 { 6 } else { 12 }) {
        0 => text.push_str(random.one_of(&["true", "false", "null"])),
        1 => {
            let digits = random.below(12);
            let number = random.next() % 10u64.pow(u32::try_from(digits).expect("few"));
            let _ = write!(text, "{}{number}", random.one_of(&["", "", "-"]));
        }
        2 => {
            let [whole, fraction, exponent] = [1000, 1_000_000, 400].map(|most| random.below(most));
            let _ = match random.below(3) {
                0 => write!(text, "{whole}.{fraction}"),
                1 => write!(
                    text,
                    "-{whole}.{fraction}{}{exponent}",
                    random.one_of(&["e", "E-", "e+"])
                ),
                _ => write!(text, "{whole}{}{exponent}", random.one_of(&["e", "E-", "e+"])),
            };
        }
        3 | 4 => string(random, text),
        5 => text.push_str(random.one_of(&["[]", "{}", "[ ]", "{\n}", "\"\"", "0", "-0"])),
        6..9 => list(random, text, size, '[', ']'),
        _ => list(random, text, size, '{', '}'),
    }
    text.push_str(random.one_of(BLANKS));
}

fn list(random: &mut Random, text: &mut String, size: &mut usize, open: char, close: char) {
    text.push(open);
    for i in 0..=random.below(5) {
        if i > 0 {
            text.push(',');
        }
        if open == '{' {
            text.push_str(random.one_of(BLANKS));
            string(random, text);
            text.push_str(random.one_of(BLANKS));
            text.push(':');
        }
        value(random, text, size);
    }
    text.push(close);
}

fn string(random: &mut Random, text: &mut String) {
    text.push('"');
    let most = random.one_of(&[3, 3, 10, 60]);
    for _ in 0..random.below(most) {
        text.push_str(random.one_of(INSIDE));
    }
    text.push('"');
}

fn change(random: &mut Random, text: &mut String) {
    let at = place(random, text);
    match random.below(5) {
        0 => text.truncate(at),
        1 => text.insert_str(at, random.one_of(TOKENS)),
        2 => drop((at < text.len()).then(|| text.remove(at))),
        3 => {
            let Range { start, end } = range(random, text, at);
            text.replace_range(start..end, "");
        }
        _ => {
            let copy = text[range(random, text, at)].to_owned();
            let at = place(random, text);
            text.insert_str(at, &copy);
        }
    }
}

/// A short range from `at` on.
fn range(random: &mut Random, text: &str, at: usize) -> Range<usize> {
    let end = text.len().min(at + random.below(20));
    at..(end..=text.len())
        .find(|&end| text.is_char_boundary(end))
        .expect("the end is one")
}

/// Between two characters.
fn place(random: &mut Random, text: &str) -> usize {
    let at = random.below(text.len() + 1);
    (at..=text.len())
        .find(|&at| text.is_char_boundary(at))
        .expect("the end is one")
}

const BLANKS: &[&str] = &["", "", "", "", " ", "\n    ", "\r\n\t"];

const INSIDE: &[&str] = &[
    "a", "bc", "1", " ", "\\n", "\\\\", "\\\"", "\\/", "\\u12aF", "\\uD800", "ä", "€", "𝄞", "{", "]", ",",
    ":", "\u{7f}",
];

const TOKENS: &[&str] = &[
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "\"",
    "\\",
    "\"\"",
    "\"a\"",
    "\"a\":",
    ",\"k\":1",
    "[1,2]",
    "{\"a\":1}",
    "\"\\\\\"",
    "-",
    "+",
    ".",
    "e",
    "E",
    "0",
    "1",
    "12",
    "1.5",
    "1e9",
    "-0",
    "1E-5",
    "true",
    "false",
    "null",
    "tru",
    "n",
    " ",
    "\n",
    "\t",
    "\r",
    "\0",
    "\u{1}",
    "\u{b}",
    "\u{1f}",
    "\\u00e",
    "\\\\",
    "u",
    "ä",
    "\u{feff}",
    "\u{2028}",
    "𝄞",
    "[[[[[[",
    "]]]]]]",
    "{\"a\":{\"b\":",
    "}}",
    "[{\"",
    "\"long enough to be behind the end of a block of sixty-four bytes\"",
];

/// Numbers that look random and follow from the first (splitmix64).
struct Random(u64);

impl Random {
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("below a usize")
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}
