//! A member of a consumer group: prints its share of some topics, and commits what it has printed:
//! `group HOST:PORT GROUP TOPIC...`. Start it twice to see the group divide the topics.

use std::{env, error::Error, time::Duration};

use octopus_core::{
    AutoOffsetReset, Commit, Effect, FetchPlan, Join, Name, Open, Outcome, Records, Settings, TopicName,
};
use octopus_kafka::{Cluster, Config, Consumer};
use tokio::sync::watch;

const WITHIN: Duration = Duration::from_secs(10);

#[tokio::main]
#[expect(clippy::print_stdout, reason = "it prints the topics")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let (Some(address), Some(group)) = (args.next(), args.next()) else {
        return Err("usage: group HOST:PORT GROUP TOPIC...".into());
    };
    let topics: Vec<TopicName> = args.map(|topic| topic.as_str().into()).collect();
    let group = Name::parse(&group).ok_or("a group is letters, digits, dots, dashes and underscores")?;
    let mut settings = Settings::default();
    settings.auto_offset_reset = AutoOffsetReset::Earliest;

    // A heartbeat that tells of a rebalance only says so; when to join again is for this program to decide.
    let (told, mut rebalances) = watch::channel(());
    let cluster = Cluster::new(Config::new(vec![address]));
    let consumer = cluster.consumer(&Open::outside(group, settings), move |_| {
        told.send_replace(());
    });
    let mut plan = join(&consumer, &topics).await?;
    let mut stop = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        let polled = tokio::select! {
            polled = consumer.poll(&plan, Duration::from_secs(1)) => polled?,
            _ = rebalances.changed() => {
                plan = join(&consumer, &topics).await?;
                continue;
            }
            _ = &mut stop => break,
        };
        for (partition, start) in polled.started {
            plan.advance(&partition, start);
        }
        let mut commits = Vec::new();
        for (partition, mut records) in polled.parts {
            while let Some(record) = records.next() {
                let record = record?;
                let value = String::from_utf8_lossy(record.value.unwrap_or(b"null"));
                println!("{} {} {value}", partition.topic, record.offset.0);
            }
            plan.advance(&partition, records.position());
            commits.push(Commit {
                partition,
                position: records.position(),
                metadata: "".into(),
            });
        }
        // One that a rebalance overtakes is refused; the records come again to whoever has them next.
        if let Err(error) = consumer.run(Effect::Commit(commits), WITHIN).await {
            println!("not committed: {error}");
        }
    }
    consumer.run(Effect::Close, WITHIN).await?;
    Ok(())
}

/// Joins the group, as long as that takes, and plans to read what it assigns.
async fn join(consumer: &Consumer, topics: &[TopicName]) -> Result<FetchPlan, Box<dyn Error>> {
    loop {
        let join = Join {
            topics: topics.to_vec(),
            commit: Vec::new(),
        };
        if let Outcome::Joined(partitions) = consumer.run(Effect::Join(join), WITHIN).await? {
            return Ok(FetchPlan::of(partitions));
        }
    }
}
