//! The embedded broker alone, for clients of other languages: `broker [ADDR [DIR]]`, 127.0.0.1:9092 by default;
//! with a folder it keeps what it holds there.

use octopus_kafka::broker::{Broker, Config};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
#[expect(clippy::print_stdout, reason = "it says where it listens")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut config = Config::default();
    config.listen = arguments.next().as_deref().unwrap_or("127.0.0.1:9092").parse()?;
    config.data = arguments.next().map(Into::into);
    config.auto_create = true;
    config.requests_kept = 0;
    let mut terminate = signal(SignalKind::terminate())?;
    let broker = Broker::start(config).await?;
    println!("{}", broker.addr());
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
    }
    broker.shutdown().await;
    Ok(())
}
