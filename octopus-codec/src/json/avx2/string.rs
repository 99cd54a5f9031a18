//! Where strings are, and whether their escapes are right.

use std::arch::x86_64::*;

use super::Block;

/// What is known of strings where a block starts.
#[derive(Debug)]
pub(super) struct Strings {
    /// 1 if the first byte is escaped by a backslash before it.
    escaped: u64,
    /// The bytes that must be hexadecimal digits.
    hex: u64,
    /// All bits if a string goes on.
    open: u64,
}

impl Strings {
    pub(super) const fn new() -> Self {
        Self {
            escaped: 0,
            hex: 0,
            open: 0,
        }
    }

    /// Whether a string goes on where the next block starts.
    #[inline]
    pub(super) const fn go_on(&self) -> bool {
        self.open != 0
    }

    /// The quotes that are not escaped, or `None` at an escape that is none.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn quotes(&mut self, block: Block) -> Option<u64> {
        let backslashes = block.eq(b'\\');
        let quotes = block.eq(b'"');
        if backslashes | self.escaped | self.hex == 0 {
            return Some(quotes);
        }
        let escaped = self.escaped(backslashes);
        let (not_escape, not_hex) = block.not_escape_and_not_hex();
        let unicode = escaped & block.eq(b'u');
        let hex = self.hex | unicode << 1 | unicode << 2 | unicode << 3 | unicode << 4;
        self.hex = unicode >> 63 | unicode >> 62 | unicode >> 61 | unicode >> 60;
        (escaped & not_escape | hex & not_hex == 0).then_some(quotes & !escaped)
    }

    /// The bytes behind a backslash that is not escaped itself.
    #[inline]
    fn escaped(&mut self, backslashes: u64) -> u64 {
        const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;
        // In a row of backslashes every other one escapes, from its first on. The difference turns the odd bits of
        // a row, and of the byte behind it, around where the row starts at an even one.
        let starters = backslashes & !self.escaped;
        let flipped = ((starters << 1 | ODD).wrapping_sub(starters)) ^ ODD;
        let escaped = flipped ^ (backslashes | self.escaped);
        self.escaped = (flipped & backslashes) >> 63;
        escaped
    }

    /// The bytes from each quote that opens a string to the last one of what the string holds.
    #[target_feature(enable = "pclmulqdq")]
    #[inline]
    pub(super) fn inside(&mut self, quotes: u64) -> u64 {
        // Each bit of the product is the parity of the quotes up to there.
        let ones = _mm_set1_epi8(-1);
        let product = _mm_clmulepi64_si128::<0>(_mm_cvtsi64_si128(quotes.cast_signed()), ones);
        let inside = _mm_cvtsi128_si64(product).cast_unsigned() ^ self.open;
        self.open = (inside.cast_signed() >> 63).cast_unsigned();
        inside
    }
}
