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
