//! The parts of a reply, for the benches: no part of the API, and none that stays as it is.

use crate::{base64, text};

/// The room behind an escaped text with which none of it is written with care.
pub const ROOM: usize = text::ROOM;

/// The bytes that `text` takes as the inside of a JSON string.
#[must_use]
pub fn escaped_len(text: &[u8]) -> usize {
    text::len(text)
}

/// Writes `text` as the inside of a JSON string and says how many bytes that is.
///
/// # Panics
///
/// If `out` is shorter than [`escaped_len`].
pub fn escape(text: &[u8], out: &mut [u8]) -> usize {
    text::write(text, out)
}

/// Writes the base64 of `bytes` and says how many characters that is.
///
/// # Panics
///
/// If `out` is shorter than that.
pub fn encode_base64(bytes: &[u8], out: &mut [u8]) -> usize {
    base64::write(bytes, out)
}
