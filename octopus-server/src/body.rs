//! A request's body, at most 64 KiB of it.

use std::{fmt, pin::pin};

use bytes::{Buf, Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use octopus_core::{Error, limits::BODY_BYTES};

/// Why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is over 64 KiB: a refusal that is still answered [CT-05].
    TooLarge,
    /// It did not come in time: the connection closes without an answer [D-32].
    Slow,
    /// The connection broke, or the body's framing: nobody is there to answer.
    Broken,
}

impl Fault {
    /// The refusal to answer with; `None` where the connection just closes.
    #[must_use]
    pub const fn refusal(self) -> Option<Error> {
        match self {
            Self::TooLarge => Some(Error::BodyTooLarge(BODY_BYTES)),
            Self::Slow | Self::Broken => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "the request body is over 64 KiB",
            Self::Slow => "the request body did not come in time",
            Self::Broken => "the request body ended early",
        })
    }
}

impl std::error::Error for Fault {}

/// Reads a body whole, until `time_limit` is ready [D-32]. One that says it is over 64 KiB is refused before a
/// byte of it is read, another as soon as it passes them [CT-05].
///
/// # Errors
///
/// [`Fault`] says what to do with the connection.
pub async fn read<B: Body>(body: B, time_limit: impl Future<Output = ()>) -> Result<Bytes, Fault> {
    if body.size_hint().lower() > BODY_BYTES as u64 {
        return Err(Fault::TooLarge);
    }
    tokio::select! {
        biased;
        read = collect(body) => read,
        () = time_limit => Err(Fault::Slow),
    }
}

async fn collect<B: Body>(body: B) -> Result<Bytes, Fault> {
    let mut body = pin!(body);
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(mut data) = frame.map_err(|_| Fault::Broken)?.into_data() else {
            continue;
        };
        if first.len() + all.len() + data.remaining() > BODY_BYTES {
            return Err(Fault::TooLarge);
        }
        if first.is_empty() && all.is_empty() {
            first = data.copy_to_bytes(data.remaining());
        } else {
            all.extend_from_slice(&std::mem::take(&mut first));
            all.extend_from_slice(&data.copy_to_bytes(data.remaining()));
        }
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

#[cfg(test)]
mod tests {
    use std::{
        collections::VecDeque,
        convert::Infallible,
        future,
        pin::Pin,
        task::{Context, Poll},
    };

    use http::HeaderMap;
    use http_body::{Frame, SizeHint};
    use http_body_util::Full;

    use super::*;

    /// [CT-05]
    #[tokio::test]
    async fn a_body_that_says_it_is_too_large_is_refused_before_it_is_read() {
        let mut unread = Said(BODY_BYTES as u64 + 1, false);
        assert_eq!(
            read(Pin::new(&mut unread), future::pending()).await,
            Err(Fault::TooLarge)
        );
        assert!(!unread.1);
        let mut fits = Said(BODY_BYTES as u64, false);
        assert_eq!(
            read(Pin::new(&mut fits), future::pending()).await,
            Ok(Bytes::new())
        );
        assert!(fits.1);
        assert_eq!(
            Fault::TooLarge.refusal().map(|e| e.code().error_code()),
            Some(41301)
        );
    }

    /// [CT-05]
    #[tokio::test]
    async fn a_body_without_a_length_is_refused_as_soon_as_it_passes_the_limit() {
        let piece = Bytes::from(vec![b' '; 1024]);
        let whole = |pieces| Parts::of(vec![piece.clone(); pieces]);
        let read_whole = read(whole(64), future::pending()).await.unwrap();
        assert_eq!(read_whole.len(), 64 * 1024);

        let mut over = whole(100);
        assert_eq!(read(&mut over, future::pending()).await, Err(Fault::TooLarge));
        assert_eq!(over.0.len(), 100 - 65);

        let mut one_more = whole(64);
        one_more.0.push_back(Ok(Frame::data(Bytes::from_static(b"x"))));
        assert_eq!(read(one_more, future::pending()).await, Err(Fault::TooLarge));
    }

    #[tokio::test]
    async fn pieces_are_put_together_in_order() {
        let pieces = ["", "{\"to", "", "pics\":", "[]}"].map(Bytes::from);
        let mut body = Parts::of(pieces.to_vec());
        body.0.push_back(Ok(Frame::trailers(HeaderMap::new())));
        assert_eq!(read(body, future::pending()).await.unwrap(), "{\"topics\":[]}");
        assert_eq!(
            read(Full::new(Bytes::from("x")), future::pending())
                .await
                .unwrap(),
            "x"
        );
    }

    /// [D-32]
    #[tokio::test]
    async fn a_slow_or_broken_body_has_no_answer() {
        assert_eq!(read(Never, future::ready(())).await, Err(Fault::Slow));
        let mut broken = Parts::of(vec![Bytes::from("{")]);
        broken.0.push_back(Err(()));
        assert_eq!(read(broken, future::pending()).await, Err(Fault::Broken));
        assert_eq!(Fault::Slow.refusal(), None);
        assert_eq!(Fault::Broken.refusal(), None);
    }

    #[tokio::test]
    async fn a_body_that_is_there_is_read_however_late_it_is() {
        assert_eq!(
            read(Full::new(Bytes::from("x")), future::ready(()))
                .await
                .unwrap(),
            "x"
        );
    }

    /// A body of these frames, without a length.
    struct Parts(VecDeque<Result<Frame<Bytes>, ()>>);

    impl Parts {
        fn of(parts: Vec<Bytes>) -> Self {
            Self(parts.into_iter().map(|part| Ok(Frame::data(part))).collect())
        }
    }

    impl Body for Parts {
        type Data = Bytes;
        type Error = ();

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, ()>>> {
            Poll::Ready(self.0.pop_front())
        }
    }

    /// A body that says its length, and whether it was asked for a byte.
    struct Said(u64, bool);

    impl Body for Said {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.1 = true;
            Poll::Ready(None)
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.0)
        }
    }

    struct Never;

    impl Body for Never {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }
    }
}
