//! Buffers of megabytes, which the system has back as soon as they fall.
//!
//! An allocator keeps what it was given back, for each of its threads' heaps; of buffers as large as these that is as
//! much memory again as is in use.

use std::{
    fmt, io,
    ops::{Deref, DerefMut},
};

use bytes::Bytes;
use memmap2::MmapMut;

/// The size above which a buffer is one of these, in bytes: more than a fetch asks for, so only a record that is
/// larger [FE-13] comes to it.
pub(crate) const LARGE: usize = (1 << 20) + (64 << 10);

/// A buffer of zeros with a mapping of its own. Its pages take memory once they are written to.
pub(crate) struct Buffer(MmapMut);

impl Buffer {
    /// A buffer of this length, not 0.
    ///
    /// # Errors
    ///
    /// The system's, where it has no more.
    pub(crate) fn new(length: usize) -> io::Result<Self> {
        MmapMut::map_anon(length).map(Self)
    }

    /// The buffer as bytes that may be shared.
    pub(crate) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_of_zeros_and_keeps_what_is_written() {
        let mut buffer = Buffer::new(LARGE + 1).unwrap();
        assert_eq!(buffer.len(), LARGE + 1);
        assert!(buffer.iter().all(|byte| *byte == 0));
        buffer[LARGE] = 7;
        let bytes = buffer.freeze();
        let last = bytes.slice(LARGE..);
        drop(bytes);
        assert_eq!(last, [7][..]);
    }

    /// What falls is not in the process any more, whichever thread it was made on.
    #[test]
    #[cfg(target_os = "linux")]
    fn what_falls_is_given_back_at_once() {
        const LENGTH: usize = 64 << 20;
        let held = || {
            let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
            pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
        };
        let before = held();
        let mut buffer = Buffer::new(LENGTH).unwrap();
        assert!(
            held() < before + LENGTH / 2,
            "pages come when they are written to"
        );
        buffer.fill(1);
        assert!(held() > before + LENGTH / 2);
        drop(buffer.freeze());
        assert!(held() < before + LENGTH / 2);
    }
}
