//! Whether numbers and literals are right.

use super::Block;

/// What is known of numbers and literals where a block starts. A field that says what the byte before is has no
/// bit but the lowest.
#[derive(Debug)]
pub(super) struct Scalars {
    /// The byte before is of a number or a literal.
    scalar: u64,
    /// The byte before is a zero, and a number's whole part starts with it.
    zero: u64,
    literal: Literal,
    number: Number,
}

/// The literals that start so near the end of the block before that they, or the bytes behind them, are in this one:
/// the lowest bit is for a start five bytes before the block.
#[derive(Debug, Default)]
struct Literal {
    starts: u64,
    /// Those that are `false`.
    false_: u64,
}

/// A number that the block before ends in.
#[derive(Debug, Default)]
struct Number {
    /// Whether there is more to it than digits of its whole part.
    is_special: bool,
    /// The byte before is a digit.
    digit: u64,
    /// The byte before is of a number and no digit.
    other: u64,
    /// The byte before is the minus that starts it.
    minus: u64,
    /// The byte before starts the exponent.
    exponent: u64,
    /// It has a point.
    has_point: bool,
    /// It has an exponent.
    has_exponent: bool,
}

impl Scalars {
    pub(super) const fn new() -> Self {
        Self {
            scalar: 0,
            zero: 0,
            literal: Literal { starts: 0, false_: 0 },
            number: Number {
                is_special: false,
                digit: 0,
                other: 0,
                minus: 0,
                exponent: 0,
                has_point: false,
                has_exponent: false,
            },
        }
    }

    /// The first bytes of numbers and literals, `scalar` being all their bytes.
    #[inline]
    pub(super) const fn starts(&mut self, scalar: u64) -> u64 {
        let starts = scalar & !(scalar << 1 | self.scalar);
        self.scalar = scalar >> 63;
        starts
    }

    /// Where numbers and literals are wrong.
    #[target_feature(enable = "avx2,bmi1")]
    #[inline]
    pub(super) fn wrong(&mut self, block: Block, scalar: u64, starts: u64) -> u64 {
        let digits = block.digit() & scalar;
        let zeros = block.eq(b'0');
        if scalar == digits && !self.number.is_special && self.literal.starts == 0 {
            self.number.digit = digits >> 63;
            return self.behind_zero(starts & zeros) & digits;
        }
        let minus = block.eq(b'-') & scalar;
        let words = starts & !(digits | minus);
        let (mut numbers, mut wrong) = (scalar, 0);
        if words | self.literal.starts != 0 {
            let literals = self.literal.find(block, words);
            numbers &= !literals.bytes;
            wrong = literals.wrong | literals.behind & scalar;
        }
        let starts = starts & numbers;
        let (whole, more) = self.number.find(block, numbers, digits, minus & numbers, starts);
        wrong | more | self.behind_zero(whole & zeros) & digits
    }

    /// The bytes behind these zeros, each of which a number's whole part starts with.
    #[inline]
    const fn behind_zero(&mut self, zeros: u64) -> u64 {
        let behind = zeros << 1 | self.zero;
        self.zero = zeros >> 63;
        behind
    }
}

/// The literals of a block.
struct Literals {
    bytes: u64,
    /// The bytes behind them.
    behind: u64,
    /// Where a letter is not the next one of its literal.
    wrong: u64,
}

impl Literal {
    /// The literals that start here, and those that end here.
    #[target_feature(enable = "avx2,bmi1")]
    #[inline]
    fn find(&mut self, block: Block, starts: u64) -> Literals {
        let [is_first, is_second, is_later] = block.literal_letters();
        let false_ = starts & block.eq(b'f');
        let second = starts << 1 | self.starts >> 4;
        let third = starts << 2 | self.starts >> 3;
        let fourth = starts << 3 | self.starts >> 2;
        let behind_fourth = starts << 4 | self.starts >> 1;
        let fifth = false_ << 4 | self.false_ >> 1;
        let behind_fifth = false_ << 5 | self.false_;
        *self = Self {
            starts: starts >> 59,
            false_: false_ >> 59,
        };
        Literals {
            bytes: starts | second | third | fourth | fifth,
            behind: behind_fourth & !fifth | behind_fifth,
            wrong: starts & !is_first | second & !is_second | (third | fourth | fifth) & !is_later,
        }
    }
}

impl Number {
    /// Where the digits of whole parts start, and where numbers are wrong. `bytes` are all bytes that must be of
    /// numbers.
    #[target_feature(enable = "avx2,bmi1")]
    #[inline]
    fn find(&mut self, block: Block, bytes: u64, digits: u64, minus: u64, starts: u64) -> (u64, u64) {
        let point = block.eq(b'.') & bytes;
        let exponent = block.eq_any_case(b'e') & bytes;
        let sign = block.eq(b'+') & bytes | minus;
        let other = bytes & !digits;
        let minus = minus & starts;

        let behind_digit = digits << 1 | self.digit;
        let behind_other = other << 1 | self.other;
        let behind_minus = minus << 1 | self.minus;
        let behind_exponent = exponent << 1 | self.exponent;
        // The sums clear a number's bits from its first point or exponent on, and set those of further ones.
        let (unpointed, over_point) = bytes.carrying_add(point, self.has_point);
        let (unraised, over_exponent) = bytes.carrying_add(exponent, self.has_exponent);
        let wrong = other & !(point | exponent | sign)
            | (point | exponent) & !behind_digit
            | sign & !(minus | behind_exponent)
            | behind_other & !(digits | sign)
            | point & (unpointed | !unraised)
            | exponent & unraised;

        *self = Self {
            is_special: over_point | over_exponent | (other >> 63 != 0),
            digit: digits >> 63,
            other: other >> 63,
            minus: minus >> 63,
            exponent: exponent >> 63,
            has_point: over_point,
            has_exponent: over_exponent,
        };
        ((starts | behind_minus) & digits, wrong)
    }
}
