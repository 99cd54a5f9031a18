//! The one clock of the service, which tests may move by hand.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::watch;

/// A wait that a [`Clock`] ends.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where the driver takes the time from.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The time.
    fn now(&self) -> Instant;

    /// Ends once `deadline` has come.
    fn sleep_until(&self, deadline: Instant) -> Sleep;

    /// Ends once so much time has passed; a year stands for all that is longer.
    fn sleep(&self, time: Duration) -> Sleep {
        self.sleep_until(self.now() + time.min(YEAR))
    }
}

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that all others ask")]
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep_until(&self, deadline: Instant) -> Sleep {
        Box::pin(tokio::time::sleep_until(deadline.into()))
    }
}

/// A clock that stands still until it is moved. Clones share one time.
#[derive(Clone)]
pub struct ManualClock(Arc<Hand>);

struct Hand {
    epoch: Instant,
    moved: watch::Sender<Duration>,
}

impl ManualClock {
    /// A clock that shows the machine's present time.
    #[must_use]
    pub fn new() -> Self {
        let (moved, _) = watch::channel(Duration::ZERO);
        Self(Arc::new(Hand {
            epoch: SystemClock.now(),
            moved,
        }))
    }

    /// Moves the clock forward and wakes the sleeps whose time has come.
    pub fn advance(&self, by: Duration) {
        self.0.moved.send_modify(|past| *past += by);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualClock")
            .field(&*self.0.moved.borrow())
            .finish()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        self.0.epoch + *self.0.moved.borrow()
    }

    fn sleep_until(&self, deadline: Instant) -> Sleep {
        let epoch = self.0.epoch;
        let mut moved = self.0.moved.subscribe();
        let hand = Arc::clone(&self.0);
        Box::pin(async move {
            // The sender lives in `hand`, so the wait ends only by its condition.
            let _ = moved.wait_for(|past| epoch + *past >= deadline).await;
            drop(hand);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_manual_clock_wakes_who_sleeps_until_its_time() {
        let clock = ManualClock::new();
        let start = clock.now();
        let sleep = tokio::spawn(clock.sleep_until(start + Duration::from_secs(10)));
        clock.advance(Duration::from_secs(9));
        tokio::task::yield_now().await;
        assert!(!sleep.is_finished());
        clock.advance(Duration::from_secs(1));
        sleep.await.unwrap();
        assert_eq!(clock.now() - start, Duration::from_secs(10));
    }
}
