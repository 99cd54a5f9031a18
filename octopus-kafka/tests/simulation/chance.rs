//! All chance of a world: one source, the same for the same seed.

use std::time::Duration;

/// Numbers that are spread well (`SplitMix64`).
#[derive(Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `most`, or 0.
    pub(crate) fn below(&mut self, most: usize) -> usize {
        let number = self.number() % u64::try_from(most.max(1)).expect("64 bits");
        usize::try_from(number).expect("below an usize")
    }

    /// Whether what happens so often in a thousand times does.
    pub(crate) fn happens(&mut self, per_mille: usize) -> bool {
        self.below(1000) < per_mille
    }

    /// Milliseconds, both ends included.
    pub(crate) fn wait(&mut self, least: usize, most: usize) -> Duration {
        Duration::from_millis(u64::try_from(least + self.below(most - least + 1)).expect("64 bits"))
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}
