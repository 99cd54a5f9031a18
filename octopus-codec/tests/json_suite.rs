//! The JSON check against the cases of JSONTestSuite.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use octopus_codec::{is_json, is_utf8};

/// [FE-03] [FE-04] every text that must be JSON is, and none that must not; where RFC 8259 leaves it open, only
/// what is not UTF-8 and a byte order mark are refused.
#[test]
fn every_case_has_its_verdict() {
    let mut counts = [0; 3];
    for (verdict, name, bytes) in cases() {
        let accepted = is_utf8(&bytes) && is_json(&bytes);
        let (expected, count) = match verdict {
            "y" => (true, 0),
            "n" => (false, 1),
            "i" => (is_utf8(&bytes) && !bytes.starts_with("\u{feff}".as_bytes()), 2),
            _ => panic!("{verdict} {name}"),
        };
        counts[count] += 1;
        assert_eq!(accepted, expected, "{verdict} {name}");
    }
    assert_eq!(counts, [95, 188, 35]);
}

/// Each case's verdict, name and text.
fn cases() -> impl Iterator<Item = (&'static str, &'static str, Vec<u8>)> {
    let long = [
        ("n", "structure_100000_opening_arrays", "[".repeat(100_000).into()),
        (
            "n",
            "structure_open_array_object",
            ("[{\"\":".repeat(50_000) + "\n").into(),
        ),
    ];
    include_str!("fixtures/json-cases.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let mut words = line.splitn(3, ' ');
            let mut word = || words.next().expect("verdict, name, text");
            (word(), word(), STANDARD.decode(word()).expect("base64"))
        })
        .chain(long)
}
