//! Every deadline of the engine, in one table.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use crate::{CallId, InstanceId, RequestId};

/// What a deadline is for. Of those that are due at the same instant, the first of this list goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// When to give up what is left of a shutdown [AK-05].
    Shutdown,
    /// When to refuse a request that still waits for another on its instance [LK-01].
    Lock(RequestId),
    /// When a fetch's wait ends [FE-09].
    Fetch(RequestId),
    /// When a fetch whose turn ended early may stand in the line again.
    Turn(RequestId),
    /// When to end a turn that others have come to wait for.
    Hurry(RequestId),
    /// When a reply took too long to send [RP-03].
    Send(RequestId),
    /// When to give up a call that the driver never answered.
    Call(CallId),
    /// When an instance joins its group again without a fetch [D-23].
    Rejoin(InstanceId),
    /// When to look for idle instances [LC-01].
    Sweep,
}

/// The deadlines that are set, each timer at most once. Every operation is O(log n).
#[derive(Debug, Default)]
pub(crate) struct Timers {
    due: BTreeSet<(Instant, Timer)>,
    at: BTreeMap<Timer, Instant>,
}

impl Timers {
    /// Sets a timer; one that is set already moves.
    pub(crate) fn set(&mut self, timer: Timer, at: Instant) {
        self.cancel(timer);
        self.due.insert((at, timer));
        self.at.insert(timer, at);
    }

    /// Forgets a timer.
    pub(crate) fn cancel(&mut self, timer: Timer) {
        if let Some(at) = self.at.remove(&timer) {
            self.due.remove(&(at, timer));
        }
    }

    /// Forgets every timer.
    pub(crate) fn clear(&mut self) {
        self.due.clear();
        self.at.clear();
    }

    /// Whether a timer is set.
    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.at.contains_key(&timer)
    }

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Takes out the first timer that is due.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Timer> {
        let (at, timer) = *self.due.first()?;
        if now < at {
            return None;
        }
        self.cancel(timer);
        Some(timer)
    }
}

/// The instant so long after another. A setting may be any duration, so it is held to a year, which no
/// instant of a running service is too late for.
pub(crate) fn after(now: Instant, wait: Duration) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    now + wait.min(YEAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "any instant will do to count from")]
        Instant::now()
    }

    #[test]
    fn timers_come_when_they_are_due_and_once() {
        let start = start();
        let at = |secs| start + Duration::from_secs(secs);
        let mut timers = Timers::default();
        timers.set(Timer::Sweep, at(3));
        timers.set(Timer::Fetch(RequestId(1)), at(2));
        timers.set(Timer::Turn(RequestId(1)), at(2));
        timers.set(Timer::Sweep, at(1));
        timers.set(Timer::Call(CallId(1)), at(1));
        timers.cancel(Timer::Call(CallId(1)));
        assert_eq!(timers.next(), Some(at(1)));
        assert_eq!(timers.pop(at(0)), None);
        assert_eq!(timers.pop(at(5)), Some(Timer::Sweep));
        assert!(!timers.is_set(Timer::Sweep));
        assert_eq!(timers.pop(at(5)), Some(Timer::Fetch(RequestId(1))));
        assert_eq!(timers.pop(at(5)), Some(Timer::Turn(RequestId(1))));
        assert_eq!(timers.pop(at(5)), None);
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn no_setting_is_too_long_for_an_instant() {
        let start = start();
        let year = Duration::from_secs(31_536_000);
        assert_eq!(after(start, Duration::MAX), start + year);
        assert_eq!(
            after(start, year - Duration::from_nanos(1)),
            start + year - Duration::from_nanos(1)
        );
    }
}
