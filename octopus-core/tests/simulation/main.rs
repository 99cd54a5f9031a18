//! Random schedules of requests, answers, losses and jumps of the clock, and what must hold after each step.
//!
//! `OCTOPUS_SCHEDULES` is how many are played. A schedule that fails is shrunk, and its seed is kept beside
//! this file.

mod kafka;
mod reader;
mod service;
mod step;

use proptest::{prelude::*, test_runner::FileFailurePersistence};

use service::Service;

fn schedules() -> u32 {
    let set = std::env::var("OCTOPUS_SCHEDULES").ok();
    set.and_then(|count| count.parse().ok()).unwrap_or(256)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: schedules(),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    /// After every step: turns [LI-02], fetches a user [LI-01], instances [CR-10], one request at a time [LK-01],
    /// nothing lost and nothing twice [FE-11], commits of what was delivered and no more [AK-04] [AK-06], waits
    /// that end [FE-09], and in the end every request answered once, every instance closed [LC-01], and the
    /// shutdown over in its time [AK-03] [AK-05].
    #[test]
    fn every_schedule_keeps_the_rules(steps in step::schedule()) {
        let mut service = Service::new();
        for step in steps {
            service.take(step);
        }
        service.come_to_rest();
    }
}
