//! Text as the inside of a JSON string, without the quotes [FE-04].
//!
//! Escaped are the quote, the backslash and the control characters below U+0020, by their short form where
//! JSON has one; everything else stays as it is.

/// How many bytes `text` takes once it is escaped.
pub(crate) fn len(text: &[u8]) -> usize {
    // A block's sum fits a byte, which lets the compiler count many bytes at once.
    const BLOCK: usize = 48;
    let added: usize = text
        .chunks(BLOCK)
        .map(|block| usize::from(block.iter().map(|&byte| added(byte)).sum::<u8>()))
        .sum();
    text.len() + added
}

/// Appends all of `text`.
pub(crate) fn write(text: &[u8], out: &mut Vec<u8>) {
    write_some(text, usize::MAX, out);
}

/// Appends what fits `room` bytes and says how many bytes of `text` that was: no escape is cut in two.
pub(crate) fn write_some(text: &[u8], mut room: usize, out: &mut Vec<u8>) -> usize {
    let mut rest = text;
    loop {
        let clean = plain(rest);
        let fit = clean.min(room);
        out.extend_from_slice(&rest[..fit]);
        rest = &rest[fit..];
        room -= fit;
        if fit < clean {
            break;
        }
        let Some(&byte) = rest.first() else { break };
        let length = 1 + usize::from(added(byte));
        if length > room {
            break;
        }
        escape(byte, out);
        rest = &rest[1..];
        room -= length;
    }
    text.len() - rest.len()
}

/// [`len`] for bytes that are not UTF-8: what isn't becomes U+FFFD [D-25].
pub(crate) fn lossy_len(bytes: &[u8]) -> usize {
    bytes
        .utf8_chunks()
        .map(|chunk| len(chunk.valid().as_bytes()) + replacement(chunk.invalid()).len())
        .sum()
}

/// [`write()`] for bytes that are not UTF-8: what isn't becomes U+FFFD [D-25].
pub(crate) fn lossy_write(bytes: &[u8], out: &mut Vec<u8>) {
    lossy_write_some(bytes, usize::MAX, out);
}

/// [`write_some`] for bytes that are not UTF-8: what isn't becomes U+FFFD [D-25].
pub(crate) fn lossy_write_some(bytes: &[u8], mut room: usize, out: &mut Vec<u8>) -> usize {
    // So many bytes never make fewer, so no more of them than the room can matter.
    let text = &bytes[..lossy_boundary(bytes, room)];
    let mut taken = 0;
    for chunk in text.utf8_chunks() {
        let before = out.len();
        let mut valid = write_some(chunk.valid().as_bytes(), room, out);
        // A character that is cut in two would be two that are not UTF-8.
        while !chunk.valid().is_char_boundary(valid) {
            valid -= 1;
            out.pop();
        }
        taken += valid;
        room -= out.len() - before;
        let replacement = replacement(chunk.invalid());
        if valid < chunk.valid().len() || replacement.len() > room {
            break;
        }
        out.extend_from_slice(replacement);
        taken += chunk.invalid().len();
        room -= replacement.len();
    }
    taken
}

/// How many bytes at the start stand in a JSON string as they are.
pub(crate) fn plain(bytes: &[u8]) -> usize {
    const BLOCK: usize = 32;
    let mut at = 0;
    // Most strings are short: a few words first, then blocks that the compiler makes vectors of.
    while let Some(word) = bytes[at..].first_chunk::<8>() {
        let special = specials(u64::from_le_bytes(*word));
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
        if at == 2 * BLOCK {
            let (blocks, _) = bytes[at..].as_chunks::<BLOCK>();
            at += BLOCK * blocks.iter().take_while(|block| is_plain(block)).count();
        }
    }
    at + bytes[at..].iter().take_while(|&&byte| added(byte) == 0).count()
}

/// Whether all of a block stands in a JSON string as it is.
fn is_plain<const N: usize>(block: &[u8; N]) -> bool {
    !block.iter().fold(false, |special, &byte| {
        special | (byte < 0x20) | (byte == b'"') | (byte == b'\\')
    })
}

