//! The broker without sockets and clocks: frames of requests in, frames of responses out.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    ops::RangeInclusive,
    time::Instant,
};

use bytes::Bytes;
use kafka_protocol::messages::{ApiKey, FetchRequest};

use super::{
    Received, Settings,
    api::{Head, Request, Response, VERSIONS},
    code,
    coordinator::Groups,
    fault::{Action, Faults},
    group::Answers,
    guard,
    id::{ConnectionId, Ids},
    part, refuse,
    sasl::Gate,
    store::{Kept, Store},
    topic::Topics,
};

/// All that the broker holds and decides.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(super) settings: Settings,
    pub(super) ids: Ids,
    pub(super) topics: Topics,
    pub(super) groups: Groups,
    pub(super) gate: Gate,
    /// Where it keeps what must outlive it; nowhere, and then it is gone with it.
    pub(super) store: Option<Store>,
    pub(super) next_producer_id: i64,
    /// Up to which producer id the store knows that they may be in use.
    pub(super) producer_ids_below: i64,
    pub(super) fetches: BTreeMap<ConnectionId, Parked>,
    pub(super) versions: BTreeMap<i16, RangeInclusive<i16>>,
    pub(super) requests: VecDeque<Received>,
    pub(super) observer: Option<Observer>,
    faults: Faults,
    connections: BTreeMap<ConnectionId, Phase>,
    next_connection: u64,
    timers: BTreeSet<(Instant, ConnectionId)>,
    outputs: VecDeque<Output>,
}

/// What the shell has to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Send these bytes.
    Send(ConnectionId, Bytes),
    /// Read the connection's next request.
    Ready(ConnectionId),
    /// Close the connection behind what was sent.
    Close(ConnectionId),
}

/// Who is told of each request.
pub(super) struct Observer(pub(super) Box<Observe>);

type Observe = dyn FnMut(ApiKey, ConnectionId, &str) + Send;

/// A fetch that waits for records.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) request: FetchRequest,
    pub(super) deadline: Instant,
}

/// Where a connection stands: it has one request at a time.
#[derive(Debug)]
enum Phase {
    /// Its next request may come.
    Ready,
    /// A request is being answered.
    Busy(Pending),
    /// The answer is held back until then.
    Held(Instant, Bytes),
    /// It was answered and is throttled until then.
    Muted(Instant),
    /// It is never answered.
    Stuck,
}

