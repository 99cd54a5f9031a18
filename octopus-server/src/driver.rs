//! Holds the engine: feeds it what happens, does what it asks for, and wakes it when its time has come.

mod call;
mod delivery;
mod reader;
mod turn;

use std::{
    collections::HashMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Instant,
};

use octopus_codec::Body;
use octopus_core::{
    Action, CallId, Command, Config, Effect, Engine, Error, Event, InstanceId, InstanceKey, Namespace, Reply,
    RequestId,
};
use octopus_kafka::Cluster;
use tokio::sync::{oneshot, watch};

pub(crate) use self::delivery::Delivery;
use self::{call::Running, reader::Reader};
use crate::{clock::Clock, listener::Peer, topics::Topics};

/// The one way into the engine. Clones share it.
#[derive(Clone)]
pub(crate) struct Driver(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    clock: Arc<dyn Clock>,
    cluster: Option<Cluster>,
    topics: Option<Arc<dyn Topics>>,
    deadline: watch::Sender<Option<Instant>>,
    drained: watch::Sender<bool>,
}

struct State {
    engine: Engine,
    last_request: u64,
    /// The requests that wait for their answer.
    waiting: HashMap<RequestId, oneshot::Sender<Answer>>,
    /// Who sent the requests in hand, to end a connection by.
    peers: HashMap<RequestId, Peer>,
    calls: HashMap<CallId, Running>,
    /// What calls packed, until the engine says what becomes of it.
    bodies: HashMap<CallId, Body>,
    consumers: HashMap<InstanceId, Opened>,
}

/// An instance's part outside the engine.
#[derive(Clone)]
struct Opened {
    namespace: Namespace,
    reader: Arc<Reader>,
}

/// The engine's answer to a request.
pub(crate) struct Answer {
    /// What to say.
    pub(crate) reply: Result<Reply, Error>,
    /// The records of a [`Reply::Records`].
    pub(crate) body: Option<Body>,
}

impl Driver {
    /// Starts an engine and the task that keeps its time. Needs a tokio runtime.
    pub(crate) fn start(
        config: Config,
        clock: Arc<dyn Clock>,
        cluster: Option<Cluster>,
        topics: Option<Arc<dyn Topics>>,
    ) -> Self {
        let state = State {
            engine: Engine::new(config, clock.now()),
            last_request: 0,
            waiting: HashMap::new(),
            peers: HashMap::new(),
            calls: HashMap::new(),
            bodies: HashMap::new(),
            consumers: HashMap::new(),
        };
        let (deadline, deadlines) = watch::channel(state.engine.poll_timeout());
        let (drained, _) = watch::channel(false);
        let driver = Self(Arc::new(Shared {
            state: Mutex::new(state),
            clock,
            cluster,
            topics,
            deadline,
            drained,
        }));
        tokio::spawn(keep_time(Arc::downgrade(&driver.0), deadlines));
        driver
    }

    /// Asks the engine. Dropping the future, or the delivery that comes with the answer, tells it that the caller
    /// left [RP-04].
    pub(crate) async fn request(
        &self,
        namespace: Namespace,
        key: InstanceKey,
        command: Command,
        peer: Peer,
    ) -> (Answer, Delivery) {
        let (sender, answer) = oneshot::channel();
        let mut delivery = None;
        self.with(|state| {
            state.last_request += 1;
            let request = RequestId(state.last_request);
            state.waiting.insert(request, sender);
            state.peers.insert(request, peer);
            delivery = Some(Delivery::new(self.clone(), request));
            Some(Event::Request {
                request,
                namespace,
                key,
                command,
            })
        });
        let delivery = delivery.expect("made above");
        // The sender falls only with the driver's state, at the end of the process.
        let answer = answer.await.unwrap_or(Answer {
            reply: Err(Error::Internal),
            body: None,
        });
        (answer, delivery)
    }

    /// Tells the engine that the service shuts down; ends when every instance is closed or given up.
    pub(crate) async fn shut_down(&self) {
        let mut drained = self.0.drained.subscribe();
        self.feed(Event::Shutdown);
        // The sender is held by `self`.
        let _ = drained.wait_for(|drained| *drained).await;
    }

