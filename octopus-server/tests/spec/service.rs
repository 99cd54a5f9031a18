//! The service of one test.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use octopus_auth::{Caller, Checked, Credentials, TokenCheck, TokenFault};
use octopus_core::Limits;
use octopus_kafka::{
    Cluster, Config,
    broker::{self, Broker},
    records::{BatchWriter, Compression},
};
use octopus_server::{Builder, Server, clock::ManualClock};
use tokio::{
    net::TcpListener,
    sync::{oneshot, watch},
    task::JoinHandle,
    time::timeout,
};

use crate::client::Client;

/// Longer than anything that a test waits for; only a hang meets it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server in this process, its broker, and its clock, which stands still until it is moved.
///
/// A test's runtime has one thread, and nothing on a request's way from the token check to the engine waits if the
/// request has no body: whoever has seen a request [arrive](Self::arrived) knows that the engine has it.
pub(crate) struct Service {
    pub(crate) broker: Broker,
    pub(crate) clock: ManualClock,
    pub(crate) address: SocketAddr,
    arrivals: watch::Receiver<usize>,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

impl Service {
    /// With the limits of the specification.
    pub(crate) async fn start() -> Self {
        Self::with(Limits::default(), |builder| builder).await
    }

    /// With other limits, or other parts.
    pub(crate) async fn with(limits: Limits, change: impl FnOnce(Builder) -> Builder) -> Self {
        Self::behind(None, limits, change).await
    }

    /// With another check of tokens; who comes is counted all the same.
    pub(crate) async fn behind(
        tokens: Option<Arc<dyn TokenCheck>>,
        limits: Limits,
        change: impl FnOnce(Builder) -> Builder,
    ) -> Self {
        Self::over(broker::Config::default(), tokens, limits, change).await
    }

    /// With a broker of these settings.
    pub(crate) async fn over(
        mut config: broker::Config,
        tokens: Option<Arc<dyn TokenCheck>>,
        limits: Limits,
        change: impl FnOnce(Builder) -> Builder,
    ) -> Self {
        config.initial_rebalance_delay = Duration::ZERO;
        let broker = Broker::start(config).await.expect("an embedded broker");
        let mut config = Config::new(vec![broker.addr().to_string()]);
        // A member hears soon that its group rebalances.
        config.heartbeat_interval = Duration::from_millis(100);
        let cluster = Cluster::new(config);
        let clock = ManualClock::new();
        let (count, arrivals) = watch::channel(0);
        let builder = Server::builder(Arc::new(Door { count, tokens }))
            .cluster(cluster)
            .clock(Arc::new(clock.clone()))
            .limits(limits);
        let server = change(builder).start();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(server.serve(listener, async { _ = stopped.await }));
        Self {
            broker,
            clock,
            address,
            arrivals,
            stop: Some(stop),
            serving,
        }
    }

    /// The check of tokens that lets a service's users in, for a server beside it.
    pub(crate) fn tokens() -> Arc<dyn TokenCheck> {
        let (count, _) = watch::channel(0);
        Arc::new(Door { count, tokens: None })
    }

    /// Another server on the same broker, which lets in the same users.
    pub(crate) async fn another(&self, change: impl FnOnce(Builder, Cluster) -> Builder) -> Another {
        let cluster = Cluster::new(Config::new(vec![self.broker.addr().to_string()]));
        let builder = Server::builder(Self::tokens()).cluster(cluster.clone());
        let server = change(builder, cluster).start();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let serving = tokio::spawn(server.serve(listener, std::future::pending()));
        Another { address, serving }
    }

    /// A user by number.
    pub(crate) fn user(&self, number: u16) -> Client {
        user(self.address, number)
    }

    /// Makes a topic of a user's.
    pub(crate) fn topic(&self, user: &Client, topic: &str) {
        assert!(self.broker.create_topic(&on_kafka(user, topic)), "{topic} is new");
    }

    /// Writes a batch of values without keys to a user's topic; gives the first one's offset.
    pub(crate) fn write(&self, user: &Client, topic: &str, values: &[&[u8]]) -> i64 {
        let mut batch = BatchWriter::new(Compression::None);
        for value in values {
            batch.push(1_700_000_000_000, None, Some(value), &[]);
        }
        let base = self.broker.append(&on_kafka(user, topic), batch.finish());
        base.expect("a topic")
    }

    /// What a user's group has committed for a topic.
    pub(crate) fn committed(&self, user: &Client, group: &str, topic: &str) -> Option<i64> {
        self.broker
            .committed(&on_kafka(user, group), &on_kafka(user, topic))
    }

    /// How many requests have come so far.
    pub(crate) fn arrivals(&self) -> usize {
        *self.arrivals.borrow()
    }

    /// Waits until so many requests have come in all.
    pub(crate) async fn arrived(&self, count: usize) {
        let mut arrivals = self.arrivals.clone();
        timeout(PATIENCE, arrivals.wait_for(|came| *came >= count))
            .await
            .expect("a request in time")
            .expect("a service");
    }

    /// Says that the service is to stop; the clock has to be moved for what waits.
    pub(crate) fn stop(&mut self) {
        self.stop.take();
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) {
        timeout(PATIENCE, &mut self.serving)
            .await
            .expect("an end in time")
            .expect("no panic");
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// A server beside a service. It ends with this value, as if it were killed.
pub(crate) struct Another {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Another {
    /// A user by number.
    pub(crate) fn user(&self, number: u16) -> Client {
        user(self.address, number)
    }
}

impl Drop for Another {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn user(address: SocketAddr, number: u16) -> Client {
    Client {
        address,
        subject: format!("6a0f4d3e-0000-4000-8000-00000000{number:04x}"),
        token: format!("{number:04x}_{}", "t".repeat(40)),
    }
}

/// What a user's topic or group is called on Kafka.
pub(crate) fn on_kafka(user: &Client, name: &str) -> String {
    format!("ns-{}.{name}", &user.subject[24..])
}

/// Counts who comes, and lets in whose token begins with the end of the subject, or whom another check lets in.
struct Door {
    count: watch::Sender<usize>,
    tokens: Option<Arc<dyn TokenCheck>>,
}

impl TokenCheck for Door {
    fn check<'a>(&'a self, credentials: &'a Credentials) -> Checked<'a> {
        Box::pin(async {
            self.count.send_modify(|count| *count += 1);
            if let Some(tokens) = &self.tokens {
                return tokens.check(credentials).await;
            }
            let subject = credentials.subject()?;
            let owner = format!("{}_", &subject.to_string()[32..]);
            if credentials.token()?.starts_with(&owner) {
                Ok(Caller::of(subject))
            } else {
                Err(TokenFault::Refused)
            }
        })
    }
}
