//! How soon a record is with a client whose fetch waits for it: from the moment in which it is sent to Kafka to the last
//! byte of the reply.

use std::{sync::mpsc, thread, time::Duration};

use anyhow::{Context as _, Result};
use octopus_benches::{
    client::Instance,
    event_of,
    stand::{Kafka, Part},
    system::now,
};
use octopus_core::Format;
use octopus_kafka::records::Compression;

use crate::Times;

/// The shortest time for which a fetch waits before its record is sent, and how much longer it may be.
const WAITS: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(10)];

pub(crate) fn measure(kafka: &mut Kafka, is_whole: bool) -> Result<()> {
    let records: u64 = if is_whole { 1000 } else { 3 };
    let topic = kafka.fill("produced", Compression::None, [event_of(0, 100)])?;
    let kafka = &*kafka;
    let service = Part::service(kafka, 1)?;
    let mut instance = Instance::assigned(service.address(), "produced", &topic, Format::Json)?;
    instance.fetch_some()?;
    let (go, gone) = mpsc::channel();
    let (mut acknowledged, mut answered) = (Vec::new(), Vec::new());
    thread::scope(|scope| {
        let (sent, sends) = mpsc::channel();
        scope.spawn(move || -> Result<()> {
            while let Ok(number) = gone.recv() {
                // Each comes at another moment of the fetch.
                let part = u32::try_from(number * 37 % 100)?;
                thread::sleep(WAITS[0] + WAITS[1] * part / 100);
                let start = now();
                kafka.append(&topic, &event_of(number, 100))?;
                sent.send((start, start.elapsed()))?;
            }
            Ok(())
        });
        for number in 1..=records {
            instance.send_fetch()?;
            go.send(number)?;
            instance.receive()?;
            let end = now();
            let (start, acknowledge) = sends.recv().context("a record was sent")?;
            answered.push(end - start);
            acknowledged.push(acknowledge);
        }
        drop(go);
        anyhow::Ok(())
    })?;
    instance.delete()?;
    Times::new(acknowledged)?.tell("produced/sent to Kafka, until Kafka has acknowledged it");
    Times::new(answered)?.tell("produced/sent to Kafka, until the long poll is answered");
    Ok(())
}
