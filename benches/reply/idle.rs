//! What the service holds for an instance that is subscribed and whose fetch waits: memory, and CPU in a second.

use std::{thread, time::Duration};

use anyhow::Result;
use octopus_benches::{
    client::{Client, Instance},
    event_of,
    stand::{Kafka, Part},
    system,
};
use octopus_core::Format;
use octopus_kafka::records::Compression;

use crate::tell;

/// The time for which all of them wait before the memory is looked at.
const TIME: Duration = Duration::from_secs(15);

pub(crate) fn measure(kafka: &mut Kafka, is_whole: bool) -> Result<()> {
    let (count, time) = if is_whole {
        (200, TIME)
    } else {
        (3, Duration::from_millis(10))
    };
    let topic = kafka.fill("idle", Compression::None, [])?;
    let service = Part::service(kafka, count + 1)?;
    let poll = |number: usize| -> Result<Instance> {
        let client = Client::connect(service.address())?;
        let mut instance = Instance::create(client, &format!("group-{number}"), &topic, Format::Json)?;
        instance.subscribe()?;
        instance.send_fetch()?;
        Ok(instance)
    };
    // What the first one takes once: connections to Kafka, and what is known of it.
    let mut instances = vec![poll(0)?];
    thread::sleep(time);
    let before = system::resident(service.id())?;
    for number in 1..=count {
        instances.push(poll(number)?);
    }
    thread::sleep(time);
    let used = system::cpu(service.id())?;
    thread::sleep(time / 3);
    let used = system::cpu(service.id())? - used;
    let held = system::resident(service.id())?.saturating_sub(before);
    #[expect(clippy::cast_precision_loss, reason = "figures to be read")]
    let (each, share) = (
        held as f64 / count as f64,
        used.as_secs_f64() * 1000.0 / (time / 3).as_secs_f64() / count as f64,
    );
    tell(&format!(
        "idle/{count} instances with a long poll: {each:.1} KiB each, {share:.2} ms of CPU each in a second"
    ));
    // Each of them was there to be answered: a record comes to all.
    kafka.append(&topic, &event_of(0, 100))?;
    for instance in &mut instances {
        if instance.receive()?.length == "[]".len() {
            // Its wait was over before.
            instance.fetch_some()?;
        }
    }
    Ok(())
}
