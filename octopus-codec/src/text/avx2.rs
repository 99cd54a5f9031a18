//! Measuring and escaping by vectors of 32 bytes, on machines with AVX2.

use std::arch::x86_64::*;

use super::{BLOCK, LONGEST, PLACE, ROOM, write_byte};
use crate::{reply::Progress, vectors};

/// The bytes of a text that are escaped at once, and the room that they are written to.
const WORD: usize = 8;
const WORD_ROOM: usize = 2 * WORD;

/// The letter behind the backslash, for each control character below 16 that has one.
const LETTERS: [u8; 16] = *b"\0\0\0\0\0\0\0\0btn\0fr\0\0";

/// For each set of special bytes in a word, where each byte of its text comes from: from one of the word's letters or,
/// at eight, from a backslash.
static PLACES: [[u8; WORD_ROOM]; 256] = {
    let mut places = [[0; WORD_ROOM]; 256];
    let mut set = 0;
    while set < places.len() {
        let (mut byte, mut at) = (0, 0);
        while byte < 8 {
            if set >> byte & 1 == 1 {
                places[set][at] = 8;
                at += 1;
            }
            places[set][at] = byte;
            at += 1;
            byte += 1;
        }
        set += 1;
    }
    places
};

/// For each part of the text of a word of control characters without a letter, where its digits come from among those of
/// the word, and what is around them.
static LONGEST_FORMS: [([u8; 16], [u8; 16]); 3] = {
    let mut forms = [([0x80; 16], [0; 16]); 3];
    let mut at = 0;
    while at < LONGEST * WORD {
        let (byte, place) = (at / LONGEST, at % LONGEST);
        let (digits, around) = &mut forms[at / 16];
        if place < 4 {
            around[at % 16] = b"\\u00"[place];
        } else {
            digits[at % 16] = DIGITS[2 * byte + place - 4];
        }
        at += 1;
    }
    forms
};
const DIGITS: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// How many bytes escaping adds to the blocks of `text`; what is behind the last whole block is not counted. `None`
/// where they are not [taken](vectors::are_taken).
#[inline]
#[expect(
    unsafe_code,
    reason = "the function is called where the machine has what it wants"
)]
pub(super) fn added(text: &[u8]) -> Option<usize> {
    vectors::are_taken().then(|| unsafe { added_to_blocks(text) })
}

/// Writes whole blocks, as [`super::write_blocks`] does. `None` where vectors are not taken.
#[inline]
#[expect(
    unsafe_code,
    reason = "the function is called where the machine has what it wants"
)]
pub(super) fn write_blocks(text: &[u8], out: &mut [u8]) -> Option<Progress> {
    vectors::are_taken().then(|| unsafe { escape_blocks(text, out) })
}

#[target_feature(enable = "avx2")]
fn added_to_blocks(text: &[u8]) -> usize {
    /// A sum of so many blocks fits a byte.
    const BLOCKS: usize = 48;
    let zero = _mm256_setzero_si256();
    let mut total = zero;
    for blocks in text.as_chunks::<BLOCK>().0.chunks(BLOCKS) {
        let mut sum = zero;
        for block in blocks {
            let bytes = load(block);
            let one = _mm256_and_si256(quotes(bytes), _mm256_set1_epi8(1));
            let five = _mm256_and_si256(controls(bytes), _mm256_set1_epi8(5));
            // Those that have a letter take one and not five.
            let letter = _mm256_cmpgt_epi8(letters(bytes), zero);
            let less = _mm256_and_si256(letter, _mm256_set1_epi8(4));
            sum = _mm256_add_epi8(sum, _mm256_sub_epi8(_mm256_or_si256(one, five), less));
        }
        total = _mm256_add_epi64(total, _mm256_sad_epu8(sum, zero));
    }
    words(total).iter().sum::<u64>().try_into().unwrap_or(usize::MAX)
}

#[target_feature(enable = "avx2,popcnt")]
fn escape_blocks(text: &[u8], out: &mut [u8]) -> Progress {
    let (mut rest, mut at) = (text, 0);
    while let Some(block) = rest.first_chunk::<BLOCK>()
        && let Some(room) = out[at..].first_chunk_mut::<ROOM>()
    {
        let bytes = load(block);
        let controls = controls(bytes);
        let special = _mm256_or_si256(quotes(bytes), controls);
        let mask = _mm256_movemask_epi8(special).cast_unsigned();
        if mask == 0 {
            room[..BLOCK].copy_from_slice(block);
            at += BLOCK;
        } else {
            let letters = letters(bytes);
            let longest = _mm256_and_si256(controls, _mm256_cmpeq_epi8(letters, _mm256_setzero_si256()));
            let longest = _mm256_movemask_epi8(longest).cast_unsigned();
            let letters = words(_mm256_blendv_epi8(bytes, letters, controls));
            at += if longest == 0 {
                let mut end = 0;
                for (letters, set) in letters.into_iter().zip(mask.to_le_bytes()) {
                    room[end & PLACE..][..WORD_ROOM].copy_from_slice(&escape_word(letters, set));
                    end += WORD + set.count_ones() as usize;
                }
                end
            } else {
                escape_any(block, letters, mask, longest, room)
            };
        }
        rest = &rest[BLOCK..];
    }
    Progress {
        taken: text.len() - rest.len(),
        written: at,
    }
}

