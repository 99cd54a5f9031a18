//! Every short row of some tokens, wherever it stands in a block of 64 bytes.

use crate::{oracle, verdict};

/// [FE-03] [FE-04]
#[test]
fn the_verdict_on_every_number_is_that_of_serde_json() {
    every_row(&["0", "1", "-", "+", ".", "e", "E"], 7, |row, i| {
        shifted("", row, "", 56 + i % 9)
    });
}

/// [FE-03] [FE-04]
#[test]
fn the_verdict_on_every_escape_is_that_of_serde_json() {
    let characters = ["\\", "\"", "u", "0", "a", "F", "g", "/", "n"];
    every_row(&characters, 6, |row, i| shifted("\"", row, "\"", 55 + i % 10));
}

/// [FE-03] [FE-04]
#[test]
fn the_verdict_on_every_row_of_brackets_is_that_of_serde_json() {
    let characters = ["[", "]", "{", "}", ",", ":", "\"", "1"];
    every_row(&characters, 6, |row, i| shifted("", row, "", 58 + i % 7));
}

/// [FE-03] [FE-04]
#[test]
fn the_verdict_on_every_row_of_tokens_is_that_of_serde_json() {
    let tokens = [
        "[", "]", "{", "}", ",", ":", "\"k\"", "\"\\\\\"", "-1.5E+2", "0", "true", "false", "null", " ",
        "\n  ", "x",
    ];
    every_row(&tokens, 4, |row, i| shifted("", row, "", 48 + i % 17));
    every_row(&tokens, 4, |row, i| shifted("[{\"a\":[", row, "]}]", 40 + i % 25));
}

/// [FE-03] [FE-04]
#[test]
fn every_literal_and_what_is_nearly_one_is_told_apart_at_every_place() {
    for literal in ["true", "false", "null"] {
        for at in 0..=literal.len() {
            for other in [
                "", "a", "e", "l", "n", "r", "s", "t", "u", "E", "T", "\0", "ä", "\"", " ", "1", ",",
            ] {
                for end in [at, at + 1] {
                    let mut text = literal.to_owned();
                    text.replace_range(at..end.min(literal.len()), other);
                    for shift in 0..70 {
                        compare(&shifted("", &text, "", shift));
                        compare(&shifted("[", &text, ",1]", shift));
                    }
                }
            }
        }
    }
}

/// [FE-04]
#[test]
fn one_wrong_byte_is_found_wherever_it_stands() {
    let good = format!(
        "[{{\"a\":1}},\"{}\",[12345],{{\"b\":[true,\"\\u00aF\"]}}]",
        "x".repeat(100)
    );
    for at in 0..=good.len() {
        for other in [
            "\0", "\t", "\u{1f}", "\"", "\\", "[", "}", ",", ":", "0", "-", "e", "x", "ä", " ",
        ] {
            let mut text = good.clone();
            text.insert_str(at, other);
            compare(&text);
            text.replace_range(at..text.len().min(at + other.len() + 1), other);
            compare(&text);
        }
    }
}

/// Compares the verdicts on every row of at most `most` of these tokens, as it is and as `place` puts it.
fn every_row(tokens: &[&str], most: u32, place: impl Fn(&str, usize) -> String) {
    let mut count = 0;
    for length in 0..=most {
        for mut number in 0..tokens.len().pow(length) {
            let mut row = String::new();
            for _ in 0..length {
                row.push_str(tokens[number % tokens.len()]);
                number /= tokens.len();
            }
            compare(&row);
            compare(&place(&row, count));
            count += 1;
        }
    }
}

/// A text with `blanks` blanks in front of it.
fn shifted(before: &str, text: &str, after: &str, blanks: usize) -> String {
    format!("{:blanks$}{before}{text}{after}", "")
}

#[track_caller]
fn compare(text: &str) {
    assert_eq!(verdict(text.as_bytes()), oracle(text), "{text:?}");
}
