//! The service's end.

use std::time::Instant;

use tracing::warn;

use super::Engine;
use crate::{
    Action, Error, Reply,
    instance::LastCommit,
    request::{Stage, Step},
    shutdown::Shutdown,
    timer::{Timer, after},
};

impl Engine {
    /// Creates are refused, fetches end, and every instance closes as soon as nothing holds it [AK-03] [CR-11].
    pub(super) fn shut_down(&mut self, now: Instant) {
        if self.shutdown.has_begun() {
            return;
        }
        let end = after(now, self.config.limits.shutdown_grace);
        self.shutdown = Shutdown::Until(end);
        self.timers.cancel(Timer::Sweep);
        self.timers.set(Timer::Shutdown, end);
        let opening: Vec<_> = self
            .requests
            .iter()
            .filter_map(|(id, request)| match request.stage {
                Stage::Opening(call) => Some((*id, call, request.instance)),
                Stage::Topics(..)
                | Stage::Waiting(_)
                | Stage::Held(_)
                | Stage::Working(_)
                | Stage::Fetching(_)
                | Stage::Answered(_) => None,
            })
            .collect();
        for (id, call, instance) in opening {
            self.cancel(call);
            self.answer(id, Err(Error::ShuttingDown), now);
            self.undo(instance, now);
        }
        let numbers: Vec<_> = self.instances.keys().copied().collect();
        for number in numbers {
            self.doom(number, LastCommit::Yes, now);
            self.stop_fetch(number, Ok(Reply::Empty), now);
        }
    }

    /// The time is over: what still runs is given up, neither committed nor closed [AK-05].
    pub(super) fn give_up(&mut self) {
        self.shutdown = Shutdown::Over;
        for number in self.instances.keys() {
            warn!(
                instance = number.0,
                "neither committed nor closed: the time for it is over"
            );
        }
        for call in std::mem::take(&mut self.calls).into_keys() {
            self.actions.push_back(Action::Cancel(call));
        }
        for (id, request) in std::mem::take(&mut self.requests) {
            let reply = match request.stage {
                Stage::Answered(_) => continue,
                Stage::Fetching(_) => {
                    self.actions.push_back(Action::Abort(id));
                    continue;
                }
                Stage::Working(Step::Delete) => Ok(Reply::NoContent),
                Stage::Opening(_)
                | Stage::Topics(..)
                | Stage::Waiting(_)
                | Stage::Held(_)
                | Stage::Working(_) => Err(Error::KafkaRetriable),
            };
            if !request.is_gone {
                self.actions.push_back(Action::Reply { request: id, reply });
            }
        }
        self.instances.clear();
        self.names.clear();
        self.idle.clear();
        self.unlocked.clear();
        self.timers.clear();
    }
}
