//! What must hold after every step, whatever the model says: counted from outside, from what runs and what is sent.

use std::{collections::BTreeMap, time::Duration};

use octopus_core::{Command, Effect, InstanceId, Subject};

use super::{Asked, Service};

impl Service {
    /// What must hold of a call as it starts.
    pub(super) fn check_call(&self, instance: InstanceId, effect: &Effect, within: Duration) {
        if let Effect::Fetch(_) = effect {
            assert!(within <= self.limits.turn, "a turn is at most half a second");
        }
        let mut others = self
            .running
            .values()
            .filter(|running| running.instance == instance);
        assert!(
            !commits(effect) || !others.any(|running| commits(&running.effect)),
            "no commit passes another"
        );
    }

    /// What must hold after every input.
    pub(super) fn check(&self) {
        let due = self.engine.poll_timeout();
        let is_past = due.is_some_and(|due| due < self.now);
        assert!(!is_past || self.is_late, "no deadline lies in the past");
        self.check_turns();
        self.check_places();
        self.check_locks();
        self.check_waits();
        if !self.is_late && self.shutdown_end.is_some_and(|end| self.now >= end) {
            assert!(self.engine.is_drained(), "a shutdown is over in its time");
            assert!(self.running.is_empty(), "and nothing runs behind it");
        }
    }

    /// [LI-01] [LI-02]
    fn check_turns(&self) {
        let polls = self.running.values().filter(|running| running.in_turn).count();
        let replies = self
            .sending
            .values()
            .filter(|sending| sending.has_records)
            .count();
        assert!(polls + replies <= self.limits.max_polls, "turns at once");
        let mut users: BTreeMap<Subject, usize> = BTreeMap::new();
        self.fetches()
            .for_each(|asked| *users.entry(asked.key.subject).or_default() += 1);
        let most = self.limits.max_fetches_per_user;
        assert!(users.values().all(|count| *count <= most), "fetches of a user");
    }

    /// The fetches in progress: one behind a reply of its instance has not begun.
    fn fetches(&self) -> impl Iterator<Item = &Asked> {
        let replies = || {
            self.sending
                .values()
                .filter(|sending| sending.has_records)
                .map(|sending| &sending.asked)
        };
        let fetches = self
            .asked
            .values()
            .filter(|asked| matches!(asked.command, Command::Fetch(_)));
        let begun = fetches.filter(move |asked| !replies().any(|reply| reply.key == asked.key));
        replies().chain(begun)
    }

    /// [CR-10]
    fn check_places(&self) {
        let mut users: BTreeMap<Subject, usize> = BTreeMap::new();
        self.model
            .places()
            .for_each(|user| *users.entry(user).or_default() += 1);
        let total: usize = users.values().sum();
        assert!(total <= self.limits.max_instances, "instances of the service");
        let most = self.limits.max_instances_per_user;
        assert!(users.values().all(|count| *count <= most), "instances of a user");
    }

    /// [LK-01] one request at a time, and beside it one commit of a fetch and one join without a fetch.
    fn check_locks(&self) {
        let works = self.running.values().filter(|running| {
            let rejoins = matches!(running.effect, Effect::Join(_)) && !running.in_turn;
            !rejoins && !matches!(running.effect, Effect::Topics(_) | Effect::Commit(_))
        });
        let rejoins = self.running.values();
        let rejoins = rejoins.filter(|running| matches!(running.effect, Effect::Join(_)) && !running.in_turn);
        let replies = self.sending.values().filter(|sending| sending.has_records);
        let replies = replies.filter_map(|sending| sending.asked.instance);
        let each_once = |mut instances: Vec<InstanceId>| {
            instances.sort_unstable();
            instances.windows(2).all(|pair| pair[0] != pair[1])
        };
        let holds = works.map(|running| running.instance).chain(replies).collect();
        assert!(each_once(holds), "one request at a time");
        assert!(
            each_once(rejoins.map(|running| running.instance).collect()),
            "one join at a time"
        );
    }

    /// [FE-09] and no request waits for ever.
    fn check_waits(&self) {
        for (request, asked) in &self.asked {
            let waited = self.now - asked.at;
            let longest = if let Command::Fetch(fetch) = &asked.command {
                let consumer = asked.instance.and_then(|instance| self.consumers.get(&instance));
                let own = consumer.map(|consumer| consumer.settings.request_timeout);
                let wait = fetch
                    .timeout
                    .or(own)
                    .unwrap_or_default()
                    .min(Duration::from_secs(30));
                wait + self.limits.call_grace + self.limits.settle_wait + self.slept
            } else {
                Duration::from_secs(60) + self.slept
            };
            assert!(
                waited <= longest,
                "{request:?} waited {waited:?}: {:?}",
                asked.command
            );
        }
    }
}

/// Whether a call commits.
fn commits(effect: &Effect) -> bool {
    let behind = matches!(effect, Effect::Join(join) if !join.commit.is_empty());
    behind || matches!(effect, Effect::Commit(_))
}
