//! A layer that counts what the kernel is given.

use std::{
    future, io,
    io::IoSlice,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

use octopus_server::{
    listener::{Options, Protocol},
    wire::Socket,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::server::Server;

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) bytes: AtomicUsize,
    pub(crate) vectored: AtomicUsize,
    pub(crate) flat: AtomicUsize,
}

/// A server that counts what its sockets are given, and takes slices if it `is_vectored`.
pub(crate) async fn counted(is_vectored: bool) -> (Server, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let same = counts.clone();
    let layer =
        move |socket| future::ready(Ok((Counted(socket, same.clone(), is_vectored), Protocol::Http1)));
    (Server::layered(Options::default(), layer).await, counts)
}

struct Counted(Socket, Arc<Counts>, bool);

impl Counted {
    fn count(&self, done: &Poll<io::Result<usize>>, calls: &AtomicUsize) {
        if let Poll::Ready(Ok(count)) = done {
            self.1.bytes.fetch_add(*count, Relaxed);
            calls.fetch_add(1, Relaxed);
        }
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.0).poll_write(cx, buf);
        self.count(&done, &self.1.flat);
        done
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.0).poll_write_vectored(cx, bufs);
        self.count(&done, &self.1.vectored);
        done
    }

    fn is_write_vectored(&self) -> bool {
        self.2 && self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
