//! Whether brackets match, and items and members stand in arrays and objects.

use std::arch::x86_64::*;

use crate::json::nesting::{Kind, Nesting};

/// The brackets that were found and not matched yet, a bit each, the first in the lowest.
#[derive(Debug)]
pub(super) struct Brackets {
    /// How many there are, at most 63.
    count: u32,
    row: Row,
    /// Whether something only for an array, or only for an object, stands behind the last bracket found.
    behind: [bool; 2],
    /// What is open in front of them.
    nesting: Nesting,
}

/// Brackets, a bit each.
#[derive(Debug, Clone, Copy)]
struct Row {
    opens: u64,
    /// Those of objects.
    curly: u64,
    /// Those that something stands in front of which only an array can hold. There is a bit for the bracket behind
    /// the last one, too.
    array: u64,
    /// The same for objects.
    object: u64,
}

/// The most brackets in a row, whose masks also have a bit for the one behind them.
const MOST: u32 = 63;

impl Brackets {
    pub(super) const fn new() -> Self {
        Self {
            count: 0,
            row: Row::EMPTY,
            behind: [false; 2],
            nesting: Nesting::new(),
        }
    }

    /// Adds a block's brackets, and what stands in it that only an array and only an object can hold. From the
    /// block's start on there are `left` bytes.
    #[target_feature(enable = "bmi1,bmi2,popcnt")]
    #[inline]
    pub(super) fn add(
        &mut self,
        brackets: u64,
        opens: u64,
        curly: u64,
        [item, member]: [u64; 2],
        left: usize,
    ) -> Option<()> {
        let attach = |marks: u64, behind: &mut bool| {
            // The sum carries each mark to the next bracket.
            let (sum, over) = (!brackets).carrying_add(marks & !brackets, *behind);
            *behind = over;
            sum | marks
        };
        let array = attach(item, &mut self.behind[0]);
        let object = attach(member, &mut self.behind[1]);
        if brackets == 0 {
            return Some(());
        }
        let more = Row {
            opens: _pext_u64(opens, brackets),
            curly: _pext_u64(curly, brackets),
            array: _pext_u64(array, brackets),
            object: _pext_u64(object, brackets),
        };
        let total = self.count + brackets.count_ones();
        self.row = self.row.or(more.map(|mask| mask << self.count));
        if total <= MOST {
            self.count = total;
            return Some(());
        }
        self.overflow(more, total, left)
    }

    /// Matches as many brackets as a row takes, of which `more` were just added.
    #[target_feature(enable = "bmi1,bmi2,popcnt")]
    fn overflow(&mut self, more: Row, total: u32, left: usize) -> Option<()> {
        let mut taken = MOST - self.count;
        let mut rest = total - MOST;
        loop {
            self.count = MOST;
            self.row = self.row.map(|mask| mask & !(1 << MOST));
            self.flush(left)?;
            self.row = self.row.or(more.map(|mask| mask >> taken));
            if rest <= MOST {
                self.count = rest;
                return Some(());
            }
            taken += MOST;
            rest -= MOST;
        }
    }

    /// Matches what is left, where the text ends.
    #[target_feature(enable = "bmi1,bmi2,popcnt")]
    pub(super) fn end(mut self) -> Option<()> {
        self.flush(usize::MAX)?;
        let is_whole = self.nesting.depth() == 0 && (self.row.array | self.row.object) == 0;
        (is_whole && self.behind == [false; 2]).then_some(())
    }

    /// Matches the row. What is left of it is a mark for the bracket behind it.
    #[target_feature(enable = "bmi1,bmi2,popcnt")]
    fn flush(&mut self, left: usize) -> Option<()> {
        let mut row = self.row;
        let mut count = self.count;
        loop {
            // An opening bracket and the closing one right behind it.
            let pairs = row.opens & !(row.opens >> 1) & !(u64::MAX << count >> 1);
            if pairs == 0 {
                break;
            }
            let wrong =
                (row.curly ^ row.curly >> 1) | row.array >> 1 & row.curly | row.object >> 1 & !row.curly;
            if wrong & pairs != 0 {
                return None;
            }
            let both = pairs | pairs << 1;
            // What stood in front of the pair stands in front of the bracket behind it.
            let pass_on = |marks: u64| both.wrapping_add(marks & pairs) | marks;
            (row.array, row.object) = (pass_on(row.array), pass_on(row.object));
            row = row.map(|mask| _pext_u64(mask, !both));
            count -= 2 * pairs.count_ones();
        }

        let closes = row.opens.trailing_zeros().min(count);
        if closes > 0 {
            let kinds = self.nesting.close_all(closes)?;
            let wrong = (row.curly ^ kinds) | row.array & kinds | row.object & !kinds;
            if wrong & !(u64::MAX << closes) != 0 {
                return None;
            }
            row = row.map(|mask| mask >> closes);
            count -= closes;
        }
        if count > 0 {
            let (array, object) = match self.nesting.innermost() {
                Some(Kind::Array) => (0, 1),
                Some(Kind::Object) => (1, 0),
                None => (1, 1),
            };
            let inner = !(u64::MAX << count) & !1;
            let kinds = row.curly << 1;
            if row.array & (kinds & inner | array) | row.object & (!kinds & inner | object) != 0 {
                return None;
            }
            self.nesting
                .open_all(row.curly & !(u64::MAX << count), count, left)?;
        }
        self.row = Row {
            array: row.array >> count & 1,
            object: row.object >> count & 1,
            ..Row::EMPTY
        };
        self.count = 0;
        Some(())
    }
}

impl Row {
    const EMPTY: Self = Self {
        opens: 0,
        curly: 0,
        array: 0,
        object: 0,
    };

    fn map(self, change: impl Fn(u64) -> u64) -> Self {
        Self {
            opens: change(self.opens),
            curly: change(self.curly),
            array: change(self.array),
            object: change(self.object),
        }
    }

    fn or(self, other: Self) -> Self {
        Self {
            opens: self.opens | other.opens,
            curly: self.curly | other.curly,
            array: self.array | other.array,
            object: self.object | other.object,
        }
    }
}
