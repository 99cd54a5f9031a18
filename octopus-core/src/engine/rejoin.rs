//! Rebalances that come from outside, and the join without a fetch [D-23].

use std::time::Instant;

use tracing::warn;

use super::{Engine, call::Purpose};
use crate::{
    Effect, Error, InstanceId, Join, Outcome, TopicPartition,
    timer::{Timer, after},
};

impl Engine {
    /// The instance's group rebalances: its next turn joins, or without a fetch the instance does in a while.
    pub(super) fn rebalance(&mut self, number: InstanceId, now: Instant) {
        if let Some(instance) = self.instances.get_mut(&number)
            && let Some(group) = instance.subscription.membership_mut()
        {
            group.signal();
            self.arm_rejoin(number, now);
        }
    }

    /// The group put the instance out: nothing of the old assignment is committed any more.
    pub(super) fn lost(&mut self, number: InstanceId, now: Instant) {
        if let Some(instance) = self.instances.get_mut(&number)
            && let Some(group) = instance.subscription.membership_mut()
        {
            group.lose();
            self.arm_rejoin(number, now);
        }
    }

    /// Sees to it that an idle instance joins again, if its group waits for it.
    pub(super) fn arm_rejoin(&mut self, number: InstanceId, now: Instant) {
        let wait = self.config.limits.idle_rejoin;
        let timer = Timer::Rejoin(number);
        if let Some(instance) = self.instances.get(&number)
            && let Some(group) = instance.subscription.membership()
            && group.wants_join()
            && group.was_sent()
            && instance.is_open()
            && instance.fetch.is_none()
            && instance.rejoin.is_none()
            && !wait.is_zero()
            && !self.timers.is_set(timer)
        {
            self.timers.set(timer, after(now, wait));
        }
    }

    /// No fetch came. The instance joins without a commit: its client may still be at work on what it was given.
    pub(super) fn rejoin(&mut self, number: InstanceId, now: Instant) {
        let within = self.config.limits.call_wait;
        if let Some(instance) = self.instances.get_mut(&number)
            && instance.is_open()
            && instance.fetch.is_none()
            && instance.rejoin.is_none()
            && let Some(group) = instance.subscription.membership_mut()
            && group.wants_join()
            && group.was_sent()
        {
            group.send();
            let topics = group.topics().to_vec();
            let commit = Vec::new();
            let effect = Effect::Join(Join { topics, commit });
            let call = self.call(number, Purpose::Rejoin, effect, within, now);
            if let Some(instance) = self.instances.get_mut(&number) {
                instance.rejoin = Some(call);
            }
        }
    }

    pub(super) fn rejoined(
        &mut self,
        number: InstanceId,
        until: Instant,
        outcome: Result<Outcome, Error>,
        now: Instant,
    ) {
        let Some(instance) = self.instances.get_mut(&number) else {
            return;
        };
        instance.rejoin = None;
        match outcome {
            Ok(Outcome::Joined(partitions)) => {
                self.install(number, partitions);
                self.arm_rejoin(number, now);
            }
            Ok(Outcome::Joining) if now < until => self.timers.set(Timer::Rejoin(number), until),
            Ok(Outcome::Joining) => self.rejoin(number, now),
            Err(error) => {
                warn!(instance = number.0, %error, "a join without a fetch failed");
                self.arm_rejoin(number, now);
            }
            Ok(
                Outcome::Done
                | Outcome::Topics(_)
                | Outcome::Fetched(_)
                | Outcome::Committed(_)
                | Outcome::Positions(_),
            ) => self.arm_rejoin(number, now),
        }
    }

    /// Stops a join without a fetch; in the driver it goes on, and the next join picks it up.
    pub(super) fn stop_rejoin(&mut self, number: InstanceId) {
        self.timers.cancel(Timer::Rejoin(number));
        let call = self
            .instances
            .get_mut(&number)
            .and_then(|instance| instance.rejoin.take());
        call.into_iter().for_each(|call| self.cancel(call));
    }

    /// Takes what the group assigned.
    pub(super) fn install(&mut self, number: InstanceId, partitions: Vec<TopicPartition>) {
        if let Some(instance) = self.instances.get_mut(&number)
            && let Some(group) = instance.subscription.membership_mut()
        {
            let (partitions, keep) = group.join(partitions);
            instance.positions.install(&partitions, keep);
        }
    }
}
