//! A fetch: its wait, its turns, its reply.

use std::{
    collections::BTreeMap,
    num::NonZeroU64,
    time::{Duration, Instant},
};

use octopus_core::{
    Effect, Error, Fetch, FetchPlan, Fetched, Join, Outcome, Position, Reply, RequestId, Subject,
    TopicPartition,
};

use super::{Call, Life, Model, Owed, Stage, Why, instance::Reads};

/// [FE-08]
const LONGEST_WAIT: Duration = Duration::from_secs(30);

pub(super) struct Fetching {
    max_bytes: Option<NonZeroU64>,
    pub(super) deadline: Instant,
    pub(super) turn_end: Instant,
    /// Whether its turn is longer than it would be had others waited when it began, and when it ends for those who came
    /// to wait [LI-04].
    short_end: Option<Instant>,
    pub(super) hurry_at: Option<Instant>,
    pub(super) phase: Phase,
    turns: usize,
    /// The turns that did not reach Kafka, and why the last one could not read some partition.
    unreachable: usize,
    failed: Option<Error>,
}

pub(super) enum Phase {
    /// It reads nothing, and waits [D-18].
    Quiet,
    InLine,
    /// Its turn ended early: it stands in the line again when that would have ended.
    Pausing,
    Joining(Call),
    Polling(Call),
    /// Its reply is on its way: from where, up to where, and which partition came first in it if it was cut.
    Sending {
        since: Instant,
        from: BTreeMap<TopicPartition, Option<Position>>,
        to: Vec<(TopicPartition, Position)>,
        cut: Option<TopicPartition>,
    },
}

impl Fetching {
    pub(super) fn is_sending(&self) -> bool {
        matches!(self.phase, Phase::Sending { .. })
    }

    fn has_turn(&self) -> bool {
        !matches!(self.phase, Phase::Quiet | Phase::InLine | Phase::Pausing)
    }
}

impl Model {
    /// A fetch that has its instance, unless its user has two in progress [LI-01].
    pub(super) fn fetches(&mut self, id: RequestId, life: Life, fetch: Fetch) {
        let subject = self.requests[&id].subject;
        let in_progress = self.fetchings().filter(|(user, _)| *user == subject).count();
        if in_progress >= self.limits.max_fetches_per_user {
            return self.answer(id, Err(Error::UserFetches(in_progress)));
        }
        let now = self.now;
        let i = self.life(life);
        i.rejoin_at = None;
        let wait = fetch
            .timeout
            .unwrap_or(i.settings.request_timeout)
            .min(LONGEST_WAIT); // [FE-08]
        let is_quiet = i.reads == Reads::Nothing;
        let fetching = Fetching {
            max_bytes: fetch.max_bytes,
            deadline: now + wait,
            turn_end: now,
            short_end: None,
            hurry_at: None,
            phase: Phase::Quiet,
            turns: 0,
            unreachable: 0,
            failed: None,
        };
        self.set(id, Stage::Fetches(fetching));
        if !is_quiet {
            self.stands_in_line(id);
        } else if wait.is_zero() {
            self.conclude(id);
        }
    }

    /// To the back of the line [LI-02] [LI-03].
    pub(super) fn stands_in_line(&mut self, id: RequestId) {
        self.fetching(id).phase = Phase::InLine;
        self.line.push(id);
    }

    /// The turns in use: polls, and replies that are being sent [LI-03].
    pub(super) fn turns(&self) -> usize {
        self.fetchings()
            .filter(|(_, fetching)| fetching.has_turn())
            .count()
    }

    /// A turn: at most half a second, shorter while others wait for one, and no longer than the fetch's wait [FE-09]. A
    /// wait of 0 has one turn, which does not wait [D-19].
    pub(super) fn turn(&mut self, id: RequestId) {
        let (now, limits) = (self.now, self.limits.clone());
        let short = limits.short_turn.min(limits.turn);
        let is_long = self.line.is_empty() && short < limits.turn;
        let longest = if is_long { limits.turn } else { short };
        let fetching = self.fetching(id);
        if now > fetching.deadline || (now == fetching.deadline && fetching.turns > 0) {
            return self.conclude(id);
        }
        fetching.turns += 1;
        fetching.turn_end = fetching.deadline.min(now + longest);
        fetching.short_end = Some(now + short).filter(|at| is_long && *at < fetching.turn_end);
        fetching.hurry_at = None;
        let life = self.life_of(id);
        if self.lives[&life].must_join {
            self.joins(id, life);
        } else {
            self.polls(id, life);
        }
    }

    /// Others wait: a long turn is to end when a short one would have, which may be past.
    pub(super) fn shortens(&mut self) {
        let now = self.now;
        let waited_for = !self.line.is_empty();
        let requests = self.requests.iter_mut().filter(|_| waited_for);
        let mut late = Vec::new();
        for (id, request) in requests {
            if let Stage::Fetches(fetching) = &mut request.stage
                && let Phase::Joining(_) | Phase::Polling(_) = fetching.phase
                && let Some(end) = fetching.short_end.take()
            {
                fetching.hurry_at = Some(end);
                late.extend((end <= now).then_some(*id));
            }
        }
        late.into_iter().for_each(|id| self.hurries(id));
    }

