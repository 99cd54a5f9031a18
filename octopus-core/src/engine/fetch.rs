//! A fetch's beginning and its ends; its turns are in `turn`.

use std::time::Instant;

use super::Engine;
use crate::{
    CallId, Error, Fetch, InstanceId, Reply, RequestId,
    fetch::{Fetching, Phase, Sending},
    instance::subscription::Subscription,
    limits::MAX_WAIT,
    request::{Answered, Stage},
    timer::Timer,
};

impl Engine {
    /// Begins a fetch, which holds its instance.
    pub(super) fn begin_fetch(&mut self, id: RequestId, number: InstanceId, fetch: Fetch, now: Instant) {
        let Some(instance) = self.instances.get_mut(&number) else {
            return;
        };
        let wait = fetch.timeout.unwrap_or(instance.settings.request_timeout);
        let mut fetching = Fetching::new(wait.min(MAX_WAIT), fetch.max_bytes, now);
        let deadline = fetching.deadline;
        instance.fetch = Some(id);
        self.fetches.add(instance.key.subject);
        self.timers.cancel(Timer::Rejoin(number));
        if matches!(instance.subscription, Subscription::None) {
            fetching.phase = Phase::Quiet;
        } else {
            self.scheduler.join(id);
        }
        self.timers.set(Timer::Fetch(id), deadline);
        self.set_stage(id, Stage::Fetching(fetching));
        if deadline <= now {
            self.conclude_quiet(id, now);
        }
    }

    /// The wait is over. A turn that still runs ends by itself, so that records which it found are not lost.
    pub(super) fn fetch_timeout(&mut self, id: RequestId, now: Instant) {
        let Some(fetching) = self.fetching(id) else {
            return;
        };
        match fetching.phase {
            Phase::Quiet | Phase::Waiting | Phase::Pausing => {
                let reply = fetching.conclusion();
                self.conclude(id, reply, now);
            }
            Phase::Joining(_) | Phase::Polling(_) | Phase::Sending(_) => {}
        }
    }

    /// A fetch of nothing that does not wait [D-18] [D-19].
    fn conclude_quiet(&mut self, id: RequestId, now: Instant) {
        if let Some(fetching) = self.fetching(id)
            && matches!(fetching.phase, Phase::Quiet)
        {
            let reply = fetching.conclusion();
            self.conclude(id, reply, now);
        }
    }

    /// Answers a fetch without records. It holds its instance and its place no longer than that.
    pub(super) fn conclude(&mut self, id: RequestId, reply: Result<Reply, Error>, now: Instant) {
        self.end_fetch(id, now);
        self.answer(id, reply, now);
    }

    /// Ends an instance's fetch, unless its reply is being sent.
    pub(super) fn stop_fetch(&mut self, number: InstanceId, reply: Result<Reply, Error>, now: Instant) {
        let fetch = self.instances.get(&number).and_then(|instance| instance.fetch);
        if let Some(id) = fetch
            && self.fetching(id).is_some_and(|fetching| !fetching.is_sending())
        {
            self.conclude(id, reply, now);
        }
    }

    /// Sends the records of a call. The turn and the instance are kept until their fate is known [LI-03].
    pub(super) fn send_records(&mut self, id: RequestId, call: CallId, sending: Sending, now: Instant) {
        self.timers.cancel(Timer::Fetch(id));
        self.timers.cancel(Timer::Hurry(id));
        self.scheduler.keep(id);
        if let Some(fetching) = self.fetching(id) {
            fetching.phase = Phase::Sending(sending);
        }
        self.send(id, Ok(Reply::Records(call)), now);
    }

    /// A reply with records counts as received: only here positions follow what a client was given [AK-04] [FE-11].
    pub(super) fn end_sending(&mut self, id: RequestId, now: Instant) {
        let instance = self.requests.get(&id).and_then(|request| request.instance);
        if let Some(fetching) = self.fetching(id)
            && let Phase::Sending(sending) = std::mem::replace(&mut fetching.phase, Phase::Quiet)
            && let Some(instance) = instance.and_then(|number| self.instances.get_mut(&number))
        {
            instance.positions.advance(sending.next);
            if let Some(cut) = &sending.cut {
                instance.positions.rotate(cut);
            }
        }
        self.end_fetch(id, now);
        self.finish(id, now);
    }

    /// Takes back all that a fetch holds: its call, its turn or its place in the line, and its instance.
    pub(super) fn end_fetch(&mut self, id: RequestId, now: Instant) {
        let Some(request) = self.requests.get_mut(&id) else {
            return;
        };
        let Stage::Fetching(fetching) = &request.stage else {
            return;
        };
        let (call, instance) = (fetching.call(), request.instance);
        request.stage = Stage::Answered(Answered::Other);
        self.fetches.remove(&request.subject);
        self.timers.cancel(Timer::Fetch(id));
        self.timers.cancel(Timer::Turn(id));
        self.timers.cancel(Timer::Hurry(id));
        self.scheduler.leave(id);
        call.into_iter().for_each(|call| self.cancel(call));
        if let Some(number) = instance {
            if let Some(instance) = self.instances.get_mut(&number) {
                instance.fetch = None;
            }
            self.arm_rejoin(number, now);
            self.unlock(number);
        }
    }

    pub(super) fn fetching(&mut self, id: RequestId) -> Option<&mut Fetching> {
        match &mut self.requests.get_mut(&id)?.stage {
            Stage::Fetching(fetching) => Some(fetching),
            Stage::Opening(_)
            | Stage::Topics(..)
            | Stage::Waiting(_)
            | Stage::Held(_)
            | Stage::Working(_)
            | Stage::Answered(_) => None,
        }
    }
}
