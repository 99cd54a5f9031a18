//! A connection of HTTP/2 with its streams, in one task: when it falls, all of them fall.

use std::{
    mem,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use hyper::rt::Executor;

use super::connection::Served;

type Stream = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where hyper puts a connection's streams.
#[derive(Clone, Default)]
pub(super) struct Streams(Arc<Mutex<Vec<Stream>>>);

impl Streams {
    /// Those that came since the last look.
    fn take(&self) -> Vec<Stream> {
        mem::take(&mut *self.held())
    }

    fn held(&self) -> MutexGuard<'_, Vec<Stream>> {
        // Nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        self.held().push(Box::pin(stream));
    }
}

/// A connection and its streams.
pub(super) struct Multiplexed<C> {
    connection: Pin<Box<C>>,
    new: Streams,
    streams: FuturesUnordered<Stream>,
}

impl<C> Multiplexed<C> {
    /// A connection whose streams come here.
    pub(super) fn new(connection: C, streams: Streams) -> Self {
        Self {
            connection: Box::pin(connection),
            new: streams,
            streams: FuturesUnordered::new(),
        }
    }
}

impl<C: Served> Served for Multiplexed<C> {
    fn graceful_shutdown(mut self: Pin<&mut Self>) {
        self.connection.as_mut().graceful_shutdown();
    }
}

impl<C: Served> Future for Multiplexed<C> {
    type Output = hyper::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let done = self.connection.as_mut().poll(cx);
        let new = self.new.take();
        self.streams.extend(new);
        // What they write wakes the connection.
        while let Poll::Ready(Some(())) = self.streams.poll_next_unpin(cx) {}
        done
    }
}

impl<C> Drop for Multiplexed<C> {
    fn drop(&mut self) {
        // A stream in there would hold itself.
        drop(self.new.take());
    }
}
