//! One request of a connection: from its head to the reply's start.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Method, Request, Response, header::CONTENT_LENGTH};
use http_body::Body as _;
use hyper::{body::Incoming, service::Service};
use tokio::sync::{Notify, futures::OwnedNotified};

use super::{Peer, Protocol, peer::Ends};
use crate::{
    ledger::{InHand, Ledger},
    send::ReplyBody,
};

/// A connection's requests, as hyper asks them.
#[derive(Debug)]
pub(super) struct Requests<S> {
    pub(super) service: S,
    pub(super) ends: Arc<Ends>,
    pub(super) protocol: Protocol,
    pub(super) ledger: Ledger,
    pub(super) panicked: fn() -> Response<ReplyBody>,
}

impl<S, F> Service<Request<Incoming>> for Requests<S>
where
    S: Fn(Request<Incoming>, Peer) -> F,
    F: Future<Output = Response<ReplyBody>>,
{
    type Response = Response<ReplyBody>;
    type Error = Cut;
    type Future = Answer<F>;

    fn call(&self, request: Request<Incoming>) -> Answer<F> {
        let in_hand = self.ledger.begin();
        let is_http_2 = self.protocol == Protocol::Http2;
        // HTTP/1 ends a request with its connection.
        let cut = is_http_2.then(|| Arc::new(Notify::new()));
        let peer = Peer {
            ends: self.ends.clone(),
            request: in_hand.watch(),
            cut: cut.clone(),
        };
        Answer {
            // HTTP/1's own side leaves out the body of a reply to HEAD.
            is_bare: is_http_2 && request.method() == Method::HEAD,
            cut: cut.map(|cut| Box::pin(cut.notified_owned())),
            work: caught(|| Box::pin((self.service)(request, peer))),
            in_hand: Some(in_hand),
            panicked: self.panicked,
        }
    }
}

/// A request that ends without an answer, and its stream of HTTP/2 with it.
#[derive(Debug)]
pub(super) struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no answer")
    }
}

impl std::error::Error for Cut {}

/// The service's answer to one request. A panic in it becomes a reply, and ends there.
#[derive(Debug)]
pub(super) struct Answer<F> {
    /// `None` once it has panicked.
    work: Option<Pin<Box<F>>>,
    /// Ready once there is to be no answer.
    cut: Option<Pin<Box<OwnedNotified>>>,
    /// Moves to the reply.
    in_hand: Option<InHand>,
    /// The reply is to have no body.
    is_bare: bool,
    panicked: fn() -> Response<ReplyBody>,
}

impl<F: Future<Output = Response<ReplyBody>>> Future for Answer<F> {
    type Output = Result<Response<ReplyBody>, Cut>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let response = match self
            .work
            .as_mut()
            .and_then(|work| caught(|| work.as_mut().poll(cx)))
        {
            Some(Poll::Pending) => {
                let cut = self.cut.as_mut();
                return match cut.map(|cut| cut.as_mut().poll(cx)) {
                    Some(Poll::Ready(())) => Poll::Ready(Err(Cut)),
                    Some(Poll::Pending) | None => Poll::Pending,
                };
            }
            Some(Poll::Ready(response)) => response,
            None => {
                tracing::error!("a request panicked");
                let work = self.work.take();
                caught(|| drop(work));
                (self.panicked)()
            }
        };
        let mut response = if self.is_bare { bare(response) } else { response };
        if let Some(in_hand) = self.in_hand.take() {
            response = response.map(|body| body.bind(in_hand));
        }
        Poll::Ready(Ok(response))
    }
}

/// The reply without its body, whose length it still tells.
fn bare(response: Response<ReplyBody>) -> Response<ReplyBody> {
    let (mut head, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact().filter(|length| *length > 0) {
        head.headers
            .entry(CONTENT_LENGTH)
            .or_insert_with(|| length.into());
    }
    Response::from_parts(head, ReplyBody::empty())
}

/// What `work` returns, `None` if it panics. What it was at is not used again, but to be dropped.
fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}
