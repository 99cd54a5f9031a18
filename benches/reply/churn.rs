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
/// How long they do.
const TIME: Duration = Duration::from_secs(10);

pub(crate) fn measure(kafka: &mut Kafka, is_whole: bool) -> Result<()> {
    let time = if is_whole { TIME } else { Duration::ZERO };
    let topic = kafka.fill("churn", Compression::None, [event_of(0, 100)])?;
    for threads in THREADS {
        let service = Part::service(kafka, threads)?;
        let groups = AtomicU64::new(0);
        let start = now();
        let rounds = thread::scope(|scope| {
            let work = || -> Result<Vec<Duration>> {
                let mut rounds = Vec::new();
                let mut client = Client::connect(service.address())?;
                loop {
                    let begun = now();
                    let group = format!("group-{}", groups.fetch_add(1, Ordering::Relaxed));
                    let mut instance = Instance::create(client, &group, &topic, Format::Json)?;
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
            anyhow::Ok(rounds)
        })?;
        let seconds = start.elapsed().as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a figure to be read")]
        let rate = rounds.len() as f64 / seconds;
        tell(&format!("churn/{threads} at once: {rate:.1} rounds a second"));
        Times::new(rounds)?.tell("  a round");
    }
    Ok(())
}