/// A block with control characters that have no letter among its special bytes.
#[inline(never)]
#[target_feature(enable = "avx2,popcnt")]
fn escape_any(
    block: &[u8; BLOCK],
    letters: [u64; 4],
    specials: u32,
    longest: u32,
    room: &mut [u8; ROOM],
) -> usize {
    let mut at = 0;
    let words = block.as_chunks::<WORD>().0.iter().zip(letters);
    for ((word, letters), (set, longest)) in
        words.zip(specials.to_le_bytes().into_iter().zip(longest.to_le_bytes()))
    {
        let room = &mut room[at & PLACE..];
        at += if longest == 0 {
            room[..WORD_ROOM].copy_from_slice(&escape_word(letters, set));
            WORD + set.count_ones() as usize
        } else if longest == u8::MAX {
            room[..LONGEST * WORD].copy_from_slice(&escape_longest(*word));
            LONGEST * WORD
        } else {
            word.iter()
                .fold(0, |end, &byte| end + write_byte(byte, &mut room[end..]))
        };
    }
    at
}

/// The word's letters, with a backslash before each of this set.
#[inline]
#[target_feature(enable = "avx2")]
fn escape_word(letters: u64, set: u8) -> [u8; WORD_ROOM] {
    const BACKSLASHES: i64 = i64::from_le_bytes([b'\\'; WORD]);
    let bytes = _mm_set_epi64x(BACKSLASHES, letters.cast_signed());
    half(_mm_shuffle_epi8(bytes, load_half(&PLACES[usize::from(set)])))
}

/// A word of control characters that have no letter.
#[inline]
#[target_feature(enable = "avx2")]
fn escape_longest(word: [u8; WORD]) -> [u8; LONGEST * WORD] {
    let bytes = _mm_set_epi64x(0, i64::from_le_bytes(word));
    let digits = load_half(b"0123456789abcdef");
    let low = _mm_shuffle_epi8(digits, _mm_and_si128(bytes, _mm_set1_epi8(0x0f)));
    let high = _mm_and_si128(_mm_srli_epi16::<4>(bytes), _mm_set1_epi8(0x0f));
    let digits = _mm_unpacklo_epi8(_mm_shuffle_epi8(digits, high), low);
    let mut out = [0; LONGEST * WORD];
    let (rooms, _) = out.as_chunks_mut::<16>();
    for (room, (places, around)) in rooms.iter_mut().zip(&LONGEST_FORMS) {
        *room = half(_mm_or_si128(
            _mm_shuffle_epi8(digits, load_half(places)),
            load_half(around),
        ));
    }
    out
}

/// The quotes and the backslashes.
#[inline]
#[target_feature(enable = "avx2")]
fn quotes(bytes: __m256i) -> __m256i {
    let quote = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(b'"'.cast_signed()));
    _mm256_or_si256(
        quote,
        _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(b'\\'.cast_signed())),
    )
}

/// The bytes below 32.
#[inline]
#[target_feature(enable = "avx2")]
fn controls(bytes: __m256i) -> __m256i {
    _mm256_cmpeq_epi8(_mm256_min_epu8(bytes, _mm256_set1_epi8(0x1f)), bytes)
}

/// The letters of the control characters that have one, and zeros.
#[inline]
#[target_feature(enable = "avx2")]
fn letters(bytes: __m256i) -> __m256i {
    let table = load(&std::array::from_fn(|i| LETTERS[i % LETTERS.len()]));
    // Any byte from 16 on gets its highest bit, and that asks for a zero.
    _mm256_shuffle_epi8(table, _mm256_adds_epu8(bytes, _mm256_set1_epi8(0x70)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(block: &[u8; BLOCK]) -> __m256i {
    let (words, _) = block.as_chunks::<WORD>();
    let word = |i: usize| i64::from_le_bytes(words[i]);
    _mm256_set_epi64x(word(3), word(2), word(1), word(0))
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_half(bytes: &[u8; 16]) -> __m128i {
    let (words, _) = bytes.as_chunks::<WORD>();
    _mm_set_epi64x(i64::from_le_bytes(words[1]), i64::from_le_bytes(words[0]))
}

#[inline]
#[target_feature(enable = "avx2")]
fn half(vector: __m128i) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..WORD].copy_from_slice(&_mm_cvtsi128_si64(vector).to_le_bytes());
    bytes[WORD..].copy_from_slice(&_mm_extract_epi64::<1>(vector).to_le_bytes());
    bytes
}

#[inline]
#[target_feature(enable = "avx2")]
fn words(vector: __m256i) -> [u64; 4] {
    [
        _mm256_extract_epi64::<0>(vector),
        _mm256_extract_epi64::<1>(vector),
        _mm256_extract_epi64::<2>(vector),
        _mm256_extract_epi64::<3>(vector),
    ]
    .map(i64::cast_unsigned)
}
