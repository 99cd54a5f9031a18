//! One request of a connection: from its head to the reply's start.

use std::{
    convert::Infallible,
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Request, Response};
use hyper::{body::Incoming, service::Service};
use tokio::sync::Notify;

use super::Peer;
use crate::{ledger::Ledger, send::ReplyBody};

/// A connection's requests, as hyper asks them.
#[derive(Debug)]
pub(super) struct Requests<S> {
    pub(super) service: S,
    pub(super) addr: SocketAddr,
    pub(super) local: SocketAddr,
    pub(super) ledger: Ledger,
    pub(super) abort: Arc<Notify>,
    pub(super) panicked: fn() -> Response<ReplyBody>,
}

impl<S, F> Service<Request<Incoming>> for Requests<S>
where
    S: Fn(Request<Incoming>, Peer) -> F,
    F: Future<Output = Response<ReplyBody>>,
{
    type Response = Response<ReplyBody>;
    type Error = Infallible;
    type Future = Answer<F>;

    fn call(&self, request: Request<Incoming>) -> Answer<F> {
        let number = self.ledger.begin();
        let peer = Peer::new(
            self.addr,
            self.local,
            self.ledger.clone(),
            number,
            self.abort.clone(),
        );
        Answer {
            work: caught(|| Box::pin((self.service)(request, peer))),
            ledger: self.ledger.clone(),
            panicked: self.panicked,
        }
    }
}

/// The service's answer to one request. A panic in it becomes a reply, and ends there.
#[derive(Debug)]
pub(super) struct Answer<F> {
    /// `None` once it has panicked.
    work: Option<Pin<Box<F>>>,
    ledger: Ledger,
    panicked: fn() -> Response<ReplyBody>,
}

impl<F: Future<Output = Response<ReplyBody>>> Future for Answer<F> {
    type Output = Result<Response<ReplyBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let response = match self
            .work
            .as_mut()
            .and_then(|work| caught(|| work.as_mut().poll(cx)))
        {
            Some(Poll::Pending) => return Poll::Pending,
            Some(Poll::Ready(response)) => response,
            None => {
                tracing::error!("a request panicked");
                let work = self.work.take();
                caught(|| drop(work));
                (self.panicked)()
            }
        };
        Poll::Ready(Ok(response.map(|body| body.bind(self.ledger.clone()))))
    }
}

/// What `work` returns, `None` if it panics. What it was at is not used again, but to be dropped.
fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}
