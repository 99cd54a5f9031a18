//! What must hold.

use std::collections::BTreeMap;

use octopus_core::{Command, Commit, Effect, Error, InstanceId, Subject};

use super::{Asked, Running, Service};

impl Service {
    /// What must hold of a call as it starts.
    pub(super) fn check_call(&mut self, instance: InstanceId, effect: &Effect, within: std::time::Duration) {
        self.free_place(instance, effect);
        let in_turn = within <= self.limits.turn;
        let now = self.now;
        let asks_commit = self.asks(instance, |command| matches!(command, Command::Commit(None)));
        let fetches = self
            .asked
            .values()
            .any(|asked| asked.instance == Some(instance) && matches!(asked.command, Command::Fetch(_)));
        let interval = self.limits.auto_commit_interval;
        let Some(reader) = self.readers.get_mut(&instance) else {
            return;
        };
        match effect {
            Effect::Fetch(plan) => {
                assert!(in_turn, "a turn is short");
                reader.check_poll(&plan.positions);
            }
            Effect::Join(join) if !join.commit.is_empty() => {
                assert!(in_turn, "a join without a fetch commits nothing");
                reader.commits_by_itself(now);
                reader.check_positions(&join.commit);
            }
            Effect::Join(_) if in_turn => {
                let commits = reader.settings.auto_commit && !reader.is_lost && !reader.known().is_empty();
                assert!(
                    !commits || reader.is_unknown,
                    "positions are committed before a rebalance"
                );
            }
            Effect::Commit(commits) if is_clients(commits) => {}
            Effect::Commit(commits) => {
                reader.check_positions(commits);
                if !asks_commit {
                    if fetches {
                        let since = reader.since_own_commit(now);
                        assert!(since >= interval, "{since:?} since the last auto-commit");
                    }
                    reader.commits_by_itself(now);
                }
            }
            Effect::Open(_)
            | Effect::Close
            | Effect::Topics(_)
            | Effect::Join(_)
            | Effect::Leave
            | Effect::Committed(_)
            | Effect::Start(_)
            | Effect::Bounds(..) => {}
        }
    }

    /// What must hold after every input.
    pub(super) fn check(&self) {
        let due = self.engine.poll_timeout();
        assert!(
            due.is_none_or(|due| due >= self.now),
            "no deadline lies in the past"
        );
        self.check_turns();
        self.check_places();
        self.check_locks();
        self.check_waits();
        if self.shutdown_end.is_some_and(|end| self.now >= end) {
            assert!(self.engine.is_drained(), "a shutdown is over in its time");
            assert!(self.running.is_empty(), "and nothing runs behind it");
        }
    }

    /// A refusal has its reason [LK-01] [LK-02] [LI-01] [LI-05].
    pub(super) fn check_refusal(&self, asked: &Asked, error: &Error) {
        let waited = self.now - asked.at;
        let fetch = if let Command::Fetch(fetch) = &asked.command {
            Some(fetch)
        } else {
            None
        };
        if matches!(error, Error::UserFetches(_)) {
            let most = self.limits.max_fetches_per_user;
            let count = self.fetches().get(&asked.key.subject).copied();
            assert!(
                waited <= self.limits.settle_wait && count == Some(most),
                "a user's fetches are counted"
            );
        } else if *error == Error::NoTurn {
            let wait = fetch.and_then(|fetch| fetch.timeout).unwrap_or_default();
            assert!(waited >= wait, "a fetch waits for its turn");
        } else if *error == Error::InstanceBusy {
            if fetch.is_some() {
                // It may have waited for a reply before it, and for nothing else.
                let settled = waited >= self.limits.settle_wait;
                assert!(
                    waited.is_zero() || settled,
                    "a fetch does not wait for its instance"
                );
            } else {
                assert!(
                    waited >= self.limits.lock_wait,
                    "a request waits for its instance"
                );
            }
        }
    }

    /// [LI-01] [LI-02]
    fn check_turns(&self) {
        let polls = self
            .running
            .values()
            .filter(|running| self.is_turn(running))
            .count();
        let replies = self
            .sending
            .values()
            .filter(|sending| sending.records.is_some())
            .count();
        assert!(polls + replies <= self.limits.max_polls, "turns at once");
        let most = self.limits.max_fetches_per_user;
        assert!(
            self.fetches().values().all(|count| *count <= most),
            "fetches of a user"
        );
    }

