//! A server whose replies the path chooses, and a client that sends and reads raw bytes.

use std::{
    net::SocketAddr,
    sync::{Arc, LazyLock},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use octopus_server::{
    listener::{self, Options, Peer},
    send::{Fate, Receipt, ReplyBody},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::{Notify, Semaphore, mpsc},
    task::JoinHandle,
    time::timeout,
};

/// Long enough for anything that is to come.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// Long enough for what is not to come to have come.
pub(crate) const A_WHILE: Duration = Duration::from_millis(150);
pub(crate) const WINDOW: usize = 64 * 1024;

/// What the service and its receipts tell of a request.
#[derive(Debug)]
pub(crate) enum Told {
    Started(Peer),
    /// The service's future was dropped before it had a response.
    Unanswered,
    Fate(Fate),
}

pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    pub(crate) shutdown: Arc<Notify>,
    pub(crate) task: JoinHandle<()>,
    pub(crate) service: Service,
    told: mpsc::UnboundedReceiver<(u64, Told)>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(Options::default()).await
    }

    pub(crate) async fn with(options: Options) -> Self {
        Self::run(|listener, service, shutdown| {
            let service = move |request, peer| service.clone().answer(request, peer);
            tokio::spawn(async move {
                listener::serve(listener, service, options, shutdown.notified()).await;
            })
        })
        .await
    }

    pub(crate) async fn run(serve: impl FnOnce(TcpListener, Service, Arc<Notify>) -> JoinHandle<()>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (tell, told) = mpsc::unbounded_channel();
        let service = Service {
            tell,
            releases: Arc::new(Semaphore::new(0)),
        };
        let shutdown = Arc::new(Notify::new());
        Self {
            addr,
            task: serve(listener, service.clone(), shutdown.clone()),
            shutdown,
            service,
            told,
        }
    }

    /// Lets one waiting request go on.
    pub(crate) fn release(&self) {
        self.service.releases.add_permits(1);
    }

    pub(crate) async fn told(&mut self) -> (u64, Told) {
        timeout(SOON, self.told.recv())
            .await
            .expect("nothing is told")
            .unwrap()
    }

    pub(crate) async fn started(&mut self) -> Peer {
        match self.told().await {
            (_, Told::Started(peer)) => peer,
            other => panic!("not a start: {other:?}"),
        }
    }

    pub(crate) async fn fate(&mut self) -> (u64, Fate) {
        match self.told().await {
            (id, Told::Fate(fate)) => (id, fate),
            other => panic!("not a fate: {other:?}"),
        }
    }

    /// The waiting request's future, and with it its receipt, was dropped.
    pub(crate) async fn given_up(&mut self) {
        let mut told = [self.told().await.1, self.told().await.1];
        told.sort_by_key(|told| matches!(told, Told::Fate(_)));
        assert!(
            matches!(told, [Told::Unanswered, Told::Fate(Fate::Dropped)]),
            "{told:?}"
        );
    }

    pub(crate) async fn nothing(&mut self) {
        if let Ok(told) = timeout(A_WHILE, self.told.recv()).await {
            panic!("told {told:?}");
        }
    }

    /// Ends the server, and gives what was told and not asked for.
    pub(crate) async fn end(self) -> Vec<(u64, Told)> {
        self.shutdown.notify_one();
        self.ended().await
    }

    /// The server ends; gives what was told and not asked for.
    pub(crate) async fn ended(mut self) -> Vec<(u64, Told)> {
        timeout(SOON, &mut self.task)
            .await
            .expect("the server ends")
            .unwrap();
        drop(self.service);
        let mut rest = Vec::new();
        while let Some(told) = self.told.recv().await {
            rest.push(told);
        }
        rest
    }

    /// Ends the server, to which nothing more happened.
    pub(crate) async fn ends_quietly(self) {
        let rest = self.end().await;
        assert!(rest.is_empty(), "{rest:?}");
    }
}

