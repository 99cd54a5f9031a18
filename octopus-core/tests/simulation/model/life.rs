//! An instance's life: its create, its rebalances, its end, and the service's.

use octopus_core::{
    Command, Effect, Error, InstanceId, InstanceKey, Join, Open, Outcome, Reply, RequestId, Settings,
};

use super::{
    Life, Model, Owed, Stage, Why,
    instance::{Instance, Reads, State},
};

impl Model {
    /// A create, and its refusals in their order [D-44] [D-29].
    pub(super) fn create(&mut self, id: RequestId, key: &InstanceKey, settings: Settings) {
        let named = || self.lives.values().filter(|i| i.is_named);
        let of_user = named().filter(|i| i.key.subject == key.subject).count();
        let refusal = if self.shutdown.is_some() {
            Some(Error::ShuttingDown)
        } else if !self.kafka {
            Some(Error::NoKafka)
        } else if named().any(|i| i.key == *key) {
            Some(Error::InstanceExists) // [CR-09]
        } else if of_user >= self.limits.max_instances_per_user {
            Some(Error::UserInstances(of_user)) // [CR-10]
        } else if named().count() >= self.limits.max_instances {
            Some(Error::TotalInstances(named().count()))
        } else {
            None
        };
        if let Some(error) = refusal {
            return self.answer(id, Err(error));
        }
        let life = Life(self.made);
        self.made += 1;
        let i = Instance::new(key.clone(), settings.clone(), self.now);
        let open = Open {
            namespace: i.namespace(),
            key: key.clone(),
            settings,
        };
        self.lives.insert(life, i);
        let call = self.call(life, Why::Open(id), Effect::Open(open), self.limits.open_wait);
        if let Some(request) = self.requests.get_mut(&id) {
            request.life = Some(life);
            request.stage = Stage::Opens(call);
        }
    }

    /// A create that fails leaves nothing behind [D-41].
    pub(super) fn opened(&mut self, id: RequestId, life: Life, came: Result<Outcome, Error>) {
        match came {
            Ok(Outcome::Done) => {
                self.life(life).state = State::Open;
                self.answer(id, Ok(Reply::Created));
            }
            came => {
                self.lives.remove(&life);
                self.answer(id, Err(came.err().unwrap_or(Error::Internal)));
            }
        }
    }

    /// An instance whose create was not answered is undone [D-29].
    pub(super) fn undo(&mut self, life: Option<Life>) {
        if let Some(life) = life {
            self.dooms(life, false);
            self.stop_fetch(life, Err(Error::InstanceNotFound));
        }
    }

    /// Every 30 s: who was idle for 5 minutes goes [LC-01].
    pub(super) fn sweep(&mut self) {
        self.next_sweep = self.now + self.limits.reap_interval;
        let idle = |life: &Life, i: &Instance| {
            let in_hand = self.requests.values().any(|request| request.life == Some(*life));
            matches!(i.state, State::Open) && !in_hand && self.now - i.idle_since >= self.limits.idle_timeout
        };
        let lives: Vec<_> = self
            .lives
            .iter()
            .filter(|(life, i)| idle(life, i))
            .map(|(life, _)| *life)
            .collect();
        lives.into_iter().for_each(|life| self.dooms(life, true));
    }

    /// Nobody finds it any more, its name and places are free, and who waits for it hears so; it closes when nobody
    /// holds it.
    fn dooms(&mut self, life: Life, commits: bool) {
        if let Some(i) = self.lives.get_mut(&life)
            && matches!(i.state, State::Opening | State::Open)
        {
            i.state = State::Doomed { commits };
            i.is_named = false;
            self.turns_away(life);
        }
    }

    /// Who waited behind a delete gets 40403 [D-31].
    fn turns_away(&mut self, life: Life) {
        for id in std::mem::take(&mut self.life(life).line) {
            self.answer(id, Err(Error::InstanceNotFound));
        }
    }

    /// Commits, in at most 5 s, behind a commit that is under way; then leaves its group and is gone [AK-03] [D-46]. At
    /// shutdown all share 8 s.
    pub(super) fn close(&mut self, life: Life, delete: Option<RequestId>, commits: bool) {
        self.turns_away(life);
        self.stop_rejoin(life);
        let own = self.now + self.limits.close_wait;
        let until = self
            .shutdown
            .filter(|_| !self.is_over)
            .map_or(own, |end| end.min(own));
        let i = self.life(life);
        i.state = State::Closing {
            delete,
            commits,
            until,
        };
        if i.alongside.is_none() {
            self.commits_last(life);
        }
    }

    fn commits_last(&mut self, life: Life) {
        let now = self.now;
        let i = self.life(life);
        let State::Closing { commits, until, .. } = i.state else {
            return;
        };
        let own = i.own();
        if commits && !own.is_empty() {
            let within = until.saturating_duration_since(now);
            self.call(life, Why::LastCommit, Effect::Commit(own), within);
        } else {
            self.closes(life);
        }
    }

    /// Whatever came of the commit [AK-05].
    pub(super) fn closes(&mut self, life: Life) {
        if let State::Closing { until, .. } = self.lives[&life].state {
            let within = until.saturating_duration_since(self.now);
            self.call(life, Why::Close, Effect::Close, within);
        }
    }

