//! The cases of JSONTestSuite.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use octopus_codec::is_utf8;

use crate::verdict;

/// [FE-03] [FE-04] every text that must be JSON is, and none that must not; where RFC 8259 leaves it open, only
/// what is not UTF-8 and a byte order mark are refused.
#[test]
fn every_case_has_its_verdict() {
    let mut counts = [0; 3];
    let mut open_and_accepted = 0;
    for (kind, name, bytes) in cases() {
        let accepted = is_utf8(&bytes) && verdict(&bytes);
        let (expected, count) = match kind {
            "y" => (true, 0),
            "n" => (false, 1),
            "i" => (is_utf8(&bytes) && !bytes.starts_with("\u{feff}".as_bytes()), 2),
            _ => panic!("{kind} {name}"),
        };
        counts[count] += 1;
        open_and_accepted += usize::from(kind == "i" && accepted);
        assert_eq!(accepted, expected, "{kind} {name}");
    }
    assert_eq!((counts, open_and_accepted), ([95, 188, 35], 21));
}

/// Each case's kind, name and text.
fn cases() -> impl Iterator<Item = (&'static str, &'static str, Vec<u8>)> {
    let long = [
        ("n", "structure_100000_opening_arrays", "[".repeat(100_000).into()),
        (
            "n",
            "structure_open_array_object",
            ("[{\"\":".repeat(50_000) + "\n").into(),
        ),
    ];
    include_str!("../fixtures/json-cases.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let mut words = line.splitn(3, ' ');
            let mut word = || words.next().expect("verdict, name, text");
            (word(), word(), STANDARD.decode(word()).expect("base64"))
        })
        .chain(long)
}