    fn feed(&self, event: Event) {
        self.with(|_| Some(event));
    }

    /// The only place where the lock is held: changes the state, tells the engine, and does what it asks for.
    /// Nothing waits in here. `None`: the engine is told that its time has come.
    fn with(&self, change: impl FnOnce(&mut State) -> Option<Event>) {
        let mut ended = Ended::default();
        let mut guard = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *guard;
        let turned = catch_unwind(AssertUnwindSafe(|| {
            let now = self.0.clock.now();
            match change(state) {
                Some(event) => {
                    if let Event::Delivered(request) | Event::Dropped(request) = event {
                        ended.peers.extend(state.peers.remove(&request));
                        ended.answers.extend(state.waiting.remove(&request));
                    }
                    state.engine.handle_event(event, now);
                }
                None => state.engine.handle_timeout(now),
            }
            while let Some(action) = state.engine.poll_action() {
                self.act(state, action, &mut ended);
            }
            let next = state.engine.poll_timeout();
            self.0
                .deadline
                .send_if_modified(|deadline| std::mem::replace(deadline, next) != next);
            if state.engine.is_drained() {
                self.0
                    .drained
                    .send_if_modified(|drained| !std::mem::replace(drained, true));
            }
        }));
        if turned.is_err() {
            // Half a step may have been taken: no answer from this state could be trusted.
            tracing::error!("the engine failed; the process ends");
            std::process::exit(1);
        }
        drop(guard);
        drop(ended);
    }

    fn act(&self, state: &mut State, action: Action, ended: &mut Ended) {
        match action {
            Action::Call {
                call,
                instance,
                effect,
                within,
            } => {
                let opened = match effect {
                    Effect::Close => state.consumers.remove(&instance),
                    Effect::Open(_)
                    | Effect::Topics(_)
                    | Effect::Join(_)
                    | Effect::Leave
                    | Effect::Fetch(_)
                    | Effect::Commit(_)
                    | Effect::Committed(_)
                    | Effect::Start(_)
                    | Effect::Bounds(..) => state.consumers.get(&instance).cloned(),
                };
                let running = call::start(self.clone(), call, instance, opened, effect, within);
                state.calls.insert(call, running);
            }
            Action::Hurry(call) => {
                if let Some(running) = state.calls.get(&call) {
                    running.hurry();
                }
            }
            Action::Cancel(call) => {
                if let Some(running) = state.calls.remove(&call) {
                    running.stop();
                }
                ended.bodies.extend(state.bodies.remove(&call));
            }
            Action::Reply { request, reply } => {
                let body = match reply {
                    Ok(Reply::Records(call)) => state.bodies.remove(&call),
                    Ok(_) | Err(_) => None,
                };
                match state.waiting.remove(&request) {
                    Some(waiting) => {
                        let unread = waiting.send(Answer { reply, body }).err();
                        ended.bodies.extend(unread.and_then(|answer| answer.body));
                    }
                    None => ended.bodies.extend(body),
                }
            }
            Action::Abort(request) => {
                if let Some(peer) = state.peers.remove(&request) {
                    peer.abort();
                    ended.peers.push(peer);
                }
            }
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}

/// What a step let go of; dropped once the lock is free, since a drop may feed the next event.
#[derive(Default)]
struct Ended {
    answers: Vec<oneshot::Sender<Answer>>,
    bodies: Vec<Body>,
    peers: Vec<Peer>,
}

/// Wakes the engine at its deadlines, for as long as somebody holds the driver.
async fn keep_time(shared: Weak<Shared>, mut deadlines: watch::Receiver<Option<Instant>>) {
    loop {
        let deadline = *deadlines.borrow_and_update();
        let Some(clock) = shared.upgrade().map(|shared| Arc::clone(&shared.clock)) else {
            return;
        };
        let due = async {
            match deadline {
                Some(deadline) => clock.sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = due => match shared.upgrade() {
                Some(shared) => Driver(shared).with(|_| None),
                None => return,
            },
            changed = deadlines.changed() => if changed.is_err() { return },
        }
    }
}
