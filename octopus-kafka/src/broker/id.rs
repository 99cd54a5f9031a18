//! The names of connections, topics and members.

use uuid::{Builder, Uuid};

/// One connection of a client, for the whole life of a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub(crate) u64);

/// A source of ids, the same for the same seed (`SplitMix64`).
#[derive(Debug)]
pub(crate) struct Ids {
    state: u64,
}

impl Ids {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(crate) fn uuid(&mut self) -> Uuid {
        let random = (u128::from(self.next()) << 64) | u128::from(self.next());
        Builder::from_random_bytes(random.to_be_bytes()).into_uuid()
    }

    const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
