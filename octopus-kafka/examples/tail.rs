//! Prints a topic from its first record on, and then as it grows: `tail HOST:PORT TOPIC`.

use std::{env, error::Error, time::Duration};

use octopus_core::{AutoOffsetReset, FetchPlan, Name, Open, Records, Settings, TopicPartition};
use octopus_kafka::{Cluster, Config};

#[tokio::main]
#[expect(clippy::print_stdout, reason = "it prints the topic")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let (Some(address), Some(topic)) = (args.next(), args.next()) else {
        return Err("usage: tail HOST:PORT TOPIC".into());
    };
    let mut settings = Settings::default();
    settings.auto_offset_reset = AutoOffsetReset::Earliest;
    let group = Name::parse("tail").ok_or("a group's name")?;

    let cluster = Cluster::new(Config::new(vec![address]));
    let consumer = cluster.consumer(&Open::outside(group, settings), |_| {});
    let mut plan = FetchPlan::of([TopicPartition::only(topic.as_str().into())]);
    loop {
        let polled = consumer.poll(&plan, Duration::from_secs(1)).await?;
        for (partition, start) in polled.started {
            plan.advance(&partition, start);
        }
        for (partition, mut records) in polled.parts {
            while let Some(record) = records.next() {
                let value = record?.value.unwrap_or(b"null");
                println!("{}", String::from_utf8_lossy(value));
            }
            plan.advance(&partition, records.position());
        }
        if let Some((_, error)) = polled.failed.into_iter().next() {
            return Err(error.into());
        }
    }
}
