//! Base64 by vectors of 32 characters, on machines with AVX2.

use std::{arch::x86_64::*, hint::black_box};

use crate::vectors;

/// The bytes that make a vector of characters.
const BYTES: usize = 24;
const CHARACTERS: usize = 32;
/// The bytes that are loaded for half a vector: four more than make it.
const HALF_LOADED: usize = 16;
/// The bytes that are loaded for a vector: the halves overlap.
const LOADED: usize = BYTES + 4;
/// The vectors of a round, and the bytes that are loaded for them.
const ROUND: usize = 4;
const ROUND_LOADED: usize = (ROUND - 1) * BYTES + LOADED;

/// For each half of a vector, where the bytes of each character lie when the half's bytes are the first of those loaded.
const FIRST: [u8; HALF_LOADED] = [1, 0, 2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10];
/// What is added to those places when the half's bytes are the last of those loaded: they lie four further, and with
/// as many more as the last group of three lacks, a place behind the loaded bytes holds a zero.
const LAST: u8 = 0x74;

/// What is added to six bits to make their character: for the capitals, the small letters, each digit, `+` and `/`.
const ADDED: [u8; HALF_LOADED] = {
    let mut added = [0; HALF_LOADED];
    added[0] = b'A';
    added[1] = b'a' - 26;
    let mut digit = 2;
    while digit < 12 {
        added[digit] = b'0'.wrapping_sub(52);
        digit += 1;
    }
    added[12] = b'+'.wrapping_sub(62);
    added[13] = b'/'.wrapping_sub(63);
    added
};

/// Writes the text of `bytes` to the start of `out` and says how many characters it has. `None` where
/// vectors are not taken.
#[inline]
#[expect(
    unsafe_code,
    reason = "the functions are called where the machine has what they want"
)]
pub(super) fn write(bytes: &[u8], out: &mut [u8]) -> Option<usize> {
    vectors::are_taken().then(|| unsafe {
        if bytes.len() < HALF_LOADED {
            short(bytes, out)
        } else {
            long(bytes, out)
        }
    })
}

#[target_feature(enable = "avx2")]
fn long(bytes: &[u8], out: &mut [u8]) -> usize {
    let out = &mut out[..super::len(bytes.len())];
    let encoder = Encoder::new();
    let lacking = lacking(bytes.len());
    let padded = _mm256_add_epi8(encoder.last, _mm256_set1_epi8(lacking.cast_signed()));

    let (mut rest, mut at) = (bytes, 0);
    while let Some(round) = rest.first_chunk::<ROUND_LOADED>()
        && let Some(text) = out[at..].first_chunk_mut::<{ ROUND * CHARACTERS }>()
    {
        for (i, text) in text.as_chunks_mut::<CHARACTERS>().0.iter_mut().enumerate() {
            let block = round[i * BYTES..].first_chunk().expect("a round's block");
            *text = array(encoder.characters(halves(block), encoder.first));
        }
        rest = &rest[ROUND * BYTES..];
        at += text.len();
    }
    while let Some(block) = rest.first_chunk::<LOADED>()
        && let Some(text) = out[at..].first_chunk_mut::<CHARACTERS>()
    {
        *text = array(encoder.characters(halves(block), encoder.first));
        rest = &rest[BYTES..];
        at += text.len();
    }

    // What is left is made of vectors that begin before it.
    if rest.len() > BYTES
        && let Some(block) = bytes[..bytes.len() - (rest.len() - BYTES)].last_chunk::<LOADED>()
        && let Some(text) = out[at..].first_chunk_mut::<CHARACTERS>()
    {
        *text = array(encoder.characters(halves(block), encoder.last));
    }
    if let Some(block) = bytes.last_chunk::<LOADED>()
        && let Some(text) = out.last_chunk_mut::<CHARACTERS>()
    {
        let first = block[usize::from(lacking)..]
            .first_chunk()
            .expect("half of a block and more");
        let last = block.last_chunk().expect("half of a block");
        let places = _mm256_blend_epi32::<0xf0>(encoder.last, padded);
        *text = array(encoder.characters(vector(first, last), places));
    } else if let Some(first) = bytes.first_chunk::<HALF_LOADED>()
        && let Some(last) = bytes.last_chunk::<HALF_LOADED>()
    {
        // Half a vector from each end; where they do not meet, one more between.
        let places = _mm256_blend_epi32::<0xf0>(encoder.first, padded);
        let text = array(encoder.characters(vector(first, last), places));
        if bytes.len() > BYTES {
            let middle = bytes[..BYTES].last_chunk().expect("half of them and more");
            let text = array(encoder.characters(vector(middle, middle), encoder.last));
            out[HALF_LOADED..2 * HALF_LOADED].copy_from_slice(&text[..HALF_LOADED]);
        }
        let start = out.len() - HALF_LOADED;
        out[..HALF_LOADED].copy_from_slice(&text[..HALF_LOADED]);
        out[start..].copy_from_slice(&text[HALF_LOADED..]);
    }
    pad(out, lacking);
    out.len()
}

