//! The task of one connection. It owns everything of it, and ends it by returning.

use std::{
    future::{self, poll_fn},
    io,
    net::{Shutdown, SocketAddr},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
};
use hyper_util::rt::TokioIo;
use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::watch,
    time,
};

use super::{
    Options, Peer, Protocol, Stage,
    multiplexed::{Multiplexed, Streams},
    pace::{Late, Pace},
    peer::Ends,
    request::Requests,
};
use crate::{
    ledger::Ledger,
    left::left,
    send::ReplyBody,
    wire::{Socket, Wire},
};

/// The time that a client has to take in the last reply and close, after we closed our side.
const LINGER: Duration = Duration::from_secs(2);
/// The bytes that are thrown away meanwhile. Whoever sends more waits until the time is over.
const LINGER_BYTES: usize = 1024 * 1024;
/// The bytes of one request's body that HTTP/2 takes ahead of whoever reads it: all that a request of the consumer routes may have.
const STREAM_WINDOW: u32 = 64 * 1024;
/// The same of all requests of a connection together.
const CONNECTION_WINDOW: u32 = 256 * 1024;

/// How a connection ended.
enum Ending {
    /// We closed our side after the last reply.
    Closed,
    /// The client left.
    Left,
    /// The client had no request, or was too slow with one.
    Idle,
    /// It is to be reset.
    Aborted,
}

/// A connection that was accepted. Nothing of it is copied into the futures below: as many of them wait as there are clients.
pub(super) struct Accepted {
    pub(super) socket: Arc<TcpStream>,
    pub(super) addr: SocketAddr,
    pub(super) options: Arc<Options>,
    /// Where the service is.
    pub(super) stage: watch::Receiver<Stage>,
}

impl Accepted {
    /// Serves it until it ends, whichever way.
    pub(super) async fn run<L, H, I, S, F>(&self, layer: L, service: S)
    where
        L: FnOnce(Socket) -> H,
        H: Future<Output = io::Result<(I, Protocol)>>,
        I: AsyncRead + AsyncWrite + Unpin,
        S: Fn(Request<Incoming>, Peer) -> F,
        F: Future<Output = Response<ReplyBody>> + Send + 'static,
    {
        match self.serve(layer, service).await {
            Ending::Closed => linger(&self.socket, self.stage.clone()).await,
            Ending::Left | Ending::Idle => {}
            // Else the kernel would go on sending what it has, and the client might take it for a reply cut
            // short.
            Ending::Aborted => {
                let _ = self.socket.set_zero_linger();
            }
        }
    }

    /// Runs hyper's connection. When it returns, all of that is dropped: the service's futures, the replies, their
    /// receipts.
    async fn serve<L, H, I, S, F>(&self, layer: L, service: S) -> Ending
    where
        L: FnOnce(Socket) -> H,
        H: Future<Output = io::Result<(I, Protocol)>>,
        I: AsyncRead + AsyncWrite + Unpin,
        S: Fn(Request<Incoming>, Peer) -> F,
        F: Future<Output = Response<ReplyBody>> + Send + 'static,
    {
        let options = &*self.options;
        let ends = Arc::new(Ends::new(&self.socket, self.addr));
        let mut left = pin!(left(&self.socket));
        let mut aborted = pin!(ends.aborted());
        let mut stage = pin!(past(self.stage.clone(), Stage::Serving));

        let (stream, protocol) = tokio::select! {
            biased;
            () = &mut left => return Ending::Left,
            layered = layer(Socket::new(self.socket.clone())) => match layered {
                Ok(layered) => layered,
                Err(error) => {
                    tracing::debug!(%error, peer = %self.addr, "a connection's handshake failed");
                    return Ending::Closed;
                }
            },
            at = &mut stage => return if at < Stage::Aborting { Ending::Idle } else { Ending::Aborted },
            () = options.clock.sleep(options.head_timeout) => return Ending::Idle,
        };

        let ledger = Ledger::new(protocol);
        let requests = Requests {
            service,
            ends: ends.clone(),
            protocol,
            ledger: ledger.clone(),
            panicked: options.panicked,
        };
        let stream = TokioIo::new(Wire::new(stream, ledger.clone()));
        let call = |cx: &mut Context<'_>| {
            // Whoever left is known to have left before anything more is done for it.
            if left.as_mut().poll(cx).is_ready() {
                return Some(Call::Left);
            }
            if aborted.as_mut().poll(cx).is_ready() {
                return Some(Call::Abort);
            }
            let mut is_draining = false;
            while let Poll::Ready(at) = stage.as_mut().poll(cx) {
                if at >= Stage::Aborting {
                    return Some(Call::Abort);
                }
                is_draining = true;
                stage.set(past(self.stage.clone(), at));
            }
            is_draining.then_some(Call::Drain)
        };
        let pace = Pace::new(options, protocol, ledger);
        match protocol {
            Protocol::Http1 => {
                let connection = http1(options).serve_connection(stream, requests);
                drive(pin!(connection), call, pace).await
            }
            Protocol::Http2 => {
                let streams = Streams::default();
                let connection = http2(options, streams.clone()).serve_connection(stream, requests);
                drive(pin!(Multiplexed::new(connection, streams)), call, pace).await
            }
        }
    }
}

