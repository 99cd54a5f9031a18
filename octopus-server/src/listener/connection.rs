//! The task of one connection. It owns everything of it, and ends it by returning.

use std::{
    future::poll_fn,
    io,
    net::{Shutdown, SocketAddr},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use http::{Request, Response};
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::rt::TokioIo;
use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::{Notify, watch},
    time,
};

use super::{Options, Peer, Protocol, Stage, request::Requests};
use crate::{
    ledger::{Ledger, Phase},
    left::left,
    send::ReplyBody,
    wire::{Socket, Wire},
};

/// The time that a client has to take in the last reply and close, after we closed our side.
const LINGER: Duration = Duration::from_secs(2);

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

/// Serves one connection until it ends, whichever way.
pub(super) async fn run<L, H, I, S, F>(
    stream: TcpStream,
    addr: SocketAddr,
    layer: L,
    service: S,
    options: Options,
    stage: watch::Receiver<Stage>,
) where
    L: FnOnce(Socket) -> H,
    H: Future<Output = io::Result<(I, Protocol)>>,
    I: AsyncRead + AsyncWrite + Unpin,
    S: Fn(Request<Incoming>, Peer) -> F,
    F: Future<Output = Response<ReplyBody>>,
{
    let socket = Arc::new(stream);
    match serve(&socket, addr, layer, service, options, stage.clone()).await {
        Ending::Closed => linger(&socket, stage).await,
        Ending::Left | Ending::Idle => {}
        // Else the kernel would go on sending what it has, and the client might take it for a reply cut
        // short.
        Ending::Aborted => {
            let _ = socket.set_zero_linger();
        }
    }
}

/// Runs hyper's connection. When it returns, all of that is dropped: the service's future, the reply, its
/// receipts.
async fn serve<L, H, I, S, F>(
    socket: &Arc<TcpStream>,
    addr: SocketAddr,
    layer: L,
    service: S,
    options: Options,
    stage: watch::Receiver<Stage>,
) -> Ending
where
    L: FnOnce(Socket) -> H,
    H: Future<Output = io::Result<(I, Protocol)>>,
    I: AsyncRead + AsyncWrite + Unpin,
    S: Fn(Request<Incoming>, Peer) -> F,
    F: Future<Output = Response<ReplyBody>>,
{
    let ledger = Ledger::new();
    let abort = Arc::new(Notify::new());
    let mut left = pin!(left(socket));
    let mut aborted = pin!(abort.notified());
    let mut stopped = pin!(reached(stage.clone(), Stage::Aborting));
    let mut draining = pin!(reached(stage, Stage::Draining));

    let (stream, Protocol::Http1) = tokio::select! {
        biased;
        () = &mut left => return Ending::Left,
        () = &mut stopped => return Ending::Aborted,
        layered = layer(Socket::new(socket.clone())) => match layered {
            Ok(layered) => layered,
            Err(error) => {
                tracing::debug!(%error, peer = %addr, "a connection's handshake failed");
                let _ = SockRef::from(&**socket).shutdown(Shutdown::Write);
                return Ending::Closed;
            }
        },
        () = &mut draining => return Ending::Idle,
        () = options.clock.sleep(options.head_timeout) => return Ending::Idle,
    };

    let requests = Requests {
        service,
        addr,
        local: socket.local_addr().unwrap_or(addr),
        ledger: ledger.clone(),
        abort: abort.clone(),
        panicked: options.panicked,
    };
    let mut connection =
        pin!(builder(&options).serve_connection(TokioIo::new(Wire::new(stream, ledger.clone())), requests));
    let mut is_draining = false;
    let mut is_idle = false;
    let mut pace = Pace::new(&options);
    let mut alarm = options.clock.sleep(options.keep_alive);
    poll_fn(|cx| {
        // Whoever left is known to have left before anything more is done for it.
        if left.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ending::Left);
        }
        if aborted.as_mut().poll(cx).is_ready() || stopped.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ending::Aborted);
        }
        if !is_draining && draining.as_mut().poll(cx).is_ready() {
            is_draining = true;
            is_idle = ledger.phase().0 == Phase::Idle;
            connection.as_mut().graceful_shutdown();
        }
        if let Poll::Ready(done) = connection.as_mut().poll(cx) {
            if let Err(error) = done {
                tracing::debug!(%error, "a connection ended");
            }
            return Poll::Ready(if is_idle { Ending::Idle } else { Ending::Closed });
        }
        is_idle = false;
        if let Some(limit) = pace.changed(&ledger) {
            alarm = options.clock.sleep(limit);
        }
        if alarm.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ending::Idle);
        }
        Poll::Pending
    })
    .await
}

fn builder(options: &Options) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        // `left` sees more than hyper's own look, which would also read the next request's bytes.
        .half_close(true)
        // It would run on idle connections too; `Pace` tells them apart.
        .header_read_timeout(None)
        .max_buf_size(options.head_bytes.max(8192));
    builder
}

/// The limits on the time of each phase of a connection [D-32].
struct Pace {
    head_timeout: Duration,
    keep_alive: Duration,
    busy_timeout: Duration,
    changes: u64,
}

impl Pace {
    /// The pace of a new connection, which is idle.
    const fn new(options: &Options) -> Self {
        Self {
            head_timeout: options.head_timeout,
            keep_alive: options.keep_alive,
            busy_timeout: options.busy_timeout,
            changes: 0,
        }
    }

    /// The time that a phase may last which the connection has just entered.
    fn changed(&mut self, ledger: &Ledger) -> Option<Duration> {
        let (phase, changes) = ledger.phase();
        if changes == self.changes {
            return None;
        }
        self.changes = changes;
        Some(match phase {
            Phase::Idle => self.keep_alive,
            Phase::Head => self.head_timeout,
            Phase::Busy | Phase::Ending => self.busy_timeout,
        })
    }
}

/// Completes once the service is at `stage`, or past it, or gone.
async fn reached(mut service: watch::Receiver<Stage>, stage: Stage) {
    let _ = service.wait_for(|at| *at >= stage).await;
}

/// Waits for the client to close, and throws away what it still sends. A socket that is closed over unread
/// bytes sends a reset, which can overtake the last reply.
async fn linger(socket: &TcpStream, stage: watch::Receiver<Stage>) {
    let drained = async {
        let mut scrap = vec![0; 8192];
        while socket.readable().await.is_ok() {
            match socket.try_read(&mut scrap) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
    };
    tokio::select! {
        () = drained => {}
        () = time::sleep(LINGER) => {}
        () = reached(stage, Stage::Aborting) => {}
    }
}