    /// The fetches in progress.
    fn fetches(&self) -> BTreeMap<Subject, usize> {
        let mut fetches: BTreeMap<Subject, usize> = BTreeMap::new();
        let replies = self.sending.values().filter(|sending| sending.records.is_some());
        let replies: Vec<_> = replies.map(|sending| &sending.asked).collect();
        // A fetch behind a reply of its instance has not begun.
        let behind = |asked: &&Asked| replies.iter().any(|reply| reply.key == asked.key);
        let asked = self.asked.values().filter(|asked| !behind(asked));
        for asked in replies
            .iter()
            .copied()
            .chain(asked.filter(|asked| matches!(asked.command, Command::Fetch(_))))
        {
            *fetches.entry(asked.key.subject).or_default() += 1;
        }
        fetches
    }

    /// [CR-10]
    fn check_places(&self) {
        assert!(
            self.places.len() <= self.limits.max_instances,
            "instances of the service"
        );
        let mut users: BTreeMap<Subject, usize> = BTreeMap::new();
        for user in self.places.values() {
            *users.entry(*user).or_default() += 1;
        }
        let most = self.limits.max_instances_per_user;
        assert!(users.values().all(|count| *count <= most), "instances of a user");
    }

    /// [LK-01] one request at a time, and beside it one commit of a fetch and one join without a fetch.
    fn check_locks(&self) {
        let mut works: BTreeMap<InstanceId, usize> = BTreeMap::new();
        let mut commits: BTreeMap<InstanceId, usize> = BTreeMap::new();
        let mut rejoins: BTreeMap<InstanceId, usize> = BTreeMap::new();
        for running in self.running.values() {
            let counts = match &running.effect {
                Effect::Topics(_) => continue,
                Effect::Commit(_) => &mut commits,
                Effect::Join(_) if !self.is_turn(running) => &mut rejoins,
                Effect::Open(_)
                | Effect::Close
                | Effect::Join(_)
                | Effect::Leave
                | Effect::Fetch(_)
                | Effect::Committed(_)
                | Effect::Start(_)
                | Effect::Bounds(..) => &mut works,
            };
            *counts.entry(running.instance).or_default() += 1;
        }
        for sending in self.sending.values().filter(|sending| sending.records.is_some()) {
            if let Some(instance) = sending.asked.instance {
                *works.entry(instance).or_default() += 1;
            }
        }
        for counts in [works, commits, rejoins] {
            assert!(counts.values().all(|count| *count <= 1), "one request at a time");
        }
    }

    /// [FE-09] and no request waits for ever.
    fn check_waits(&self) {
        for (request, asked) in &self.asked {
            let waited = self.now - asked.at;
            let longest = if let Command::Fetch(fetch) = &asked.command {
                let reader = asked.instance.and_then(|instance| self.readers.get(&instance));
                let own = reader.map(|reader| reader.settings.request_timeout);
                fetch.timeout.or(own).unwrap_or_default() + self.limits.call_grace
            } else {
                std::time::Duration::from_secs(60) + self.slept
            };
            assert!(
                waited <= longest,
                "{request:?} waited {waited:?}: {:?}",
                asked.command
            );
        }
    }

    /// An instance that closes with no request in hand has given its place up.
    fn free_place(&mut self, instance: InstanceId, effect: &Effect) {
        let ends = matches!(effect, Effect::Close | Effect::Commit(_));
        let sending = self.sending.values().map(|sending| &sending.asked);
        let mut in_hand = self.asked.values().chain(sending);
        if ends && !in_hand.any(|asked| asked.instance == Some(instance)) {
            self.places.remove(&instance);
        }
    }

    /// Whether such a request of an instance has no answer, or had none when its caller left.
    fn asks(&self, instance: InstanceId, which: impl Fn(&Command) -> bool) -> bool {
        let mut all = self.asked.values().chain(self.left.values());
        all.any(|asked| asked.instance == Some(instance) && which(&asked.command))
    }

    pub(super) fn is_turn(&self, running: &Running) -> bool {
        matches!(running.effect, Effect::Fetch(_) | Effect::Join(_)) && running.within <= self.limits.turn
    }
}

/// Whether a commit is one with a body: a schedule's clients send their own metadata with each.
fn is_clients(commits: &[Commit]) -> bool {
    commits.iter().any(|commit| &*commit.metadata == "m")
}
