//! A server whose replies the path chooses, and which tells what becomes of them.

use std::{
    future, io,
    net::SocketAddr,
    sync::{Arc, LazyLock},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use octopus_server::{
    listener::{self, Options, Peer, Protocol},
    send::{Fate, Receipt, ReplyBody},
    wire::Socket,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::{Notify, Semaphore, mpsc},
    task::JoinHandle,
    time::timeout,
};

use crate::over::{Over, tls};

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

/// Where a server is, and what it speaks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Door {
    pub(crate) addr: SocketAddr,
    pub(crate) over: Over,
}

pub(crate) struct Server {
    pub(crate) door: Door,
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
        Self::with_over(options, Over::Http1).await
    }

    pub(crate) async fn over(over: Over) -> Self {
        Self::with_over(Options::default(), over).await
    }

    pub(crate) async fn with_over(options: Options, over: Over) -> Self {
        let mut server = match over {
            Over::Http1 => {
                Self::layered(options, |socket| future::ready(Ok((socket, Protocol::Http1)))).await
            }
            Over::Https1 | Over::Http2 => {
                let tls = tls();
                Self::layered(options, move |socket| tls.clone().accept(socket)).await
            }
        };
        server.door.over = over;
        server
    }

    pub(crate) async fn layered<L, H, I>(options: Options, layer: L) -> Self
    where
        L: Fn(Socket) -> H + Clone + Send + 'static,
        H: Future<Output = io::Result<(I, Protocol)>> + Send + 'static,
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (tell, told) = mpsc::unbounded_channel();
        let service = Service {
            tell,
            releases: Arc::new(Semaphore::new(0)),
        };
        let shutdown = Arc::new(Notify::new());
        let (answering, stop) = (service.clone(), shutdown.clone());
        let task = tokio::spawn(async move {
            let answer = move |request, peer| answering.clone().answer(request, peer);
            listener::serve_layered(listener, layer, answer, options, stop.notified()).await;
        });
        Self {
            door: Door {
                addr,
                over: Over::Http1,
            },
            task,
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

        self.tell.send((id, Told::Started(peer.clone()))).unwrap();
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
            "cut" => {
                peer.hang_up();
                future::pending().await
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
