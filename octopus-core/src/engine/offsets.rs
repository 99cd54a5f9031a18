//! Commits, committed offsets and seeks.

use std::time::Instant;

use super::{Engine, call::Purpose};
use crate::{
    Bound, Commit, Effect, Error, InstanceId, Outcome, Position, Processed, Reply, RequestId, TopicPartition,
    instance::{Instance, commit::behind},
    request::{Stage, Step},
};

impl Engine {
    /// Commits what a client processed [CO-01] [CO-05] [D-17].
    pub(super) fn commit(
        &mut self,
        id: RequestId,
        number: InstanceId,
        processed: Vec<Processed>,
        now: Instant,
    ) {
        let partitions = processed.iter().map(|processed| &processed.partition);
        match self.all_assigned(number, partitions) {
            Ok(()) => self.send_commit(id, number, behind(processed), now),
            Err(error) => self.answer_last(id, Err(error), now),
        }
    }

    /// Commits every position [CO-02]. Those not known yet are asked for first [D-39].
    pub(super) fn commit_positions(&mut self, id: RequestId, number: InstanceId, now: Instant) {
        let Some(instance) = self.instances.get(&number) else {
            return;
        };
        let unknown = instance.positions.unknown();
        if unknown.is_empty() {
            let commits = instance.positions.known();
            self.send_commit(id, number, commits, now);
        } else {
            self.step(id, number, Step::Start, Effect::Start(unknown), now);
        }
    }

    /// Where reading starts is known.
    pub(super) fn started(
        &mut self,
        id: RequestId,
        number: InstanceId,
        outcome: Result<Outcome, Error>,
        now: Instant,
    ) {
        let commits = positions(outcome).map(|started| {
            self.instances.get_mut(&number).map(|instance| {
                instance.positions.fill(started);
                instance.positions.known()
            })
        });
        match commits {
            Ok(commits) => self.send_commit(id, number, commits.unwrap_or_default(), now),
            Err(error) => self.answer_last(id, Err(error), now),
        }
    }

    fn send_commit(&mut self, id: RequestId, number: InstanceId, commits: Vec<Commit>, now: Instant) {
        if commits.is_empty() {
            self.answer_last(id, Ok(Reply::Empty), now);
        } else {
            self.step(id, number, Step::Commit, Effect::Commit(commits), now);
        }
    }

    /// Asks what the group committed [CO-04] [D-16].
    pub(super) fn committed(
        &mut self,
        id: RequestId,
        number: InstanceId,
        partitions: Vec<TopicPartition>,
        now: Instant,
    ) {
        if partitions.is_empty() {
            self.answer_last(id, Ok(Reply::Offsets(Vec::new())), now);
        } else {
            let step = Step::Committed(partitions.clone());
            self.step(id, number, step, Effect::Committed(partitions), now);
        }
    }

    pub(super) fn committed_known(
        &mut self,
        id: RequestId,
        asked: &[TopicPartition],
        outcome: Result<Outcome, Error>,
        now: Instant,
    ) {
        let reply = match outcome {
            Ok(Outcome::Committed(commits)) => {
                let found =
                    |at: &TopicPartition| commits.iter().find(|commit| commit.partition == *at).cloned();
                Ok(Reply::Offsets(asked.iter().filter_map(found).collect()))
            }
            Err(error) => Err(error),
            Ok(
                Outcome::Done
                | Outcome::Topics(_)
                | Outcome::Joined(_)
                | Outcome::Joining
                | Outcome::Fetched(_)
                | Outcome::Positions(_),
            ) => Err(Error::Internal),
        };
        self.answer_last(id, reply, now);
    }

    /// Goes to positions, all or none [SK-01] [D-17].
    pub(super) fn seek(
        &mut self,
        id: RequestId,
        number: InstanceId,
        positions: Vec<(TopicPartition, Position)>,
        now: Instant,
    ) {
        let partitions = positions.iter().map(|(partition, _)| partition);
        let reply = self.all_assigned(number, partitions).map(|()| {
            if let Some(instance) = self.instances.get_mut(&number) {
                for (partition, position) in &positions {
                    instance.positions.seek(partition, Some(*position));
                }
            }
            Reply::NoContent
        });
        self.answer_last(id, reply, now);
    }

    /// Goes to an end of partitions, of every assigned one if none is named [SK-02]. It is known before the
    /// answer [D-39].
    pub(super) fn seek_to(
        &mut self,
        id: RequestId,
        number: InstanceId,
        partitions: Vec<TopicPartition>,
        bound: Bound,
        now: Instant,
    ) {
        let partitions = if partitions.is_empty() {
            let all = self
                .instances
                .get(&number)
                .map(|instance| instance.positions.assigned());
            all.filter(|all| !all.is_empty()).ok_or(Error::NothingAssigned)
        } else {
            self.all_assigned(number, &partitions).map(|()| partitions)
        };
        match partitions {
            Ok(partitions) => {
                let step = Step::Seek(partitions.clone());
                self.step(id, number, step, Effect::Bounds(partitions, bound), now);
            }
            Err(error) => self.answer_last(id, Err(error), now),
        }
    }

    /// Where partitions begin or end is known. One whose topic the cluster does not list starts where reading
    /// starts once it is there [NS-05].
    pub(super) fn sought(
        &mut self,
        id: RequestId,
        number: InstanceId,
        asked: &[TopicPartition],
        outcome: Result<Outcome, Error>,
        now: Instant,
    ) {
        let reply = positions(outcome).map(|found| {
            if let Some(instance) = self.instances.get_mut(&number) {
                for partition in asked {
                    let position = found
                        .iter()
                        .find(|(at, _)| at == partition)
                        .map(|(_, position)| *position);
                    instance.positions.seek(partition, position);
                }
            }
            Reply::NoContent
        });
        self.answer_last(id, reply, now);
    }

    fn step(&mut self, id: RequestId, number: InstanceId, step: Step, effect: Effect, now: Instant) {
        self.set_stage(id, Stage::Working(step));
        let within = self.config.limits.call_wait;
        self.call(number, Purpose::Step(id), effect, within, now);
    }

    fn all_assigned<'a>(
        &self,
        number: InstanceId,
        partitions: impl IntoIterator<Item = &'a TopicPartition>,
    ) -> Result<(), Error> {
        let assigned = |instance: &Instance, at: &TopicPartition| instance.positions.contains(at);
        let Some(instance) = self.instances.get(&number) else {
            return Err(Error::InstanceNotFound);
        };
        match partitions.into_iter().find(|at| !assigned(instance, at)) {
            Some(at) => Err(Error::NotAssigned(at.clone())),
            None => Ok(()),
        }
    }
}

fn positions(outcome: Result<Outcome, Error>) -> Result<Vec<(TopicPartition, Position)>, Error> {
    if let Outcome::Positions(positions) = outcome? {
        Ok(positions)
    } else {
        Err(Error::Internal)
    }
}