    /// It ends at once, losing nothing, or goes on where nobody waits any more [LI-04].
    pub(super) fn hurries(&mut self, id: RequestId) {
        let (now, waited_for) = (self.now, !self.line.is_empty());
        let fetching = self.fetching(id);
        let end = fetching.hurry_at.take();
        if !waited_for {
            fetching.short_end = end;
        } else if let Phase::Joining(call) | Phase::Polling(call) = fetching.phase {
            fetching.turn_end = fetching.turn_end.min(now);
            self.owed.push(Owed::Hurry(call));
        }
    }

    /// Positions are committed before the group rebalances [AK-02], in place of a commit that is still under way.
    fn joins(&mut self, id: RequestId, life: Life) {
        self.stop_rejoin(life);
        let now = self.now;
        let i = self.life(life);
        let (topics, commit) = (i.topics(), i.own());
        i.is_member = true;
        i.told = false;
        if !commit.is_empty() {
            i.own_commit = now;
            let alongside = i.alongside.take();
            alongside.into_iter().for_each(|call| self.cancel(call));
        }
        let within = self.rest_of_turn(id);
        let call = self.call(life, Why::Join(id), Effect::Join(Join { topics, commit }), within);
        self.fetching(id).phase = Phase::Joining(call);
    }

    pub(super) fn joined(&mut self, id: RequestId, life: Life, came: Result<Outcome, Error>) {
        match came {
            Ok(Outcome::Joined(partitions)) => {
                self.life(life).joined(&partitions);
                if self.rest_of_turn(id).is_zero() {
                    self.ends_turn(id, None);
                } else {
                    self.polls(id, life);
                }
            }
            Ok(Outcome::Joining) => self.ends_turn(id, None),
            Ok(_) => self.fails(id, Error::Internal),
            Err(error) => self.fails(id, error),
        }
    }

    /// Asks for what is assigned, from where the client is, in the order of the reply [FE-12].
    fn polls(&mut self, id: RequestId, life: Life) {
        let (now, limits) = (self.now, self.limits.clone());
        let i = &self.lives[&life];
        if let Some(at) = i.blocked.clone() {
            return self.refuse(id, Error::RecordNotUtf8(at)); // [D-37]
        }
        if i.next.is_empty() {
            // Nobody's turn is held for nothing.
            let fetching = self.fetching(id);
            fetching.turn_end = fetching
                .deadline
                .min(now + limits.turn.max(Duration::from_millis(1)));
            return self.ends_turn(id, None);
        }
        let (min_bytes, format) = (i.settings.min_bytes, i.settings.format);
        let (positions, commits) = (i.next.clone(), i.own());
        // During a fetch, when 5 s have passed, what it held before the poll [AK-01] [D-38].
        let is_due = i.alongside.is_none() && now - i.own_commit >= limits.auto_commit_interval;
        let max_bytes = self.fetching(id).max_bytes;
        if is_due && !commits.is_empty() {
            let call = self.call(life, Why::Alongside, Effect::Commit(commits), limits.close_wait);
            self.life(life).alongside = Some(call);
            self.life(life).own_commit = now;
        }
        let plan = FetchPlan {
            positions,
            min_bytes,
            max_bytes,
            format,
        };
        let within = self.rest_of_turn(id);
        let call = self.call(life, Why::Poll(id), Effect::Fetch(plan), within);
        self.fetching(id).phase = Phase::Polling(call);
    }

    pub(super) fn polled(&mut self, id: RequestId, life: Life, call: Call, came: Result<Outcome, Error>) {
        match came {
            Ok(Outcome::Fetched(fetched)) => self.found(id, life, call, fetched),
            Ok(_) => self.fails(id, Error::Internal),
            Err(error) => self.fails(id, error),
        }
    }

    fn found(&mut self, id: RequestId, life: Life, call: Call, fetched: Fetched) {
        let now = self.now;
        let has_rest = !self.rest_of_turn(id).is_zero();
        let i = self.life(life);
        let moves = !fetched.started.is_empty() || !fetched.skipped.is_empty();
        for (at, position) in fetched.started.into_iter().chain(fetched.skipped) {
            i.goes_to(&at, Some(position));
        }
        if let Some(at) = fetched.not_utf8 {
            i.blocked = Some(at.clone()).filter(|at| i.needs(std::slice::from_ref(at)).is_ok());
            return self.refuse(id, Error::RecordNotUtf8(at)); // [FE-06]
        }
        if !fetched.next.is_empty() {
            // As soon as there are records [FE-09]; the turn is kept until they are sent [LI-03].
            let phase = Phase::Sending {
                since: now,
                from: i.next.iter().cloned().collect(),
                to: fetched.next,
                cut: fetched.cut,
            };
            self.fetching(id).phase = phase;
            return self.owed.push(Owed::Records(id, call));
        }
        let failed = |at: &TopicPartition| fetched.failed.iter().find(|(other, _)| other == at);
        let errors: Vec<_> = i
            .next
            .iter()
            .filter_map(|(at, _)| failed(at))
            .map(|(_, error)| error.clone())
            .collect();
        let is_all = errors.len() == i.next.len();
        let must_join = i.must_join;
        match errors.into_iter().next() {
            Some(error) if is_all => self.refuse(id, error), // nothing to wait for [D-20] [D-26]
            Some(error) => self.ends_turn(id, Some(error)),
            None if moves && has_rest && !must_join => self.polls(id, life),
            None => self.ends_turn(id, None),
        }
    }

