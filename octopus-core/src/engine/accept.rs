//! A request's way to its instance: the checks in their order [D-01], and the line.

use std::{collections::BTreeSet, time::Instant};

use super::{Engine, call::Purpose};
use crate::{
    Bound, Command, Effect, Error, Fetch, InstanceId, InstanceKey, Namespace, Outcome, RequestId, Subject,
    TopicName, TopicPartition,
    request::{Answered, Request, Stage, Step},
    timer::{Timer, after},
};

impl Engine {
    pub(super) fn accept(
        &mut self,
        id: RequestId,
        namespace: Namespace,
        key: InstanceKey,
        command: Command,
        now: Instant,
    ) {
        if self.requests.contains_key(&id) {
            return;
        }
        let subject = key.subject;
        if let Command::Create(settings) = command {
            return self.create(id, namespace, key, settings, now);
        }
        let found = self.names.get(&key).copied();
        let Some(instance) = found.filter(|id| self.instances.get(id).is_some_and(|found| found.is_open()))
        else {
            return self.refuse(id, subject, Error::InstanceNotFound, now);
        };
        self.admit(id, subject, Some(instance), Stage::Answered(Answered::Other));
        let command = each_once(command);
        if let Err(error) = self.check(instance, &command) {
            return self.answer(id, Err(error), now);
        }
        let topics = topics_of(&command);
        if topics.is_empty() {
            self.line_up(id, instance, command, now);
        } else {
            let within = self.config.limits.call_wait;
            let effect = Effect::Topics(topics);
            let call = self.call(instance, Purpose::Topics(id), effect, within, now);
            self.set_stage(id, Stage::Topics(call, command));
        }
    }

    /// Which topics exist is known [NS-04].
    pub(super) fn topics_known(&mut self, id: RequestId, outcome: Result<Outcome, Error>, now: Instant) {
        let Some(Stage::Topics(_, command)) = self.take_stage(id) else {
            return;
        };
        let Some(instance) = self.requests.get(&id).and_then(|request| request.instance) else {
            return;
        };
        let missing = match outcome {
            Ok(Outcome::Topics(held)) => first_missing(&command, &held).map(Error::TopicNotFound),
            Err(error) => Some(error),
            Ok(
                Outcome::Done
                | Outcome::Joined(_)
                | Outcome::Joining
                | Outcome::Fetched(_)
                | Outcome::Committed(_)
                | Outcome::Positions(_),
            ) => Some(Error::Internal),
        };
        if let Some(error) = missing {
            self.answer(id, Err(error), now);
        } else if self.instances.get(&instance).is_some_and(|found| found.is_open()) {
            self.line_up(id, instance, command, now);
        } else {
            self.answer(id, Err(Error::InstanceNotFound), now);
        }
    }

    /// Takes the instance, or stands in its line; a fetch does neither wait nor pass [LK-01] [LK-02], but for the
    /// moment that a reply before it may need to be known as delivered.
    fn line_up(&mut self, id: RequestId, instance: InstanceId, command: Command, now: Instant) {
        let Some(found) = self.instances.get_mut(&instance) else {
            return;
        };
        let limits = &self.config.limits;
        let holder = found.lock.holder().filter(|_| !found.lock.is_waited_for());
        let settling = holder
            .and_then(|holder| self.requests.get(&holder))
            .is_some_and(Request::is_sending);
        let wait = match command {
            Command::Fetch(_) if settling => limits.settle_wait,
            Command::Fetch(_) if found.lock.is_busy() => {
                return self.answer(id, Err(Error::InstanceBusy), now);
            }
            Command::Create(_)
            | Command::Delete
            | Command::Subscribe(_)
            | Command::Subscription
            | Command::Unsubscribe
            | Command::Assign(_)
            | Command::Assignments
            | Command::Commit(_)
            | Command::Committed(_)
            | Command::Seek(_)
            | Command::SeekToBeginning(_)
            | Command::SeekToEnd(_)
            | Command::Fetch(_) => limits.lock_wait,
        };
        if found.lock.try_take(id) {
            self.perform(id, instance, command, now);
        } else {
            found.lock.wait(id);
            self.set_stage(id, Stage::Waiting(command));
            self.timers.set(Timer::Lock(id), after(now, wait));
        }
    }

