//! Calls: their start, their end, and the guard against one that never ends.

use std::time::{Duration, Instant};

use super::Engine;
use crate::{
    Action, CallId, Effect, Error, InstanceId, Outcome, RequestId,
    timer::{Timer, after},
};

/// A call that runs.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) instance: InstanceId,
    purpose: Purpose,
    /// When its time ends.
    until: Instant,
}

/// What a call is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    /// A create.
    Open(RequestId),
    /// Which topics exist, for a request.
    Topics(RequestId),
    /// A step of the request that holds the instance.
    Step(RequestId),
    /// A fetch's turn, which joins.
    Join(RequestId),
    /// A fetch's turn, which polls.
    Poll(RequestId),
    /// A commit alongside a fetch [AK-01].
    AutoCommit,
    /// A join without a fetch [D-23].
    Rejoin,
    /// The commit before a close [AK-03].
    LastCommit,
    /// The close.
    Close,
}

impl Engine {
    /// Starts a call.
    pub(super) fn call(
        &mut self,
        instance: InstanceId,
        purpose: Purpose,
        effect: Effect,
        within: Duration,
        now: Instant,
    ) -> CallId {
        let call = CallId(self.next_call);
        self.next_call += 1;
        let until = after(now, within);
        self.timers
            .set(Timer::Call(call), after(until, self.config.limits.call_grace));
        self.calls.insert(
            call,
            Call {
                instance,
                purpose,
                until,
            },
        );
        self.actions.push_back(Action::Call {
            call,
            instance,
            effect,
            within,
        });
        call
    }

    /// Stops a call.
    pub(super) fn cancel(&mut self, call: CallId) {
        if self.calls.remove(&call).is_some() {
            self.timers.cancel(Timer::Call(call));
            self.actions.push_back(Action::Cancel(call));
        }
    }

    /// A call ended.
    pub(super) fn done(&mut self, id: CallId, outcome: Result<Outcome, Error>, now: Instant) {
        let Some(call) = self.calls.remove(&id) else {
            return;
        };
        self.timers.cancel(Timer::Call(id));
        self.ended(id, call, outcome, now);
    }

    /// A call did not end in its time: it has failed, and of a turn nothing came.
    pub(super) fn call_timeout(&mut self, id: CallId, now: Instant) {
        let Some(call) = self.calls.remove(&id) else {
            return;
        };
        self.actions.push_back(Action::Cancel(id));
        if let Purpose::Open(request) = call.purpose {
            self.open_timeout(request, call.instance, now);
        } else {
            self.ended(id, call, Err(Error::KafkaRetriable), now);
        }
    }

    fn ended(&mut self, id: CallId, call: Call, outcome: Result<Outcome, Error>, now: Instant) {
        match call.purpose {
            Purpose::Open(request) => self.opened(request, call.instance, done(outcome), now),
            Purpose::Topics(request) => self.topics_known(request, outcome, now),
            Purpose::Step(request) => self.step_ended(request, call.instance, outcome, now),
            Purpose::Join(request) => self.turn_joined(request, call.instance, outcome, now),
            Purpose::Poll(request) => self.turn_polled(request, call.instance, id, outcome, now),
            Purpose::AutoCommit => self.auto_committed(call.instance, done(outcome), now),
            Purpose::Rejoin => self.rejoined(call.instance, call.until, outcome, now),
            Purpose::LastCommit => self.last_committed(call.instance, done(outcome), now),
            Purpose::Close => self.closed(call.instance, done(outcome), now),
        }
    }
}

/// The outcome of a call that only can succeed or fail.
pub(super) fn done(outcome: Result<Outcome, Error>) -> Result<(), Error> {
    if let Outcome::Done = outcome? {
        Ok(())
    } else {
        Err(Error::Internal)
    }
}
