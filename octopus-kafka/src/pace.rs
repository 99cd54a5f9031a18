//! How long to wait between tries: longer each time.

use std::time::Duration;

use tokio::time::Instant;

/// The waits between tries that failed or found nothing.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    next: Duration,
    most: Duration,
}

impl Pace {
    /// Waits that start at `least` and double up to `most`.
    pub(crate) const fn new(least: Duration, most: Duration) -> Self {
        Self { next: least, most }
    }

    /// The waits of a request that Kafka asks to send again.
    pub(crate) const fn of_retries() -> Self {
        Self::new(Duration::from_millis(100), Duration::from_secs(1))
    }

    /// The next wait.
    pub(crate) fn next(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(self.most);
        wait
    }

    /// Waits; `false` if that would go past the deadline, and then at once.
    pub(crate) async fn wait(&mut self, deadline: Instant) -> bool {
        let until = Instant::now() + self.next();
        let has_time = until < deadline;
        if has_time {
            tokio::time::sleep_until(until).await;
        }
        has_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_most() {
        let mut pace = Pace::new(Duration::from_millis(20), Duration::from_millis(250));
        let waits: Vec<u128> = (0..6).map(|_| pace.next().as_millis()).collect();
        assert_eq!(waits, [20, 40, 80, 160, 250, 250]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_past_the_deadline_ends_at_once() {
        let start = Instant::now();
        let mut pace = Pace::of_retries();
        assert!(pace.wait(start + Duration::from_millis(150)).await);
        assert_eq!(start.elapsed(), Duration::from_millis(100));
        assert!(!pace.wait(start + Duration::from_millis(150)).await);
        assert_eq!(start.elapsed(), Duration::from_millis(100));
    }
}
