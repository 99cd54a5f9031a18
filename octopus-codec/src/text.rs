//! Text as the inside of a JSON string, without the quotes [FE-04].
//!
//! Escaped are the quote, the backslash and the control characters below U+0020, by their short form where
//! JSON has one; everything else stays as it is.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod block;
mod lossy;

use block::{BLOCK, HALF, half_specials, specials};
pub(crate) use lossy::{lossy_len, lossy_write, lossy_write_some};

use crate::reply::Progress;

/// The bytes of the longest escape.
pub(crate) const LONGEST: usize = 6;
/// The room that a block is written to. What is behind its text there is not kept.
pub(crate) const ROOM: usize = (LONGEST * BLOCK + BLOCK).next_power_of_two() + FORM;
/// A mask that changes no place in the room: it says that what is written there is in the room.
const PLACE: usize = ROOM - FORM - 1;
/// The bytes of a form, as it is kept.
const FORM: usize = 8;
/// The escapes from which a block is written byte by byte.
const DENSE: u32 = 10;

/// How many bytes `text` takes once it is escaped.
pub(crate) fn len(text: &[u8]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if let Some(added) = avx2::added(text) {
        let (_, rest) = text.as_chunks::<BLOCK>();
        return text.len() + added + added_to(rest);
    }
    text.len() + added_to(text)
}

fn added_to(text: &[u8]) -> usize {
    // A block's sum fits a byte, which lets the compiler count many bytes at once.
    text.chunks(BLOCK)
        .map(|block| usize::from(block.iter().map(|&byte| added(byte)).sum::<u8>()))
        .sum()
}

/// Writes all of `text` to the start of `out` and says how many bytes that is. What is behind them in `out` is not
/// kept; the more there is, the fewer the bytes that are written with care.
///
/// # Panics
///
/// If `out` is shorter than [`len`].
#[inline]
pub(crate) fn write(text: &[u8], out: &mut [u8]) -> usize {
    let Progress { taken, written } = write_some(text, out);
    assert_eq!(taken, text.len(), "the room was measured");
    written
}

/// Writes what fits `out`: no escape is cut in two. What is behind it in `out` is not kept.
pub(crate) fn write_some(text: &[u8], out: &mut [u8]) -> Progress {
    #[cfg(target_arch = "x86_64")]
    if let Some(blocks) = avx2::write_blocks(text, out) {
        return write_rest(text, blocks, out);
    }
    write_rest(text, write_blocks(text, out), out)
}

/// Writes whole blocks, as long as there is room for any.
fn write_blocks(text: &[u8], out: &mut [u8]) -> Progress {
    let (mut rest, mut at) = (text, 0);
    while let Some(block) = rest.first_chunk::<BLOCK>()
        && let Some(room) = out[at..].first_chunk_mut::<ROOM>()
    {
        let mask = specials(block);
        if mask == 0 {
            room[..BLOCK].copy_from_slice(block);
            at += BLOCK;
        } else if mask.count_ones() < DENSE
            && let Some(blocks) = rest.first_chunk::<{ 2 * BLOCK }>()
        {
            at += write_sparse(blocks, mask, room);
        } else {
            at += write_dense(block, room);
        }
        rest = &rest[BLOCK..];
    }
    Progress {
        taken: text.len() - rest.len(),
        written: at,
    }
}

/// Writes what fits behind the blocks.
fn write_rest(text: &[u8], blocks: Progress, out: &mut [u8]) -> Progress {
    let (mut rest, mut at) = (&text[blocks.taken..], blocks.written);
    if plain(rest) < rest.len() && out.len() - at >= LONGEST * (rest.len() + 1) {
        at += rest
            .iter()
            .fold(0, |end, &byte| end + write_byte(byte, &mut out[at + end..]));
        rest = &[];
    }
    let last = write_carefully(rest, &mut out[at..]);
    Progress {
        taken: text.len() - rest.len() + last.taken,
        written: at + last.written,
    }
}

/// Writes the first of two blocks, whose specials these are: what is between them is copied by whole blocks.
#[inline]
fn write_sparse(blocks: &[u8; 2 * BLOCK], mut mask: u32, room: &mut [u8; ROOM]) -> usize {
    let (mut from, mut at) = (0, 0);
    while mask != 0 {
        let special = mask.trailing_zeros() as usize;
        mask &= mask - 1;
        room[at..at + BLOCK].copy_from_slice(&blocks[from..from + BLOCK]);
        at += special - from;
        at += write_byte(blocks[special], &mut room[at..]);
        from = special + 1;
    }
    room[at..at + BLOCK].copy_from_slice(&blocks[from..from + BLOCK]);
    at + BLOCK - from
}

fn write_dense(block: &[u8; BLOCK], room: &mut [u8; ROOM]) -> usize {
    block
        .iter()
        .fold(0, |at, &byte| at + write_byte(byte, &mut room[at & PLACE..]))
}

/// Writes a byte's form, and something behind it.
#[inline]
fn write_byte(byte: u8, room: &mut [u8]) -> usize {
    let form = &FORMS[usize::from(byte)];
    room[..FORM].copy_from_slice(form);
    usize::from(form[7])
}

