//! The bytes of an unpacked batch that are held at a time.

use std::ops::Range;

use bytes::Bytes;
use octopus_core::{Fault, varint};

use super::{MAX_INFLATED_BYTES, MAX_RECORD_BYTES, WINDOW_BYTES, inflate::Inflate};
use crate::large::{Buffer, LARGE};

/// The longest varint of 32 bits.
const MAX_VARINT: usize = 5;

/// A window that moves over the unpacked bytes. It grows only for a record larger than itself, and only
/// as the record's bytes come. A large record is unpacked into a buffer of its own, so that a reply may share it.
#[derive(Default)]
pub(super) struct Window {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The record taken last, where it is a large one.
    large: Option<Bytes>,
    /// The bytes unpacked so far, of all batches.
    inflated: usize,
}

/// Why a window can't be filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    Fault(Fault),
    /// [`MAX_INFLATED_BYTES`] were unpacked.
    Spent,
}

impl Stop {
    /// The fault that it is where nothing was read before it.
    pub(super) const fn fault(self) -> Fault {
        match self {
            Self::Fault(fault) => fault,
            Self::Spent => Fault::TooLarge,
        }
    }
}

impl Window {
    /// The bytes that the record taken last lies in.
    pub(super) fn bytes(&self) -> &[u8] {
        self.large.as_ref().map_or(&self.buffer, |large| large)
    }

    /// The same, where they may be shared.
    pub(super) const fn shared(&self) -> Option<&Bytes> {
        self.large.as_ref()
    }

    /// Unpacks up to the end of a record whose length comes first, and takes the record: where it lies in
    /// [`bytes`](Self::bytes), without its length.
    pub(super) fn record(&mut self, stream: &mut Inflate) -> Result<Range<usize>, Stop> {
        self.large = None;
        let (length, prefix) = loop {
            let held = &self.buffer[self.start..self.end];
            if let Some((length, rest)) = varint(held) {
                break (length, held.len() - rest.len());
            }
            if held.len() >= MAX_VARINT || !self.fill(stream)? {
                return Err(Stop::Fault(Fault::Corrupt));
            }
        };
        let length = usize::try_from(length).map_err(|_| Stop::Fault(Fault::Corrupt))?;
        if length > MAX_RECORD_BYTES {
            return Err(Stop::Fault(Fault::TooLarge));
        }
        if length > LARGE {
            self.start += prefix;
            return self.large_record(length, stream);
        }
        while self.end - self.start < prefix + length {
            if !self.fill(stream)? {
                return Err(Stop::Fault(Fault::Corrupt));
            }
        }
        let start = self.start + prefix;
        self.start = start + length;
        Ok(start..self.start)
    }

    /// Unpacks the record that begins here into a buffer of its own, which takes memory only as its bytes come.
    fn large_record(&mut self, length: usize, stream: &mut Inflate) -> Result<Range<usize>, Stop> {
        let mut buffer = Buffer::new(length).map_err(|_| Stop::Fault(Fault::TooLarge))?;
        // The window may hold all of it, and more.
        let held = (self.end - self.start).min(length);
        buffer[..held].copy_from_slice(&self.buffer[self.start..self.start + held]);
        self.start += held;
        let mut at = held;
        while at < length {
            let budget = MAX_INFLATED_BYTES - self.inflated;
            if budget == 0 {
                return Err(Stop::Spent);
            }
            let end = length.min(at + budget.min(WINDOW_BYTES));
            let read = stream.read(&mut buffer[at..end]).map_err(Stop::Fault)?;
            if read == 0 {
                return Err(Stop::Fault(Fault::Corrupt));
            }
            at += read;
            self.inflated += read;
        }
        self.large = Some(buffer.freeze());
        Ok(0..length)
    }

    /// Whether nothing is left, here and in the stream. Moves nothing that was taken.
    pub(super) fn is_at_end(&self, stream: &mut Inflate) -> Result<bool, Stop> {
        Ok(self.start == self.end && stream.read(&mut [0]).map_err(Stop::Fault)? == 0)
    }

    /// Forgets what is held, for the next batch, and gives a grown buffer back.
    pub(super) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
        self.large = None;
        if self.buffer.len() > WINDOW_BYTES {
            self.buffer = Vec::new();
        }
    }

    /// Unpacks more; `false` at the stream's end.
    fn fill(&mut self, stream: &mut Inflate) -> Result<bool, Stop> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            self.buffer
                .resize((2 * self.end).clamp(WINDOW_BYTES, LARGE + WINDOW_BYTES), 0);
        }
        let budget = MAX_INFLATED_BYTES - self.inflated;
        if budget == 0 {
            return Err(Stop::Spent);
        }
        let end = self.buffer.len().min(self.end + budget);
        let read = stream
            .read(&mut self.buffer[self.end..end])
            .map_err(Stop::Fault)?;
        self.end += read;
        self.inflated += read;
        Ok(read > 0)
    }
}
