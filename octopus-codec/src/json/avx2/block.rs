//! 64 bytes, and masks of what they are.

use std::arch::x86_64::*;

/// 64 bytes.
#[derive(Clone, Copy)]
pub(super) struct Block {
    halves: [__m256i; 2],
    /// The 32 bytes before them.
    before: __m256i,
}

impl Block {
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn first() -> Self {
        let zero = _mm256_setzero_si256();
        Self {
            halves: [zero; 2],
            before: zero,
        }
    }

    /// These bytes, which follow this block.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn next(self, bytes: &[u8; 64]) -> Self {
        let (halves, _) = bytes.as_chunks::<32>();
        Self {
            // SAFETY: each half is 32 bytes that can be read, and this load needs no alignment.
            halves: [0, 1].map(|half| unsafe { _mm256_loadu_si256(halves[half].as_ptr().cast()) }),
            before: self.halves[1],
        }
    }

    /// The bytes that are this one.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn eq(self, byte: u8) -> u64 {
        let byte = splat(byte);
        mask(self.halves.map(|half| _mm256_cmpeq_epi8(half, byte)))
    }

    /// The bytes that are this one once bit 5 is set: a letter in lower case matches both cases, and `{` and `}`
    /// match `[` and `]` as well.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn eq_any_case(self, byte: u8) -> u64 {
        let (byte, case) = (splat(byte), splat(0x20));
        mask(
            self.halves
                .map(|half| _mm256_cmpeq_epi8(_mm256_or_si256(half, case), byte)),
        )
    }

    /// The bytes below `limit`, which is above 0.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn below(self, limit: u8) -> u64 {
        let most = splat(limit - 1);
        mask(
            self.halves
                .map(|half| _mm256_cmpeq_epi8(_mm256_min_epu8(half, most), half)),
        )
    }

    /// The digits.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn digit(self) -> u64 {
        // The sum puts them, and nothing else, at the top of the signed bytes.
        let (up, rest) = (splat(0x7f - b'9'), splat(0x75));
        mask(
            self.halves
                .map(|half| _mm256_cmpgt_epi8(_mm256_add_epi8(half, up), rest)),
        )
    }

    /// The bytes with bit 5, which tells `{` and `}` from `[` and `]`.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn bit_5(self) -> u64 {
        mask(self.halves.map(|half| _mm256_slli_epi16::<2>(half)))
    }

    /// Space, tab, line feed and carriage return.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn blank(self) -> u64 {
        // By the low four bits: the one blank that ends so, or a byte that doesn't.
        let table = _mm256_setr_epi8(
            0x20, -1, -1, -1, -1, -1, -1, -1, -1, 9, 10, -1, -1, 13, -1, -1, //
            0x20, -1, -1, -1, -1, -1, -1, -1, -1, 9, 10, -1, -1, 13, -1, -1,
        );
        mask(
            self.halves
                .map(|half| _mm256_cmpeq_epi8(_mm256_shuffle_epi8(table, half), half)),
        )
    }

    /// The bytes that can be the first of a literal; those that are its second letter if the one before is its
    /// first; and those that are the right letter behind the two before if these are right.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn literal_letters(self) -> [u64; 3] {
        let [low, high] = self.halves;
        let across = [
            _mm256_permute2x128_si256::<0x21>(self.before, low),
            _mm256_permute2x128_si256::<0x21>(low, high),
        ];
        let before = [
            _mm256_alignr_epi8::<15>(low, across[0]),
            _mm256_alignr_epi8::<15>(high, across[1]),
        ];
        let before_that = [
            _mm256_alignr_epi8::<14>(low, across[0]),
            _mm256_alignr_epi8::<14>(high, across[1]),
        ];
        let [first, second, later] = [FIRST, SECOND, LATER].map(|[a, b]| _mm256_setr_epi64x(a, b, a, b));
        [
            mask([translates(first, low, low), translates(first, high, high)]),
            mask([
                translates(second, before[0], low),
                translates(second, before[1], high),
            ]),
            mask([
                translates(later, before_that[0], low),
                translates(later, before_that[1], high),
            ]),
        ]
    }

    /// The bytes that can't stand behind a backslash, and those that are no hexadecimal digit.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn not_escape_and_not_hex(self) -> (u64, u64) {
        // A bit for each kind of byte that a high half can make, set in the low halves that make one:
        // 1: `"/`, 2: `\`, 4: `bfn`, 8: `rtu`, 16: digits, 32: `a` to `f` in both cases.
        let low = _mm256_setr_epi8(
            16,
            48,
            1 | 4 | 8 | 48,
            48,
            8 | 48,
            8 | 48,
            4 | 48,
            16,
            16,
            16,
            0,
            0,
            2,
            0,
            4,
            1, //
            16,
            48,
            1 | 4 | 8 | 48,
            48,
            8 | 48,
            8 | 48,
            4 | 48,
            16,
            16,
            16,
            0,
            0,
            2,
            0,
            4,
            1,
        );
        let high = _mm256_setr_epi8(
            0,
            0,
            1,
            16,
            32,
            2,
            4 | 32,
            8,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0, //
            0,
            0,
            1,
            16,
            32,
            2,
            4 | 32,
            8,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
        );
        let kinds = self.halves.map(|half| {
            let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(half), splat(15));
            _mm256_and_si256(_mm256_shuffle_epi8(low, half), _mm256_shuffle_epi8(high, upper))
        });
        (none_of(kinds, 15), none_of(kinds, 48))
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn splat(byte: u8) -> __m256i {
    _mm256_set1_epi8(byte.cast_signed())
}