/// Writes what fits the room, and nothing behind it.
fn write_carefully(text: &[u8], out: &mut [u8]) -> Progress {
    let (mut rest, mut at) = (text, 0);
    loop {
        let room = &mut out[at..];
        let clean = plain(rest);
        let fit = clean.min(room.len());
        copy(&rest[..fit], room);
        rest = &rest[fit..];
        at += fit;
        if fit < clean {
            break;
        }
        let Some((&byte, behind)) = rest.split_first() else {
            break;
        };
        let form = &FORMS[usize::from(byte)];
        let form = &form[..usize::from(form[7])];
        let Some(room) = out[at..].get_mut(..form.len()) else {
            break;
        };
        room.copy_from_slice(form);
        rest = behind;
        at += form.len();
    }
    Progress {
        taken: text.len() - rest.len(),
        written: at,
    }
}

/// Copies a few bytes to the start of `out`, and nothing behind them.
#[inline]
pub(crate) fn copy(bytes: &[u8], out: &mut [u8]) {
    /// Copies the first and the last so many, which overlap.
    macro_rules! ends {
        ($out:ident, $($size:literal),*) => {$(
            if bytes.len() < 2 * $size
                && let (Some(first), Some(last)) = (bytes.first_chunk::<$size>(), bytes.last_chunk::<$size>())
            {
                $out[..$size].copy_from_slice(first);
                let start = $out.len() - $size;
                $out[start..].copy_from_slice(last);
                return;
            }
        )*};
    }
    let out = &mut out[..bytes.len()];
    if bytes.len() >= 64 {
        out.copy_from_slice(bytes);
        return;
    }
    ends!(out, 32, 16, 8, 4, 2, 1);
}

/// How many bytes at the start stand in a JSON string as they are.
#[inline]
pub(crate) fn plain(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(half) = bytes[at..].first_chunk::<HALF>() {
        let specials = half_specials(half);
        if specials != 0 {
            return at + specials.trailing_zeros() as usize;
        }
        at += HALF;
    }
    if let Some(word) = bytes[at..].first_chunk::<8>() {
        let special = lowest_special(u64::from_le_bytes(*word));
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at + bytes[at..].iter().take_while(|&&byte| added(byte) == 0).count()
}

/// Whether this is ASCII, and stands in a JSON string as it is. For short texts.
#[inline]
pub(crate) fn is_plain_ascii(bytes: &[u8]) -> bool {
    const HIGH: u64 = (u64::MAX / 255) * 0x80;
    let is_plain = |word: u64| word & HIGH == 0 && lowest_special(word) == 0;
    let (words, rest) = bytes.as_chunks::<8>();
    let rest_is_plain = match (rest, rest.first_chunk::<4>(), rest.last_chunk::<4>()) {
        (_, Some(first), Some(last)) => {
            let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
            is_plain(u64::from(last) << 32 | u64::from(first))
        }
        (short, _, _) => short.iter().all(|&byte| byte < 0x80 && added(byte) == 0),
    };
    rest_is_plain && words.iter().all(|word| is_plain(u64::from_le_bytes(*word)))
}

/// The bytes that escaping adds.
const fn added(byte: u8) -> u8 {
    let one = (byte == b'"') as u8 | (byte == b'\\') as u8;
    let short = (byte >= 0x08 && byte <= 0x0d && byte != 0x0b) as u8;
    one + 5 * ((byte < 0x20) as u8) - 4 * short
}

/// How each byte is written, and in the last place how long that is.
static FORMS: [[u8; FORM]; 256] = {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut forms = [[0; FORM]; 256];
    let mut byte = 0u8;
    loop {
        let (high, low) = (HEX[(byte >> 4) as usize], HEX[(byte & 15) as usize]);
        let length = 1 + added(byte);
        forms[byte as usize] = match byte {
            b'"' | b'\\' => [b'\\', byte, 0, 0, 0, 0, 0, length],
            0x08 => [b'\\', b'b', 0, 0, 0, 0, 0, length],
            0x09 => [b'\\', b't', 0, 0, 0, 0, 0, length],
            0x0a => [b'\\', b'n', 0, 0, 0, 0, 0, length],
            0x0c => [b'\\', b'f', 0, 0, 0, 0, 0, length],
            0x0d => [b'\\', b'r', 0, 0, 0, 0, 0, length],
            0..0x20 => [b'\\', b'u', b'0', b'0', high, low, 0, length],
            _ => [byte, 0, 0, 0, 0, 0, 0, length],
        };
        if byte == u8::MAX {
            break forms;
        }
        byte += 1;
    }
};

/// The high bit of each byte of the word that is a quote, a backslash or a control character. The lowest one set
/// is right; above it there may be wrong ones.
pub(crate) const fn lowest_special(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const fn below(word: u64, limit: u64) -> u64 {
        word.wrapping_sub(ONES * limit) & !word
    }
    let quote = below(word ^ (ONES * b'"' as u64), 1);
    let backslash = below(word ^ (ONES * b'\\' as u64), 1);
    (quote | backslash | below(word, 0x20)) & (ONES * 0x80)
}

#[cfg(test)]
mod tests;
