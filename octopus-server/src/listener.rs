//! The accept loop: one task a connection, a bound on their number, and an end that leaves none behind.

mod addresses;
mod connection;
mod multiplexed;
mod pace;
mod peer;
mod request;

use std::{
    future::{self, Future},
    io,
    net::SocketAddr,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use octopus_core::Limits;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time,
};

pub(crate) use self::addresses::counted;
pub use self::peer::Peer;
use self::{addresses::Addresses, connection::Accepted};
use crate::{
    clock::{Clock, SystemClock},
    send::ReplyBody,
    wire::Socket,
};

/// How connections are held.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The connections held at once. More wait in the kernel's backlog until one ends.
    pub max_connections: usize,
    /// Those that one address holds at once, or one network of IPv6 (/64); more are closed as they come.
    pub max_connections_per_address: usize,
    /// The bytes by which a request's head must be whole, at least 8192, else it is answered with a bare 431. In HTTP/1
    /// what the last read brought beyond them, at most as much again, is not held against it.
    pub head_bytes: usize,
    /// The requests that one connection of HTTP/2 has in hand at once; those past them are refused unseen, and may be
    /// sent again.
    pub max_streams: u32,
    /// The clock of the times below, but for the drain's.
    pub clock: Arc<dyn Clock>,
    /// The time from the first byte of a request's head to its last, and that of a handshake [D-32].
    pub head_timeout: Duration,
    /// The time that a connection may be without a request [D-32].
    pub keep_alive: Duration,
    /// The time that one request may take from its head to the end of its reply: more than all waits of the service
    /// together, so that it only ends connections whose client asks and never reads.
    pub busy_timeout: Duration,
    /// The time that connections have, once `shutdown` completed, to end by themselves.
    pub drain: Duration,
    /// Makes the reply to a request whose service panicked.
    pub panicked: fn() -> Response<ReplyBody>,
}

impl Default for Options {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            max_connections: 10_000,
            max_connections_per_address: 5_000,
            head_bytes: 16 * 1024,
            max_streams: 100,
            clock: Arc::new(SystemClock),
            head_timeout: limits.head_timeout,
            keep_alive: limits.keep_alive,
            busy_timeout: limits.busy_timeout,
            drain: Duration::from_secs(10),
            panicked: || {
                let mut response = Response::new(ReplyBody::empty());
                *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                response
            },
        }
    }
}

/// What is spoken on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, and 1.0.
    Http1,
    /// HTTP/2.
    Http2,
}

/// Serves HTTP/1.1 on `listener` until `shutdown` completes, and then until every connection has ended.
///
/// At the shutdown it stops accepting and asks each connection to end: an idle one at once, a busy one after
/// its reply. Those that are left after [`Options::drain`] are reset. Dropping the future ends all of them at
/// once.
///
/// Replies keep their receipts' promise: [`Fate::Delivered`](crate::send::Fate) once a reply's last byte is
/// with the network, [`Fate::Dropped`](crate::send::Fate) in every other case, also when the client leaves
/// while `service` is at work, whose future is dropped then [RP-04] [RP-05].
pub async fn serve<S, F>(
    listener: TcpListener,
    service: S,
    options: Options,
    shutdown: impl Future<Output = ()>,
) where
    S: Fn(Request<Incoming>, Peer) -> F + Clone + Send + 'static,
    F: Future<Output = Response<ReplyBody>> + Send + 'static,
{
    let plain = |socket| future::ready(Ok((socket, Protocol::Http1)));
    serve_layered(listener, plain, service, options, shutdown).await;
}

