//! A request's way: the refusals in their order, its instance's line, its answer and the answer's fate.

use octopus_core::{
    Command, Effect, Error, InstanceKey, Outcome, Reply, RequestId, TopicName, TopicPartition,
};

use super::{Life, Model, Owed, Request, Stage, Why, instance::State};

impl Model {
    /// A request, and the refusals that come before its instance is free, in their order [D-01].
    pub(super) fn asks(&mut self, id: RequestId, key: &InstanceKey, command: &Command) {
        let command = each_once(command);
        let creates = matches!(command, Command::Create(_));
        let mut lives = self.lives.iter();
        let found = lives.find(|(_, i)| i.key == *key && matches!(i.state, State::Open)); // [AU-03] [D-42]
        let life = found.map(|(life, _)| *life).filter(|_| !creates);
        let request = Request {
            subject: key.subject,
            life,
            command: command.clone(),
            stage: Stage::New,
            is_gone: false,
            step: 0,
            asked: Vec::new(),
            until: self.now,
        };
        self.requests.insert(id, request);
        if let Command::Create(settings) = command {
            return self.create(id, key, settings);
        }
        let Some(life) = life else {
            return self.answer(id, Err(Error::InstanceNotFound)); // 40403 [LC-01]
        };
        let format = self.lives[&life].settings.format;
        let other = partitions(&command).into_iter().find(|at| at.partition != 0);
        if let Command::Fetch(fetch) = &command
            && fetch.format != Some(format)
        {
            self.answer(id, Err(Error::FormatMismatch(format))); // 40601 [AC-03]
        } else if command == Command::Committed(None) {
            self.answer(id, Err(Error::PartitionsMissing)); // 40402 [CO-04]
        } else if let Some(at) = other {
            self.answer(id, Err(Error::PartitionNotFound(at))); // 40402 [AS-02]
        } else {
            let topics = topics(&command);
            if topics.is_empty() {
                self.lines_up(id, life);
            } else {
                let call = self.call(
                    life,
                    Why::Topics(id),
                    Effect::Topics(topics),
                    self.limits.call_wait,
                );
                self.set(id, Stage::AsksTopics(call));
            }
        }
    }

    /// Which topics the namespace holds is known: 40401 [NS-04] [D-16].
    pub(super) fn topics_known(&mut self, id: RequestId, life: Life, came: Result<Outcome, Error>) {
        let missing = match came {
            Ok(Outcome::Topics(held)) => {
                let mut topics = topics(&self.requests[&id].command).into_iter();
                topics
                    .find(|topic| !held.contains(topic))
                    .map(Error::TopicNotFound)
            }
            Ok(_) => Some(Error::Internal),
            Err(error) => Some(error),
        };
        let open = self
            .lives
            .get(&life)
            .is_some_and(|i| matches!(i.state, State::Open));
        match missing {
            Some(error) => self.answer(id, Err(error)),
            None if open => self.lines_up(id, life),
            None => self.answer(id, Err(Error::InstanceNotFound)),
        }
    }

    /// One request at a time, for at most 10 s [LK-01]. A fetch does not wait [LK-02], but for the fate of a reply that
    /// its client may hold already.
    pub(super) fn lines_up(&mut self, id: RequestId, life: Life) {
        let fetches = matches!(self.requests[&id].command, Command::Fetch(_));
        let i = &self.lives[&life];
        let sends = i.holder.is_some_and(|holder| self.is_sending(holder)) && i.line.is_empty();
        if i.holder.is_none() && i.line.is_empty() {
            self.takes(id, life);
        } else if fetches && !sends {
            self.answer(id, Err(Error::InstanceBusy));
        } else {
            let wait = if fetches {
                self.limits.settle_wait
            } else {
                self.limits.lock_wait
            };
            self.life(life).line.push(id);
            self.set(id, Stage::Waits(self.now + wait));
        }
    }

    /// A request has its instance. What commits waits for the commit of a fetch before it: it must not be overtaken.
    pub(super) fn takes(&mut self, id: RequestId, life: Life) {
        self.life(life).holder = Some(id);
        let command = &self.requests[&id].command;
        let commits = matches!(
            command,
            Command::Unsubscribe | Command::Assign(_) | Command::Commit(_)
        );
        if commits && self.lives[&life].alongside.is_some() {
            self.set(id, Stage::Holds);
        } else {
            self.begins(id, life);
        }
    }

    pub(super) fn begins(&mut self, id: RequestId, life: Life) {
        let command = &self.requests[&id].command;
        if let Command::Fetch(fetch) = *command {
            self.fetches(id, life, fetch);
        } else if let Command::Delete = command {
            self.set(id, Stage::Works);
            self.close(life, Some(id), true);
        } else {
            self.works(id, life, None);
        }
    }

