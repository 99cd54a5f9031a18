//! What is said of an authority that does not answer, and how often.

use std::time::{Duration, Instant};

/// The time between two lines about an outage.
const QUIET: Duration = Duration::from_secs(60);

/// Counts look-ups that failed, so that the log has a line a minute and not one a request.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    told_at: Option<Instant>,
    /// Whether the outage that goes on was told of.
    is_told: bool,
    /// The failed look-ups since the last line.
    untold: u64,
}

impl Outage {
    /// A look-up failed. Where that is to be told: how many failed since it was last told, this one among them.
    pub(crate) fn handle_failure(&mut self, now: Instant) -> Option<u64> {
        self.untold += 1;
        if self
            .told_at
            .is_some_and(|at| now.saturating_duration_since(at) < QUIET)
        {
            return None;
        }
        self.told_at = Some(now);
        self.is_told = true;
        Some(std::mem::take(&mut self.untold))
    }

    /// A look-up was answered; gives whether that is to be told, which it is after an outage that was.
    pub(crate) fn handle_answer(&mut self) -> bool {
        std::mem::take(&mut self.is_told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [D-35]
    #[test]
    fn an_outage_is_told_once_a_minute() {
        let at = clock();
        let mut outage = Outage::default();
        assert!(!outage.handle_answer());
        assert_eq!(outage.handle_failure(at(0)), Some(1));
        for second in 0..60 {
            assert_eq!(outage.handle_failure(at(second)), None);
        }
        assert_eq!(outage.handle_failure(at(60)), Some(61));
        assert!(outage.handle_answer());
        assert!(!outage.handle_answer());
    }

    /// [D-35] an authority that answers every other time does not fill the log.
    #[test]
    fn a_short_outage_within_the_minute_is_not_told() {
        let at = clock();
        let mut outage = Outage::default();
        assert_eq!(outage.handle_failure(at(0)), Some(1));
        assert!(outage.handle_answer());
        for second in 1..60 {
            assert_eq!(outage.handle_failure(at(second)), None);
            assert!(!outage.handle_answer());
        }
        assert_eq!(outage.handle_failure(at(61)), Some(60));
    }

    /// The time so many seconds after a start.
    #[expect(clippy::disallowed_methods, reason = "an epoch for a clock of the test's own")]
    fn clock() -> impl Fn(u64) -> Instant {
        let epoch = Instant::now();
        move |seconds| epoch + Duration::from_secs(seconds)
    }
}