    /// What may be gone in the next turn counts as nothing found.
    fn fails(&mut self, id: RequestId, error: Error) {
        if error == Error::KafkaUnreachable {
            self.fetching(id).unreachable += 1;
        } else if error != Error::KafkaRetriable {
            return self.refuse(id, error);
        }
        self.ends_turn(id, None);
    }

    /// A turn without records goes to the back of the line [LI-03], not before it would have ended by itself.
    fn ends_turn(&mut self, id: RequestId, failed: Option<Error>) {
        let now = self.now;
        let fetching = self.fetching(id);
        fetching.failed = failed;
        if now >= fetching.deadline {
            self.conclude(id);
        } else if now >= fetching.turn_end {
            self.stands_in_line(id);
        } else {
            fetching.phase = Phase::Pausing;
        }
    }

    /// The end of the wait: `[]` if no turn found records [FE-09].
    pub(super) fn conclude(&mut self, id: RequestId) {
        let fetching = self.fetching(id);
        let reply = if matches!(fetching.phase, Phase::Quiet) {
            Ok(Reply::Empty)
        } else if fetching.turns == 0 {
            Err(Error::NoTurn) // [LI-05]
        } else if let Some(error) = fetching.failed.take() {
            Err(error) // [D-20]
        } else if fetching.unreachable == fetching.turns {
            Err(Error::KafkaUnreachable) // [ER-07]
        } else {
            Ok(Reply::Empty)
        };
        self.leaves_fetch(id);
        self.answer(id, reply);
    }

    fn refuse(&mut self, id: RequestId, error: Error) {
        self.leaves_fetch(id);
        self.answer(id, Err(error));
    }

    /// The fate of a reply with records. Positions move only here, and the partition that came first in a cut reply goes
    /// last [AK-04] [FE-12] [D-37].
    pub(super) fn sent(&mut self, id: RequestId, received: bool) {
        let life = self.life_of(id);
        if let Stage::Fetches(fetching) = &self.requests[&id].stage
            && let Phase::Sending { from, to, cut, .. } = &fetching.phase
            && received
        {
            let i = self.lives.get_mut(&life).expect("a fetch holds its instance");
            i.receives(from, to);
            if let Some(place) = i.next.iter().position(|(at, _)| Some(at) == cut.as_ref()) {
                let first = i.next.remove(place);
                i.next.push(first);
            }
        }
        self.leaves_fetch(id);
        self.ends(id);
    }

    /// A fetch gives up its call, its turn or its place in the line, and its instance.
    pub(super) fn leaves_fetch(&mut self, id: RequestId) {
        let Stage::Fetches(fetching) = &self.requests[&id].stage else {
            return;
        };
        if let Phase::Joining(call) | Phase::Polling(call) = fetching.phase {
            self.cancel(call);
        }
        self.line.retain(|other| *other != id);
        self.set(id, Stage::Works);
        let life = self.life_of(id);
        self.life(life).holder = None;
        self.arm_rejoin(life);
    }

    pub(super) fn is_sending(&self, id: RequestId) -> bool {
        let fetching = self
            .requests
            .get(&id)
            .and_then(|request| request.stage.fetching());
        fetching.is_some_and(Fetching::is_sending)
    }

    /// The fetches in progress, each with its user.
    fn fetchings(&self) -> impl Iterator<Item = (Subject, &Fetching)> {
        let requests = self.requests.values();
        requests.filter_map(|request| Some((request.subject, request.stage.fetching()?)))
    }

    fn rest_of_turn(&mut self, id: RequestId) -> Duration {
        let now = self.now;
        self.fetching(id).turn_end.saturating_duration_since(now)
    }

    fn life_of(&self, id: RequestId) -> Life {
        self.requests[&id].life.expect("a fetch has an instance")
    }

    fn fetching(&mut self, id: RequestId) -> &mut Fetching {
        match self.requests.get_mut(&id).map(|request| &mut request.stage) {
            Some(Stage::Fetches(fetching)) => fetching,
            _ => panic!("{id:?} is no fetch in progress"),
        }
    }
}