    /// Begins a fetch that holds its instance, if its user may have one more [LI-01].
    fn begin_or_refuse(&mut self, id: RequestId, instance: InstanceId, fetch: Fetch, now: Instant) {
        let most = self.config.limits.max_fetches_per_user;
        let subject = self.instances.get(&instance).map(|found| found.key.subject);
        if subject.is_some_and(|subject| self.fetches.of(&subject) >= most) {
            self.answer_last(id, Err(Error::UserFetches(most)), now);
        } else {
            self.begin_fetch(id, instance, fetch, now);
        }
    }

    /// The instance came free.
    pub(super) fn next_in_line(&mut self, instance: InstanceId, now: Instant) {
        let Some(found) = self.instances.get_mut(&instance) else {
            return;
        };
        if !found.is_open() {
            return self.close_if_free(instance, now);
        }
        let Some(id) = found.lock.take_next() else {
            return;
        };
        self.timers.cancel(Timer::Lock(id));
        if let Some(Stage::Waiting(command)) = self.take_stage(id) {
            self.perform(id, instance, command, now);
        }
    }

    /// The request waited too long for another [LK-01].
    pub(super) fn lock_timeout(&mut self, id: RequestId, now: Instant) {
        self.leave_line(id);
        self.answer(id, Err(Error::InstanceBusy), now);
    }

    pub(super) fn leave_line(&mut self, id: RequestId) {
        self.timers.cancel(Timer::Lock(id));
        let instance = self.requests.get(&id).and_then(|request| request.instance);
        if let Some(found) = instance.and_then(|instance| self.instances.get_mut(&instance)) {
            found.lock.leave(id);
        }
    }

    /// Everyone in the line is told that the instance is gone [D-31].
    pub(super) fn turn_away(&mut self, instance: InstanceId, now: Instant) {
        while let Some(id) = self
            .instances
            .get_mut(&instance)
            .and_then(|found| found.lock.turn_away())
        {
            self.timers.cancel(Timer::Lock(id));
            self.answer(id, Err(Error::InstanceNotFound), now);
        }
    }

    /// Does what is asked; the request holds its instance.
    pub(super) fn perform(&mut self, id: RequestId, instance: InstanceId, command: Command, now: Instant) {
        let Some(found) = self.instances.get_mut(&instance) else {
            return;
        };
        if found.auto_commit.is_running() && commits(&command) {
            return self.set_stage(id, Stage::Held(command));
        }
        match command {
            Command::Create(_) => self.answer_last(id, Err(Error::Internal), now),
            Command::Fetch(fetch) => self.begin_or_refuse(id, instance, fetch, now),
            Command::Delete => {
                self.set_stage(id, Stage::Working(Step::Delete));
                self.delete(id, instance, now);
            }
            Command::Subscribe(topics) => self.subscribe(id, instance, topics, now),
            Command::Subscription => {
                let reply = self.subscription(instance);
                self.answer_last(id, Ok(reply), now);
            }
            Command::Unsubscribe => self.unsubscribe(id, instance, now),
            Command::Assign(partitions) => self.assign(id, instance, partitions, now),
            Command::Assignments => {
                let reply = self.assignments(instance);
                self.answer_last(id, Ok(reply), now);
            }
            Command::Commit(Some(processed)) => self.commit(id, instance, processed, now),
            Command::Commit(None) => self.commit_positions(id, instance, now),
            Command::Committed(partitions) => {
                self.committed(id, instance, partitions.unwrap_or_default(), now);
            }
            Command::Seek(positions) => self.seek(id, instance, positions, now),
            Command::SeekToBeginning(partitions) => {
                self.seek_to(id, instance, partitions, Bound::Beginning, now);
            }
            Command::SeekToEnd(partitions) => {
                self.seek_to(id, instance, partitions, Bound::End, now);
            }
        }
    }

    pub(super) fn admit(
        &mut self,
        id: RequestId,
        subject: Subject,
        instance: Option<InstanceId>,
        stage: Stage,
    ) {
        if let Some((number, found)) =
            instance.and_then(|number| Some((number, self.instances.get_mut(&number)?)))
        {
            self.idle.remove(&(found.idle_since, number));
            found.in_hand += 1;
        }
        let request = Request {
            subject,
            instance,
            stage,
            is_gone: false,
        };
        self.requests.insert(id, request);
    }

    pub(super) fn refuse(&mut self, id: RequestId, subject: Subject, error: Error, now: Instant) {
        self.admit(id, subject, None, Stage::Answered(Answered::Other));
        self.answer(id, Err(error), now);
    }

