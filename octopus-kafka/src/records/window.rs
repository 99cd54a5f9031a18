//! The bytes of an unpacked batch that are held at a time.

use bytes::Bytes;
use octopus_core::{Fault, varint};

use super::{Batch, MAX_INFLATED_BYTES, MAX_RECORD_BYTES, inflate::Inflate, kit::Kit};
use crate::large::{Buffer, LARGE};

/// The longest varint of 32 bits.
const MAX_VARINT: usize = 5;

/// A window that moves over the unpacked bytes, of one batch after the other. It grows only for a record or a block
/// larger than itself, and for a record only as its bytes come. A large record is unpacked into a buffer of its own,
/// so that a reply may share it.
pub(super) struct Window {
    /// The buffer, and the decoders that no stream has. It is given back when the window falls.
    kit: Kit,
    stream: Option<Inflate>,
    start: usize,
    end: usize,
    /// The record at the front, where it is a large one.
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
    pub(super) const CORRUPT: Self = Self::Fault(Fault::Corrupt);

    /// The fault that it is where nothing was read before it.
    pub(super) const fn fault(self) -> Fault {
        match self {
            Self::Fault(fault) => fault,
            Self::Spent => Fault::TooLarge,
        }
    }
}

impl Window {
    /// A window that holds nothing.
    pub(super) fn new() -> Self {
        Self {
            kit: Kit::take(),
            stream: None,
            start: 0,
            end: 0,
            large: None,
            inflated: 0,
        }
    }

    /// Begins with a batch, and forgets the last one. False where it is not packed.
    ///
    /// # Errors
    ///
    /// As [`Inflate::open`].
    pub(super) fn open(&mut self, batch: &Batch<'_>, records: &Bytes) -> Result<bool, Fault> {
        self.close();
        let packed = records.slice_ref(batch.records);
        self.stream = Inflate::open(batch.compression, packed, &mut self.kit)?;
        Ok(self.stream.is_some())
    }

    fn close(&mut self) {
        (self.start, self.end) = (0, 0);
        self.large = None;
        if let Some(stream) = self.stream.take() {
            stream.close(&mut self.kit);
        }
    }

    /// Unpacks up to the end of the record whose length comes next; it lies at the [`front`](Self::front) then.
    #[inline]
    pub(super) fn ensure(&mut self) -> Result<(), Stop> {
        let whole = |(length, rest): (i32, &[u8])| {
            usize::try_from(length).is_ok_and(|length| length <= rest.len().min(LARGE))
        };
        if self.large.is_some() || varint(self.held()).is_some_and(whole) {
            Ok(())
        } else {
            self.unpack_record()
        }
    }

    /// What is unpacked, from the next record on.
    #[inline]
    pub(super) fn front(&self) -> &[u8] {
        match &self.large {
            None => self.held(),
            Some(large) => large,
        }
    }

    /// The same, where it may be shared.
    #[inline]
    pub(super) const fn shared(&self) -> Option<&Bytes> {
        self.large.as_ref()
    }

    /// Passes the record at the front, which has so many bytes with its length.
    #[inline]
    pub(super) fn pass(&mut self, bytes: usize) {
        match self.large {
            None => self.start += bytes,
            Some(_) => self.large = None,
        }
    }

    /// Whether nothing is left behind the record at the front, here and in the stream. It stays where it is.
    pub(super) fn is_last(&mut self, bytes: usize) -> Result<bool, Stop> {
        let behind = self.start + if self.large.is_none() { bytes } else { 0 };
        Ok(behind == self.end && self.unpack(1)? == 0)
    }

    #[inline]
    fn held(&self) -> &[u8] {
        &self.kit.buffer[self.start..self.end]
    }

    #[inline(never)]
    fn unpack_record(&mut self) -> Result<(), Stop> {
        let (length, prefix) = loop {
            let held = self.held();
            if let Some((length, rest)) = varint(held) {
                break (length, held.len() - rest.len());
            }
            if held.len() >= MAX_VARINT || !self.fill()? {
                return Err(Stop::CORRUPT);
            }
        };
        let length = usize::try_from(length).map_err(|_| Stop::CORRUPT)?;
        if length > MAX_RECORD_BYTES {
            return Err(Stop::Fault(Fault::TooLarge));
        }
        if length > LARGE {
            return self.unpack_large(prefix + length);
        }
        while self.end - self.start < prefix + length {
            if !self.fill()? {
                return Err(Stop::CORRUPT);
            }
        }
        Ok(())
    }

    /// Unpacks the record that begins here into a buffer of its own, which takes memory only as its bytes come.
    fn unpack_large(&mut self, length: usize) -> Result<(), Stop> {
        let mut buffer = Buffer::new(length).map_err(|_| Stop::Fault(Fault::TooLarge))?;
        let mut at = 0;
        while at < length {
            if self.start == self.end && !self.fill()? {
                return Err(Stop::CORRUPT);
            }
            // The window may hold more than the rest of it.
            let end = self.end.min(self.start + length - at);
            let piece = &self.kit.buffer[self.start..end];
            buffer[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
            self.start = end;
        }
        self.large = Some(buffer.freeze());
        Ok(())
    }

    /// Unpacks more; `false` at the stream's end.
    fn fill(&mut self) -> Result<bool, Stop> {
        let history = self.stream.as_ref().map_or(0, Inflate::history);
        let kept = self.start.min(self.end - history);
        if kept > 0 {
            self.kit.buffer.copy_within(kept..self.end, 0);
            self.start -= kept;
            self.end -= kept;
        }
        let budget = MAX_INFLATED_BYTES.saturating_sub(self.inflated);
        if budget == 0 {
            return Err(Stop::Spent);
        }
        let read = self.unpack(budget)?;
        self.end += read;
        self.inflated += read;
        Ok(read > 0)
    }

    /// Unpacks behind what is held, at most so many bytes or one block.
    fn unpack(&mut self, most: usize) -> Result<usize, Stop> {
        let Some(stream) = &mut self.stream else {
            return Ok(0);
        };
        stream
            .fill(&mut self.kit.buffer, self.end, most)
            .map_err(Stop::Fault)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.close();
        std::mem::take(&mut self.kit).give_back();
    }
}
