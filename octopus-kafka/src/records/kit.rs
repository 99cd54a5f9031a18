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
    pub(super) fn give_back(self) {
        let kit = self.trimmed();
        let over = idle().keep(kit);
        drop(over); // Not under the lock.
    }

    fn trimmed(mut self) -> Self {
        if self.buffer.capacity() > LARGE + WINDOW_BYTES {
            self.buffer = Vec::new();
        }
        self.frames = self.frames.filter(|frames| frames.bytes() <= FRAMES_BYTES);
        self
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
    use std::io::Write;

    use super::*;
    use crate::records::{Compression, inflate::Inflate};

    /// A kit that has unpacked a frame which asks for a window of this size, as a power of two.
    fn used(window_log: u32) -> Kit {
        let mut zstd = zstd::Encoder::new(Vec::new(), 1).unwrap();
        zstd.window_log(window_log).unwrap();
        zstd.write_all(b"text").unwrap();
        zstd.flush().unwrap();
        let packed = zstd.finish().unwrap().into();
        let mut kit = Kit::default();
        let mut stream = Inflate::open(Compression::Zstd, packed, &mut kit)
            .unwrap()
            .unwrap();
        assert_eq!(stream.fill(&mut kit.buffer, 0, 100), Ok(4));
        stream.close(&mut kit);
        kit
    }

    #[test]
    fn a_context_that_took_much_memory_does_not_wait() {
        let usual = used(21);
        assert!(usual.frames.as_ref().unwrap().bytes() > 2 << 20);
        assert!(usual.trimmed().frames.is_some());
        let large = used(27);
        assert!(large.frames.as_ref().unwrap().bytes() > 128 << 20);
        assert!(large.trimmed().frames.is_none());
    }

    #[test]
    fn a_buffer_that_grew_for_a_block_does_not_wait() {
        let kit = |length| Kit {
            buffer: vec![0; length],
            ..Kit::default()
        };
        assert_eq!(
            kit(LARGE + WINDOW_BYTES).trimmed().buffer.len(),
            LARGE + WINDOW_BYTES
        );
        assert_eq!(kit(4 << 20).trimmed().buffer.capacity(), 0);
    }

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
