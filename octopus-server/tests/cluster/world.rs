//! Three nodes, the binary on them, its first user, and an admin client.

use std::sync::Arc;

use octopus_kafka::testing::{Nodes, Release};
use serde_json::Value;
use tokio::task::spawn_blocking;

use super::{
    admin::{Admin, python},
    support::{client::Client, kafka::on_kafka, server::Server},
};

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) admin: Arc<Admin>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) python: String,
    _server: Server,
    pub(crate) user: Client,
}

impl World {
    /// `None` without a Python, which is printed.
    pub(crate) async fn start() -> Option<Self> {
        let python = python()?;
        let nodes = spawn_blocking(|| Nodes::start(Release::default())).await.unwrap();
        let nodes = nodes.unwrap();
        let address = nodes.address();
        let flags = ["--max-fetches-per-user", "12", "--max-instances-per-user", "12"];
        let server = Server::start(&address, &flags).await;
        Some(Self {
            admin: Arc::new(Admin::start(&python, &address)),
            nodes: Arc::new(nodes),
            python,
            user: server.user(0),
            _server: server,
        })
    }

    /// What a topic or a group of the user's is called on Kafka.
    pub(crate) fn name(&self, name: &str) -> String {
        on_kafka(&self.user, name)
    }

    /// Makes a topic of the user's; gives its name on Kafka.
    pub(crate) async fn topic(&self, topic: &str, config: Value) -> String {
        let name = self.name(topic);
        let made = name.clone();
        self.admin(move |admin| admin.create(&made, &config)).await;
        name
    }

    /// Does something with the admin client, which blocks.
    pub(crate) async fn admin<T: Send + 'static>(
        &self,
        what: impl FnOnce(&Admin) -> T + Send + 'static,
    ) -> T {
        let admin = Arc::clone(&self.admin);
        spawn_blocking(move || what(&admin)).await.unwrap()
    }
}
