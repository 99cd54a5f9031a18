//! The end of an instance: a delete, too long an idle time, an undone create, or a shutdown.

use std::time::{Duration, Instant};

use tracing::{info, warn};

use super::{Engine, call::Purpose};
use crate::{
    Effect, Error, InstanceId, Reply, RequestId,
    instance::{Closing, LastCommit, Life},
    timer::{Timer, after},
};

impl Engine {
    /// Looks for instances that were idle too long [LC-01].
    pub(super) fn sweep(&mut self, now: Instant) {
        let limits = &self.config.limits;
        let (idle_timeout, interval) = (limits.idle_timeout, limits.reap_interval);
        while let Some(&(since, number)) = self.idle.first() {
            if now.saturating_duration_since(since) < idle_timeout {
                break;
            }
            self.idle.pop_first();
            self.doom(number, LastCommit::Yes, now);
        }
        let interval = interval.max(Duration::from_millis(1));
        self.timers.set(Timer::Sweep, after(now, interval));
    }

    /// Deletes an instance; the request holds it. Its name is free when the answer goes out [LC-02] [D-31].
    pub(super) fn delete(&mut self, request: RequestId, number: InstanceId, now: Instant) {
        self.close(number, Some(request), LastCommit::Yes, now);
    }

    /// Ends an instance as soon as no request holds it. Nobody finds it from here on.
    pub(super) fn doom(&mut self, number: InstanceId, last_commit: LastCommit, now: Instant) {
        let Some(instance) = self.instances.get_mut(&number) else {
            return;
        };
        match instance.life {
            Life::Opening | Life::Open => {}
            Life::Doomed(_) | Life::Closing(_) => return,
        }
        instance.life = Life::Doomed(last_commit);
        self.idle.remove(&(instance.idle_since, number));
        self.unname(number);
        self.turn_away(number, now);
        self.close_if_free(number, now);
    }

    /// Closes a doomed instance unless a request still holds it.
    pub(super) fn close_if_free(&mut self, number: InstanceId, now: Instant) {
        if let Some(instance) = self.instances.get(&number)
            && let Life::Doomed(last_commit) = instance.life
            && !instance.lock.is_busy()
        {
            self.close(number, None, last_commit, now);
        }
    }

    fn close(
        &mut self,
        number: InstanceId,
        request: Option<RequestId>,
        last_commit: LastCommit,
        now: Instant,
    ) {
        self.turn_away(number, now);
        self.stop_rejoin(number);
        let until = self.shutdown.limit(after(now, self.config.limits.close_wait));
        if let Some(instance) = self.instances.get_mut(&number) {
            let waits = instance.auto_commit.is_running();
            instance.life = Life::Closing(Closing {
                request,
                last_commit,
                until,
                waits,
            });
            if !waits {
                self.commit_last(number, now);
            }
        }
    }

    /// The commit before a close [AK-03].
    fn commit_last(&mut self, number: InstanceId, now: Instant) {
        let Some(instance) = self.instances.get_mut(&number) else {
            return;
        };
        let Life::Closing(closing) = &mut instance.life else {
            return;
        };
        closing.waits = false;
        let (last_commit, until) = (closing.last_commit, closing.until);
        let commits = match last_commit {
            LastCommit::Yes => instance.own_commit(),
            LastCommit::No => Vec::new(),
        };
        let within = until.saturating_duration_since(now);
        if commits.is_empty() {
            self.call(number, Purpose::Close, Effect::Close, within, now);
        } else {
            self.call(number, Purpose::LastCommit, Effect::Commit(commits), within, now);
        }
    }

    /// The commit before a close ended; the instance closes whatever came of it [AK-05].
    pub(super) fn last_committed(&mut self, number: InstanceId, outcome: Result<(), Error>, now: Instant) {
        if let Err(error) = outcome {
            warn!(instance = number.0, %error, "the commit before the close failed");
        }
        let Some(Life::Closing(closing)) = self.instances.get(&number).map(|instance| &instance.life) else {
            return;
        };
        let within = closing.until.saturating_duration_since(now);
        self.call(number, Purpose::Close, Effect::Close, within, now);
    }

    /// An instance is closed [LC-02].
    pub(super) fn closed(&mut self, number: InstanceId, outcome: Result<(), Error>, now: Instant) {
        if let Err(error) = outcome {
            warn!(instance = number.0, %error, "the close failed");
        }
        self.unname(number);
        let Some(instance) = self.instances.remove(&number) else {
            return;
        };
        info!(instance = number.0, group = %instance.key.group, name = %instance.key.name, "closed");
        if let Life::Closing(Closing {
            request: Some(request),
            ..
        }) = instance.life
        {
            self.answer(request, Ok(Reply::NoContent), now);
        }
    }

    /// A commit alongside a fetch ended; a failure is only noted. Who waited for it goes on.
    pub(super) fn auto_committed(&mut self, number: InstanceId, outcome: Result<(), Error>, now: Instant) {
        if let Err(error) = outcome {
            warn!(instance = number.0, %error, "an auto-commit failed");
        }
        let Some(instance) = self.instances.get_mut(&number) else {
            return;
        };
        instance.auto_commit.end();
        if let Life::Closing(closing) = &instance.life {
            if closing.waits {
                self.commit_last(number, now);
            }
        } else if let Some(holder) = instance.lock.holder() {
            self.go_on(holder, number, now);
        }
    }
}
