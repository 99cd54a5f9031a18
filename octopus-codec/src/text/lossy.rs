//! Bytes that are not UTF-8 as the inside of a JSON string: what isn't becomes U+FFFD [D-25].

use super::{len, write_some};
use crate::reply::Progress;

/// [`len`] for bytes that are not UTF-8: what isn't becomes U+FFFD [D-25].
pub(crate) fn lossy_len(bytes: &[u8]) -> usize {
    bytes
        .utf8_chunks()
        .map(|chunk| len(chunk.valid().as_bytes()) + replacement(chunk.invalid()).len())
        .sum()
}

/// [`write()`](super::write) for bytes that are not UTF-8: what isn't becomes U+FFFD [D-25].
pub(crate) fn lossy_write(bytes: &[u8], out: &mut [u8]) -> usize {
    let Progress { taken, written } = lossy_write_some(bytes, out);
    assert_eq!(taken, bytes.len(), "the room was measured");
    written
}

/// [`write_some`] for bytes that are not UTF-8: what isn't becomes U+FFFD [D-25].
pub(crate) fn lossy_write_some(bytes: &[u8], out: &mut [u8]) -> Progress {
    // So many bytes never make fewer, so no more of them than the room can matter.
    let text = &bytes[..boundary(bytes, out.len())];
    let (mut taken, mut at) = (0, 0);
    for chunk in text.utf8_chunks() {
        let mut valid = write_some(chunk.valid().as_bytes(), &mut out[at..]);
        // A character that is cut in two would be two that are not UTF-8.
        while !chunk.valid().is_char_boundary(valid.taken) {
            valid.taken -= 1;
            valid.written -= 1;
        }
        taken += valid.taken;
        at += valid.written;
        let replacement = replacement(chunk.invalid());
        if valid.taken < chunk.valid().len() {
            break;
        }
        let Some(room) = out[at..].get_mut(..replacement.len()) else {
            break;
        };
        room.copy_from_slice(replacement);
        taken += chunk.invalid().len();
        at += replacement.len();
    }
    Progress { taken, written: at }
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
fn boundary(bytes: &[u8], most: usize) -> usize {
    if most >= bytes.len() {
        return bytes.len();
    }
    (most.saturating_sub(3)..=most)
        .rev()
        .find(|&at| !(0x80..0xc0).contains(&bytes[at]))
        .unwrap_or(most)
}