/// As [`serve`], over what `layer` makes of each socket, such as TLS, and in the protocol that it says. A connection
/// whose layer fails or is late is closed [D-32].
pub async fn serve_layered<L, H, I, S, F>(
    listener: TcpListener,
    layer: L,
    service: S,
    options: Options,
    shutdown: impl Future<Output = ()>,
) where
    L: Fn(Socket) -> H + Clone + Send + 'static,
    H: Future<Output = io::Result<(I, Protocol)>> + Send + 'static,
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Fn(Request<Incoming>, Peer) -> F + Clone + Send + 'static,
    F: Future<Output = Response<ReplyBody>> + Send + 'static,
{
    let mut shutdown = pin!(shutdown);
    let (stage, _) = watch::channel(Stage::Serving);
    let mut connections = JoinSet::new();
    let mut door = Door::new(listener, options.max_connections);
    let addresses = Addresses::new(options.max_connections_per_address);
    let options = Arc::new(options);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            Some(ended) = connections.join_next(), if !connections.is_empty() => log(ended),
            (stream, addr, place) = door.next() => {
                let Some(own) = addresses.place(addr.ip()) else {
                    tracing::debug!(peer = %addr, "an address has no place left for a connection");
                    continue;
                };
                let (layer, service) = (layer.clone(), service.clone());
                let accepted = Accepted {
                    socket: Arc::new(stream),
                    addr,
                    options: Arc::clone(&options),
                    stage: stage.subscribe(),
                };
                connections.spawn(async move {
                    accepted.run(layer, service).await;
                    drop((place, own));
                });
            }
        }
    }
    drop(door);

    stage.send_replace(Stage::Draining);
    if time::timeout(options.drain, all(&mut connections)).await.is_err() {
        tracing::warn!(
            connections = connections.len(),
            "connections are reset at the shutdown"
        );
        stage.send_replace(Stage::Aborting);
        all(&mut connections).await;
    }
}

/// How far the service is on its way to its end, as its connections hear it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Serving,
    /// End when the request in hand is answered.
    Draining,
    /// End at once.
    Aborting,
}

async fn all(connections: &mut JoinSet<()>) {
    while let Some(ended) = connections.join_next().await {
        log(ended);
    }
}

fn log(ended: Result<(), tokio::task::JoinError>) {
    if ended.is_err_and(|error| error.is_panic()) {
        tracing::error!("a connection's task panicked");
    }
}

/// Where connections come in.
struct Door {
    listener: TcpListener,
    places: Arc<Semaphore>,
    pause: Duration,
}

impl Door {
    const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
    const LONGEST_PAUSE: Duration = Duration::from_secs(1);

    fn new(listener: TcpListener, places: usize) -> Self {
        Self {
            listener,
            places: Arc::new(Semaphore::new(places.clamp(1, Semaphore::MAX_PERMITS))),
            pause: Self::SHORTEST_PAUSE,
        }
    }

    /// The next connection, once there is a place for it. It may be given up at any await without losing a
    /// connection.
    async fn next(&mut self) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
        let place = self.places.clone().acquire_owned().await.expect("never closed");
        loop {
            match self.listener.accept().await {
                Ok((stream, addr)) => {
                    self.pause = Self::SHORTEST_PAUSE;
                    prepare(&stream);
                    return (stream, addr, place);
                }
                Err(error) if is_of_one_connection(&error) => {}
                // Out of descriptors or memory: the connection stays in the backlog, so that accepting again
                // at once would spin.
                Err(error) => {
                    tracing::warn!(%error, "can't accept connections");
                    let pause = self.pause;
                    self.pause = (pause * 2).min(Self::LONGEST_PAUSE);
                    time::sleep(pause).await;
                }
            }
        }
    }
}

/// Whether the error was a client's that left before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

/// The most unsent bytes that the kernel takes of a connection. With its default it takes megabytes of a
/// reply that nobody reads, and each would count as delivered.
#[cfg(any(target_os = "android", target_os = "linux"))]
const UNSENT_BYTES: u32 = 128 * 1024;

fn prepare(stream: &TcpStream) {
    let socket = socket2::SockRef::from(stream);
    let done = socket.set_tcp_nodelay(true);
    #[cfg(any(target_os = "android", target_os = "linux"))]
    let done = done.and_then(|()| socket.set_tcp_notsent_lowat(UNSENT_BYTES));
    if let Err(error) = done {
        tracing::debug!(%error, "can't set a socket's options"); // A client that has left.
    }
}