    /// The answer of a request, which lets go of its instance.
    pub(super) fn answer(&mut self, id: RequestId, reply: Result<Reply, Error>) {
        let life = self.requests[&id].life;
        if let Some(i) = life.and_then(|life| self.lives.get_mut(&life)) {
            i.line.retain(|other| *other != id);
            i.holder = i.holder.filter(|holder| *holder != id);
        }
        self.set(id, Stage::Answered(self.now));
        if self.requests[&id].is_gone {
            self.ends(id);
        } else {
            self.owed.push(Owed::Reply(id, reply));
        }
    }

    /// A reply was handed to the network whole [RP-05], or its caller left [RP-04].
    pub(super) fn fate(&mut self, id: RequestId, received: bool) {
        let Some(request) = self.requests.get_mut(&id) else {
            return;
        };
        request.is_gone = true;
        let life = request.life;
        let creates = matches!(request.command, Command::Create(_));
        match &request.stage {
            Stage::Answered(_) => {
                self.ends(id);
                self.undo(life.filter(|_| creates && !received)); // [D-29]
            }
            Stage::Fetches(fetching) if fetching.is_sending() => self.sent(id, received),
            Stage::Fetches(_) => {
                self.leaves_fetch(id);
                self.ends(id);
            }
            Stage::Opens(call) => {
                let call = *call;
                self.cancel(call);
                self.ends(id);
                self.undo(life);
            }
            Stage::AsksTopics(call) => {
                let call = *call;
                self.cancel(call);
                self.ends(id);
            }
            Stage::Waits(_) | Stage::Holds => self.answer(id, Err(Error::Internal)), // which nobody hears
            Stage::New | Stage::Works => {}
        }
    }

    /// A reply that takes over 30 s: its connection is closed, and records count as read [RP-03].
    pub(super) fn send_timeout(&mut self, id: RequestId) {
        self.owed.push(Owed::Abort(id));
        if self.is_sending(id) {
            self.sent(id, true);
        } else {
            let request = &self.requests[&id];
            let made = request
                .life
                .filter(|_| matches!(request.command, Command::Create(_)));
            self.ends(id);
            self.undo(made); // [D-29]
        }
    }

    /// A request is over. From the last one's end its instance is idle [D-30].
    pub(super) fn ends(&mut self, id: RequestId) {
        let life = self.requests.remove(&id).and_then(|request| request.life);
        let now = self.now;
        if let Some(i) = life.and_then(|life| self.lives.get_mut(&life)) {
            i.idle_since = now;
        }
    }
}

/// What a list names counts once: an offset the last time [D-08].
fn each_once(command: &Command) -> Command {
    fn once<T: Clone, K: PartialEq>(items: &[T], key: impl Fn(&T) -> &K) -> Vec<T> {
        let mut kept: Vec<T> = Vec::new();
        for item in items {
            match kept.iter_mut().find(|other| key(other) == key(item)) {
                Some(other) => *other = item.clone(),
                None => kept.push(item.clone()),
            }
        }
        kept
    }
    match command {
        Command::Subscribe(topics) => Command::Subscribe(once(topics, |topic| topic)),
        Command::Assign(list) => Command::Assign(once(list, |at| at)),
        Command::Commit(Some(list)) => Command::Commit(Some(once(list, |record| &record.partition))),
        Command::Committed(Some(list)) => Command::Committed(Some(once(list, |at| at))),
        Command::Seek(list) => Command::Seek(once(list, |(at, _)| at)),
        Command::SeekToBeginning(list) => Command::SeekToBeginning(once(list, |at| at)),
        Command::SeekToEnd(list) => Command::SeekToEnd(once(list, |at| at)),
        Command::Create(_)
        | Command::Delete
        | Command::Subscription
        | Command::Unsubscribe
        | Command::Assignments
        | Command::Commit(None)
        | Command::Committed(None)
        | Command::Fetch(_) => command.clone(),
    }
}

/// The partitions that a request names.
fn partitions(command: &Command) -> Vec<TopicPartition> {
    match command {
        Command::Assign(list)
        | Command::Committed(Some(list))
        | Command::SeekToBeginning(list)
        | Command::SeekToEnd(list) => list.clone(),
        Command::Commit(Some(list)) => list.iter().map(|record| record.partition.clone()).collect(),
        Command::Seek(list) => list.iter().map(|(at, _)| at.clone()).collect(),
        Command::Create(_)
        | Command::Delete
        | Command::Subscribe(_)
        | Command::Subscription
        | Command::Unsubscribe
        | Command::Assignments
        | Command::Commit(None)
        | Command::Committed(None)
        | Command::Fetch(_) => Vec::new(),
    }
}

/// The topics that the namespace must hold: at subscribe, assign and GET offsets only [D-01].
fn topics(command: &Command) -> Vec<TopicName> {
    match command {
        Command::Subscribe(topics) => topics.clone(),
        Command::Assign(list) | Command::Committed(Some(list)) => {
            list.iter().map(|at| at.topic.clone()).collect()
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
