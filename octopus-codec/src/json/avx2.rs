//! The JSON check of 64 bytes at a time: every rule of the grammar is arithmetic on masks, which have a bit for
//! each byte, the lowest for the first.
//!
//! Up to the first byte that breaks a rule, each mask means what its name says, so that byte is found. What the
//! masks say behind it does not matter.

use std::{arch::is_x86_feature_detected, sync::LazyLock};

mod block;
mod bracket;
mod number;
mod string;

use block::Block;
use bracket::Brackets;
use number::Scalars;
use string::Strings;

/// Whether the processor has what this tier needs.
pub(super) fn is_available() -> bool {
    static AVAILABLE: LazyLock<bool> = LazyLock::new(|| {
        is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("pclmulqdq")
            && is_x86_feature_detected!("popcnt")
    });
    *AVAILABLE
}

/// Whether this UTF-8 text is exactly one JSON value, or `None` on a processor that can't run this.
#[inline]
pub(super) fn is_json(text: &[u8]) -> Option<bool> {
    is_available().then(|| {
        // SAFETY: the processor has every feature that `check` is compiled for, as was just asked.
        unsafe { check(text) }.is_some()
    })
}

#[target_feature(enable = "avx2,bmi1,bmi2,pclmulqdq,popcnt")]
fn check(text: &[u8]) -> Option<()> {
    let mut state = State::new();
    let (blocks, tail) = text.as_chunks::<64>();
    // A blank behind the text ends a number or a literal there.
    let mut last = [b' '; 128];
    let last = match text.last_chunk::<64>() {
        Some(end) => {
            last[..64].copy_from_slice(end);
            last[64 - tail.len()..].first_chunk()?
        }
        None => {
            last[..tail.len()].copy_from_slice(tail);
            last.first_chunk()?
        }
    };
    let mut block = Block::first();
    let mut left = text.len();
    for bytes in blocks.iter().chain([last]) {
        block = block.next(bytes);
        state.add(block, left)?;
        left = left.saturating_sub(64);
    }
    state.end()
}

/// What a block must know of those before it.
struct State {
    strings: Strings,
    scalars: Scalars,
    brackets: Brackets,
    /// Whether what comes first behind the blanks is what comes first in an object.
    in_object: bool,
    /// Whether it is what follows a comma.
    behind_comma: bool,
    /// Whether it is what follows a `[` or a colon, or starts the text.
    behind_opener: bool,
    /// Whether the string that goes on is a name, or was one if it follows a comma in an array.
    in_name: bool,
    /// Whether it is what follows a name.
    behind_name: bool,
}

impl State {
    const fn new() -> Self {
        Self {
            strings: Strings::new(),
            scalars: Scalars::new(),
            brackets: Brackets::new(),
            in_object: false,
            behind_comma: false,
            behind_opener: true,
            in_name: false,
            behind_name: false,
        }
    }

    /// Checks the next block, from whose start on there are `left` bytes; `None` if this can't be JSON.
    #[target_feature(enable = "avx2,bmi1,bmi2,pclmulqdq,popcnt")]
    #[inline]
    fn add(&mut self, block: Block, left: usize) -> Option<()> {
        let quotes = self.strings.quotes(block)?;
        let control = block.below(0x20);
        if quotes == 0 && self.strings.go_on() {
            return (control == 0).then_some(());
        }
        let inside = self.strings.inside(quotes);
        let outside = !(inside | quotes);
        let string = quotes & inside;
        let mut wrong = control & inside;

        let blank = block.blank();
        let (opens, closes) = (
            block.eq_any_case(b'{') & outside,
            block.eq_any_case(b'}') & outside,
        );
        let curly = block.bit_5();
        let comma = block.eq(b',') & outside;
        let colon = block.eq(b':') & outside;
        let brackets = opens | closes;
        let scalar = outside & !(brackets | comma | colon | blank);
        let start = self.scalars.starts(scalar);
        let value = string | opens | start;

        let next = |marks: u64, carry: &mut bool| {
            // The sum carries each mark over the blanks behind it, and one more for a mark that stands there.
            let (sum, over) = (marks | blank).carrying_add(marks, *carry);
            *carry = over;
            sum & !blank
        };
        let in_object = next(opens & curly, &mut self.in_object);
        let behind_comma = next(comma, &mut self.behind_comma);
        let behind_opener = next(opens & !curly | colon, &mut self.behind_opener);
        wrong |= in_object & !(string | closes & curly);
        wrong |= behind_comma & !value;
        wrong |= behind_opener & !(value | closes & !curly);
        wrong |= value & !(in_object | behind_comma | behind_opener);

        // A string that follows a comma is a name if a colon follows it.
        let name = (in_object | behind_comma) & string;
        let (sum, over) = name.carrying_add(inside, self.in_name);
        self.in_name = over;
        let behind_name = next(sum & !inside, &mut self.behind_name);
        wrong |= colon & !behind_name;
        let item = behind_comma & !string | behind_name & !colon;

        wrong |= self.scalars.wrong(block, scalar, start);
        if wrong != 0 {
            return None;
        }
        self.brackets.add(brackets, opens, curly, [item, colon], left)
    }

    #[target_feature(enable = "bmi1,bmi2,popcnt")]
    fn end(self) -> Option<()> {
        let open = self.in_object
            || self.behind_comma
            || self.behind_opener
            || self.in_name
            || self.behind_name
            || self.strings.go_on();
        if open { None } else { self.brackets.end() }
    }
}