    /// It is gone, and its name is free when the delete is answered [LC-02].
    pub(super) fn closed(&mut self, life: Life) {
        let gone = self.lives.remove(&life);
        if let Some(State::Closing { delete: Some(id), .. }) = gone.map(|i| i.state) {
            self.answer(id, Ok(Reply::NoContent));
        }
    }

    /// Who waited for the commit of a fetch goes on.
    pub(super) fn committed_alongside(&mut self, life: Life) {
        let i = self.life(life);
        i.alongside = None;
        let holder = i.holder;
        if let State::Closing { .. } = i.state {
            self.commits_last(life);
        } else if let Some(id) = holder
            && matches!(self.requests[&id].stage, Stage::Holds)
        {
            self.begins(id, life);
        }
    }

    /// The group rebalances, or put the instance out.
    pub(super) fn signal(&mut self, number: InstanceId, lost: bool) {
        let Some(life) = self.lives_of.get(&number).copied() else {
            return;
        };
        if let Some(i) = self.lives.get_mut(&life)
            && matches!(i.reads, Reads::Topics(_))
        {
            i.must_join = true;
            i.told = true;
            i.is_lost |= lost;
            self.arm_rejoin(life);
        }
    }

    /// After 10 s without a fetch a member that must join again does so by itself [D-23].
    pub(super) fn arm_rejoin(&mut self, life: Life) {
        let (now, wait) = (self.now, self.limits.idle_rejoin);
        let may = self.may_rejoin(life);
        let i = self.life(life);
        if may && i.rejoin_at.is_none() && !wait.is_zero() {
            i.rejoin_at = Some(now + wait);
        }
    }

    fn may_rejoin(&self, life: Life) -> bool {
        let i = &self.lives[&life];
        let holder = i.holder.and_then(|id| self.requests.get(&id));
        let fetches = holder.is_some_and(|request| matches!(request.stage, Stage::Fetches(_)));
        i.must_join && i.is_member && matches!(i.state, State::Open) && !fetches && i.rejoin.is_none()
    }

    /// Without a commit: its client may still be at work on what it was given.
    pub(super) fn rejoin(&mut self, life: Life) {
        self.life(life).rejoin_at = None;
        if self.may_rejoin(life) {
            let i = self.life(life);
            i.told = false;
            let join = Join {
                topics: i.topics(),
                commit: Vec::new(),
            };
            let call = self.call(life, Why::Rejoin, Effect::Join(join), self.limits.call_wait);
            self.life(life).rejoin = Some(call);
        }
    }

    pub(super) fn rejoined(&mut self, life: Life, until: std::time::Instant, came: Result<Outcome, Error>) {
        let now = self.now;
        let i = self.life(life);
        i.rejoin = None;
        match came {
            Ok(Outcome::Joined(partitions)) => {
                i.joined(&partitions);
                self.arm_rejoin(life);
            }
            Ok(Outcome::Joining) if now < until => i.rejoin_at = Some(until),
            Ok(Outcome::Joining) => self.rejoin(life),
            Ok(_) | Err(_) => self.arm_rejoin(life),
        }
    }

    pub(super) fn stop_rejoin(&mut self, life: Life) {
        let i = self.life(life);
        i.rejoin_at = None;
        let rejoin = i.rejoin.take();
        rejoin.into_iter().for_each(|call| self.cancel(call));
    }

    /// No creates [CR-11], fetches end without records, every instance commits and closes within 8 s [AK-03].
    pub(super) fn shut_down(&mut self) {
        if self.shutdown.is_some() {
            return;
        }
        self.shutdown = Some(self.now + self.limits.shutdown_grace);
        let opens = self.requests.iter().filter_map(|(id, request)| {
            if let Stage::Opens(call) = request.stage {
                Some((*id, request.life, call))
            } else {
                None
            }
        });
        for (id, life, call) in opens.collect::<Vec<_>>() {
            self.cancel(call);
            self.answer(id, Err(Error::ShuttingDown));
            self.undo(life);
        }
        for life in self.lives.keys().copied().collect::<Vec<_>>() {
            self.dooms(life, true);
            self.stop_fetch(life, Ok(Reply::Empty));
        }
    }

    /// The fetch of an instance ends, unless its records are on their way.
    fn stop_fetch(&mut self, life: Life, reply: Result<Reply, Error>) {
        let holder = self.lives.get(&life).and_then(|i| i.holder);
        if let Some(id) = holder
            && let Some(Stage::Fetches(fetching)) = self.requests.get(&id).map(|request| &request.stage)
            && !fetching.is_sending()
        {
            self.leaves_fetch(id);
            self.answer(id, reply);
        }
    }

    /// Who is still busy after 8 s is neither committed nor closed [AK-05].
    pub(super) fn give_up(&mut self) {
        self.is_over = true;
        for call in std::mem::take(&mut self.calls).into_keys() {
            self.owed.push(Owed::Cancel(call));
        }
        for (id, request) in std::mem::take(&mut self.requests) {
            if let Stage::Fetches(_) = request.stage {
                self.owed.push(Owed::Abort(id));
            } else if !matches!(request.stage, Stage::Answered(_)) && !request.is_gone {
                let closes =
                    matches!(request.command, Command::Delete) && matches!(request.stage, Stage::Works);
                let reply = if closes {
                    Ok(Reply::NoContent)
                } else {
                    Err(Error::KafkaRetriable)
                };
                self.owed.push(Owed::Reply(id, reply));
            }
        }
        self.lives.clear();
        self.line.clear();
    }
}
