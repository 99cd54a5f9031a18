//! One connection to a broker. A writer task sends requests whole, a reader task hands out the answers in their order;
//! a caller that leaves never leaves half a request behind, and a connection that was once at fault is never used again.

mod reader;
mod session;
mod writer;

use std::{
    any::Any,
    collections::BTreeMap,
    ops::RangeInclusive,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_channel::mpsc;
use kafka_protocol::{
    messages::{ApiKey, ApiVersionsRequest, RequestHeader},
    protocol::{Encodable, StrBytes, encode_request_header_into_buffer},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, split},
    sync::{Notify, RwLock, oneshot},
    time::{Instant, timeout_at},
};

use crate::{
    answer,
    error::{Api, Error, Kind},
    frame::Budget,
    versions::{Told, Versions},
};

/// Where a frame has its correlation id: behind the length, the API's key and its version.
const CORRELATION_ID: RangeInclusive<usize> = 8..=11;
/// The least time that a broker has to answer before its connection is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// The version of ApiVersions that is asked in first.
const API_VERSIONS: i16 = 3;

/// An open connection whose broker said which versions it speaks.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The line ends with the last that holds it.
    requests: Arc<Line>,
    shared: Arc<Shared>,
    versions: Versions,
}

/// Where requests wait for the writer. Its memory is that of what waits, and many connections have nothing in it.
type Line = mpsc::UnboundedSender<Outgoing>;

/// What the two tasks and the callers share.
#[derive(Debug)]
struct Shared {
    /// The requests without their answer.
    in_flight: AtomicUsize,
    /// Told when the last of them ended.
    quiet: Notify,
    /// Held by each request until it is in its line, and alone by a sign-in while the session is renewed.
    gate: RwLock<()>,
    /// Whether the session is being renewed; only that is without its answer then.
    is_renewing: AtomicBool,
    /// Why the connection is of no more use; both tasks end at once when it is set, and the stream with them.
    fault: OnceLock<Arc<str>>,
    /// Told of the fault.
    at_fault: Notify,
    state: Mutex<State>,
}

/// What a request holds until its answer came or never will, though its caller left.
pub(crate) type Hold = Arc<dyn Any + Send + Sync>;

#[derive(Debug)]
struct State {
    /// When it was last asked or answered.
    used: Instant,
    /// When it was last answered, or opened.
    heard: Instant,
    /// Since when an answer is awaited and none comes.
    asked: Option<Instant>,
    /// Since when one was awaited that did not come in time.
    gave_up: Option<Instant>,
    /// Until when the broker does not read from it, as it said [ER-04].
    throttled: Option<Instant>,
    /// The highest version of a request, by its API's key, where the broker took a higher one back.
    lowered: BTreeMap<i16, i16>,
}

/// A request on its way to the writer.
#[derive(Debug)]
struct Outgoing {
    /// The whole frame; its correlation id is written when its turn comes.
    frame: BytesMut,
    deadline: Instant,
    answer: oneshot::Sender<Result<Bytes, Lost>>,
    /// Where the answer says how long the connection is throttled.
    throttle_at: Option<usize>,
    hold: Option<Hold>,
}

/// A request that was sent, or is just being sent.
#[derive(Debug)]
struct Awaited {
    correlation_id: i32,
    deadline: Instant,
    answer: oneshot::Sender<Result<Bytes, Lost>>,
    throttle_at: Option<usize>,
    _hold: Option<Hold>,
}

/// A request that gets no answer.
#[derive(Debug, Clone)]
struct Lost {
    sent: bool,
    why: Arc<str>,
    /// What came of this very request, where that is known.
    kind: Option<Kind>,
}

/// The answer to a request, and what it was answered in.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The bytes behind the correlation id.
    pub(crate) bytes: Bytes,
    /// The version of the request.
    pub(crate) version: i16,
}

