//! `octopus-server`: the consume API as a process.
#![forbid(unsafe_code)]

use std::{env, error::Error, io, process::ExitCode, sync::Arc, time::SystemTime};

use octopus_auth::{TokenCheck, Tokens};
use octopus_server::{
    Server,
    config::{Config, Kafka, NamespacesMode},
    dev::Dev,
    process::{self, Files, Signals},
    topics::RegistryTopics,
};
use tokio::{net::TcpListener, runtime::Runtime};

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let (config, files) = match process::begin(env::args_os()) {
        Ok(begun) => begun,
        Err(stop) => return process::stopped(&stop),
    };
    let served = Runtime::new().map_err(Into::into).and_then(|runtime| {
        let served = runtime.block_on(serve(config, files));
        // What still runs is work that nobody waits for any more.
        runtime.shutdown_background();
        served
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            process::say(io::stderr(), &format!("octopus-server: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

async fn serve(config: Config, files: Files) -> Result<(), Box<dyn Error + Send + Sync>> {
    let signals = Signals::new()?;
    let listener = TcpListener::bind(config.listen)
        .await
        .map_err(|e| format!("--listen {}: {e}", config.listen))?;
    let address = listener.local_addr()?;
    let mut dev = None;
    let servers = match config.kafka {
        Kafka::Cluster(servers) => servers,
        Kafka::Dev { listen, data } => {
            let started = Dev::start(listen, data).await;
            let started = dev.insert(started.map_err(|e| format!("--dev: {e}"))?);
            vec![started.kafka().to_string()]
        }
        Kafka::None => {
            tracing::warn!("no --bootstrap-servers: creates answer 50002");
            Vec::new()
        }
    };
    let tokens: Arc<dyn TokenCheck> = match files.tokens {
        Some(tokens) => tokens,
        None => {
            let line = dev.as_ref().map(Dev::tokens).unwrap_or_default();
            Arc::new(Tokens::parse(&line, SystemTime::now)?)
        }
    };
    let mut builder = Server::builder(tokens)
        .limits(config.limits)
        .max_connections(config.max_connections)
        .max_connections_per_address(config.max_connections_per_address)
        .makes_topics(dev.is_some());
    if !servers.is_empty() {
        let cluster = process::cluster(servers, files.security, config.group_protocol);
        process::speaks(&cluster, config.group_protocol)
            .await
            .map_err(|stop| stop.to_string())?;
        if config.namespaces == NamespacesMode::Registry {
            builder = builder.topics(Arc::new(RegistryTopics::new(cluster.clone())));
        }
        builder = builder.cluster(cluster);
    }
    let scheme = if files.tls.is_some() { "https" } else { "http" };
    if let (Some(https), Some(tls)) = (config.https, files.tls) {
        process::renew_at_hangup(https, tls.clone())?;
        builder = builder.tls(tls);
    }
    let server = builder.start();
    if let Some(dev) = &dev {
        process::say(io::stdout(), &dev.walk(&format!("{scheme}://{address}")));
    }
    if let Some(file) = &config.ready_file {
        process::ready(file, &address.to_string()).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    tracing::info!(%address, scheme, "serving");
    server.serve(listener, signals.stop()).await;
    if let Some(dev) = dev {
        dev.shut_down().await;
    }
    Ok(())
}
