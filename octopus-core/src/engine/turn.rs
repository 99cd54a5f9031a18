//! The turns of fetches: join if need be, then poll.

use std::time::{Duration, Instant};

use super::{Engine, call::Purpose};
use crate::{
    Action, CallId, Effect, Error, FetchPlan, Fetched, InstanceId, Join, Outcome, RequestId,
    fetch::{Found, Phase, Sending},
    timer::Timer,
};

impl Engine {
    /// Begins a turn that was granted [LI-02]. It is a short one if others wait already.
    pub(super) fn take_turn(&mut self, id: RequestId, now: Instant) {
        let limits = &self.config.limits;
        let others_wait = self.scheduler.is_waited_for();
        let length = if others_wait {
            limits.short_turn.min(limits.turn)
        } else {
            limits.turn
        };
        let Some(number) = self.requests.get(&id).and_then(|request| request.instance) else {
            return self.scheduler.leave(id);
        };
        let Some(fetching) = self.fetching(id) else {
            return self.scheduler.leave(id);
        };
        // A wait of zero has its one turn at its deadline; behind that, a driver was late.
        if now > fetching.deadline || (fetching.had_turn() && now == fetching.deadline) {
            let reply = fetching.conclusion();
            return self.conclude(id, reply, now);
        }
        fetching.begin_turn(length, now);
        if !others_wait {
            self.scheduler.lengthen(id);
        }
        if self.wants_join(number) {
            self.join_in_turn(id, number, now);
        } else {
            self.poll_in_turn(id, number, now);
        }
    }

    /// Others came to wait while this turn runs: it is as short as it would have been had they waited before
    /// [LI-04].
    pub(super) fn shorten_turn(&mut self, id: RequestId, now: Instant) {
        let short_turn = self.config.limits.short_turn;
        if let Some(fetching) = self.fetching(id) {
            let end = fetching.turn_start + short_turn;
            if end >= fetching.turn_end {
                // It is no longer than a short one.
            } else if end <= now {
                self.hurry(id, now);
            } else {
                self.timers.set(Timer::Hurry(id), end);
            }
        }
    }

    /// Ends a turn early for those who wait. If they have left meanwhile it may go on.
    pub(super) fn hurry(&mut self, id: RequestId, now: Instant) {
        if !self.scheduler.is_waited_for() {
            return self.scheduler.lengthen(id);
        }
        if let Some(fetching) = self.fetching(id)
            && let Some(call) = fetching.call()
        {
            fetching.turn_end = fetching.turn_end.min(now);
            self.actions.push_back(Action::Hurry(call));
        }
    }

    /// Joins the group, behind the commit of what the instance holds so far [AK-02].
    fn join_in_turn(&mut self, id: RequestId, number: InstanceId, now: Instant) {
        self.stop_rejoin(number);
        let Some(within) = self.rest_of_turn(id, now) else {
            return;
        };
        let Some(instance) = self.instances.get_mut(&number) else {
            return;
        };
        let commit = instance.own_commit();
        let mut overtaken = None;
        if !commit.is_empty() {
            instance.auto_commit.tried(now);
            overtaken = instance.auto_commit.stop();
        }
        let Some(group) = instance.subscription.membership_mut() else {
            return;
        };
        group.send();
        let topics = group.topics().to_vec();
        overtaken.into_iter().for_each(|call| self.cancel(call));
        let effect = Effect::Join(Join { topics, commit });
        let call = self.call(number, Purpose::Join(id), effect, within, now);
        self.set_phase(id, Phase::Joining(call));
    }

    pub(super) fn turn_joined(
        &mut self,
        id: RequestId,
        number: InstanceId,
        outcome: Result<Outcome, Error>,
        now: Instant,
    ) {
        match outcome {
            Ok(Outcome::Joined(partitions)) => {
                self.install(number, partitions);
                if self.has_rest(id, now) {
                    self.poll_in_turn(id, number, now);
                } else {
                    self.end_turn(id, Found::Nothing, now);
                }
            }
            Ok(Outcome::Joining) => self.end_turn(id, Found::Nothing, now),
            Err(error) => self.fail_turn(id, error, now),
            Ok(
                Outcome::Done
                | Outcome::Topics(_)
                | Outcome::Fetched(_)
                | Outcome::Committed(_)
                | Outcome::Positions(_),
            ) => self.fail_turn(id, Error::Internal, now),
        }
    }

    /// Polls for what is assigned.
    fn poll_in_turn(&mut self, id: RequestId, number: InstanceId, now: Instant) {
        let Some(instance) = self.instances.get(&number) else {
            return;
        };
        if let Some(blocked) = instance.positions.blocked() {
            let error = Error::RecordNotUtf8(blocked.clone());
            return self.conclude(id, Err(error), now);
        }
        if instance.positions.len() == 0 {
            return self.skip_turn(id, now);
        }
        let positions = instance.positions.plan();
        let (min_bytes, format) = (instance.settings.min_bytes, instance.settings.format);
        self.commit_alongside(number, now);
        let Some(within) = self.rest_of_turn(id, now) else {
            return;
        };
        let max_bytes = self.fetching(id).and_then(|fetching| fetching.max_bytes);
        let effect = Effect::Fetch(FetchPlan {
            positions,
            min_bytes,
            max_bytes,
            format,
        });
        let call = self.call(number, Purpose::Poll(id), effect, within, now);
        self.set_phase(id, Phase::Polling(call));
    }

