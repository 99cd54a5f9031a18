//! Which bytes of a block must be escaped.

/// The bytes of a block.
pub(super) const BLOCK: usize = 32;
/// The bytes of half a block.
pub(super) const HALF: usize = BLOCK / 2;

/// A bit for each byte that is a quote, a backslash or a control character, the first byte's lowest.
#[inline]
pub(super) fn specials(block: &[u8; BLOCK]) -> u32 {
    let (halves, _) = block.as_chunks();
    half_specials(&halves[0]) | half_specials(&halves[1]) << HALF
}

/// [`specials`] of half a block.
#[cfg(target_arch = "x86_64")]
#[inline]
#[expect(unsafe_code, reason = "every machine of this kind has these vectors")]
pub(super) fn half_specials(half: &[u8; HALF]) -> u32 {
    unsafe { vector_specials(half) }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse2")]
fn vector_specials(half: &[u8; HALF]) -> u32 {
    use std::arch::x86_64::*;

    let (words, _) = half.as_chunks::<8>();
    let bytes = _mm_set_epi64x(i64::from_le_bytes(words[1]), i64::from_le_bytes(words[0]));
    let quote = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'"'.cast_signed()));
    let backslash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\'.cast_signed()));
    let control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
    let special = _mm_or_si128(_mm_or_si128(quote, backslash), control);
    _mm_movemask_epi8(special).cast_unsigned()
}

/// [`specials`] of half a block.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(super) fn half_specials(half: &[u8; HALF]) -> u32 {
    let (words, _) = half.as_chunks::<8>();
    words.iter().rev().fold(0, |mask, word| {
        mask << 8 | word_specials(u64::from_le_bytes(*word))
    })
}

/// A bit for each byte of the word that must be escaped.
#[cfg(any(test, not(target_arch = "x86_64")))]
const fn word_specials(word: u64) -> u32 {
    // Each high bit moves to its place among the highest eight.
    let [.., bits] = (exact(word) >> 7)
        .wrapping_mul(0x0102_0408_1020_4080)
        .to_le_bytes();
    bits as u32
}

/// The high bit of each byte of the word that must be escaped.
#[cfg(any(test, not(target_arch = "x86_64")))]
const fn exact(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const LOW: u64 = ONES * 0x7f;
    /// The high bit of each byte that is not zero, but for its own high bit.
    const fn some(word: u64) -> u64 {
        (word & LOW) + LOW
    }
    let quote = some(word ^ (ONES * b'"' as u64));
    let backslash = some(word ^ (ONES * b'\\' as u64));
    let control = some(word & (ONES * 0x60));
    !(quote & backslash & control | word) & (ONES * 0x80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_told_apart_at_each_place() {
        for byte in 0..=u8::MAX {
            let special = byte < 0x20 || byte == b'"' || byte == b'\\';
            for at in 0..BLOCK {
                for fill in [b' ', b'"', 0x7f, 0xff, 0] {
                    let mut block = [fill; BLOCK];
                    block[at] = byte;
                    let others = if matches!(fill, b'"' | 0) { !(1 << at) } else { 0 };
                    assert_eq!(
                        specials(&block),
                        others | u32::from(special) << at,
                        "{byte} in {fill}"
                    );
                }
            }
            for at in 0..8 {
                for fill in [b' ', 0x7f, 0xff, 0x80] {
                    let mut word = [fill; 8];
                    word[at] = byte;
                    assert_eq!(
                        word_specials(u64::from_le_bytes(word)),
                        u32::from(special) << at,
                        "{byte} in {fill}"
                    );
                }
            }
        }
    }
}
