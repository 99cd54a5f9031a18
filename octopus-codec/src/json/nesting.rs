//! What is open around a place in a text, in one bit a level [D-40].

/// What is open, outermost first: a bit each, clear for an array and set for an object.
#[derive(Debug)]
pub(super) struct Nesting {
    /// The innermost levels, the outermost of them lowest. Bits from `used` on are clear.
    top: u64,
    /// How many levels are in `top`, always below 64.
    used: u32,
    below: Words,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Array,
    Object,
}

impl Nesting {
    pub(super) const fn new() -> Self {
        Self {
            top: 0,
            used: 0,
            below: Words::new(),
        }
    }

    /// How many levels are open.
    pub(super) const fn depth(&self) -> usize {
        self.below.len * 64 + self.used as usize
    }

    /// What is open innermost.
    #[inline]
    pub(super) fn innermost(&self) -> Option<Kind> {
        let bit = match self.used {
            0 => self.below.last()? >> 63,
            used => self.top >> (used - 1),
        };
        Some(Kind::of(bit))
    }

    /// Opens one more level, or `None` where the `left` bytes can't close them all.
    #[inline]
    pub(super) fn open(&mut self, kind: Kind, left: usize) -> Option<()> {
        if self.depth() >= left {
            return None;
        }
        self.top |= u64::from(kind == Kind::Object) << self.used;
        self.used += 1;
        if self.used == 64 {
            self.below.push(self.top);
            (self.top, self.used) = (0, 0);
        }
        Some(())
    }

    /// Closes the innermost level, if there is one, and says what is around it.
    #[inline]
    pub(super) fn close(&mut self) -> Option<Kind> {
        match self.used.checked_sub(1) {
            Some(used) => {
                self.used = used;
                self.top &= !(1 << used);
            }
            None => (self.top, self.used) = (self.below.pop()? & (u64::MAX >> 1), 63),
        }
        self.innermost()
    }

    /// Opens the lowest `count` levels of `kinds`, whose other bits are clear, the lowest bit outermost, or `None`
    /// where the `left` bytes can't close all that is open. `count` is below 64.
    #[cfg(any(test, target_arch = "x86_64"))]
    #[inline]
    pub(super) fn open_all(&mut self, kinds: u64, count: u32, left: usize) -> Option<()> {
        if self.depth() + count as usize > left {
            return None;
        }
        self.top |= kinds << self.used;
        let used = self.used + count;
        if used < 64 {
            self.used = used;
        } else {
            self.below.push(self.top);
            self.used = used - 64;
            self.top = if self.used == 0 {
                0
            } else {
                kinds >> (count - self.used)
            };
        }
        Some(())
    }

    /// Closes `count` levels and says what they were, the innermost in the lowest bit, or `None` where fewer are
    /// open. `count` is from 1 to 63.
    #[cfg(any(test, target_arch = "x86_64"))]
    #[inline]
    pub(super) fn close_all(&mut self, count: u32) -> Option<u64> {
        let kinds = if let Some(used) = self.used.checked_sub(count) {
            let kinds = self.top >> used;
            self.top &= !(u64::MAX << used);
            self.used = used;
            kinds
        } else {
            let more = count - self.used;
            let word = self.below.pop()?;
            let kinds = word >> (64 - more) | self.top << more;
            self.used = 64 - more;
            self.top = word & (u64::MAX >> more);
            kinds
        };
        Some(kinds.reverse_bits() >> (64 - count))
    }
}

impl Kind {
    /// What the lowest bit says.
    const fn of(bit: u64) -> Self {
        if bit & 1 == 0 { Self::Array } else { Self::Object }
    }
}

/// A stack of words that grows in fixed steps, so that it never holds an old and a new copy of itself.
#[derive(Debug)]
struct Words {
    len: usize,
    first: [u64; INLINE],
    more: Vec<Box<[u64; STEP]>>,
}

/// The words that need no allocation.
const INLINE: usize = 8;
/// The words of one step of growth.
const STEP: usize = 512;

impl Words {
    const fn new() -> Self {
        Self {
            len: 0,
            first: [0; INLINE],
            more: Vec::new(),
        }
    }

    fn push(&mut self, word: u64) {
        match self.len.checked_sub(INLINE) {
            None => self.first[self.len] = word,
            Some(index) => {
                if index / STEP == self.more.len() {
                    self.more.push(Box::new([0; STEP]));
                }
                self.more[index / STEP][index % STEP] = word;
            }
        }
        self.len += 1;
    }

    fn last(&self) -> Option<u64> {
        let index = self.len.checked_sub(1)?;
        Some(match index.checked_sub(INLINE) {
            None => self.first[index],
            Some(index) => self.more[index / STEP][index % STEP],
        })
    }

    fn pop(&mut self) -> Option<u64> {
        let word = self.last()?;
        self.len -= 1;
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        /// [D-40]
        #[test]
        fn levels_come_back_as_they_were_opened(steps in vec((any::<u64>(), 0..64u32, 0..64u32), 1..300)) {
            let (mut nesting, mut model) = (Nesting::new(), Vec::<bool>::new());
            for (kinds, opened, closed) in steps {
                let kinds = kinds & !(u64::MAX << opened);
                prop_assert!(nesting.open_all(kinds, opened, model.len() + opened as usize).is_some());
                model.extend((0..opened).map(|i| kinds >> i & 1 == 1));
                if closed % 3 == 0 {
                    prop_assert!(nesting.open(Kind::Object, model.len() + 1).is_some());
                    model.push(true);
                }
                prop_assert_eq!(nesting.depth(), model.len());
                prop_assert!(nesting.open(Kind::Array, model.len()).is_none());
                prop_assert!(nesting.open_all(0, 1, model.len()).is_none());
                let closed = closed.min(u32::try_from(model.len()).unwrap());
                if closed > 0 {
                    let expected = (0..closed).fold(0, |bits, i| bits | u64::from(model.pop().unwrap()) << i);
                    prop_assert_eq!(nesting.close_all(closed), Some(expected));
                }
                let kind = |object: &bool| if *object { Kind::Object } else { Kind::Array };
                prop_assert_eq!(nesting.innermost(), model.last().map(kind));
                if opened % 3 == 0 {
                    model.pop();
                    prop_assert_eq!(nesting.close(), model.last().map(kind));
                }
            }
            while model.pop().is_some() {
                nesting.close();
            }
            prop_assert_eq!((nesting.depth(), nesting.close_all(1)), (0, None));
        }
    }
}