/// The bytes with none of these bits.
#[target_feature(enable = "avx2")]
#[inline]
fn none_of(halves: [__m256i; 2], bits: u8) -> u64 {
    let (bits, zero) = (splat(bits), _mm256_setzero_si256());
    mask(halves.map(|half| _mm256_cmpeq_epi8(_mm256_and_si256(half, bits), zero)))
}

/// The bytes that the table makes the other ones of.
#[target_feature(enable = "avx2")]
#[inline]
fn translates(table: __m256i, bytes: __m256i, into: __m256i) -> __m256i {
    _mm256_cmpeq_epi8(_mm256_shuffle_epi8(table, bytes), into)
}

/// The high bits of the bytes.
#[target_feature(enable = "avx2")]
#[inline]
fn mask(halves: [__m256i; 2]) -> u64 {
    let [low, high] = halves.map(|half| u64::from(_mm256_movemask_epi8(half).cast_unsigned()));
    low | high << 32
}

/// By the first letter of a literal: the letter itself.
const FIRST: [i64; 2] = letters(&[(b't', b't'), (b'f', b'f'), (b'n', b'n')]);
/// By the first letter of a literal: the second.
const SECOND: [i64; 2] = letters(&[(b't', b'r'), (b'f', b'a'), (b'n', b'u')]);
/// By a letter of a literal: the next but one. `l` is for the third letter of `false`.
const LATER: [i64; 2] = letters(&[
    (b't', b'u'),
    (b'r', b'e'),
    (b'f', b'l'),
    (b'a', b's'),
    (b'l', b'e'),
    (b'n', b'l'),
    (b'u', b'l'),
]);

/// A table by the low four bits of the first letters, for `_mm256_shuffle_epi8`. What is not in it becomes 0xff,
/// which no text has.
const fn letters(pairs: &[(u8, u8)]) -> [i64; 2] {
    let mut table = [u64::MAX; 2];
    let mut i = 0;
    while i < pairs.len() {
        let (from, to) = pairs[i];
        let shift = (from & 7) * 8;
        let half = &mut table[(from >> 3 & 1) as usize];
        *half = *half & !(0xff << shift) | (to as u64) << shift;
        i += 1;
    }
    [table[0].cast_signed(), table[1].cast_signed()]
}