/// Answers `GET /KIND/LENGTH?ID`.
#[derive(Clone)]
pub(crate) struct Service {
    tell: mpsc::UnboundedSender<(u64, Told)>,
    releases: Arc<Semaphore>,
}

impl Service {
    pub(crate) async fn answer(self, request: Request<Incoming>, peer: Peer) -> Response<ReplyBody> {
        let uri = request.uri();
        let id = uri.query().map_or(0, |id| id.parse().unwrap());
        let (kind, length) = uri.path()[1..].split_once('/').unwrap();
        let (kind, length): (_, usize) = (kind.to_owned(), length.parse().unwrap());

        self.tell.send((id, Told::Started(peer))).unwrap();
        let mut work = Work {
            id,
            tell: self.tell.clone(),
            is_answered: false,
        };
        let tell = self.tell.clone();
        let receipt = Receipt::new(move |fate| {
            let _ = tell.send((id, Told::Fate(fate))); // The test may be over.
        });

        let body = match &*kind {
            "one" => ReplyBody::whole(slices(length, usize::MAX), Some(receipt)),
            "slices" => ReplyBody::whole(slices(length, WINDOW), Some(receipt)),
            "streamed" => ReplyBody::streamed(slices(length, WINDOW).into_iter(), Some(receipt)),
            "wait" => {
                self.released().await;
                ReplyBody::whole(slices(length, usize::MAX), Some(receipt))
            }
            "body" => {
                request.into_body().collect().await.unwrap();
                self.released().await;
                ReplyBody::whole(slices(length, usize::MAX), Some(receipt))
            }
            "unread" => {
                self.released().await;
                drop(request);
                ReplyBody::whole(slices(length, usize::MAX), Some(receipt))
            }
            "empty" => {
                receipt.delivered();
                ReplyBody::empty()
            }
            "panic" => panic!("as it was asked to"),
            other => panic!("{other}"),
        };
        work.is_answered = true;
        let mut response = Response::new(body);
        if kind == "empty" {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        response
    }

    async fn released(&self) {
        self.releases.acquire().await.unwrap().forget();
    }
}

struct Work {
    id: u64,
    tell: mpsc::UnboundedSender<(u64, Told)>,
    is_answered: bool,
}

impl Drop for Work {
    fn drop(&mut self) {
        if !self.is_answered {
            let _ = self.tell.send((self.id, Told::Unanswered));
        }
    }
}

const PERIOD: usize = 251;
const LONGEST_SLICE: usize = 4 * 1024 * 1024;

static PATTERN: LazyLock<Bytes> = LazyLock::new(|| {
    let period: Vec<u8> = (0..=250).collect();
    period.repeat(LONGEST_SLICE / PERIOD + 2).into()
});

/// A body in slices of at most `most` bytes.
fn slices(length: usize, most: usize) -> Vec<Bytes> {
    let most = most.min(LONGEST_SLICE);
    (0..length)
        .step_by(most)
        .map(|start| {
            let from = start % PERIOD;
            PATTERN.slice(from..from + most.min(length - start))
        })
        .collect()
}

/// The bytes of a body from `start` on are as they were sent.
pub(crate) fn assert_sent(bytes: &[u8], start: usize) {
    let from = start % PERIOD;
    for part in bytes.chunks(LONGEST_SLICE - LONGEST_SLICE % PERIOD) {
        assert!(
            PATTERN[from..from + part.len()] == *part,
            "other bytes than were sent"
        );
    }
}

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    read: Vec<u8>,
}

pub(crate) struct Reply {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(server: &Server) -> Self {
        Self::over(TcpSocket::new_v4().unwrap(), server.addr).await
    }

