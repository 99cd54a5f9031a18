//! A request's body, as much of it as its route takes.

use std::{fmt, pin::pin};

use bytes::{Buf, Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use octopus_core::Error;

use crate::produce::Hold;

/// Why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is over so many bytes: a refusal that is still answered [CT-05].
    TooLarge(usize),
    /// The service holds as many bytes as it may: a refusal that is still answered.
    Full,
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
            Self::TooLarge(most) => Some(Error::BodyTooLarge(most)),
            Self::Full => Some(Error::ProducerFull),
            Self::Slow | Self::Broken => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge(most) => write!(f, "the request body is over {most} bytes"),
            Self::Full => f.write_str("there is no room for the request body"),
            Self::Slow => f.write_str("the request body did not come in time"),
            Self::Broken => f.write_str("the request body ended early"),
        }
    }
}

impl std::error::Error for Fault {}

/// How much of a body is read.
#[derive(Debug)]
pub struct Bound<'a> {
    /// The most bytes.
    pub most: usize,
    /// What its bytes are taken from.
    pub hold: Option<&'a mut Hold>,
}

impl Bound<'_> {
    /// Refuses a body of so many bytes that there is no place for, and takes none: who only announces holds nothing.
    fn fits(&self, announced: usize) -> Result<(), Fault> {
        if announced > self.most {
            return Err(Fault::TooLarge(self.most));
        }
        match &self.hold {
            Some(hold) => hold.fits(announced).map_err(|_| Fault::Full),
            None => Ok(()),
        }
    }

    /// Takes what a body has, which had so much before.
    fn take(&mut self, before: usize, now: usize) -> Result<(), Fault> {
        if now > self.most {
            return Err(Fault::TooLarge(self.most));
        }
        match &mut self.hold {
            Some(hold) => hold.grow(now.saturating_sub(before)).map_err(|_| Fault::Full),
            None => Ok(()),
        }
    }
}

/// Reads a body whole, until `time_limit` is ready [D-32]. One that says it is over its bound, or more than there is room
/// for, is refused before a byte of it is read, another as soon as it passes it [CT-05]. Its bytes take their room as they
/// come.
///
/// # Errors
///
/// [`Fault`] says what to do with the connection.
pub async fn read<B: Body>(
    body: B,
    bound: Bound<'_>,
    time_limit: impl Future<Output = ()>,
) -> Result<Bytes, Fault> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    bound.fits(announced)?;
    tokio::select! {
        biased;
        read = collect(body, bound) => read,
        () = time_limit => Err(Fault::Slow),
    }
}

