//! What unpacking needs and is costly to make, kept from one turn to the next.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{
    WINDOW_BYTES,
    inflate::{Deflated, Frames},
};
use crate::large::LARGE;

/// The most bytes that wait for the next turn, over the process. Two or three turns that read zstd from Java's
/// clients have room.
const IDLE_BYTES: usize = 16 * 1024 * 1024;
/// The largest zstd context that waits: the default level's, whose window is 2 MiB, fits.
const FRAMES_BYTES: usize = 4 * 1024 * 1024;
/// What a decoder of gzip takes: its window of 32 KiB, and its tables.
const DEFLATED_BYTES: usize = 64 * 1024;

/// A buffer for what is unpacked, and the decoders that were made so far.
#[derive(Default)]
pub(super) struct Kit {
    pub(super) buffer: Vec<u8>,
    pub(super) frames: Option<Frames>,
    pub(super) deflated: Option<Deflated>,
}

/// The kits that nobody uses.
struct Idle {
    kits: Vec<Kit>,
    bytes: usize,
}

static IDLE: Mutex<Idle> = Mutex::new(Idle {
    kits: Vec::new(),
    bytes: 0,
});

fn idle() -> MutexGuard<'static, Idle> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kit {
    /// The kit that was used last, or an empty one.
    pub(super) fn take() -> Self {
        idle().take().unwrap_or_default()
    }

    /// Keeps the kit for the next who takes one, but for what is larger than most need.
    pub(super) fn give_back(mut self) {
        if self.buffer.capacity() > LARGE + WINDOW_BYTES {
            self.buffer = Vec::new();
        }
        self.frames = self.frames.filter(|frames| frames.bytes() <= FRAMES_BYTES);
        let over = idle().keep(self);
        drop(over); // Not under the lock.
    }

    fn bytes(&self) -> usize {
        let frames = self.frames.as_ref().map_or(0, Frames::bytes);
        let deflated = self.deflated.as_ref().map_or(0, |_| DEFLATED_BYTES);
        size_of::<Self>() + self.buffer.capacity() + frames + deflated
    }
}

impl Idle {
    fn take(&mut self) -> Option<Kit> {
        let kit = self.kits.pop()?;
        self.bytes -= kit.bytes();
        Some(kit)
    }

    /// Keeps a kit, or returns it where there is no room.
    fn keep(&mut self, kit: Kit) -> Option<Kit> {
        let bytes = self.bytes + kit.bytes();
        if bytes > IDLE_BYTES {
            return Some(kit);
        }
        self.bytes = bytes;
        self.kits.push(kit);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_bounded() {
        let mut idle = Idle {
            kits: Vec::new(),
            bytes: 0,
        };
        let kit = || Kit {
            buffer: vec![0; 1 << 20],
            ..Kit::default()
        };
        let mut kept = 0;
        while idle.keep(kit()).is_none() {
            kept += 1;
            assert!(idle.bytes <= IDLE_BYTES);
        }
        assert_eq!(kept, 15, "their own sizes count, too");
        while idle.take().is_some() {
            kept -= 1;
        }
        assert_eq!((kept, idle.bytes), (0, 0));
    }
}