    /// A client whose kernel takes about this many bytes that nobody reads.
    pub(crate) async fn with_window(addr: SocketAddr, bytes: u32) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(bytes).unwrap();
        Self::over(socket, addr).await
    }

    async fn over(socket: TcpSocket, addr: SocketAddr) -> Self {
        let stream = socket.connect(addr).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            read: Vec::new(),
        }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    pub(crate) async fn get(&mut self, path: &str) {
        self.send(get(path)).await;
    }

    /// Reads one reply.
    pub(crate) async fn reply(&mut self) -> Reply {
        timeout(SOON, self.reply_in_time()).await.expect("no reply")
    }

    async fn reply_in_time(&mut self) -> Reply {
        let head = self.head().await;
        let mut body = Vec::new();
        if head.contains("transfer-encoding: chunked") {
            loop {
                let line = self.until(b"\r\n").await;
                let length = usize::from_str_radix(line.trim_end(), 16).unwrap();
                let chunk = self.exactly(length + 2).await;
                body.extend_from_slice(&chunk[..length]);
                if length == 0 {
                    break;
                }
            }
        } else if let Some((_, rest)) = head.split_once("content-length: ") {
            let length = rest.split_once("\r\n").unwrap().0.parse().unwrap();
            body = self.exactly(length).await;
        }
        assert_sent(&body, 0);
        Reply { head, body }
    }

    pub(crate) async fn head(&mut self) -> String {
        self.until(b"\r\n\r\n").await
    }

    async fn until(&mut self, end: &[u8]) -> String {
        loop {
            if let Some(at) = self.read.windows(end.len()).position(|window| window == end) {
                return String::from_utf8(self.read.drain(..at + end.len()).collect()).unwrap();
            }
            let count = self.stream.read_buf(&mut self.read).await.unwrap();
            assert_ne!(count, 0, "the end came first");
        }
    }

    async fn exactly(&mut self, count: usize) -> Vec<u8> {
        while self.read.len() < count {
            let more = self.stream.read_buf(&mut self.read).await.unwrap();
            assert_ne!(more, 0, "the end came first");
        }
        let rest = self.read.split_off(count);
        std::mem::replace(&mut self.read, rest)
    }

    /// Reads bytes of a body, at most `most` and at least one; what came with the head first.
    pub(crate) async fn some(&mut self, most: usize) -> Vec<u8> {
        if self.read.is_empty() {
            self.read.reserve(most);
            let mut stream = (&mut self.stream).take(most as u64);
            let count = stream.read_buf(&mut self.read).await.unwrap();
            assert_ne!(count, 0, "the end came first");
        }
        let rest = self.read.split_off(most.min(self.read.len()));
        std::mem::replace(&mut self.read, rest)
    }

    /// The server closed the connection in order, and had nothing more to say.
    pub(crate) async fn is_closed(&mut self) {
        assert!(self.read.is_empty());
        let mut byte = [0];
        let count = timeout(SOON, self.stream.read(&mut byte))
            .await
            .expect("still open");
        assert_eq!(count.unwrap(), 0, "more came");
    }

    /// The server closed the connection, over bytes that it had read or not.
    pub(crate) async fn is_closed_or_reset(&mut self) {
        assert!(self.read.is_empty());
        let mut byte = [0];
        match timeout(SOON, self.stream.read(&mut byte))
            .await
            .expect("still open")
        {
            Ok(count) => assert_eq!(count, 0, "more came"),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }

    /// The server reset the connection, at the latest after what the kernel had already taken.
    pub(crate) async fn is_reset(&mut self) {
        let mut scrap = Vec::with_capacity(1 << 20);
        let end = timeout(SOON, async {
            loop {
                scrap.clear();
                match self.stream.read_buf(&mut scrap).await {
                    Ok(0) => return None,
                    Ok(_) => {}
                    Err(error) => return Some(error.kind()),
                }
            }
        });
        let end = end.await.expect("still open");
        assert_eq!(end, Some(std::io::ErrorKind::ConnectionReset));
    }

    pub(crate) fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }
}

pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: octopus\r\n\r\n")
}
