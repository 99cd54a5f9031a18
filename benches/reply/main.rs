//! How soon the service answers, how many instances come and go in a second, and what one takes that only waits. Kafka
//! and the service are a process each.
//!
//! `cargo bench -p octopus-benches --bench reply` measures all; `-- ready`, `produced`, `churn` and `idle` name parts of
//! it. Without `--bench` or with `--test` it only shows that it works.

mod churn;
mod idle;
mod kafka;
mod produced;
mod ready;

use std::time::Duration;

use anyhow::{Result, ensure};
use octopus_benches::{
    Asked,
    stand::{self, Kafka},
};
use tikv_jemallocator::Jemalloc;

/// The allocator of `octopus-server`.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// A part: its name, and what measures it, whole or only a little.
type Part = (&'static str, fn(&mut Kafka, bool) -> Result<()>);

const PARTS: [Part; 4] = [
    ("ready", ready::measure),
    ("produced", produced::measure),
    ("churn", churn::measure),
    ("idle", idle::measure),
];

fn main() -> Result<()> {
    if stand::play()? {
        return Ok(());
    }
    let asked = Asked::of_this_process();
    let mut kafka = Kafka::start()?;
    tell(&format!("on {}", kafka.name()));
    for (name, measure) in PARTS {
        if asked.wants(name) {
            measure(&mut kafka, asked.is_whole)?;
            kafka.clear()?;
        }
    }
    Ok(())
}

/// Times that were taken, and how many of them were at most so long.
struct Times(Vec<Duration>);

impl Times {
    fn new(mut times: Vec<Duration>) -> Result<Self> {
        ensure!(!times.is_empty(), "nothing was timed");
        times.sort_unstable();
        Ok(Self(times))
    }

    /// The time that so many in a hundred took at most.
    fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100);
        self.0[rank.saturating_sub(1)]
    }

    fn tell(&self, what: &str) {
        let [p50, p90, p99] = [50, 90, 99].map(|percent| milliseconds(self.percentile(percent)));
        tell(&format!(
            "{what}: p50 {p50}, p90 {p90}, p99 {p99} of {}",
            self.0.len()
        ));
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

#[expect(clippy::print_stdout, reason = "a bench's output")]
fn tell(line: &str) {
    println!("{line}");
}
