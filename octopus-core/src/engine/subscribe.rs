//! What an instance reads: subscribe, unsubscribe and assign.

use std::time::Instant;

use tracing::warn;

use super::{Engine, call::Purpose, call::done};
use crate::{
    Effect, Error, InstanceId, Outcome, Reply, RequestId, TopicName, TopicPartition,
    instance::subscription::Subscription,
    request::{Stage, Step},
    timer::after,
};

impl Engine {
    /// Subscribes in place of an earlier subscription; the next fetch joins the group [SU-01] [D-12].
    pub(super) fn subscribe(
        &mut self,
        id: RequestId,
        number: InstanceId,
        topics: Vec<TopicName>,
        now: Instant,
    ) {
        let Some(instance) = self.instances.get_mut(&number) else {
            return;
        };
        if let Err(error) = instance.subscription.subscribe(topics) {
            return self.answer_last(id, Err(error), now);
        }
        if let Some(group) = instance.subscription.membership() {
            instance.positions.retain(|at| group.reads(&at.topic));
        }
        if instance.rejoin.is_some() {
            self.stop_rejoin(number);
            self.arm_rejoin(number, now);
        }
        self.answer_last(id, Ok(Reply::NoContent), now);
    }

    /// The topics subscribed to [D-15].
    pub(super) fn subscription(&self, number: InstanceId) -> Reply {
        let topics = self
            .instances
            .get(&number)
            .map(|instance| instance.subscription.topics());
        Reply::Topics(topics.unwrap_or_default().to_vec())
    }

    /// The partitions assigned [D-15] [SU-04].
    pub(super) fn assignments(&self, number: InstanceId) -> Reply {
        let assigned = self
            .instances
            .get(&number)
            .map(|instance| instance.positions.assigned());
        Reply::Partitions(assigned.unwrap_or_default())
    }

    /// Drops the subscription and the assignment, behind a commit and the leave of the group, which share their
    /// time [AK-02] [D-46].
    pub(super) fn unsubscribe(&mut self, id: RequestId, number: InstanceId, now: Instant) {
        self.stop_rejoin(number);
        let until = after(now, self.config.limits.close_wait);
        if !self.commit_first(id, number, Step::Unsubscribe(until), now) {
            self.leave(id, number, until, now);
        }
    }

    fn leave(&mut self, id: RequestId, number: InstanceId, until: Instant, now: Instant) {
        let membership = self
            .instances
            .get(&number)
            .and_then(|instance| instance.subscription.membership());
        if membership.is_some_and(|group| group.was_sent()) {
            self.set_stage(id, Stage::Working(Step::Leave));
            let within = until.saturating_duration_since(now);
            self.call(number, Purpose::Step(id), Effect::Leave, within, now);
        } else {
            self.left(id, number, now);
        }
    }

    fn left(&mut self, id: RequestId, number: InstanceId, now: Instant) {
        if let Some(instance) = self.instances.get_mut(&number) {
            instance.subscription = Subscription::None;
            instance.positions.install(&[], false);
        }
        // A signal that came meanwhile is none of a later subscription's.
        self.stop_rejoin(number);
        self.answer_last(id, Ok(Reply::NoContent), now);
    }

    /// Assigns partitions in place of the earlier ones, behind their commit [AS-01] [AK-02].
    pub(super) fn assign(
        &mut self,
        id: RequestId,
        number: InstanceId,
        partitions: Vec<TopicPartition>,
        now: Instant,
    ) {
        let Some(instance) = self.instances.get(&number) else {
            return;
        };
        if let Err(error) = instance.subscription.check_assign() {
            return self.answer_last(id, Err(error), now);
        }
        if !self.commit_first(id, number, Step::Assign(partitions.clone()), now) {
            self.assigned(id, number, &partitions, now);
        }
    }

    fn assigned(&mut self, id: RequestId, number: InstanceId, partitions: &[TopicPartition], now: Instant) {
        if let Some(instance) = self.instances.get_mut(&number) {
            instance.positions.install(partitions, true);
            instance.subscription = if partitions.is_empty() {
                Subscription::None
            } else {
                Subscription::Assignment
            };
        }
        self.answer_last(id, Ok(Reply::NoContent), now);
    }

    /// The auto-commit before an instance reads something else. Returns whether there is one to wait for.
    fn commit_first(&mut self, id: RequestId, number: InstanceId, step: Step, now: Instant) -> bool {
        let Some(instance) = self.instances.get_mut(&number) else {
            return false;
        };
        let commits = instance.own_commit();
        if commits.is_empty() {
            return false;
        }
        instance.auto_commit.tried(now);
        self.set_stage(id, Stage::Working(step));
        let within = self.config.limits.close_wait;
        self.call(number, Purpose::Step(id), Effect::Commit(commits), within, now);
        true
    }

    /// A step of the request that holds the instance ended.
    pub(super) fn step_ended(
        &mut self,
        id: RequestId,
        number: InstanceId,
        outcome: Result<Outcome, Error>,
        now: Instant,
    ) {
        let Some(Stage::Working(step)) = self.take_stage(id) else {
            return;
        };
        match step {
            Step::Assign(partitions) => {
                note(number, done(outcome), "the commit before an assign failed");
                self.assigned(id, number, &partitions, now);
            }
            Step::Unsubscribe(until) => {
                note(number, done(outcome), "the commit before an unsubscribe failed");
                self.leave(id, number, until, now);
            }
            Step::Leave => {
                note(number, done(outcome), "the leave of the group failed");
                self.left(id, number, now);
            }
            Step::Start => self.started(id, number, outcome, now),
            Step::Commit => {
                let reply = done(outcome).map(|()| Reply::Empty);
                self.answer_last(id, reply, now);
            }
            Step::Committed(asked) => self.committed_known(id, &asked, outcome, now),
            Step::Seek(asked) => self.sought(id, number, &asked, outcome, now),
            Step::Delete => self.set_stage(id, Stage::Working(Step::Delete)),
        }
    }

    /// The request that waited for a fetch's commit goes on.
    pub(super) fn go_on(&mut self, id: RequestId, number: InstanceId, now: Instant) {
        match self.take_stage(id) {
            Some(Stage::Held(command)) => self.perform(id, number, command, now),
            Some(stage) => self.set_stage(id, stage),
            None => {}
        }
    }
}

/// A failure that nothing waits for [AK-05].
fn note(number: InstanceId, outcome: Result<(), Error>, what: &'static str) {
    if let Err(error) = outcome {
        warn!(instance = number.0, %error, "{what}");
    }
}
