//! The embedded broker alone, for clients of other languages: `broker [ADDR]`, 127.0.0.1:9092 by default.

use octopus_kafka::broker::{Broker, Config};

#[tokio::main]
#[expect(clippy::print_stdout, reason = "it says where it listens")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut config = Config::default();
    config.listen = std::env::args()
        .nth(1)
        .as_deref()
        .unwrap_or("127.0.0.1:9092")
        .parse()?;
    config.auto_create = true;
    config.requests_kept = 0;
    let broker = Broker::start(config).await?;
    println!("{}", broker.addr());
    tokio::signal::ctrl_c().await?;
    broker.shutdown().await;
    Ok(())
}