async fn collect<B: Body>(body: B, mut bound: Bound<'_>) -> Result<Bytes, Fault> {
    let mut body = pin!(body);
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(mut data) = frame.map_err(|_| Fault::Broken)?.into_data() else {
            continue;
        };
        let before = first.len() + all.len();
        bound.take(before, before + data.remaining())?;
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

    use futures_util::FutureExt as _;
    use http::HeaderMap;
    use http_body::{Frame, SizeHint};
    use http_body_util::Full;
    use octopus_core::{Limits, Subject, limits::BODY_BYTES};

    use super::*;
    use crate::produce::Admission;

    const BOUND: Bound<'_> = Bound {
        most: BODY_BYTES,
        hold: None,
    };

    /// [CT-05]
    #[tokio::test]
    async fn a_body_that_says_it_is_too_large_is_refused_before_it_is_read() {
        let mut unread = Said(BODY_BYTES as u64 + 1, false);
        assert_eq!(
            read(Pin::new(&mut unread), BOUND, future::pending()).await,
            Err(Fault::TooLarge(BODY_BYTES))
        );
        assert!(!unread.1);
        let mut fits = Said(BODY_BYTES as u64, false);
        assert_eq!(
            read(Pin::new(&mut fits), BOUND, future::pending()).await,
            Ok(Bytes::new())
        );
        assert!(fits.1);
        assert_eq!(
            Fault::TooLarge(BODY_BYTES)
                .refusal()
                .map(|e| e.code().error_code()),
            Some(41301)
        );
    }

    /// [CT-05]
    #[tokio::test]
    async fn a_body_without_a_length_is_refused_as_soon_as_it_passes_the_limit() {
        let piece = Bytes::from(vec![b' '; 1024]);
        let whole = |pieces| Parts::of(vec![piece.clone(); pieces]);
        let read_whole = read(whole(64), BOUND, future::pending()).await.unwrap();
        assert_eq!(read_whole.len(), 64 * 1024);

        let mut over = whole(100);
        assert_eq!(
            read(&mut over, BOUND, future::pending()).await,
            Err(Fault::TooLarge(BODY_BYTES))
        );
        assert_eq!(over.0.len(), 100 - 65);

        let mut one_more = whole(64);
        one_more.0.push_back(Ok(Frame::data(Bytes::from_static(b"x"))));
        assert_eq!(
            read(one_more, BOUND, future::pending()).await,
            Err(Fault::TooLarge(BODY_BYTES))
        );
    }

    #[tokio::test]
    async fn pieces_are_put_together_in_order() {
        let pieces = ["", "{\"to", "", "pics\":", "[]}"].map(Bytes::from);
        let mut body = Parts::of(pieces.to_vec());
        body.0.push_back(Ok(Frame::trailers(HeaderMap::new())));
        assert_eq!(
            read(body, BOUND, future::pending()).await.unwrap(),
            "{\"topics\":[]}"
        );
        assert_eq!(
            read(Full::new(Bytes::from("x")), BOUND, future::pending())
                .await
                .unwrap(),
            "x"
        );
    }

    #[tokio::test]
    async fn a_body_takes_its_bytes_once_whether_it_says_how_many_or_not() {
        let mut limits = Limits::default();
        limits.produce_bytes_per_user = 2048;
        let admission = Admission::new(&limits);
        let piece = Bytes::from(vec![b' '; 1024]);
        for pieces in [1, 2] {
            let whole = Bytes::from(vec![b' '; pieces * 1024]);
            let mut holds = [(); 3].map(|()| admission.hold(Subject::from_uuid(1)));
            let [first, second, more] = &mut holds;
            fn bound(hold: &mut Hold) -> Bound<'_> {
                Bound {
                    most: BODY_BYTES,
                    hold: Some(hold),
                }
            }
            let read_whole = read(Full::new(whole), bound(first), future::pending()).await;
            assert_eq!(read_whole.unwrap().len(), pieces * 1024);
            let parts = Parts::of(vec![piece.clone(); 2 - pieces]);
            assert!(read(parts, bound(second), future::pending()).await.is_ok());
            let over = read(Full::new(Bytes::from("x")), bound(more), future::pending()).await;
            assert_eq!(over, Err(Fault::Full));
            let over = read(Parts::of(vec![piece.clone()]), bound(more), future::pending()).await;
            assert_eq!(over, Err(Fault::Full));
        }
        assert_eq!(Fault::Full.refusal(), Some(Error::ProducerFull));
    }

    #[tokio::test]
    async fn a_body_that_only_says_how_long_it_is_takes_no_room() {
        let mut limits = Limits::default();
        limits.produce_bytes_per_user = 2048;
        let admission = Admission::new(&limits);
        let [mut silent, mut slow, mut other] = [(); 3].map(|()| admission.hold(Subject::from_uuid(1)));
        fn bound(hold: &mut Hold) -> Bound<'_> {
            Bound {
                most: BODY_BYTES,
                hold: Some(hold),
            }
        }
        let mut waiting = Box::pin(read(Announced(2048, None), bound(&mut silent), future::pending()));
        assert!(waiting.as_mut().now_or_never().is_none());
        let piece = Bytes::from(vec![b' '; 1024]);
        let begun = Announced(2048, Some(piece.clone()));
        let mut begun = Box::pin(read(begun, bound(&mut slow), future::pending()));
        assert!(begun.as_mut().now_or_never().is_none());

        // What came is held, and no more.
        let more = read(Announced(1025, None), bound(&mut other), future::pending());
        assert_eq!(more.now_or_never(), Some(Err(Fault::Full)));
        let whole = read(Full::new(piece.clone()), bound(&mut other), future::pending()).await;
        assert_eq!(whole, Ok(piece));
        drop((waiting, begun));
    }

    /// [D-32]
    #[tokio::test]
    async fn a_slow_or_broken_body_has_no_answer() {
        assert_eq!(read(Never, BOUND, future::ready(())).await, Err(Fault::Slow));
        let mut broken = Parts::of(vec![Bytes::from("{")]);
        broken.0.push_back(Err(()));
        assert_eq!(read(broken, BOUND, future::pending()).await, Err(Fault::Broken));
        assert_eq!(Fault::Slow.refusal(), None);
        assert_eq!(Fault::Broken.refusal(), None);
    }

    #[tokio::test]
    async fn a_body_that_is_there_is_read_however_late_it_is() {
        assert_eq!(
            read(Full::new(Bytes::from("x")), BOUND, future::ready(()))
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

    /// A body of so many bytes, of which the first few may be there.
    struct Announced(u64, Option<Bytes>);

    impl Body for Announced {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match self.1.take() {
                Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
                None => Poll::Pending,
            }
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
