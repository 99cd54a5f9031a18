//! Frames: a length of four bytes, and so many bytes behind it; bounded, and admitted to memory by one budget.

#[cfg(feature = "testing")]
use std::sync::Mutex;
use std::{fmt, io, sync::Arc};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::{OwnedSemaphorePermit, Semaphore},
};

use crate::{
    large::{Buffer, LARGE},
    security,
};

/// The frames up to this size are read without asking the budget, in bytes.
const SMALL: usize = 64 * 1024;
/// What one permit of the budget stands for, in bytes.
const UNIT: usize = 1024;

/// The bytes that large frames hold at once, over all connections.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    permits: Arc<Semaphore>,
    units: usize,
    /// What is held in truth: frames, and their bytes.
    #[cfg(feature = "testing")]
    held: Arc<Mutex<(usize, usize)>>,
}

/// Why a frame can't be read; the connection is of no more use.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The connection ended, or the system says why it is broken.
    Io(io::Error),
    /// The length is negative, too short for an answer, or a word of another protocol: what it may be instead.
    Length(&'static str),
    /// So many bytes are over the bound.
    TooLarge(usize),
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        let units = (bytes / UNIT).clamp(1, Semaphore::MAX_PERMITS);
        Self {
            permits: Arc::new(Semaphore::new(units)),
            units,
            #[cfg(feature = "testing")]
            held: Arc::default(),
        }
    }

    async fn admit(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        // A frame larger than the whole budget gets through alone.
        let units = bytes.div_ceil(UNIT).min(self.units);
        Arc::clone(&self.permits)
            .acquire_many_owned(u32::try_from(units).ok()?)
            .await
            .ok()
    }

    /// How many frames hold a part of it, and their bytes.
    #[cfg(feature = "testing")]
    pub(crate) fn held(&self) -> (usize, usize) {
        *lock(&self.held)
    }

    #[cfg(test)]
    pub(crate) fn left(&self) -> usize {
        self.permits.available_permits() * UNIT
    }
}

