//! How soon the first byte of a fetch is there whose records are ready, where nobody else asks for anything, beside the
//! first byte of Kafka's own answer to a client that reads the same.

use std::{thread, time::Duration};

use anyhow::Result;
use octopus_benches::{
    client::Instance,
    event_of,
    stand::{Kafka, Part},
    system::now,
};
use octopus_core::Format;
use octopus_kafka::records::Compression;

use crate::{Times, kafka::Reader, milliseconds, tell};

/// The time without requests before each.
const PAUSE: Duration = Duration::from_millis(5);

pub(crate) fn measure(kafka: &mut Kafka, is_whole: bool) -> Result<()> {
    let fetches = if is_whole { 1000 } else { 3 };
    // More than a fetch reads, so that Kafka's answer is as large as it gets.
    for (name, records) in [("one record of 100 B", 1), ("a backlog of 100 B", 100_000)] {
        let values = (0..records).map(|seed| event_of(seed, 100));
        let topic = kafka.fill("ready", Compression::None, values)?;
        let service = Part::service(kafka, 1)?;
        let mut reader = Reader::connect(kafka.address())?;
        let mut instance = Instance::assigned(service.address(), "ready", &topic, Format::Binary)?;
        let (mut own, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..fetches {
            thread::sleep(PAUSE);
            own.push(reader.fetch_first(&topic)?);
            instance.rewind()?;
            thread::sleep(PAUSE);
            let start = now();
            ours.push(instance.fetch_some()?.first_byte - start);
        }
        instance.delete()?;
        let (own, ours) = (Times::new(own)?, Times::new(ours)?);
        own.tell(&format!("ready/{name}, Kafka's own answer"));
        ours.tell(&format!("ready/{name}, the service's"));
        let above = ours.percentile(50).saturating_sub(own.percentile(50));
        tell(&format!("  p50 above Kafka's own: {}", milliseconds(above)));
    }
    Ok(())
}