/// What a connection is told from outside.
enum Call {
    /// The client has left.
    Left,
    /// End at once.
    Abort,
    /// End when the requests in hand are answered.
    Drain,
}

/// A connection as hyper serves it.
pub(super) trait Served: Future<Output = hyper::Result<()>> {
    /// No request is taken any more, and when those in hand are answered it ends.
    fn graceful_shutdown(self: Pin<&mut Self>);
}

impl<I, S, F> Served for http1::Connection<TokioIo<Wire<I>>, Requests<S>>
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: Fn(Request<Incoming>, Peer) -> F,
    F: Future<Output = Response<ReplyBody>>,
{
    fn graceful_shutdown(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<I, S, F> Served for http2::Connection<TokioIo<Wire<I>>, Requests<S>, Streams>
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: Fn(Request<Incoming>, Peer) -> F,
    F: Future<Output = Response<ReplyBody>> + Send + 'static,
{
    fn graceful_shutdown(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// Serves until the connection ends by itself, by a call, or by its pace.
fn drive(
    mut connection: Pin<&mut impl Served>,
    mut call: impl FnMut(&mut Context<'_>) -> Option<Call>,
    mut pace: Pace<'_>,
) -> impl Future<Output = Ending> {
    let mut is_ending = false;
    poll_fn(move |cx| {
        let mut ends_now = match call(cx) {
            Some(Call::Left) => return Poll::Ready(Ending::Left),
            Some(Call::Abort) => return Poll::Ready(Ending::Aborted),
            Some(Call::Drain) => !is_ending,
            None => false,
        };
        loop {
            let mut was_idle = false;
            if ends_now {
                is_ending = true;
                was_idle = pace.is_idle();
                pace.end();
                connection.as_mut().graceful_shutdown();
            }
            if let Poll::Ready(done) = connection.as_mut().poll(cx) {
                if let Err(error) = done {
                    tracing::debug!(%error, "a connection ended");
                }
                return Poll::Ready(if was_idle { Ending::Idle } else { Ending::Closed });
            }
            match pace.poll(cx) {
                None => return Poll::Pending,
                // It has time to say that it ends.
                Some(Late::Idle) if !is_ending => ends_now = true,
                Some(Late::Idle | Late::Busy | Late::Head) => return Poll::Ready(Ending::Idle),
            }
        }
    })
}

fn http1(options: &Options) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        // `left` sees more than hyper's own look, which would also read the next request's bytes.
        .half_close(true)
        // It would run on idle connections too; `Pace` tells them apart.
        .header_read_timeout(None)
        .max_buf_size(options.head_bytes.max(8192));
    builder
}

fn http2(options: &Options, streams: Streams) -> http2::Builder<Streams> {
    let head_bytes = u32::try_from(options.head_bytes).unwrap_or(u32::MAX);
    let mut builder = http2::Builder::new(streams);
    builder
        .max_concurrent_streams(options.max_streams)
        .max_header_list_size(head_bytes)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    builder
}

/// Where the service is once it is past `stage`; one that is gone aborts.
async fn past(mut service: watch::Receiver<Stage>, stage: Stage) -> Stage {
    let at = service.wait_for(|at| *at > stage).await;
    at.map_or(Stage::Aborting, |at| *at)
}

/// Closes our side, waits for the client to close its own, and throws away what it still sends, up to a bound. A socket that is closed over unread
/// bytes sends a reset, which can overtake the last reply.
async fn linger(socket: &TcpStream, stage: watch::Receiver<Stage>) {
    // hyper leaves it open where it ends by an error.
    let _ = SockRef::from(socket).shutdown(Shutdown::Write);
    let drained = async {
        let mut scrap = vec![0; 8192];
        let mut left = LINGER_BYTES;
        while socket.readable().await.is_ok() {
            match socket.try_read(&mut scrap) {
                Ok(0) => break,
                Ok(read) if read >= left => return future::pending().await,
                Ok(read) => left -= read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
    };
    tokio::select! {
        () = drained => {}
        () = time::sleep(LINGER) => {}
        _ = past(stage, Stage::Draining) => {}
    }
}

#[cfg(test)]
mod tests {
    use tokio::{io::AsyncWriteExt as _, net::TcpListener};

    use super::*;

    #[tokio::test]
    async fn what_is_thrown_away_has_a_bound() {
        // What the kernel takes on both sides, with room; without a bound it would be a gigabyte.
        const MOST: usize = 48 * 1024 * 1024;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (mut client, (socket, _)) = (client.unwrap(), accepted.unwrap());
        let (_stage, stages) = watch::channel(Stage::Serving);
        let mut written = 0;
        let floods = async {
            let piece = vec![0; 64 * 1024];
            while written < MOST {
                match client.write(&piece).await {
                    Ok(bytes) => written += bytes,
                    Err(_) => break,
                }
            }
        };
        tokio::select! {
            () = floods => {}
            () = linger(&socket, stages) => {}
        }
        assert!((LINGER_BYTES..MOST).contains(&written), "{written}");
    }
}
