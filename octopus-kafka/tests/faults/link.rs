//! The way to a broker, which a test can break without the broker's knowing.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use octopus_kafka::broker::{self, Broker};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// An address that passes what comes on to a broker.
pub(crate) struct Link {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
    serving: JoinHandle<()>,
}

struct State {
    target: Mutex<Option<SocketAddr>>,
    accepted: AtomicUsize,
    order: watch::Sender<Order>,
}

/// What becomes of the connections that are open.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Order {
    Pass,
    Freeze,
    Cut,
}

impl Link {
    /// Listens, and lets what comes wait in silence until it is told where to.
    pub(crate) async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            target: Mutex::new(None),
            accepted: AtomicUsize::new(0),
            order: watch::Sender::new(Order::Pass),
        });
        let serving = tokio::spawn(serve(listener, Arc::clone(&state)));
        Self {
            address,
            state,
            serving,
        }
    }

    /// A broker that is known to its clients by this address only.
    pub(crate) async fn broker(&self, mut config: broker::Config) -> Broker {
        config.advertised = Some(("127.0.0.1".to_owned(), self.address.port()));
        let broker = Broker::start(config).await.unwrap();
        self.lead_to(Some(broker.addr()));
        broker
    }

    /// Where connections lead that are opened from here on; `None` lets them wait in silence.
    pub(crate) fn lead_to(&self, target: Option<SocketAddr>) {
        *self.state.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
    }

    /// Nothing comes through the connections that are open, and nobody is told. New ones are not touched.
    pub(crate) fn freeze(&self) {
        self.state.order.send_replace(Order::Freeze);
    }

    /// What was frozen flows on.
    pub(crate) fn thaw(&self) {
        self.state.order.send_replace(Order::Pass);
    }

    /// Closes the connections that are open.
    pub(crate) fn cut(&self) {
        self.state.order.send_replace(Order::Cut);
    }

    /// How many connections came so far.
    pub(crate) fn accepted(&self) -> usize {
        self.state.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.serving.abort();
        self.cut();
    }
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    while let Ok((stream, _)) = listener.accept().await {
        state.accepted.fetch_add(1, Ordering::Relaxed);
        let target = *state.target.lock().unwrap_or_else(PoisonError::into_inner);
        let mut order = state.order.subscribe();
        // Orders are for those that were open when they were given.
        order.mark_unchanged();
        tokio::spawn(pass(stream, target, order));
    }
}

async fn pass(mut stream: TcpStream, target: Option<SocketAddr>, mut order: watch::Receiver<Order>) {
    let mut server = match target {
        Some(target) => match TcpStream::connect(target).await {
            Ok(server) => Some(server),
            Err(_) => return,
        },
        None => None,
    };
    if let Some(server) = &server {
        let _ = stream.set_nodelay(true);
        let _ = server.set_nodelay(true);
    }
    let mut frozen = false;
    loop {
        let flow = async {
            match &mut server {
                Some(server) if !frozen => _ = copy_bidirectional(&mut stream, server).await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            () = flow => return,
            changed = order.changed() => match changed.map(|()| *order.borrow()) {
                Ok(Order::Pass) => frozen = false,
                Ok(Order::Freeze) => frozen = true,
                Ok(Order::Cut) | Err(_) => return,
            },
        }
    }
}
