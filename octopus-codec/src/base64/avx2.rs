//! Base64 by vectors of 32 characters, on machines with AVX2.

use std::{arch::x86_64::*, is_x86_feature_detected};

use crate::reply::Progress;

/// The bytes that make a vector of characters.
const BYTES: usize = 24;
/// Half of them, and the bytes that are loaded for a half.
const HALF: usize = BYTES / 2;
const HALF_LOADED: usize = 16;
/// The bytes that are loaded for a vector: the halves overlap.
const LOADED: usize = HALF + HALF_LOADED;
const CHARACTERS: usize = 32;

/// For each half of a vector, where the bytes of each character lie when the half's bytes are the first of those loaded.
const FIRST: [u8; HALF_LOADED] = [1, 0, 2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10];
/// Where the last begin.
const LAST_AT: u8 = 4;
const _: () = assert!(LAST_AT as usize == HALF_LOADED - HALF, "they are the rest");
/// The same where they are the last.
const LAST: [u8; HALF_LOADED] = {
    let mut places = FIRST;
    let mut i = 0;
    while i < places.len() {
        places[i] += LAST_AT;
        i += 1;
    }
    places
};

/// What is added to six bits to make their character: for the lower-case letters, each digit, `+`, `/` and the capitals.
const ADDED: [u8; HALF_LOADED] = {
    let mut added = [0; 16];
    added[0] = b'a' - 26;
    let mut digit = 1;
    while digit <= 10 {
        added[digit] = b'0'.wrapping_sub(52);
        digit += 1;
    }
    added[11] = b'+'.wrapping_sub(62);
    added[12] = b'/'.wrapping_sub(63);
    added[13] = b'A';
    added
};

/// Writes the text of whole groups of three bytes to the start of `out`: all of those, or most. `None` where the machine
/// has no such vectors.
#[inline]
#[expect(
    unsafe_code,
    reason = "the function is called where the machine has what it wants"
)]
pub(super) fn write(bytes: &[u8], out: &mut [u8]) -> Option<Progress> {
    is_x86_feature_detected!("avx2").then(|| unsafe { vectors(bytes, out) })
}

#[target_feature(enable = "avx2")]
fn vectors(bytes: &[u8], out: &mut [u8]) -> Progress {
    let (mut rest, mut room) = (bytes, &mut *out);
    while let Some(block) = rest.first_chunk::<LOADED>()
        && let Some((text, behind)) = room.split_first_chunk_mut::<CHARACTERS>()
    {
        *text = array(characters(halves(block), vector(&FIRST, &FIRST)));
        rest = &rest[BYTES..];
        room = behind;
    }
    let mut taken = bytes.len() - rest.len();
    // What is left is mostly less than a vector: it is made of one that begins before it.
    let end = (bytes.len() / 3 * 3).min(taken + BYTES);
    let whole = (&bytes[..end], &mut out[..end / 3 * 4]);
    if taken < end
        && let Some(block) = whole.0.last_chunk::<LOADED>()
        && let Some(text) = whole.1.last_chunk_mut::<CHARACTERS>()
    {
        *text = array(characters(halves(block), vector(&LAST, &LAST)));
        taken = end;
    } else if taken == 0
        && let Some(first) = whole.0.first_chunk::<HALF_LOADED>()
        && let Some(last) = whole.0.last_chunk::<HALF_LOADED>()
    {
        let text = array(characters(vector(first, last), vector(&FIRST, &LAST)));
        let (first, last) = text.split_at(HALF_LOADED);
        whole.1[..HALF_LOADED].copy_from_slice(first);
        let start = whole.1.len() - HALF_LOADED;
        whole.1[start..].copy_from_slice(last);
        taken = end;
    }
    Progress {
        taken,
        written: taken / 3 * 4,
    }
}

/// The characters of the bytes in each half that these places name.
#[inline]
#[target_feature(enable = "avx2")]
fn characters(bytes: __m256i, places: __m256i) -> __m256i {
    // Each four characters: bbbbcccc aaaaaabb ccdddddd bbbbcccc, from the lowest byte.
    let spread = _mm256_shuffle_epi8(bytes, places);
    let (ac, bd) = (_mm256_set1_epi32(0x0fc0_fc00), _mm256_set1_epi32(0x003f_03f0));
    let ac = _mm256_mulhi_epu16(_mm256_and_si256(spread, ac), _mm256_set1_epi32(0x0400_0040));
    let bd = _mm256_mullo_epi16(_mm256_and_si256(spread, bd), _mm256_set1_epi32(0x0100_0010));
    let bits = _mm256_or_si256(ac, bd);

    let behind_letters = _mm256_subs_epu8(bits, _mm256_set1_epi8(51));
    let is_capital = _mm256_cmpgt_epi8(_mm256_set1_epi8(26), bits);
    let row = _mm256_or_si256(behind_letters, _mm256_and_si256(is_capital, _mm256_set1_epi8(13)));
    _mm256_add_epi8(bits, _mm256_shuffle_epi8(vector(&ADDED, &ADDED), row))
}

#[inline]
#[target_feature(enable = "avx2")]
fn halves(block: &[u8; LOADED]) -> __m256i {
    let (first, last) = (block.first_chunk(), block.last_chunk());
    vector(first.expect("half of a block"), last.expect("half of a block"))
}

#[inline]
#[target_feature(enable = "avx2")]
fn vector(low: &[u8; HALF_LOADED], high: &[u8; HALF_LOADED]) -> __m256i {
    let ([a, b], [c, d]) = (words(low), words(high));
    _mm256_set_epi64x(d, c, b, a)
}

#[inline]
const fn words(half: &[u8; HALF_LOADED]) -> [i64; 2] {
    let (words, _) = half.as_chunks::<8>();
    [i64::from_le_bytes(words[0]), i64::from_le_bytes(words[1])]
}

#[inline]
#[target_feature(enable = "avx2")]
fn array(vector: __m256i) -> [u8; CHARACTERS] {
    let mut bytes = [0; CHARACTERS];
    let words = [
        _mm256_extract_epi64::<0>(vector),
        _mm256_extract_epi64::<1>(vector),
        _mm256_extract_epi64::<2>(vector),
        _mm256_extract_epi64::<3>(vector),
    ];
    for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *to = word.to_le_bytes();
    }
    bytes
}