/// For fewer bytes than are loaded for half a vector.
#[target_feature(enable = "avx2")]
fn short(bytes: &[u8], out: &mut [u8]) -> usize {
    let length = super::len(bytes.len());
    let bits = bits(bytes);
    let encoder = Encoder::new();
    let halves = vector(&bits.to_le_bytes(), &(bits >> 96).to_le_bytes());
    let text = array(encoder.characters(halves, encoder.first));
    if let Some(out) = out.first_chunk_mut() {
        *out = text;
    } else {
        out[..length].copy_from_slice(&text[..length]);
    }
    pad(&mut out[..length], lacking(bytes.len()));
    length
}

/// The bytes that the last group of three lacks.
#[inline]
const fn lacking(bytes: usize) -> u8 {
    match bytes % 3 {
        0 => 0,
        1 => 2,
        _ => 1,
    }
}

#[inline]
fn pad(text: &mut [u8], lacking: u8) {
    if lacking > 0
        && let [.., third, fourth] = text
    {
        *fourth = b'=';
        if lacking > 1 {
            *third = b'=';
        }
    }
}

/// Fewer than sixteen bytes as a number, the first its lowest.
#[inline]
fn bits(bytes: &[u8]) -> u128 {
    let length = bytes.len();
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (first, last) = (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
        u128::from(first) | u128::from(last) << (8 * (length - 8))
    } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        (u64::from(first) | u64::from(last) << (8 * (length - 4))).into()
    } else {
        let bits = bytes
            .iter()
            .rev()
            .fold(0, |bits, &byte| bits << 8 | u32::from(byte));
        bits.into()
    }
}

/// What stays in registers.
struct Encoder {
    /// Where a vector's bytes lie that are the first of those loaded.
    first: __m256i,
    /// The same where they are the last of those.
    last: __m256i,
    /// Two factors for each character of four that move their bits to their places. Hidden from the compiler, which
    /// would make shifts of them that take longer.
    high: __m256i,
    low: __m256i,
}

impl Encoder {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new() -> Self {
        let first = vector(&FIRST, &FIRST);
        Self {
            first,
            last: _mm256_add_epi8(first, _mm256_set1_epi8(LAST.cast_signed())),
            high: black_box(_mm256_set1_epi32(0x0010_0001)),
            low: black_box(_mm256_set1_epi32(0x0100_0010)),
        }
    }

    /// The characters of the bytes in each half that these places name.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn characters(&self, bytes: __m256i, places: __m256i) -> __m256i {
        // Each four characters: bbbbcccc aaaaaabb ccdddddd bbbbcccc, from the lowest byte.
        let spread = _mm256_shuffle_epi8(bytes, places);
        // `a` and `c` are moved to the top of their pairs of bytes and from there down, `b` and `d` only up.
        let ac = _mm256_srli_epi16::<10>(_mm256_mullo_epi16(spread, self.high));
        let bd = _mm256_and_si256(spread, _mm256_set1_epi32(0x003f_03f0));
        let bd = _mm256_mullo_epi16(bd, self.low);
        let bits = _mm256_or_si256(ac, bd);

        let behind_letters = _mm256_subs_epu8(bits, _mm256_set1_epi8(51));
        let is_no_capital = _mm256_cmpgt_epi8(bits, _mm256_set1_epi8(25));
        let row = _mm256_sub_epi8(behind_letters, is_no_capital);
        _mm256_add_epi8(bits, _mm256_shuffle_epi8(vector(&ADDED, &ADDED), row))
    }
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
fn words(half: &[u8; HALF_LOADED]) -> [i64; 2] {
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