/// Reads one frame of at most `most` bytes, its length left out. What it takes of the budget it gives back when the
/// last piece of it falls.
pub(crate) async fn read<S: AsyncRead + Unpin>(
    stream: &mut S,
    head: [u8; 4],
    most: usize,
    budget: &Budget,
) -> Result<Bytes, Fault> {
    let length = length(head, most)?;
    if length <= SMALL {
        let mut frame = vec![0; length];
        stream.read_exact(&mut frame).await.map_err(Fault::Io)?;
        return Ok(frame.into());
    }
    let permit = budget.admit(length).await;
    #[cfg(feature = "testing")]
    let weight = Weight::of(budget, length);
    let bytes = if length > LARGE {
        let mut buffer = Buffer::new(length).map_err(Fault::Io)?;
        stream.read_exact(&mut buffer).await.map_err(Fault::Io)?;
        Held::Large(buffer)
    } else {
        let mut bytes = Vec::with_capacity(length);
        let mut rest = stream.take(length as u64);
        while bytes.len() < length {
            if rest.read_buf(&mut bytes).await.map_err(Fault::Io)? == 0 {
                return Err(Fault::Io(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        Held::Usual(bytes)
    };
    Ok(Bytes::from_owner(Admitted {
        bytes,
        #[cfg(feature = "testing")]
        _weight: weight,
        _permit: permit,
    }))
}

fn length(head: [u8; 4], most: usize) -> Result<usize, Fault> {
    match &head {
        b"HTTP" => return Err(Fault::Length("a web server answered")),
        [0x15, 3, ..] => return Err(Fault::Length("a TLS port answered")),
        _ => {}
    }
    let length =
        usize::try_from(i32::from_be_bytes(head)).map_err(|_| Fault::Length("the length is negative"))?;
    if length < 4 {
        Err(Fault::Length("the length is too short"))
    } else if length > most {
        Err(Fault::TooLarge(length))
    } else {
        Ok(length)
    }
}

/// A frame with its part of the budget.
struct Admitted {
    bytes: Held,
    #[cfg(feature = "testing")]
    _weight: Weight,
    _permit: Option<OwnedSemaphorePermit>,
}

enum Held {
    Usual(Vec<u8>),
    Large(Buffer),
}

impl AsRef<[u8]> for Admitted {
    fn as_ref(&self) -> &[u8] {
        match &self.bytes {
            Held::Usual(bytes) => bytes,
            Held::Large(buffer) => buffer,
        }
    }
}

/// Counts a frame for as long as it is held.
#[cfg(feature = "testing")]
struct Weight {
    held: Arc<Mutex<(usize, usize)>>,
    bytes: usize,
}

#[cfg(feature = "testing")]
impl Weight {
    fn of(budget: &Budget, bytes: usize) -> Self {
        let mut held = lock(&budget.held);
        *held = (held.0 + 1, held.1 + bytes);
        Self {
            held: Arc::clone(&budget.held),
            bytes,
        }
    }
}

#[cfg(feature = "testing")]
impl Drop for Weight {
    fn drop(&mut self) {
        let mut held = lock(&self.held);
        *held = (held.0 - 1, held.1 - self.bytes);
    }
}

#[cfg(feature = "testing")]
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => f.write_str(&security::explain(error)),
            Self::Length(why) => f.write_str(why),
            Self::TooLarge(length) => write!(f, "an answer of {length} bytes is over the bound"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_from(mut bytes: &[u8], most: usize, budget: &Budget) -> Result<Bytes, Fault> {
        let mut head = [0; 4];
        bytes.read_exact(&mut head).await.unwrap();
        read(&mut bytes, head, most, budget).await
    }

    #[tokio::test]
    async fn a_length_that_can_not_be_is_refused_before_anything_is_read() {
        let budget = Budget::new(1 << 20);
        for (head, why) in [
            (&b"HTTP/1.1 400 Bad Request"[..], "web server"),
            (&[0x15, 3, 3, 0, 2, 2, 40], "TLS"),
            (&[0x80, 0, 0, 0], "negative"),
            (&[0, 0, 0, 3, 1, 2, 3], "short"),
            (&[0, 1, 0, 0], "bound"),
            (&[0x7f, 0xff, 0xff, 0xff], "bound"),
        ] {
            let fault = read_from(head, 1000, &budget).await.unwrap_err();
            assert!(fault.to_string().contains(why), "{fault}");
        }
        assert_eq!(budget.left(), 1 << 20);
    }

    #[tokio::test]
    async fn a_large_frame_holds_its_part_of_the_budget_until_its_last_piece_falls() {
        const BUDGET: usize = 4 << 20;
        for length in [100 * 1024, LARGE, LARGE + 1, 3 << 20] {
            let budget = Budget::new(BUDGET);
            let mut bytes = i32::try_from(length).unwrap().to_be_bytes().to_vec();
            bytes.resize(4 + length, 7);
            let frame = read_from(&bytes, BUDGET, &budget).await.unwrap();
            let left = BUDGET - length.next_multiple_of(UNIT);
            assert_eq!((&*frame, budget.left()), (&bytes[4..], left));
            let piece = frame.slice(5..6);
            drop(frame);
            assert_eq!((budget.left(), piece[0]), (left, 7));
            drop(piece);
            assert_eq!(budget.left(), BUDGET);
        }
    }

    #[tokio::test]
    async fn a_frame_that_ends_early_is_a_fault() {
        let budget = Budget::new(1 << 20);
        assert!(matches!(
            read_from(&[0, 0, 0, 9, 1], 100, &budget).await,
            Err(Fault::Io(_))
        ));
        for head in [[0, 2, 0, 0, 1], [0, 0x20, 0, 0, 1]] {
            assert!(matches!(
                read_from(&head, 4 << 20, &budget).await,
                Err(Fault::Io(_))
            ));
        }
        assert_eq!(budget.left(), 1 << 20);
    }
}