    /// A poll commits the positions before it if the last commit is long enough ago, also in the middle of a long
    /// fetch [AK-01].
    fn commit_alongside(&mut self, number: InstanceId, now: Instant) {
        let limits = &self.config.limits;
        let (interval, within) = (limits.auto_commit_interval, limits.close_wait);
        let Some(instance) = self.instances.get(&number) else {
            return;
        };
        let commits = instance.own_commit();
        if instance.auto_commit.is_due(interval, now) && !commits.is_empty() {
            let call = self.call(number, Purpose::AutoCommit, Effect::Commit(commits), within, now);
            if let Some(instance) = self.instances.get_mut(&number) {
                instance.auto_commit.run(call, now);
            }
        }
    }

    pub(super) fn turn_polled(
        &mut self,
        id: RequestId,
        number: InstanceId,
        call: CallId,
        outcome: Result<Outcome, Error>,
        now: Instant,
    ) {
        match outcome {
            Ok(Outcome::Fetched(fetched)) => self.take_found(id, number, call, fetched, now),
            Err(error) => self.fail_turn(id, error, now),
            Ok(
                Outcome::Done
                | Outcome::Topics(_)
                | Outcome::Joined(_)
                | Outcome::Joining
                | Outcome::Committed(_)
                | Outcome::Positions(_),
            ) => self.fail_turn(id, Error::Internal, now),
        }
    }

    /// What a poll found. One that only moved positions has not looked behind them yet: it polls on in its turn.
    fn take_found(
        &mut self,
        id: RequestId,
        number: InstanceId,
        call: CallId,
        fetched: Fetched,
        now: Instant,
    ) {
        let Some(instance) = self.instances.get_mut(&number) else {
            return;
        };
        let moved = !fetched.started.is_empty() || !fetched.skipped.is_empty();
        instance.positions.advance(fetched.started);
        instance.positions.advance(fetched.skipped);
        if let Some(blocked) = fetched.not_utf8 {
            instance.positions.block(blocked.clone());
            if !fetched.next.is_empty() {
                self.actions.push_back(Action::Cancel(call));
            }
            return self.conclude(id, Err(Error::RecordNotUtf8(blocked)), now);
        }
        if !fetched.next.is_empty() {
            let sending = Sending {
                next: fetched.next,
                cut: fetched.cut,
            };
            return self.send_records(id, call, sending, now);
        }
        let order = instance.positions.order();
        let mut errors = order.iter().map(|partition| {
            let failed = fetched.failed.iter().find(|(failed, _)| failed == partition);
            failed.map(|(_, error)| error.clone())
        });
        let first = errors.clone().flatten().next();
        match first {
            Some(error) if errors.all(|error| error.is_some()) => self.conclude(id, Err(error), now),
            Some(error) => self.end_turn(id, Found::Failed(error), now),
            None if moved && !self.wants_join(number) && self.has_rest(id, now) => {
                self.poll_in_turn(id, number, now);
            }
            None => self.end_turn(id, Found::Nothing, now),
        }
    }

    /// A turn's call failed. What may be gone in the next turn only counts as nothing found.
    fn fail_turn(&mut self, id: RequestId, error: Error, now: Instant) {
        if error == Error::KafkaUnreachable {
            self.end_turn(id, Found::Unreachable, now);
        } else if error == Error::KafkaRetriable {
            self.end_turn(id, Found::Nothing, now);
        } else {
            self.conclude(id, Err(error), now);
        }
    }

    /// A turn with nothing to poll is not held; the next one comes when a whole one would have ended.
    fn skip_turn(&mut self, id: RequestId, now: Instant) {
        let length = self.config.limits.turn.max(Duration::from_millis(1));
        if let Some(fetching) = self.fetching(id) {
            fetching.turn_end = fetching.deadline.min(now + length);
        }
        self.end_turn(id, Found::Nothing, now);
    }

    /// A turn ended without records. One that ended early does not come again before it would have ended: else a
    /// broker that answers at once would be asked without end.
    fn end_turn(&mut self, id: RequestId, found: Found, now: Instant) {
        self.timers.cancel(Timer::Hurry(id));
        let Some(fetching) = self.fetching(id) else {
            return;
        };
        fetching.note(found);
        if now >= fetching.deadline {
            let reply = fetching.conclusion();
            self.conclude(id, reply, now);
        } else if now >= fetching.turn_end {
            fetching.phase = Phase::Waiting;
            self.scheduler.requeue(id);
        } else {
            fetching.phase = Phase::Pausing;
            let end = fetching.turn_end;
            self.scheduler.leave(id);
            self.timers.set(Timer::Turn(id), end);
        }
    }

    /// The turn that ended early would have ended: back to the line.
    pub(super) fn end_pause(&mut self, id: RequestId) {
        if let Some(fetching) = self.fetching(id)
            && matches!(fetching.phase, Phase::Pausing)
        {
            fetching.phase = Phase::Waiting;
            self.scheduler.join(id);
        }
    }

    fn rest_of_turn(&mut self, id: RequestId, now: Instant) -> Option<Duration> {
        let fetching = self.fetching(id)?;
        Some(fetching.turn_end.saturating_duration_since(now))
    }

    fn has_rest(&mut self, id: RequestId, now: Instant) -> bool {
        self.rest_of_turn(id, now).is_some_and(|rest| !rest.is_zero())
    }

    fn wants_join(&self, number: InstanceId) -> bool {
        let instance = self.instances.get(&number);
        let group = instance.and_then(|instance| instance.subscription.membership());
        group.is_some_and(|group| group.wants_join())
    }

    fn set_phase(&mut self, id: RequestId, phase: Phase) {
        if let Some(fetching) = self.fetching(id) {
            fetching.phase = phase;
        }
    }
}