impl Connection {
    /// Takes a stream over and asks the broker for its versions. `most` is the largest frame that it may answer with,
    /// in bytes.
    pub(crate) async fn open<S>(
        stream: S,
        most: usize,
        budget: Budget,
        deadline: Instant,
    ) -> Result<Self, Error>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (read, write) = split(stream);
        let (requests, outgoing) = mpsc::unbounded();
        let (sent, awaited) = mpsc::unbounded();
        let now = Instant::now();
        let state = State {
            used: now,
            heard: now,
            asked: None,
            gave_up: None,
            throttled: None,
            lowered: BTreeMap::new(),
        };
        let shared = Arc::new(Shared {
            in_flight: AtomicUsize::new(0),
            quiet: Notify::new(),
            gate: RwLock::new(()),
            is_renewing: AtomicBool::new(false),
            fault: OnceLock::new(),
            at_fault: Notify::new(),
            state: Mutex::new(state),
        });
        tokio::spawn(writer::run(write, outgoing, sent, Arc::clone(&shared)));
        tokio::spawn(reader::run(read, awaited, most, budget, Arc::clone(&shared)));
        let mut connection = Self {
            requests: Arc::new(requests),
            shared,
            versions: Versions::default(),
        };
        connection.versions = connection.ask_versions(deadline).await?;
        Ok(connection)
    }

    async fn ask_versions(&self, deadline: Instant) -> Result<Versions, Error> {
        let failed = |kind| Error::new(Api::ApiVersions, kind);
        for version in [API_VERSIONS, 0] {
            let request = ApiVersionsRequest::default()
                .with_client_software_name(StrBytes::from_static_str("octopus"))
                .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")));
            let request = if version == 0 {
                ApiVersionsRequest::default()
            } else {
                request
            };
            let frame = request_frame(ApiKey::ApiVersions as i16, version, "octopus", &|out| {
                request.encode(out, version).map_err(|_| Kind::Malformed)
            });
            let body = self
                .exchange(frame.map_err(failed)?, None, None, deadline)
                .await
                .map_err(failed)?;
            match Versions::read(version, &body) {
                Some(Told::Versions(versions)) => return Ok(versions),
                Some(Told::AskInVersion0) if version != 0 => {}
                Some(Told::AskInVersion0) | None => break,
            }
        }
        self.poison("its answer to the first request can't be read");
        Err(failed(Kind::Malformed))
    }

    /// Sends one request in the highest common version and waits for its answer. Dropping the future forgets the
    /// answer, but for how long it says that the connection is throttled; the request goes out whole or not at all. `hold` falls when the broker is done with it.
    pub(crate) async fn send(
        &self,
        api_key: i16,
        range: &RangeInclusive<i16>,
        client_id: &str,
        body: impl FnOnce(i16, &mut BytesMut) -> Result<(), Kind>,
        hold: Option<Hold>,
        deadline: Instant,
    ) -> Result<Answer, Kind> {
        let newest = self.shared.lock().lowered.get(&api_key).copied();
        let end = *range.end();
        let range = *range.start()..=newest.unwrap_or(end).min(end);
        let version = self.versions.choose(api_key, &range).ok_or(Kind::Unsupported)?;
        let body = std::cell::Cell::new(Some(body));
        let frame = request_frame(api_key, version, client_id, &|out| match body.take() {
            Some(body) => body(version, out),
            None => Err(Kind::Malformed),
        })?;
        let throttle_at = answer::throttle_at(api_key, version);
        let bytes = self.exchange(frame, throttle_at, hold, deadline).await?;
        Ok(Answer { bytes, version })
    }

    /// Holds the versions where an earlier connection holds them, if they are the same still.
    pub(crate) fn share(&mut self, earlier: &mut Versions) {
        if self.versions == *earlier {
            self.versions = earlier.clone();
        } else {
            *earlier = self.versions.clone();
        }
    }

    /// Whether the broker told of one of these versions.
    pub(crate) fn offers(&self, api_key: i16, range: &RangeInclusive<i16>) -> bool {
        self.versions.choose(api_key, range).is_some()
    }

    async fn exchange(
        &self,
        frame: BytesMut,
        throttle_at: Option<usize>,
        hold: Option<Hold>,
        deadline: Instant,
    ) -> Result<Bytes, Kind> {
        let Ok(pass) = timeout_at(deadline, self.shared.gate.read()).await else {
            return Err(Kind::Timeout);
        };
        let answer = self.enqueue(frame, throttle_at, hold, deadline)?;
        drop(pass);
        answer.await
    }

    /// Puts a request into its line, and waits for its answer.
    fn enqueue(
        &self,
        frame: BytesMut,
        throttle_at: Option<usize>,
        hold: Option<Hold>,
        deadline: Instant,
    ) -> Result<impl Future<Output = Result<Bytes, Kind>> + use<>, Kind> {
        let (answer, answered) = oneshot::channel();
        self.shared.in_flight.fetch_add(1, Ordering::AcqRel);
        self.shared.lock().asked.get_or_insert_with(Instant::now);
        // A caller in a hurry gives up; the broker is at fault only when it takes unusually long.
        let patience = deadline.max(Instant::now() + PATIENCE);
        if let Err(unsent) = self.requests.unbounded_send(Outgoing {
            frame,
            deadline: patience,
            answer,
            throttle_at,
            hold,
        }) {
            drop(unsent);
            self.shared.end();
            return Err(closed(
                false,
                &self.fault().unwrap_or_else(|| "it was closed".into()),
            ));
        }
        Ok(async move {
            match timeout_at(deadline, answered).await {
                Ok(Ok(Ok(mut bytes))) => {
                    bytes.advance(4);
                    Ok(bytes)
                }
                Ok(Ok(Err(lost))) => Err(lost.kind.unwrap_or_else(|| closed(lost.sent, &lost.why))),
                Ok(Err(_)) => Err(closed(true, "its task ended")),
                Err(_) => Err(Kind::Timeout),
            }
        })
    }

    /// The requests without their answer, but for a sign-in: that is no reason to open one more connection.
    pub(crate) fn in_flight(&self) -> usize {
        if self.shared.is_renewing.load(Ordering::Acquire) {
            return 0;
        }
        self.shared.in_flight.load(Ordering::Acquire)
    }

    /// Why it can't be used any more, if so.
    pub(crate) fn fault(&self) -> Option<Arc<str>> {
        self.shared.fault.get().cloned()
    }

    /// Ends when it can't be used any more.
    pub(crate) async fn ended(&self) {
        self.shared.ended().await;
    }

    /// Whether it may be asked: not at fault, and not throttled.
    pub(crate) fn is_ready(&self, now: Instant) -> bool {
        self.shared.fault.get().is_none() && self.throttled(now).is_none()
    }

    /// Until when the broker does not read from it, if that is not over.
    pub(crate) fn throttled(&self, now: Instant) -> Option<Instant> {
        self.shared.lock().throttled.filter(|until| *until > now)
    }

    /// The broker said that it will not read from this connection until then, where its answer does not say so first.
    pub(crate) fn throttle(&self, until: Instant) {
        self.shared.throttle(until);
    }

    /// When the broker was heard last: by an answer, or when it was connected to.
    pub(crate) fn heard(&self) -> Instant {
        self.shared.lock().heard
    }

    /// Since when the broker has not answered, if that is so for this long: it may be gone without a word.
    pub(crate) fn silent(&self, for_long: Duration, now: Instant) -> Option<Instant> {
        let state = self.shared.lock();
        // One that does not read yet can't answer either.
        let since = state.asked.max(state.throttled.filter(|_| state.asked.is_some()));
        let long = |since: &Instant| now.saturating_duration_since(*since) >= for_long;
        state.gave_up.or_else(|| since.filter(long).and(state.asked))
    }

    /// The broker refused a version of a request that it said it speaks: the one below is asked in from here on. False
    /// where that was done before, or there is none below.
    pub(crate) fn lower(&self, api_key: i16, refused: i16, range: &RangeInclusive<i16>) -> bool {
        let mut state = self.shared.lock();
        let first = refused > *range.start() && !state.lowered.contains_key(&api_key);
        if first {
            tracing::debug!(api_key, refused, "a broker refuses a version that it told of");
            state.lowered.insert(api_key, refused - 1);
        }
        first
    }

    /// When it was last asked or answered.
    pub(crate) fn used(&self) -> Instant {
        self.shared.lock().used
    }

    /// Ends it: nothing that comes from it is believed any more.
    pub(crate) fn poison(&self, why: &str) {
        self.shared.poison(why);
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the first fault, and gives it.
    fn poison(&self, why: &str) -> Arc<str> {
        let mut is_new = false;
        let first = self.fault.get_or_init(|| {
            is_new = true;
            why.into()
        });
        if is_new {
            self.at_fault.notify_waiters();
        }
        Arc::clone(first)
    }

    /// Ends when the connection is of no more use.
    async fn ended(&self) {
        // It hears of a fault that is noted from here on.
        let told = self.at_fault.notified();
        if self.fault.get().is_none() {
            told.await;
        }
    }

    fn touch(&self) {
        self.lock().used = Instant::now();
    }

    fn throttle(&self, until: Instant) {
        self.lock().throttled = Some(until);
    }

    /// An answer came.
    fn hear(&self) {
        let now = Instant::now();
        let mut state = self.lock();
        state.used = now;
        state.heard = now;
        let is_last = self.in_flight.fetch_sub(1, Ordering::AcqRel) == 1;
        state.asked = (!is_last).then_some(now);
        drop(state);
        if is_last {
            self.quiet.notify_one();
        }
    }

    /// The answer did not come in time.
    fn give_up(&self) {
        let mut state = self.lock();
        state.gave_up = state.asked;
    }

    /// A request ended without an answer.
    fn end(&self) {
        let mut state = self.lock();
        if self.in_flight.fetch_sub(1, Ordering::AcqRel) == 1 {
            state.asked = None;
            drop(state);
            self.quiet.notify_one();
        }
    }

    /// Ends when no request is without its answer.
    async fn quiet(&self) {
        while self.in_flight.load(Ordering::Acquire) > 0 {
            self.quiet.notified().await;
        }
    }
}

/// A request's frame with its header, in the form that goes over the wire, but for its correlation id.
fn request_frame(
    api_key: i16,
    version: i16,
    client_id: &str,
    body: &dyn Fn(&mut BytesMut) -> Result<(), Kind>,
) -> Result<BytesMut, Kind> {
    let mut frame = BytesMut::with_capacity(256);
    frame.put_i32(0);
    let header = RequestHeader::default()
        .with_request_api_key(api_key)
        .with_request_api_version(version)
        .with_client_id(Some(StrBytes::from_string(client_id.to_owned())));
    encode_request_header_into_buffer(&mut frame, &header).map_err(|_| Kind::Unsupported)?;
    body(&mut frame)?;
    let length = i32::try_from(frame.len() - 4).map_err(|_| Kind::Malformed)?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    Ok(frame)
}

fn closed(sent: bool, why: &str) -> Kind {
    Kind::Closed {
        sent,
        why: why.into(),
    }
}

#[cfg(test)]
mod tests;
