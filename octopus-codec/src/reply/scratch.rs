//! The buffers that replies are made in, used again and again.

use std::{
    mem,
    ops::{Deref, DerefMut},
    sync::PoisonError,
};

use bytes::Bytes;
use octopus_core::limits::REPLY_BYTES;

use super::{SMALL, out::Out};

/// The bytes of a buffer: those of a reply, of an object that may turn out to have no room in it, and of what small
/// copies leave behind themselves.
const BYTES: usize = REPLY_BYTES + SMALL + Out::SLACK;

/// The buffers that are kept for the replies to come: one for each fetch that the service polls for at once, and one.
const KEPT: usize = 4;

/// The bytes of a reply from which its buffer is sent and not a copy.
const SENT: usize = 256 * 1024;

#[expect(
    clippy::disallowed_types,
    reason = "memory is shared here, and nothing of what it holds"
)]
static KEPT_BUFFERS: std::sync::Mutex<Vec<Box<[u8]>>> = std::sync::Mutex::new(Vec::new());

/// A buffer that is kept for others when this one is dropped. New memory costs about as much as a reply costs to make,
/// and zeroes no less: what an earlier reply left in the buffer is there until it is written over.
pub(super) struct Scratch(Box<[u8]>);

impl Scratch {
    pub(super) fn take() -> Self {
        let kept = KEPT_BUFFERS.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Self(kept.unwrap_or_else(|| vec![0; BYTES].into()))
    }

    /// The buffer's first bytes.
    pub(super) fn into_bytes(self, length: usize) -> Bytes {
        let written = &self.0[..length];
        if length < SENT {
            return Bytes::copy_from_slice(written);
        }
        Bytes::from_owner(Written {
            scratch: self,
            length,
        })
    }
}

impl Deref for Scratch {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let buffer = mem::take(&mut self.0);
        let mut kept = KEPT_BUFFERS.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT {
            kept.push(buffer);
        }
    }
}

/// The part of a buffer that a reply was written to.
struct Written {
    scratch: Scratch,
    length: usize,
}

impl AsRef<[u8]> for Written {
    fn as_ref(&self) -> &[u8] {
        &self.scratch[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(byte: u8, length: usize) -> Bytes {
        let mut scratch = Scratch::take();
        scratch[..length].fill(byte);
        scratch.into_bytes(length)
    }

    #[test]
    fn what_is_being_sent_is_not_written_over() {
        let replies: Vec<_> = (0..8u8)
            .map(|byte| (byte, written(byte, SENT + usize::from(byte))))
            .collect();
        // Those that are sent make room, the others stay as they are.
        for (byte, reply) in replies {
            drop((byte % 2 == 0).then(|| written(0xff, BYTES)));
            assert_eq!(reply.len(), SENT + usize::from(byte));
            assert!(reply.iter().all(|&written| written == byte));
            let part = reply.slice(1..);
            drop(reply);
            drop(written(0xff, BYTES));
            assert!(part.iter().all(|&written| written == byte));
        }
    }

    #[test]
    fn a_small_reply_keeps_no_buffer() {
        let mut scratch = Scratch::take();
        scratch[..5].copy_from_slice(b"small");
        let buffer = scratch.as_ptr_range();
        let small = scratch.into_bytes(5);
        assert_eq!(small, &b"small"[..]);
        assert!(!buffer.contains(&small.as_ptr()));
    }

    #[test]
    fn few_buffers_are_kept() {
        let taken: Vec<_> = (0..3 * KEPT).map(|_| Scratch::take()).collect();
        drop(taken);
        let kept = KEPT_BUFFERS.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(kept.len() <= KEPT, "{}", kept.len());
        assert!(kept.iter().all(|buffer| buffer.len() == BYTES));
    }
}
