//! How many instances come and go in a second: a round creates one in a group of its own, subscribes, fetches a record and
//! deletes the instance.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

use anyhow::{Result, anyhow};
use octopus_benches::{
    client::{Client, Instance},
    event_of,
    stand::{Kafka, Part},
    system::now,
};
use octopus_core::Format;
use octopus_kafka::records::Compression;

use crate::{Times, tell};

/// The threads that do so at once.
const THREADS: [usize; 2] = [1, 8];
/// How long they do. As long before it they do so for nothing: a Kafka that has just started takes three times as long for a
/// group, until its code is compiled.
const TIME: Duration = Duration::from_secs(10);

pub(crate) fn measure(kafka: &mut Kafka, is_whole: bool) -> Result<()> {
    let time = if is_whole { TIME } else { Duration::ZERO };
    let topic = kafka.fill("churn", Compression::None, [event_of(0, 100)])?;
    let groups = AtomicU64::new(0);
    let [_, most] = THREADS;
    come_and_go(kafka, &topic, &groups, most, time)?;
    for threads in THREADS {
        let (rounds, time) = come_and_go(kafka, &topic, &groups, threads, time)?;
        #[expect(clippy::cast_precision_loss, reason = "a figure to be read")]
        let rate = rounds.len() as f64 / time.as_secs_f64();
        tell(&format!("churn/{threads} at once: {rate:.1} rounds a second"));
        Times::new(rounds)?.tell("  a round");
    }
    Ok(())
}

/// Rounds in so many threads for this time, at least one in each; how long each round took, and all of them.
fn come_and_go(
    kafka: &Kafka,
    topic: &str,
    groups: &AtomicU64,
    threads: usize,
    time: Duration,
) -> Result<(Vec<Duration>, Duration)> {
    let service = Part::service(kafka, threads)?;
    let start = now();
    thread::scope(|scope| {
        let work = || -> Result<Vec<Duration>> {
            let mut rounds = Vec::new();
            let mut client = Client::connect(service.address())?;
            loop {
                let begun = now();
                let group = format!("group-{}", groups.fetch_add(1, Ordering::Relaxed));
                let mut instance = Instance::create(client, &group, topic, Format::Json)?;
                instance.subscribe()?;
                instance.fetch_some()?;
                client = instance.delete()?;
                rounds.push(begun.elapsed());
                if start.elapsed() >= time {
                    return Ok(rounds);
                }
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut rounds = Vec::new();
        for worker in workers {
            rounds.extend(worker.join().map_err(|_| anyhow!("a thread panicked"))??);
        }
        Ok((rounds, start.elapsed()))
    })
}
