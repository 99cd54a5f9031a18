//! Replies made smaller where the client asks for it, away from the threads that serve sockets [D-36].

use std::io::{self, Write as _};

use bytes::Bytes;
use flate2::write::GzEncoder;
use tokio::{sync::mpsc, task};

use crate::{headers::Encoding, send::Piece};

/// A reply of no more bytes is sent as it is.
pub(crate) const LEAST: usize = 1024;
/// The bytes that are compressed where they stand: less work than to hand them over.
const AT_ONCE: usize = 16 * 1024;
/// The bytes of a piece of a reply that is compressed while it is sent.
const PIECE: usize = 64 * 1024;
/// The pieces that may wait to be sent.
const AHEAD: usize = 1;
/// The fastest level of both: a reply is sent once.
const LEVEL: u8 = 1;

/// The reply that these slices make.
///
/// # Errors
///
/// Where it could not be made.
pub(crate) async fn whole(encoding: Encoding, slices: Vec<Bytes>) -> io::Result<Bytes> {
    let length: usize = slices.iter().map(Bytes::len).sum();
    let compress = move || {
        let mut encoder = Encoder::new(encoding)?;
        for slice in slices {
            encoder.write(&slice)?;
        }
        encoder.finish()
    };
    if length <= AT_ONCE {
        compress()
    } else {
        task::spawn_blocking(compress).await.map_err(io::Error::other)?
    }
}

/// The pieces of the reply that these windows make, each made shortly before it is sent. Whoever drops the receiver ends
/// their making.
pub(crate) fn streamed(
    encoding: Encoding,
    windows: impl Iterator<Item = Bytes> + Send + 'static,
) -> mpsc::Receiver<Piece> {
    let (pieces, receiver) = mpsc::channel(AHEAD);
    task::spawn_blocking(move || {
        let made = make(encoding, windows, |piece| pieces.blocking_send(piece).is_ok());
        if let Err(error) = made {
            // Without its last piece the reply is cut, and fetched again.
            tracing::warn!(%error, "a reply can't be compressed");
        }
    });
    receiver
}

/// Gives pieces out as long as they are taken.
fn make(
    encoding: Encoding,
    windows: impl Iterator<Item = Bytes>,
    give: impl Fn(Piece) -> bool,
) -> io::Result<()> {
    let mut encoder = Encoder::new(encoding)?;
    for window in windows {
        encoder.write(&window)?;
        if encoder.made() >= PIECE {
            let piece = Piece {
                bytes: encoder.take(),
                is_last: false,
            };
            if !give(piece) {
                return Ok(());
            }
        }
    }
    let piece = Piece {
        bytes: encoder.finish()?,
        is_last: true,
    };
    give(piece);
    Ok(())
}

/// Compresses what is written to it.
enum Encoder {
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl Encoder {
    fn new(encoding: Encoding) -> io::Result<Self> {
        Ok(match encoding {
            Encoding::Gzip => {
                let level = flate2::Compression::new(LEVEL.into());
                Self::Gzip(GzEncoder::new(Vec::new(), level))
            }
            Encoding::Zstd => Self::Zstd(zstd::stream::write::Encoder::new(Vec::new(), LEVEL.into())?),
        })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Gzip(encoder) => encoder.write_all(bytes),
            Self::Zstd(encoder) => encoder.write_all(bytes),
        }
    }

    fn output(&mut self) -> &mut Vec<u8> {
        match self {
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
        }
    }

    /// How many bytes it has made.
    fn made(&mut self) -> usize {
        self.output().len()
    }

    /// What it has made.
    fn take(&mut self) -> Bytes {
        std::mem::take(self.output()).into()
    }

    /// The rest.
    fn finish(self) -> io::Result<Bytes> {
        let rest = match self {
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        };
        rest.map(Bytes::from)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    const BOTH: [Encoding; 2] = [Encoding::Gzip, Encoding::Zstd];

    fn plain(encoding: Encoding, bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        match encoding {
            Encoding::Gzip => flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain),
            Encoding::Zstd => zstd::stream::read::Decoder::new(bytes)
                .unwrap()
                .read_to_end(&mut plain),
        }
        .unwrap();
        plain
    }

    fn text(length: usize) -> Vec<u8> {
        (0..length)
            .map(|n| (n % 251).to_le_bytes()[0] ^ (n / 977).to_le_bytes()[0])
            .collect()
    }

    /// [D-36]
    #[tokio::test]
    async fn a_reply_comes_back_as_it_was() {
        for encoding in BOTH {
            for length in [1025, AT_ONCE, AT_ONCE + 1, 2 << 20] {
                let text = text(length);
                let slices = text.chunks(1000).map(Bytes::copy_from_slice).collect();
                let bytes = whole(encoding, slices).await.unwrap();
                assert_eq!(plain(encoding, &bytes), text, "{encoding:?} of {length}");
            }
        }
    }

    /// [D-36] [RP-02]
    #[tokio::test]
    async fn pieces_come_back_as_one_reply_and_the_last_says_so() {
        for encoding in BOTH {
            let text = text(3 << 20);
            let windows: Vec<_> = text.chunks(64 << 10).map(Bytes::copy_from_slice).collect();
            let mut pieces = streamed(encoding, windows.into_iter());
            let (mut bytes, mut last) = (Vec::new(), Vec::new());
            while let Some(piece) = pieces.recv().await {
                assert!(piece.is_last || piece.bytes.len() >= PIECE);
                bytes.extend_from_slice(&piece.bytes);
                last.push(piece.is_last);
            }
            assert_eq!(last.iter().filter(|is_last| **is_last).count(), 1);
            assert_eq!(last.last(), Some(&true));
            assert_eq!(plain(encoding, &bytes), text);
        }
    }

    /// [RP-04]
    #[tokio::test]
    async fn nothing_more_is_made_for_whoever_left() {
        let (asked, mut answers) = mpsc::unbounded_channel();
        let windows = std::iter::from_fn(move || {
            // Not to be made smaller.
            let window: Vec<u8> = (0..1u32 << 16)
                .map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes()[2])
                .collect();
            asked.send(()).ok().map(|()| Bytes::from(window))
        });
        drop(streamed(Encoding::Zstd, windows));
        while answers.recv().await.is_some() {}
    }
}
