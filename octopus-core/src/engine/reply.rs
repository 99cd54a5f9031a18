//! A request's end: its answer, and what became of it.

use std::time::Instant;

use super::Engine;
use crate::{
    Action, Error, InstanceId, Reply, RequestId,
    request::{Answered, Stage},
    timer::{Timer, after},
};

impl Engine {
    /// Answers a request that does not hold its instance.
    pub(super) fn answer(&mut self, id: RequestId, reply: Result<Reply, Error>, now: Instant) {
        self.answer_as(id, reply, Answered::Other, now);
    }

    /// Answers a request and lets its instance go.
    pub(super) fn answer_last(&mut self, id: RequestId, reply: Result<Reply, Error>, now: Instant) {
        if let Some(instance) = self.requests.get(&id).and_then(|request| request.instance) {
            self.unlock(instance);
        }
        self.answer(id, reply, now);
    }

    pub(super) fn answer_as(
        &mut self,
        id: RequestId,
        reply: Result<Reply, Error>,
        answered: Answered,
        now: Instant,
    ) {
        let Some(request) = self.requests.get_mut(&id) else {
            return;
        };
        request.stage = Stage::Answered(answered);
        if request.is_gone {
            self.finish(id, now);
        } else {
            self.send(id, reply, now);
        }
    }

    /// Sends a reply and gives it its time [RP-03].
    pub(super) fn send(&mut self, id: RequestId, reply: Result<Reply, Error>, now: Instant) {
        self.actions.push_back(Action::Reply { request: id, reply });
        self.timers
            .set(Timer::Send(id), after(now, self.config.limits.send_timeout));
    }

    /// The reply was handed to the network whole [RP-05].
    pub(super) fn delivered(&mut self, id: RequestId, now: Instant) {
        let Some(request) = self.requests.get(&id) else {
            return;
        };
        match &request.stage {
            Stage::Answered(_) => self.finish(id, now),
            Stage::Fetching(fetch) if fetch.is_sending() => self.end_sending(id, now),
            Stage::Opening(_)
            | Stage::Topics(..)
            | Stage::Waiting(_)
            | Stage::Held(_)
            | Stage::Working(_)
            | Stage::Fetching(_) => {}
        }
    }

    /// The caller left [RP-04].
    pub(super) fn dropped(&mut self, id: RequestId, now: Instant) {
        let Some(request) = self.requests.get_mut(&id) else {
            return;
        };
        request.is_gone = true;
        let instance = request.instance;
        match &request.stage {
            Stage::Opening(call) => {
                let call = *call;
                self.cancel(call);
                self.finish(id, now);
                self.undo(instance, now);
            }
            Stage::Topics(call, _) => {
                let call = *call;
                self.cancel(call);
                self.finish(id, now);
            }
            Stage::Waiting(_) => {
                self.leave_line(id);
                self.finish(id, now);
            }
            Stage::Held(_) => {
                self.finish(id, now);
                instance.into_iter().for_each(|instance| self.unlock(instance));
            }
            Stage::Working(_) => {}
            Stage::Fetching(_) => {
                self.end_fetch(id, now);
                self.finish(id, now);
            }
            Stage::Answered(Answered::Created) => {
                self.finish(id, now);
                self.undo(instance, now);
            }
            Stage::Answered(Answered::Other) => self.finish(id, now),
        }
    }

    /// The reply took too long: its connection is closed, and a fetch's records count as read [RP-03].
    pub(super) fn send_timeout(&mut self, id: RequestId, now: Instant) {
        let Some(request) = self.requests.get(&id) else {
            return;
        };
        let instance = request.instance;
        self.actions.push_back(Action::Abort(id));
        match &request.stage {
            Stage::Fetching(_) => self.end_sending(id, now),
            Stage::Answered(Answered::Created) => {
                self.finish(id, now);
                self.undo(instance, now);
            }
            Stage::Answered(Answered::Other)
            | Stage::Opening(_)
            | Stage::Topics(..)
            | Stage::Waiting(_)
            | Stage::Held(_)
            | Stage::Working(_) => self.finish(id, now),
        }
    }

    /// Forgets a request. Its instance is idle from here on if it was the last in hand [D-30].
    pub(super) fn finish(&mut self, id: RequestId, now: Instant) {
        let Some(request) = self.requests.remove(&id) else {
            return;
        };
        self.timers.cancel(Timer::Send(id));
        let Some(number) = request.instance else {
            return;
        };
        if let Some(instance) = self.instances.get_mut(&number) {
            instance.in_hand -= 1;
            if instance.in_hand == 0 && instance.is_open() {
                instance.idle_since = now;
                self.idle.insert((now, number));
            }
        }
    }

    /// The request that held the instance is done with it.
    pub(super) fn unlock(&mut self, instance: InstanceId) {
        if let Some(found) = self.instances.get_mut(&instance) {
            found.lock.release();
            self.unlocked.push_back(instance);
        }
    }

    pub(super) fn set_stage(&mut self, id: RequestId, stage: Stage) {
        if let Some(request) = self.requests.get_mut(&id) {
            request.stage = stage;
        }
    }

    /// Takes a request's stage out, to be put in again or answered.
    pub(super) fn take_stage(&mut self, id: RequestId) -> Option<Stage> {
        let request = self.requests.get_mut(&id)?;
        Some(std::mem::replace(
            &mut request.stage,
            Stage::Answered(Answered::Other),
        ))
    }
}
