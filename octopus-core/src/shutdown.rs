//! How far the service's shutdown is.

use std::time::Instant;

/// The one shutdown of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shutdown {
    /// It serves.
    No,
    /// Its instances close, all of them until this instant [AK-03].
    Until(Instant),
    /// What was left then was given up [AK-05].
    Over,
}

impl Shutdown {
    /// Whether it has begun.
    pub(crate) const fn has_begun(self) -> bool {
        !matches!(self, Self::No)
    }

    /// The earlier of an instant and the shutdown's end.
    pub(crate) fn limit(self, until: Instant) -> Instant {
        match self {
            Self::No | Self::Over => until,
            Self::Until(end) => until.min(end),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// [AK-03]
    #[test]
    fn a_close_at_shutdown_takes_no_longer_than_the_shutdown() {
        #[expect(clippy::disallowed_methods, reason = "any instant will do to count from")]
        let start = Instant::now();
        let at = |secs| start + Duration::from_secs(secs);
        assert_eq!(Shutdown::No.limit(at(5)), at(5));
        assert_eq!(Shutdown::Until(at(8)).limit(at(5)), at(5));
        assert_eq!(Shutdown::Until(at(8)).limit(at(12)), at(8));
    }
}