    /// What is refused before the topics are asked about [D-01].
    fn check(&self, instance: InstanceId, command: &Command) -> Result<(), Error> {
        let found = self.instances.get(&instance).ok_or(Error::InstanceNotFound)?;
        match command {
            Command::Fetch(fetch) if fetch.format != Some(found.settings.format) => {
                Err(Error::FormatMismatch(found.settings.format))
            }
            Command::Subscribe(topics) if topics.is_empty() => Err(Error::TopicsEmpty),
            Command::Committed(None) => Err(Error::PartitionsMissing),
            Command::Assign(partitions)
            | Command::Committed(Some(partitions))
            | Command::SeekToBeginning(partitions)
            | Command::SeekToEnd(partitions) => all_exist(partitions),
            Command::Commit(Some(processed)) => {
                all_exist(processed.iter().map(|processed| &processed.partition))
            }
            Command::Seek(positions) => all_exist(positions.iter().map(|(partition, _)| partition)),
            Command::Create(_)
            | Command::Delete
            | Command::Subscribe(_)
            | Command::Subscription
            | Command::Unsubscribe
            | Command::Assignments
            | Command::Commit(None)
            | Command::Fetch(_) => Ok(()),
        }
    }
}

/// Whether each is the partition that a topic has [AS-02].
fn all_exist<'a>(partitions: impl IntoIterator<Item = &'a TopicPartition>) -> Result<(), Error> {
    match partitions.into_iter().find(|at| at.partition != 0) {
        Some(at) => Err(Error::PartitionNotFound(at.clone())),
        None => Ok(()),
    }
}

/// Whether a command sends a commit, which must not pass an earlier one.
const fn commits(command: &Command) -> bool {
    match command {
        Command::Unsubscribe | Command::Assign(_) | Command::Commit(_) => true,
        Command::Create(_)
        | Command::Delete
        | Command::Subscribe(_)
        | Command::Subscription
        | Command::Assignments
        | Command::Committed(_)
        | Command::Seek(_)
        | Command::SeekToBeginning(_)
        | Command::SeekToEnd(_)
        | Command::Fetch(_) => false,
    }
}

/// The topics that must exist for a command [NS-04] [D-16].
fn topics_of(command: &Command) -> Vec<TopicName> {
    match command {
        Command::Subscribe(topics) => topics.clone(),
        Command::Assign(partitions) | Command::Committed(Some(partitions)) => {
            partitions.iter().map(|at| at.topic.clone()).collect()
        }
        Command::Create(_)
        | Command::Delete
        | Command::Subscription
        | Command::Unsubscribe
        | Command::Assignments
        | Command::Commit(_)
        | Command::Committed(None)
        | Command::Seek(_)
        | Command::SeekToBeginning(_)
        | Command::SeekToEnd(_)
        | Command::Fetch(_) => Vec::new(),
    }
}

fn first_missing(command: &Command, held: &BTreeSet<TopicName>) -> Option<TopicName> {
    topics_of(command).into_iter().find(|topic| !held.contains(topic))
}

/// Each topic and partition once: the first place, and of positions and offsets the last [D-08].
fn each_once(command: Command) -> Command {
    match command {
        Command::Subscribe(topics) => Command::Subscribe(firsts(topics)),
        Command::Assign(partitions) => Command::Assign(firsts(partitions)),
        Command::Committed(Some(partitions)) => Command::Committed(Some(firsts(partitions))),
        Command::SeekToBeginning(partitions) => Command::SeekToBeginning(firsts(partitions)),
        Command::SeekToEnd(partitions) => Command::SeekToEnd(firsts(partitions)),
        Command::Commit(Some(processed)) => {
            Command::Commit(Some(lasts(processed, |processed| &processed.partition)))
        }
        Command::Seek(positions) => Command::Seek(lasts(positions, |(partition, _)| partition)),
        same @ (Command::Create(_)
        | Command::Delete
        | Command::Subscription
        | Command::Unsubscribe
        | Command::Assignments
        | Command::Commit(None)
        | Command::Committed(None)
        | Command::Fetch(_)) => same,
    }
}

fn firsts<T: Clone + Ord>(mut items: Vec<T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    items.retain(|item| seen.insert(item.clone()));
    items
}

fn lasts<T>(mut items: Vec<T>, key: impl Fn(&T) -> &TopicPartition) -> Vec<T> {
    let mut seen = BTreeSet::new();
    items.reverse();
    items.retain(|item| seen.insert(key(item).clone()));
    items.reverse();
    items
}
