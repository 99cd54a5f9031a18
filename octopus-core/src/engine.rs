//! The one state machine.

mod accept;
mod call;
mod close;
mod create;
mod fetch;
mod offsets;
mod rejoin;
mod reply;
mod shutdown;
mod subscribe;
mod trace;
mod turn;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Instant,
};

use crate::{
    Action, CallId, Event, InstanceId, InstanceKey, Limits, RequestId, Subject,
    instance::Instance,
    request::Request,
    scheduler::Scheduler,
    shutdown::Shutdown,
    tally::Tally,
    timer::{Timer, Timers, after},
};
use call::Call;

/// What an engine is made with.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// The numbers of the specification.
    pub limits: Limits,
    /// Whether a Kafka endpoint is configured; without one every create is refused [CR-11].
    pub kafka: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            kafka: true,
        }
    }
}

/// Everything that the service decides. The [crate's documentation](crate) has the loop that drives it.
///
/// Every input costs O(log n) in instances and requests.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    instances: BTreeMap<InstanceId, Instance>,
    /// The instance that holds a name.
    names: BTreeMap<InstanceKey, InstanceId>,
    /// The places that instances hold [CR-10].
    places: Tally<Subject>,
    /// The instances without a request in hand, by the time since then [LC-01].
    idle: BTreeSet<(Instant, InstanceId)>,
    /// The instances whose lock came free, to be given to the next in line.
    unlocked: VecDeque<InstanceId>,
    requests: BTreeMap<RequestId, Request>,
    /// The fetches in progress [LI-01].
    fetches: Tally<Subject>,
    scheduler: Scheduler<RequestId>,
    calls: BTreeMap<CallId, Call>,
    timers: Timers,
    actions: VecDeque<Action>,
    shutdown: Shutdown,
    next_instance: u64,
    next_call: u64,
}

impl Engine {
    /// An engine without instances.
    #[must_use]
    pub fn new(config: Config, now: Instant) -> Self {
        let mut timers = Timers::default();
        timers.set(Timer::Sweep, after(now, config.limits.reap_interval));
        Self {
            scheduler: Scheduler::new(config.limits.max_polls),
            config,
            instances: BTreeMap::new(),
            names: BTreeMap::new(),
            places: Tally::default(),
            idle: BTreeSet::new(),
            unlocked: VecDeque::new(),
            requests: BTreeMap::new(),
            fetches: Tally::default(),
            calls: BTreeMap::new(),
            timers,
            actions: VecDeque::new(),
            shutdown: Shutdown::No,
            next_instance: 0,
            next_call: 0,
        }
    }

    /// Takes a fact in. What it leads to comes out of [`poll_action`](Self::poll_action).
    ///
    /// A fact about a request, a call or an instance that the engine does not know is ignored.
    pub fn handle_event(&mut self, event: Event, now: Instant) {
        trace::event(&event);
        match event {
            Event::Request {
                request,
                namespace,
                key,
                command,
            } => self.accept(request, namespace, key, command, now),
            Event::Done { call, outcome } => self.done(call, outcome, now),
            Event::Delivered(request) => self.delivered(request, now),
            Event::Dropped(request) => self.dropped(request, now),
            Event::Rebalance(instance) => self.rebalance(instance, now),
            Event::Lost(instance) => self.lost(instance, now),
            Event::Shutdown => self.shut_down(now),
        }
        self.settle(now);
    }

    /// Takes in that time has passed. It does nothing before [`poll_timeout`](Self::poll_timeout).
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(timer) = self.timers.pop(now) {
            match timer {
                Timer::Shutdown => self.give_up(),
                Timer::Lock(request) => self.lock_timeout(request, now),
                Timer::Fetch(request) => self.fetch_timeout(request, now),
                Timer::Turn(request) => self.end_pause(request),
                Timer::Hurry(request) => self.hurry(request, now),
                Timer::Send(request) => self.send_timeout(request, now),
                Timer::Call(call) => self.call_timeout(call, now),
                Timer::Rejoin(instance) => self.rejoin(instance, now),
                Timer::Sweep => self.sweep(now),
            }
            self.settle(now);
        }
    }

    /// The next thing to do. Drain it after every input.
    pub fn poll_action(&mut self) -> Option<Action> {
        let action = self.actions.pop_front()?;
        trace::action(&action);
        Some(action)
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) if nothing happens before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Whether a shutdown has nothing left to wait for: every instance is closed and every reply has ended, or
    /// the time for it is over [AK-05].
    #[must_use]
    pub fn is_drained(&self) -> bool {
        match self.shutdown {
            Shutdown::No => false,
            Shutdown::Until(_) => self.instances.is_empty() && self.requests.is_empty(),
            Shutdown::Over => true,
        }
    }

    /// Hands on what came free: an instance to the next in its line, a turn to the next in the one for turns.
    fn settle(&mut self, now: Instant) {
        loop {
            if let Some(instance) = self.unlocked.pop_front() {
                self.next_in_line(instance, now);
            } else if let Some(request) = self.scheduler.grant() {
                self.take_turn(request, now);
            } else if let Some(request) = self.scheduler.shorten() {
                self.shorten_turn(request, now);
            } else {
                break;
            }
        }
    }
}
