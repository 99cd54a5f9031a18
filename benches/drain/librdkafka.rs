//! librdkafka alone: a consumer that counts records and throws them away.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use criterion::{BenchmarkGroup, measurement::WallTime};
use octopus_benches::{
    stand::{Kafka, full_name},
    system::now,
};
use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
};

use crate::{Log, tell_used, watch};

/// Longer than any record takes to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// Its part of a group.
pub(crate) fn bench(
    group: &mut BenchmarkGroup<'_, WallTime>,
    kafka: &mut Kafka,
    log: &mut Log,
) -> Result<()> {
    let mut drained = 0;
    let mut used = None;
    group.bench_function("librdkafka", |bencher| {
        let topic = log.topic(kafka).expect("a topic");
        used.get_or_insert_with(|| watch(kafka, []).expect("their CPU"));
        bencher.iter_custom(|times| {
            drained += times;
            let drains = (0..times).map(|_| {
                let drain = drain(kafka.address(), &topic, log.records, log.bytes);
                drain.expect("a drain")
            });
            drains.sum()
        });
    });
    match used {
        Some(used) => tell_used(&used, drained * log.records as u64),
        None => Ok(()),
    }
}

/// Reads so many records of this length, from the first one on. The time starts when the first one is there.
fn drain(kafka: &str, topic: &str, records: usize, length: usize) -> Result<Duration> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", kafka)
        .set("group.id", "octopus-benches")
        .set("enable.auto.commit", "false")
        // Its fastest: it fetches ahead as far as it may, and comes back soon where it may not.
        .set("queued.min.messages", "1000000")
        .set("fetch.queue.backoff.ms", "5")
        .create()?;
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition_offset(&full_name(topic), 0, Offset::Beginning)?;
    consumer.assign(&partitions)?;
    let next = || -> Result<usize> {
        let message = consumer.poll(PATIENCE).context("a record")??;
        Ok(message.payload_len())
    };
    let mut bytes = next()?;
    let start = now();
    for _ in 1..records {
        bytes += next()?;
    }
    let taken = start.elapsed();
    ensure!(bytes == records * length, "{bytes} bytes");
    Ok(taken)
}
