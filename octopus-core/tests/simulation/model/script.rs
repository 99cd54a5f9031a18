//! What each request does once it has its instance, step by step.

use std::time::Duration;

use octopus_core::{
    Bound, Command, Commit, Effect, Error, Outcome, Position, Reply, RequestId, TopicName, TopicPartition,
};

use super::{
    Life, Model, Stage, Why,
    instance::{Instance, Reads},
};

/// What a step leads to.
enum Then {
    /// There is nothing to do in it.
    On,
    /// Kafka is asked; the next step has its answer.
    Call(Effect, Duration),
    Answer(Result<Reply, Error>),
}

use Then::{Answer, On};

impl Model {
    /// Plays a request's script on, with what its last call brought.
    pub(super) fn works(&mut self, id: RequestId, life: Life, came: Option<Result<Outcome, Error>>) {
        if matches!(self.requests[&id].command, Command::Delete) {
            return;
        }
        let mut came = came;
        loop {
            let then = self.step(id, life, came.take());
            if let Some(request) = self.requests.get_mut(&id) {
                request.step += 1;
            }
            match then {
                On => {}
                Then::Call(effect, within) => {
                    self.call(life, Why::Script(id), effect, within);
                    return self.set(id, Stage::Works);
                }
                Answer(reply) => return self.answer(id, reply),
            }
        }
    }

    fn step(&mut self, id: RequestId, life: Life, came: Option<Result<Outcome, Error>>) -> Then {
        let request = &self.requests[&id];
        let (command, step) = (request.command.clone(), request.step);
        let (now, wait, short) = (self.now, self.limits.call_wait, self.limits.close_wait);
        match (command, step) {
            (Command::Subscribe(topics), _) => {
                let reply = self.life(life).subscribes(topics);
                if self.lives[&life].rejoin.is_some() && reply.is_ok() {
                    self.stop_rejoin(life);
                    self.arm_rejoin(life);
                }
                Answer(reply)
            }
            (Command::Subscription, _) => Answer(Ok(Reply::Topics(self.life(life).topics()))),
            (Command::Assignments, _) => Answer(Ok(Reply::Partitions(self.life(life).assigned()))), // [SU-04]

            // Commit what it holds [AK-02], leave the group, both within 5 s [D-46]; then it reads nothing [SU-01].
            (Command::Unsubscribe, 0) => {
                self.stop_rejoin(life);
                if let Some(request) = self.requests.get_mut(&id) {
                    request.until = now + short;
                }
                self.commits_first(life)
            }
            (Command::Unsubscribe, 1) if self.life(life).is_member => {
                let until = self.requests[&id].until;
                Then::Call(Effect::Leave, until.saturating_duration_since(now))
            }
            (Command::Unsubscribe, 1) => On,
            (Command::Unsubscribe, _) => {
                self.life(life).reads_nothing();
                self.stop_rejoin(life);
                Answer(Ok(Reply::NoContent))
            }

            // Commit what it holds [AK-02]; then it reads these [AS-01], and nothing if there are none [D-13].
            (Command::Assign(_), 0) if matches!(self.life(life).reads, Reads::Topics(_)) => {
                Answer(Err(Error::HasSubscription)) // [SU-03]
            }
            (Command::Assign(_), 0) => self.commits_first(life),
            (Command::Assign(partitions), _) => {
                let i = self.life(life);
                i.installs(&partitions, true);
                i.reads = if partitions.is_empty() {
                    Reads::Nothing
                } else {
                    Reads::Partitions
                };
                Answer(Ok(Reply::NoContent))
            }

            // All or nothing [D-17]: the record after each that the client processed [CO-01].
            (Command::Commit(Some(list)), 0) => {
                let partitions: Vec<_> = list.iter().map(|record| record.partition.clone()).collect();
                let commits = list.into_iter().map(|record| Commit {
                    partition: record.partition,
                    position: Position::at(record.offset.0 + 1),
                    metadata: record.metadata,
                });
                let commits = commits.collect();
                match self.life(life).needs(&partitions) {
                    Ok(()) => commit(commits, wait),
                    Err(error) => Answer(Err(error)), // [CO-05]
                }
            }
            (Command::Commit(Some(_)), _) => Answer(done(came)),

            // Every position, once each is known [CO-02] [D-39].
            (Command::Commit(None), 0) => match self.life(life).unknown() {
                unknown if unknown.is_empty() => On,
                unknown => Then::Call(Effect::Start(unknown), wait),
            },
            (Command::Commit(None), 1) => match came.map_or(Ok(Vec::new()), positions) {
                Ok(started) => {
                    let i = self.life(life);
                    for (at, position) in started {
                        if i.unknown().contains(&at) {
                            i.goes_to(&at, Some(position));
                        }
                    }
                    commit(i.known(), wait)
                }
                Err(error) => Answer(Err(error)),
            },
            (Command::Commit(None), _) => Answer(done(came)),

            // In the order asked, without what was never committed [CO-04].
            (Command::Committed(Some(list)), 0) if list.is_empty() => Answer(Ok(Reply::Offsets(Vec::new()))),
            (Command::Committed(Some(list)), 0) => Then::Call(Effect::Committed(list), wait),
            (Command::Committed(Some(list)), _) => Answer(match came {
                Some(Ok(Outcome::Committed(held))) => {
                    let of =
                        |at: &TopicPartition| held.iter().find(|commit| commit.partition == *at).cloned();
                    Ok(Reply::Offsets(list.iter().filter_map(of).collect()))
                }
                Some(Err(error)) => Err(error),
                Some(Ok(_)) | None => Err(Error::Internal),
            }),

            (Command::Seek(list), _) => {
                let partitions: Vec<_> = list.iter().map(|(at, _)| at.clone()).collect();
                let i = self.life(life);
                let reply = i.needs(&partitions).map(|()| {
                    list.iter()
                        .for_each(|(at, position)| i.seeks(at, Some(*position)));
                    Reply::NoContent
                });
                Answer(reply) // [SK-01]
            }

            // Known before the answer [D-39]; no list means every one that is assigned [SK-02].
            (Command::SeekToBeginning(list), 0) => self.asks_ends(id, life, list, Bound::Beginning),
            (Command::SeekToEnd(list), 0) => self.asks_ends(id, life, list, Bound::End),
            (Command::SeekToBeginning(_) | Command::SeekToEnd(_), _) => {
                let asked = self.requests[&id].asked.clone();
                Answer(came.map_or(Err(Error::Internal), positions).map(|found| {
                    for at in &asked {
                        let found = found.iter().find(|(other, _)| other == at);
                        self.life(life).seeks(at, found.map(|(_, position)| *position)); // not listed [NS-05]
                    }
                    Reply::NoContent
                }))
            }
            (Command::Create(_) | Command::Delete | Command::Fetch(_) | Command::Committed(None), _) => On,
        }
    }

