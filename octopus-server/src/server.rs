//! The service as a value: built, then served.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use octopus_auth::TokenCheck;
use octopus_core::{Config, Limits};
use octopus_kafka::Cluster;
use tokio::net::TcpListener;

use crate::{
    base_uri::Scheme,
    clock::{Clock, SystemClock},
    crowds::Crowds,
    driver::Driver,
    keys::Keys,
    listener::{self, Options, Peer},
    namespaces::Namespaces,
    produce::Writer,
    service::{self, Service},
    tls::Tls,
    topics::{ClusterTopics, Topics},
};

/// The time that the last replies have to go out once every instance is closed.
const DRAIN: Duration = Duration::from_secs(1);

/// The longest that the end waits for changes of topics that are under way.
const CHANGES: Duration = Duration::from_secs(8);

/// The consume API over one Kafka cluster, ready to serve.
///
/// It lives in a tokio runtime: [`Builder::start`] and [`serve`](Self::serve) need one.
#[derive(Debug)]
pub struct Server {
    service: Arc<Service>,
    tls: Option<Tls>,
    options: Options,
}

/// What a [`Server`] is made of.
#[derive(Clone)]
#[must_use]
pub struct Builder {
    tokens: Arc<dyn TokenCheck>,
    cluster: Option<Cluster>,
    topics: Option<Arc<dyn Topics>>,
    clock: Arc<dyn Clock>,
    limits: Limits,
    tls: Option<Tls>,
    makes_topics: bool,
    options: Options,
}

impl Server {
    /// A server that lets in whom `tokens` lets in.
    pub fn builder(tokens: Arc<dyn TokenCheck>) -> Builder {
        let options = Options {
            drain: DRAIN,
            panicked: service::panicked,
            ..Options::default()
        };
        Builder {
            tokens,
            cluster: None,
            topics: None,
            clock: Arc::new(SystemClock),
            limits: Limits::default(),
            tls: None,
            makes_topics: false,
            options,
        }
    }

    /// Serves until `shutdown` ends; then refuses creates, ends long polls, closes every instance within the
    /// limit's grace [AK-03], and lets the last replies go out.
    pub async fn serve(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let Self {
            service,
            tls,
            options,
        } = self;
        let (ending, namespaces) = (Arc::clone(&service), service.namespaces.clone());
        let answer = move |request, peer: Peer| Arc::clone(&service).answer(request, peer);
        // Connections are still taken while instances close, so that a create hears why it is refused [CR-11].
        let stopping = async {
            shutdown.await;
            tracing::info!("shutting down");
            ending.shut_down().await;
            namespaces.settle(CHANGES).await;
        };
        match tls {
            None => listener::serve(listener, answer, options, stopping).await,
            Some(tls) => {
                let layer = move |socket| tls.clone().accept(socket);
                listener::serve_layered(listener, layer, answer, options, stopping).await;
            }
        }
        tracing::info!("shut down");
    }
}

impl Builder {
    /// Where the records are. Without a cluster, creates answer 500, 50002 [CR-11].
    pub fn cluster(mut self, cluster: Cluster) -> Self {
        self.cluster = Some(cluster);
        self
    }

    /// How a namespace's topics are known; by default they are those that the cluster lists [NS-04].
    pub fn topics(mut self, topics: Arc<dyn Topics>) -> Self {
        self.topics = Some(topics);
        self
    }

    /// Whether a record for a topic that is not there makes it, as in development; by default it is refused.
    pub fn makes_topics(mut self, makes_topics: bool) -> Self {
        self.makes_topics = makes_topics;
        self
    }

    /// The limits and times, by default the specification's.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The clock of the limits' times, by default the machine's. Kafka's times are its own.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Serves HTTPS, and nothing else.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The connections held at once, by default 10,000.
    pub fn max_connections(mut self, max_connections: usize) -> Self {
        self.options.max_connections = max_connections;
        self
    }

    /// The connections that one address holds at once, or one network of IPv6 (/64), by default 5,000.
    pub fn max_connections_per_address(mut self, most: usize) -> Self {
        self.options.max_connections_per_address = most;
        self
    }

    /// Starts the engine.
    #[must_use]
    pub fn start(self) -> Server {
        let Self {
            tokens,
            cluster,
            topics,
            clock,
            limits,
            tls,
            makes_topics,
            mut options,
        } = self;
        let (max_topics, body_timeout) = (limits.max_topics, limits.body_timeout);
        let call_wait = limits.call_wait;
        options.clock = Arc::clone(&clock);
        options.head_timeout = limits.head_timeout;
        options.keep_alive = limits.keep_alive;
        options.busy_timeout = limits.busy_timeout;
        let mut config = Config::default();
        config.limits = limits.clone();
        config.kafka = cluster.is_some();
        let topics = topics.or_else(|| {
            let listed = ClusterTopics::new(cluster.clone()?);
            Some(Arc::new(listed) as Arc<dyn Topics>)
        });
        let kafka = cluster.clone().zip(topics.clone());
        let writer = Writer::new(kafka, makes_topics, &limits);
        let keys = cluster.clone().map(Keys::new);
        let namespaces = Namespaces::new(topics.clone(), keys, max_topics, call_wait);
        let driver = Driver::start(config, Arc::clone(&clock), cluster, topics);
        let service = Arc::new(Service {
            driver,
            namespaces,
            writer,
            grace: limits.shutdown_grace,
            tokens,
            crowds: Crowds::new(limits.max_requests_per_user),
            scheme: if tls.is_some() {
                Scheme::Https
            } else {
                Scheme::Http
            },
            max_topics,
            clock,
            body_timeout,
        });
        Server {
            service,
            tls,
            options,
        }
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