/// The bytes that escaping adds.
const fn added(byte: u8) -> u8 {
    let one = (byte == b'"') as u8 | (byte == b'\\') as u8;
    let short = (byte >= 0x08 && byte <= 0x0d && byte != 0x0b) as u8;
    one + 5 * ((byte < 0x20) as u8) - 4 * short
}

fn escape(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x09 => b't',
        0x0a => b'n',
        0x0c => b'f',
        0x0d => b'r',
        _ => {
            let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

fn replacement(invalid: &[u8]) -> &'static [u8] {
    if invalid.is_empty() {
        b""
    } else {
        "\u{fffd}".as_bytes()
    }
}

/// Where the bytes can be cut at or before `most` so that both sides, read apart, are read as the whole is.
/// A byte that starts a character never belongs to what is before it, and a fourth continuation byte in a row
/// belongs to nothing.
fn lossy_boundary(bytes: &[u8], most: usize) -> usize {
    if most >= bytes.len() {
        return bytes.len();
    }
    (most.saturating_sub(3)..=most)
        .rev()
        .find(|&at| !(0x80..0xc0).contains(&bytes[at]))
        .unwrap_or(most)
}

/// The high bit of each byte of the word that is a quote, a backslash or a control character. The lowest one set
/// is right; above it there may be wrong ones.
const fn specials(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const fn below(word: u64, limit: u64) -> u64 {
        word.wrapping_sub(ONES * limit) & !word
    }
    let quote = below(word ^ (ONES * b'"' as u64), 1);
    let backslash = below(word ^ (ONES * b'\\' as u64), 1);
    (quote | backslash | below(word, 0x20)) & (ONES * 0x80)
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// [FE-04]
    #[test]
    fn each_ascii_character_has_its_form() {
        for byte in 0..0x80u8 {
            let mut out = Vec::new();
            write(&[byte], &mut out);
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
            assert_eq!(out, expected.as_bytes());
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

    /// [D-25]
    #[test]
    fn what_is_not_utf8_becomes_the_replacement_character() {
        let mut out = Vec::new();
        lossy_write(b"a\xff\"\xe2\x82b\xc0\xaf", &mut out);
        assert_eq!(out, "a\u{fffd}\\\"\u{fffd}b\u{fffd}\u{fffd}".as_bytes());
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            ".{0,120}",
            "[\\x00-\\x22\\\\ab]{0,120}",
            "([ -~]{0,40}[\\x00-\\x1f\"\\\\ä€𝄞]){0,6}",
        ]
    }

    proptest! {
        /// [FE-04]
        #[test]
        fn the_string_parses_back_to_the_text(text in text()) {
            let mut out = b"\"".to_vec();
            write(text.as_bytes(), &mut out);
            prop_assert_eq!(out.len() - 1, len(text.as_bytes()));
            out.push(b'"');
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }

        #[test]
        fn pieces_make_the_whole(text in text(), room in 6usize..60) {
            let (mut whole, mut pieces) = (Vec::new(), Vec::new());
            write(text.as_bytes(), &mut whole);
            let mut rest = text.as_bytes();
            while !rest.is_empty() {
                let before = pieces.len();
                let taken = write_some(rest, room, &mut pieces);
                prop_assert!(taken > 0 && pieces.len() - before <= room);
                rest = &rest[taken..];
            }
            prop_assert_eq!(pieces, whole);
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
            let (mut whole, mut pieces) = (Vec::new(), Vec::new());
            write(String::from_utf8_lossy(&bytes).as_bytes(), &mut whole);
            prop_assert_eq!(lossy_len(&bytes), whole.len());
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let before = pieces.len();
                let taken = lossy_write_some(rest, room, &mut pieces);
                prop_assert!(taken > 0 && pieces.len() - before <= room);
                rest = &rest[taken..];
            }
            prop_assert_eq!(pieces, whole);
        }
    }
}