    /// An instance that commits by itself does so before it reads something else [AK-02]; it may fail [AK-05].
    fn commits_first(&mut self, life: Life) -> Then {
        let (now, within) = (self.now, self.limits.close_wait);
        let i = self.life(life);
        let commits = i.own();
        if commits.is_empty() {
            return On;
        }
        i.own_commit = now;
        Then::Call(Effect::Commit(commits), within)
    }

    fn asks_ends(&mut self, id: RequestId, life: Life, list: Vec<TopicPartition>, end: Bound) -> Then {
        let i = self.life(life);
        let all = i.assigned();
        if list.is_empty() && all.is_empty() {
            return Answer(Err(Error::NothingAssigned));
        } else if let Err(error) = i.needs(&list) {
            return Answer(Err(error));
        }
        let asked = if list.is_empty() { all } else { list };
        if let Some(request) = self.requests.get_mut(&id) {
            request.asked.clone_from(&asked);
        }
        Then::Call(Effect::Bounds(asked, end), self.limits.call_wait)
    }
}

impl Instance {
    /// In place of an earlier subscription: what stays goes on; the group hears of it if it is another [SU-01] [D-12].
    fn subscribes(&mut self, topics: Vec<TopicName>) -> Result<Reply, Error> {
        let earlier = self.topics();
        match self.reads {
            Reads::Partitions => return Err(Error::HasAssignments), // [SU-03]
            Reads::Nothing => self.must_join = true,
            Reads::Topics(_) => {
                let same =
                    topics.len() == earlier.len() && topics.iter().all(|topic| earlier.contains(topic));
                self.must_join |= !same;
                self.told |= !same;
            }
        }
        let mut stays = self.assigned();
        stays.retain(|at| topics.contains(&at.topic));
        self.installs(&stays, true);
        self.reads = Reads::Topics(topics);
        Ok(Reply::NoContent)
    }
}

/// Nothing to commit is committed at once [D-13] [D-14].
fn commit(commits: Vec<Commit>, within: Duration) -> Then {
    if commits.is_empty() {
        Answer(Ok(Reply::Empty))
    } else {
        Then::Call(Effect::Commit(commits), within)
    }
}

fn done(came: Option<Result<Outcome, Error>>) -> Result<Reply, Error> {
    match came {
        Some(Ok(Outcome::Done)) => Ok(Reply::Empty),
        Some(Err(error)) => Err(error),
        Some(Ok(_)) | None => Err(Error::Internal),
    }
}

fn positions(came: Result<Outcome, Error>) -> Result<Vec<(TopicPartition, Position)>, Error> {
    match came {
        Ok(Outcome::Positions(positions)) => Ok(positions),
        Ok(_) => Err(Error::Internal),
        Err(error) => Err(error),
    }
}
