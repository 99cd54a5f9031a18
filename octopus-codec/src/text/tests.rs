use proptest::{collection::vec, prelude::*};

use super::*;
use crate::reply::in_rooms;

/// All of a text, written where there is that much room and no more, and where there is plenty.
fn written(text: &[u8]) -> Vec<u8> {
    let length = len(text);
    let mut all = vec![vec![b'-'; length], vec![b'-'; length + 1000]];
    for out in &mut all {
        assert_eq!(write(text, out), length);
        out.truncate(length);
    }
    assert_eq!(all[0], all[1]);
    // What machines without vectors do.
    let mut out = vec![b'-'; length + 1000];
    let blocks = write_blocks(text, &mut out);
    assert_eq!(
        write_rest(text, blocks, &mut out),
        Progress {
            taken: text.len(),
            written: length
        }
    );
    assert_eq!(out[..length], all[0]);
    assert_eq!(text.len() + added_to(text), length);
    all.swap_remove(1)
}

/// [FE-04]
#[test]
fn each_ascii_character_has_its_form() {
    for byte in 0..0x80u8 {
        let expected = match byte {
            b'"' => "\\\"".into(),
            b'\\' => "\\\\".into(),
            8 => "\\b".into(),
            9 => "\\t".into(),
            10 => "\\n".into(),
            12 => "\\f".into(),
            13 => "\\r".into(),
            0..0x20 => format!("\\u{byte:04x}"),
            _ => char::from(byte).to_string(),
        };
        assert_eq!(written(&[byte]), expected.as_bytes());
        assert_eq!(len(&[byte]), expected.len());
    }
}

#[test]
fn one_special_byte_is_found_wherever_it_stands() {
    for special in [b'"', b'\\', 0, 0x1f] {
        for at in 0..170 {
            for fill in [b' ', b'!', b'#', b'[', b']', 0x7f, 0x80, 0xff] {
                let mut bytes = vec![fill; 170];
                bytes[at] = special;
                bytes[169] = b'"';
                assert_eq!(plain(&bytes), at, "{special} in {fill}");
                assert_eq!(plain(&bytes[..at]), at);
            }
        }
    }
}

#[test]
fn plain_ascii_is_told_apart_wherever_the_rest_stands() {
    for length in 0..40 {
        assert!(is_plain_ascii(&vec![b'a'; length]));
        for at in 0..length {
            for (byte, is_plain) in [
                (b'"', false),
                (b'\\', false),
                (0x1f, false),
                (0x80, false),
                (0x7f, true),
                (b' ', true),
            ] {
                let mut bytes = vec![b'a'; length];
                bytes[at] = byte;
                assert_eq!(is_plain_ascii(&bytes), is_plain, "{byte} at {at} of {length}");
            }
        }
    }
}

/// [D-25]
#[test]
fn what_is_not_utf8_becomes_the_replacement_character() {
    let bytes = b"a\xff\"\xe2\x82b\xc0\xaf";
    let mut out = vec![0; lossy_len(bytes)];
    assert_eq!(lossy_write(bytes, &mut out), out.len());
    assert_eq!(out, "a\u{fffd}\\\"\u{fffd}b\u{fffd}\u{fffd}".as_bytes());
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,120}",
        "[\\x00-\\x22\\\\ab]{0,120}",
        "([ -~]{0,40}[\\x00-\\x1f\"\\\\ä€𝄞]){0,6}",
        "([ !#-~ä€]{0,9}[\n\"\\\\]){0,90}",
    ]
}

proptest! {
    /// [FE-04]
    #[test]
    fn the_string_parses_back_to_the_text(text in text()) {
        let out = [b"\"", &written(text.as_bytes())[..], b"\""].concat();
        prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
    }

    #[test]
    fn pieces_make_the_whole(text in text(), room in 6usize..400) {
        let pieces = in_rooms(text.as_bytes(), room, write_some);
        prop_assert_eq!(pieces, written(text.as_bytes()));
    }

    /// [D-25]
    #[test]
    fn pieces_of_anything_make_its_lossy_text(
        fragments in vec(
            prop_oneof![
                any::<char>().prop_map(|c| c.to_string().into_bytes()),
                prop_oneof![any::<u8>(), 0x80..0xc0u8, 0xe0..0xf8u8, Just(b'"')].prop_map(|byte| vec![byte]),
            ],
            0..80,
        ),
        room in 6usize..40,
    ) {
        let bytes = fragments.concat();
        let whole = written(String::from_utf8_lossy(&bytes).as_bytes());
        prop_assert_eq!(lossy_len(&bytes), whole.len());
        let mut out = vec![b'-'; whole.len()];
        prop_assert_eq!(lossy_write(&bytes, &mut out), whole.len());
        prop_assert_eq!(&out, &whole);
        let pieces = in_rooms(&bytes, room, lossy_write_some);
        prop_assert_eq!(pieces, whole);
    }
}
