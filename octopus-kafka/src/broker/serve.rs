//! The broker's TCP shell: sockets, tasks and the clock.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream},
    net::TcpListener,
    sync::{Notify, mpsc},
    task::JoinSet,
};

use super::{
    id::ConnectionId,
    machine::{Machine, Output},
};

/// How much of a frame is room is made for before it comes.
const AHEAD: usize = 64 << 10;

/// The machine, and the way to its connections.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// The next timeout has come nearer.
    rearm: Notify,
    /// The broker ends.
    stop: Notify,
    max_frame_bytes: usize,
}

#[derive(Debug)]
struct State {
    machine: Machine,
    connections: BTreeMap<ConnectionId, mpsc::UnboundedSender<Step>>,
    /// The timeout that the timer waits for.
    armed: Option<Instant>,
}

/// What a connection's task does next.
#[derive(Debug)]
enum Step {
    Send(Bytes),
    Read,
    Close,
}

impl Shared {
    pub(crate) fn new(machine: Machine, max_frame_bytes: usize) -> Self {
        Self {
            state: Mutex::new(State {
                machine,
                connections: BTreeMap::new(),
                armed: None,
            }),
            rearm: Notify::new(),
            stop: Notify::new(),
            max_frame_bytes,
        }
    }

    /// Does something with the machine, and all that follows from it.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Machine, Instant) -> T) -> T {
        let now = tokio::time::Instant::now().into_std();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = act(&mut state.machine, now);
        state.pass_on();
        let next = state.machine.poll_timeout();
        if next.is_some_and(|next| state.armed.is_none_or(|armed| next < armed)) {
            state.armed = next;
            self.rearm.notify_one();
        }
        result
    }

    /// Has [`serve`] close everything and return.
    pub(crate) fn stop(&self) {
        self.stop.notify_one();
    }

    fn connect(&self) -> (ConnectionId, mpsc::UnboundedReceiver<Step>) {
        let (sender, steps) = mpsc::unbounded_channel();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let id = state.machine.handle_connect();
        state.connections.insert(id, sender);
        (id, steps)
    }

    fn disconnect(&self, id: ConnectionId) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.connections.remove(&id);
        state.machine.handle_disconnect(id);
    }
}

impl State {
    fn pass_on(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            let (id, step) = match output {
                Output::Send(id, bytes) => (id, Step::Send(bytes)),
                Output::Ready(id) => (id, Step::Read),
                Output::Close(id) => (id, Step::Close),
            };
            if let Some(connection) = self.connections.get(&id) {
                // A task that has ended takes no steps.
                let _ = connection.send(step);
            }
        }
    }
}

/// Accepts connections and serves them until it is told to stop, and then closes them all.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let _ = stream.set_nodelay(true);
                    connections.spawn(converse(stream, Arc::clone(&shared)));
                }
                // Out of descriptors, most likely: others must end first.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = shared.stop.notified() => break,
        }
    }
    drop(listener);
    connections.shutdown().await;
}

/// Serves these streams until it is told to stop, and then closes them all.
pub(crate) async fn serve_streams(mut streams: mpsc::UnboundedReceiver<DuplexStream>, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(stream) = streams.recv() => {
                connections.spawn(converse(stream, Arc::clone(&shared)));
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = shared.stop.notified() => break,
        }
    }
    connections.shutdown().await;
}

/// Calls the machine when its time has come, until the task is aborted.
pub(crate) async fn keep_time(shared: Arc<Shared>) {
    loop {
        let armed = {
            let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.armed = state.machine.poll_timeout();
            state.armed
        };
        let due = async {
            match armed {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = due => shared.with(|machine, now| machine.handle_timeout(now)),
            () = shared.rearm.notified() => {}
        }
    }
}

/// A connection's name, given back when its task ends.
struct Guest {
    id: ConnectionId,
    shared: Arc<Shared>,
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.shared.disconnect(self.id);
    }
}

async fn converse(mut stream: impl AsyncRead + AsyncWrite + Unpin, shared: Arc<Shared>) {
    let (id, mut steps) = shared.connect();
    let guest = Guest { id, shared };
    let mut input = BytesMut::new();
    // The client is told when it ends: whatever went wrong, the connection is closed.
    let _ = turns(&mut stream, &mut input, &mut steps, &guest).await;
}

/// One request at a time: a frame is read only when the one before was answered.
async fn turns(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    input: &mut BytesMut,
    steps: &mut mpsc::UnboundedReceiver<Step>,
    guest: &Guest,
) -> io::Result<()> {
    loop {
        let Some(frame) = frame(stream, input, guest.shared.max_frame_bytes).await? else {
            return Ok(());
        };
        guest
            .shared
            .with(|machine, now| machine.handle_frame(guest.id, frame, now));
        loop {
            match steps.recv().await {
                Some(Step::Send(bytes)) => stream.write_all(&bytes).await?,
                Some(Step::Read) => break,
                Some(Step::Close) | None => return stream.shutdown().await,
            }
        }
    }
}

/// The next frame without its length, `None` at the end and for a length that is no frame's.
async fn frame(
    stream: &mut (impl AsyncRead + Unpin),
    input: &mut BytesMut,
    max_bytes: usize,
) -> io::Result<Option<Bytes>> {
    let length = loop {
        if let Some(length) = input.first_chunk::<4>() {
            break i32::from_be_bytes(*length);
        }
        if stream.read_buf(input).await? == 0 {
            return Ok(None);
        }
    };
    let Some(length) = usize::try_from(length).ok().filter(|length| *length <= max_bytes) else {
        return Ok(None);
    };
    while input.len() < length + 4 {
        input.reserve((length + 4 - input.len()).min(AHEAD));
        if stream.read_buf(input).await? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(input.split_to(length + 4).freeze().slice(4..)))
}