#[derive(Debug)]
struct Pending {
    version: i16,
    correlation_id: i32,
    action: Option<Action>,
    /// The refusal of one topic, to be put into the answer.
    refused: Option<Response>,
    /// The connection is closed behind the answer.
    closes: bool,
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

impl Machine {
    pub(crate) fn new(settings: Settings, faults: Faults, seed: u64) -> Self {
        let groups = Groups::new(settings.groups.clone());
        let gate = Gate::new(settings.sasl.clone());
        Self {
            settings,
            ids: Ids::new(seed),
            topics: Topics::default(),
            groups,
            gate,
            store: None,
            next_producer_id: 0,
            producer_ids_below: 0,
            fetches: BTreeMap::new(),
            versions: VERSIONS
                .iter()
                .map(|(api, versions)| (*api as i16, versions.clone()))
                .collect(),
            requests: VecDeque::new(),
            observer: None,
            faults,
            connections: BTreeMap::new(),
            next_connection: 0,
            timers: BTreeSet::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Goes on with what was kept, and keeps what follows.
    pub(crate) fn restore(&mut self, store: Store, kept: Kept) {
        for (name, mut topic) in kept.topics {
            for log in &mut topic.partitions {
                log.retain(self.settings.retention_bytes);
            }
            self.topics.insert(name, topic);
        }
        for (group, topic, partition, committed) in kept.commits {
            let offsets = &mut self.groups.open(&group).offsets;
            offsets.insert((topic, partition), committed);
        }
        self.next_producer_id = kept.next_producer_id;
        self.producer_ids_below = kept.next_producer_id;
        self.store = Some(store);
    }

    /// A client has connected; its first request may come.
    pub(crate) fn handle_connect(&mut self) -> ConnectionId {
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        self.connections.insert(id, Phase::Ready);
        id
    }

    /// A client has gone. What it asked for is done all the same, as far as the group is concerned.
    pub(crate) fn handle_disconnect(&mut self, id: ConnectionId) {
        self.unpark(id);
        self.gate.leave(id);
        if let Some(phase) = self.connections.remove(&id) {
            self.untime(id, &phase);
        }
    }

    /// A request's frame, without its length. Only for a connection that is ready.
    pub(crate) fn handle_frame(&mut self, id: ConnectionId, mut frame: Bytes, now: Instant) {
        if !matches!(self.connections.get(&id), Some(Phase::Ready)) {
            return;
        }
        if self.gate.takes_raw(id) {
            self.sasl_raw(id, &frame, now);
            return;
        }
        let Some(head) = Head::decode(&mut frame).filter(|head| self.gate.admits(id, head.api, now)) else {
            self.close(id);
            return;
        };
        let known = self.versions.get(&(head.api as i16));
        if !known.is_some_and(|versions| versions.contains(&head.version)) {
            if head.api == ApiKey::ApiVersions && known.is_some() {
                let response = self.api_versions(code::UNSUPPORTED_VERSION);
                self.wait(id, &head, 0, None, None);
                self.answer(id, response, now);
            } else {
                self.close(id);
            }
            return;
        }
        let request = if guard::fits(head.api, head.version, &frame) {
            Request::decode(head.api, head.version, &mut frame)
        } else {
            None
        };
        let Some(mut request) = request else {
            self.close(id);
            return;
        };
        if let Request::Fetch(fetch) = &mut request {
            self.name_topics(fetch);
        }
        self.note(id, &head, &request);
        self.handle_request(id, &head, request, now);
    }

    /// The next thing to do, until there is none.
    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let timer = self.timers.first().map(|(at, _)| *at);
        timer.into_iter().chain(self.groups.poll_timeout()).min()
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        let mut answers = Answers::new();
        self.groups.handle_timeout(&mut answers, now);
        self.answer_all(answers, now);
        while let Some(&(at, id)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            match self.connections.get_mut(&id) {
                Some(phase @ Phase::Muted(_)) => {
                    *phase = Phase::Ready;
                    self.outputs.push_back(Output::Ready(id));
                }
                Some(phase @ Phase::Held(..)) => {
                    if let Phase::Held(_, frame) = std::mem::replace(phase, Phase::Ready) {
                        self.outputs.push_back(Output::Send(id, frame));
                        self.outputs.push_back(Output::Ready(id));
                    }
                }
                Some(Phase::Busy(_)) => self.end_fetch(id, now),
                Some(Phase::Ready | Phase::Stuck) | None => {}
            }
        }
    }

    /// Lets a fetch wait until records come, at most until its deadline.
    pub(super) fn park(&mut self, id: ConnectionId, fetch: Parked) {
        self.timers.insert((fetch.deadline, id));
        self.fetches.insert(id, fetch);
    }

    /// Takes a fetch that waits, to answer it.
    pub(super) fn unpark(&mut self, id: ConnectionId) -> Option<Parked> {
        let fetch = self.fetches.remove(&id)?;
        self.timers.remove(&(fetch.deadline, id));
        Some(fetch)
    }

    /// Answers the request that a connection waits with.
    pub(super) fn answer(&mut self, id: ConnectionId, mut response: Response, now: Instant) {
        let Some(phase) = self.connections.get_mut(&id) else {
            return;
        };
        let Phase::Busy(pending) = std::mem::replace(phase, Phase::Ready) else {
            return;
        };
        if let Some(refused) = pending.refused {
            part::merge(&mut response, refused);
        }
        self.hint(&mut response, pending.version);
        if let Some(Action::Edit(edit)) = &pending.action {
            edit(&mut response);
        }
        if let Some(Action::Throttle(time)) = &pending.action {
            response.throttle(i32::try_from(time.as_millis()).unwrap_or(i32::MAX));
        }
        let Some(frame) = response.frame(pending.version, pending.correlation_id) else {
            tracing::error!(?pending.version, "a response does not encode");
            self.close(id);
            return;
        };
        match pending.action {
            Some(Action::CutAfter(bytes)) => {
                let cut = frame.slice(..bytes.min(frame.len()));
                self.outputs.push_back(Output::Send(id, cut));
                self.close(id);
            }
            Some(Action::Delay(by)) => {
                self.timers.insert((now + by, id));
                self.connections.insert(id, Phase::Held(now + by, frame));
            }
            Some(Action::Throttle(time)) => {
                self.outputs.push_back(Output::Send(id, frame));
                self.timers.insert((now + time, id));
                self.connections.insert(id, Phase::Muted(now + time));
            }
            Some(Action::Close | Action::Edit(_) | Action::Error(_) | Action::Garbage(_) | Action::Never)
            | None
                if pending.closes =>
            {
                self.outputs.push_back(Output::Send(id, frame));
                self.close(id);
            }
            Some(Action::Close | Action::Edit(_) | Action::Error(_) | Action::Garbage(_) | Action::Never)
            | None => self.send(id, frame),
        }
    }

    /// Sends what is a connection's answer, and lets its next request come.
    pub(super) fn send(&mut self, id: ConnectionId, frame: Bytes) {
        self.outputs.push_back(Output::Send(id, frame));
        self.outputs.push_back(Output::Ready(id));
    }

    /// Has a connection closed behind the answer that it waits for.
    pub(super) fn close_behind(&mut self, id: ConnectionId) {
        if let Some(Phase::Busy(pending)) = self.connections.get_mut(&id) {
            pending.closes = true;
        }
    }

    pub(super) fn answer_all(&mut self, answers: Answers, now: Instant) {
        for (id, response) in answers {
            self.answer(id, response, now);
        }
    }

    /// Ends a request that has no answer.
    pub(super) fn no_answer(&mut self, id: ConnectionId) {
        self.connections.insert(id, Phase::Ready);
        self.outputs.push_back(Output::Ready(id));
    }

    pub(super) fn close(&mut self, id: ConnectionId) {
        self.handle_disconnect(id);
        self.outputs.push_back(Output::Close(id));
    }

    fn handle_request(&mut self, id: ConnectionId, head: &Head, mut request: Request, now: Instant) {
        let fault = self.faults.strike(&request, &head.client_id);
        let (action, topic) = fault.map_or((None, None), |(action, topic)| (Some(action), topic));
        match action {
            Some(Action::Close) => self.close(id),
            Some(Action::Never) => {
                self.connections.insert(id, Phase::Stuck);
            }
            Some(Action::Garbage(bytes)) => {
                self.outputs.push_back(Output::Send(id, bytes));
                self.outputs.push_back(Output::Ready(id));
            }
            Some(Action::Error(code)) => {
                let part = topic.and_then(|topic| part::take_topic(&mut request, &topic));
                if let Some(part) = part {
                    let refused = self.refuse(&part, head.version, code);
                    if let Request::Fetch(rest) = &mut request {
                        // A fetch with an error for a partition does not wait.
                        rest.max_wait_ms = 0;
                    }
                    self.wait(id, head, head.version, None, Some(refused));
                    self.dispatch(id, head, request, now);
                } else {
                    let refused = self.refuse(&request, head.version, code);
                    self.wait(id, head, head.version, None, None);
                    self.answer(id, refused, now);
                }
            }
            Some(Action::CutAfter(_) | Action::Delay(_) | Action::Edit(_) | Action::Throttle(_)) | None => {
                self.wait(id, head, head.version, action, None);
                self.dispatch(id, head, request, now);
            }
        }
    }

    fn refuse(&self, request: &Request, version: i16, code: code::Code) -> Response {
        let mut response = refuse::refuse(request, version, code);
        if let Response::Metadata(response) = &mut response {
            self.describe_cluster(response);
        }
        response
    }

    fn wait(
        &mut self,
        id: ConnectionId,
        head: &Head,
        version: i16,
        action: Option<Action>,
        refused: Option<Response>,
    ) {
        let pending = Pending {
            version,
            correlation_id: head.correlation_id,
            action,
            refused,
            closes: false,
        };
        self.connections.insert(id, Phase::Busy(pending));
    }

    fn dispatch(&mut self, id: ConnectionId, head: &Head, request: Request, now: Instant) {
        let mut answers = Answers::new();
        let response = match request {
            Request::Produce(request) => self.produce(head, &request, now),
            Request::Fetch(request) => self.fetch(id, request, now),
            Request::ListOffsets(request) => Some(self.list_offsets(head, &request)),
            Request::Metadata(request) => Some(self.metadata(head, &request)),
            Request::OffsetCommit(request) => Some(self.offset_commit(head, &request, now)),
            Request::OffsetFetch(request) => Some(self.offset_fetch(head, &request)),
            Request::FindCoordinator(request) => Some(self.find_coordinator(head, &request)),
            Request::JoinGroup(request) => {
                self.groups
                    .join(id, head, &request, &mut self.ids, &mut answers, now);
                self.answer_all(answers, now);
                return;
            }
            Request::SyncGroup(request) => {
                self.groups.sync(id, &request, &mut answers, now);
                self.answer_all(answers, now);
                return;
            }
            Request::Heartbeat(request) => Some(self.groups.heartbeat(&request, now)),
            Request::LeaveGroup(request) => {
                let response = self.groups.leave(head.version, &request, &mut answers, now);
                self.answer_all(answers, now);
                Some(response)
            }
            Request::ApiVersions(request) => Some(self.hello(head, &request)),
            Request::SaslHandshake(request) => Some(self.sasl_handshake(id, head, &request)),
            Request::SaslAuthenticate(request) => Some(self.sasl_authenticate(id, &request, now)),
            Request::CreateTopics(request) => Some(self.create_topics(head, &request)),
            Request::DeleteTopics(request) => Some(self.delete_topics(&request, now)),
            Request::DeleteRecords(request) => Some(self.delete_records(&request, now)),
            Request::InitProducerId(request) => Some(self.init_producer_id(&request)),
            Request::OffsetForLeaderEpoch(request) => Some(self.offset_for_leader_epoch(&request)),
            Request::DescribeConfigs(request) => Some(self.describe_configs(&request)),
            Request::ConsumerGroupHeartbeat(request) => Some(self.consumer_heartbeat(head, &request, now)),
            Request::ConsumerGroupDescribe(request) => Some(self.describe_consumers(&request)),
        };
        match response {
            Some(response) => self.answer(id, response, now),
            None if self.fetches.contains_key(&id) => {}
            None => self.no_answer(id),
        }
    }

    /// Tells the observer of a request, and keeps it for [`requests`](super::Broker::requests).
    fn note(&mut self, id: ConnectionId, head: &Head, request: &Request) {
        if let Some(Observer(observe)) = &mut self.observer {
            observe(head.api, id, &head.client_id);
        }
        if self.settings.requests_kept == 0 {
            return;
        }
        while self.requests.len() >= self.settings.requests_kept {
            self.requests.pop_front();
        }
        let mut request = request.clone();
        if let Request::Produce(produce) = &mut request {
            super::request::without_records(produce);
        }
        if let Request::SaslAuthenticate(authenticate) = &mut request {
            super::request::without_secrets(authenticate);
        }
        self.requests.push_back(Received {
            api: head.api,
            version: head.version,
            client_id: head.client_id.clone(),
            connection: id,
            request,
        });
    }

    fn untime(&mut self, id: ConnectionId, phase: &Phase) {
        match phase {
            Phase::Held(at, _) | Phase::Muted(at) => {
                self.timers.remove(&(*at, id));
            }
            Phase::Busy(_) | Phase::Ready | Phase::Stuck => {}
        }
    }
}
