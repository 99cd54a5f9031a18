//! What a client's commit commits, and when an instance commits by itself.

use std::time::{Duration, Instant};

use crate::{CallId, Commit, Processed};

/// What the group commits for the records that a client processed: the next one of each [CO-01].
pub(crate) fn behind(processed: Vec<Processed>) -> Vec<Commit> {
    processed
        .into_iter()
        .map(|record| Commit {
            partition: record.partition,
            position: record.offset.next(),
            metadata: record.metadata,
        })
        .collect()
}

/// The auto-commit of an instance.
#[derive(Debug)]
pub(crate) struct AutoCommit {
    on: bool,
    last: Instant,
    running: Option<CallId>,
}

impl AutoCommit {
    /// Time counts from the create [D-38].
    pub(crate) const fn new(on: bool, now: Instant) -> Self {
        Self {
            on,
            last: now,
            running: None,
        }
    }

    /// Whether the instance commits by itself at all [AK-06].
    pub(crate) const fn is_on(&self) -> bool {
        self.on
    }

    /// Whether a fetch commits: it is long enough ago, and none is under way [AK-01] [D-38].
    pub(crate) fn is_due(&self, interval: Duration, now: Instant) -> bool {
        self.on && self.running.is_none() && now.saturating_duration_since(self.last) >= interval
    }

    /// The instance committed by itself, whatever comes of it [D-38].
    pub(crate) const fn tried(&mut self, now: Instant) {
        self.last = now;
    }

    /// A fetch's commit is under way.
    pub(crate) const fn run(&mut self, call: CallId, now: Instant) {
        self.running = Some(call);
        self.tried(now);
    }

    /// A fetch's commit ended.
    pub(crate) const fn end(&mut self) {
        self.running = None;
    }

    /// Takes a fetch's commit that is under way, to be stopped before another one goes out: tried again behind it, it
    /// would set the group back.
    pub(crate) const fn stop(&mut self) -> Option<CallId> {
        self.running.take()
    }

    /// Whether a fetch's commit is under way. The instance's next commit waits for it, or it could be overtaken.
    pub(crate) const fn is_running(&self) -> bool {
        self.running.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Offset, Position, TopicPartition};

    const INTERVAL: Duration = Duration::from_secs(5);

    /// [AK-01] [D-38] [AK-06]
    #[test]
    fn it_is_due_five_seconds_after_its_last_try() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do to count from")]
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut commit = AutoCommit::new(true, start);
        assert!(!commit.is_due(INTERVAL, at(4_999)));
        assert!(commit.is_due(INTERVAL, at(5_000)));
        commit.run(CallId(1), at(6_000));
        assert!(!commit.is_due(INTERVAL, at(20_000)), "one at a time");
        commit.end();
        assert!(!commit.is_due(INTERVAL, at(10_999)));
        assert!(commit.is_due(INTERVAL, at(11_000)));
        assert!(!AutoCommit::new(false, start).is_due(INTERVAL, at(60_000)));
    }

    /// [CO-01]
    #[test]
    fn the_group_commits_the_next_record() {
        let partition = TopicPartition::only("t".into());
        let processed = Processed {
            partition: partition.clone(),
            offset: Offset(41),
            metadata: "m".into(),
        };
        assert_eq!(
            behind(vec![processed]),
            [Commit {
                partition,
                position: Position::at(42),
                metadata: "m".into()
            }]
        );
    }
}
