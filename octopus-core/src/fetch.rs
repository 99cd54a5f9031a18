//! One fetch: its wait, its turns, and what they found.

use std::{
    num::NonZeroU64,
    time::{Duration, Instant},
};

use crate::{CallId, Error, Position, Reply, TopicPartition};

/// A fetch in progress.
#[derive(Debug)]
pub(crate) struct Fetching {
    pub(crate) max_bytes: Option<NonZeroU64>,
    pub(crate) phase: Phase,
    /// When its wait ends [FE-09].
    pub(crate) deadline: Instant,
    /// When its present or its last turn began.
    pub(crate) turn_start: Instant,
    /// When its present or its last turn ends.
    pub(crate) turn_end: Instant,
    turns: u64,
    unreachable: u64,
    failed: Option<Error>,
}

/// Where a fetch is.
#[derive(Debug)]
pub(crate) enum Phase {
    /// The instance reads nothing: it only waits [D-18].
    Quiet,
    /// It stands in the line for a turn.
    Waiting,
    /// Its last turn ended early; it goes to the line when that turn would have ended.
    Pausing,
    /// It has a turn, which joins the group.
    Joining(CallId),
    /// It has a turn, which polls.
    Polling(CallId),
    /// Its records are being sent.
    Sending(Sending),
}

/// How far a reply reaches.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) next: Vec<(TopicPartition, Position)>,
    pub(crate) cut: Option<TopicPartition>,
}

/// What came of a turn without records.
#[derive(Debug)]
pub(crate) enum Found {
    /// Nothing.
    Nothing,
    /// Kafka could not be reached.
    Unreachable,
    /// Some partition can't be read.
    Failed(Error),
}

impl Fetching {
    /// A fetch that waits so long.
    pub(crate) fn new(wait: Duration, max_bytes: Option<NonZeroU64>, now: Instant) -> Self {
        Self {
            max_bytes,
            phase: Phase::Waiting,
            deadline: now + wait,
            turn_start: now,
            turn_end: now,
            turns: 0,
            unreachable: 0,
            failed: None,
        }
    }

    /// Begins a turn of at most this length. The fetch's own wait may be shorter [FE-09].
    pub(crate) fn begin_turn(&mut self, length: Duration, now: Instant) {
        self.turns += 1;
        self.turn_start = now;
        self.turn_end = now + length.min(self.deadline.saturating_duration_since(now));
    }

    /// Whether it ever had a turn.
    pub(crate) const fn had_turn(&self) -> bool {
        self.turns > 0
    }

    /// Whether its reply is being sent.
    pub(crate) const fn is_sending(&self) -> bool {
        matches!(self.phase, Phase::Sending(_))
    }

    /// The call of its turn.
    pub(crate) const fn call(&self) -> Option<CallId> {
        match self.phase {
            Phase::Joining(call) | Phase::Polling(call) => Some(call),
            Phase::Quiet | Phase::Waiting | Phase::Pausing | Phase::Sending(_) => None,
        }
    }

    /// Remembers what the turn found.
    pub(crate) fn note(&mut self, found: Found) {
        self.failed = None;
        match found {
            Found::Nothing => {}
            Found::Unreachable => self.unreachable += 1,
            Found::Failed(error) => self.failed = Some(error),
        }
    }

    /// The answer at the end of the wait.
    ///
    /// # Errors
    ///
    /// [`Error::NoTurn`] if it never had a turn [LI-05]; the error of a partition that the last turn could not read;
    /// [`Error::KafkaUnreachable`] if no turn reached Kafka.
    pub(crate) fn conclusion(&self) -> Result<Reply, Error> {
        if matches!(self.phase, Phase::Quiet) {
            Ok(Reply::Empty)
        } else if self.turns == 0 {
            Err(Error::NoTurn)
        } else if let Some(error) = &self.failed {
            Err(error.clone())
        } else if self.unreachable == self.turns {
            Err(Error::KafkaUnreachable)
        } else {
            Ok(Reply::Empty)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "any instant will do to count from")]
        Instant::now()
    }

    fn after(turns: Vec<Found>) -> Result<Reply, Error> {
        let now = start();
        let mut fetch = Fetching::new(Duration::from_secs(5), None, now);
        for found in turns {
            fetch.begin_turn(Duration::from_millis(500), now);
            fetch.note(found);
        }
        fetch.conclusion()
    }

    /// [FE-09] [LI-05]
    #[test]
    fn the_answer_is_what_the_turns_found() {
        use Found::{Failed, Nothing, Unreachable};
        let failed = || Failed(Error::KafkaFailed);
        assert_eq!(after(vec![]), Err(Error::NoTurn));
        assert_eq!(after(vec![Nothing]), Ok(Reply::Empty));
        assert_eq!(after(vec![failed(), Nothing]), Ok(Reply::Empty));
        assert_eq!(after(vec![Nothing, failed()]), Err(Error::KafkaFailed));
        assert_eq!(
            after(vec![Unreachable, Unreachable]),
            Err(Error::KafkaUnreachable)
        );
        assert_eq!(after(vec![Unreachable, Nothing]), Ok(Reply::Empty));
    }

    /// [D-18]
    #[test]
    fn a_fetch_of_nothing_is_empty_without_a_turn() {
        let mut fetch = Fetching::new(Duration::ZERO, None, start());
        fetch.phase = Phase::Quiet;
        assert_eq!(fetch.conclusion(), Ok(Reply::Empty));
    }

    /// [FE-09]
    #[test]
    fn a_turn_ends_with_the_wait() {
        let now = start();
        let mut fetch = Fetching::new(Duration::from_millis(700), None, now);
        fetch.begin_turn(Duration::from_millis(500), now);
        assert_eq!(fetch.turn_end, now + Duration::from_millis(500));
        fetch.begin_turn(Duration::from_millis(500), fetch.turn_end);
        assert_eq!(fetch.turn_end, now + Duration::from_millis(700));
        fetch.begin_turn(Duration::from_millis(500), now + Duration::from_secs(1));
        assert_eq!(fetch.turn_end, now + Duration::from_secs(1));
    }
}
