//! Zstandard, with a context that serves one batch after the other.

use bytes::{Buf, Bytes};
use octopus_core::Fault;
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

/// The largest window that a frame may ask for, as a power of two: what the strongest setting uses.
const WINDOW_LOG_MAX: u32 = 27;

/// What unpacks: costly to make, so the next batch takes it over.
pub(crate) struct Frames(DCtx<'static>);

impl Frames {
    /// The memory that it has.
    pub(crate) fn bytes(&self) -> usize {
        self.0.sizeof()
    }
}

/// The unpacked bytes of one batch.
pub(crate) struct Zstandard {
    frames: Frames,
    packed: Bytes,
    /// Whether no frame is open.
    between: bool,
}

impl Zstandard {
    pub(crate) fn new(packed: Bytes, left: Option<Frames>) -> Result<Self, Fault> {
        let frames = match left {
            Some(mut frames) => {
                frames
                    .0
                    .reset(ResetDirective::SessionOnly)
                    .map_err(|_| Fault::Corrupt)?;
                frames
            }
            None => {
                let mut context = DCtx::try_create().ok_or(Fault::TooLarge)?;
                context
                    .set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX))
                    .map_err(|_| Fault::Corrupt)?;
                Frames(context)
            }
        };
        Ok(Self {
            frames,
            packed,
            between: true,
        })
    }

    pub(crate) fn read(&mut self, out: &mut [u8]) -> Result<usize, Fault> {
        while !(self.between && self.packed.is_empty()) {
            let mut input = InBuffer::around(&self.packed);
            let mut output = OutBuffer::around(out);
            let hint = self
                .frames
                .0
                .decompress_stream(&mut output, &mut input)
                .map_err(|_| Fault::Corrupt)?;
            let (taken, given) = (input.pos(), output.pos());
            self.packed.advance(taken);
            self.between = hint == 0;
            if given > 0 {
                return Ok(given);
            }
            if taken == 0 {
                return Err(Fault::Corrupt); // The bytes end within a frame.
            }
        }
        Ok(0)
    }

    pub(crate) fn into_frames(self) -> Frames {
        self.frames
    }
}
