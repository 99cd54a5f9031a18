//! The routes that write records, as Confluent's REST Proxy v3 has them but for the namespace.

use http::Method;

use super::{NoRoute, TopicPath};

/// A route that writes records to a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProduceRoute {
    /// The topic.
    pub path: TopicPath,
    /// Whether the body is a batch, whose entries have ids.
    pub is_batch: bool,
}

impl ProduceRoute {
    /// The route of what follows `/api/v3`; `None` for a path of other routes.
    pub(super) fn of(method: &Method, rest: &[&str]) -> Option<Result<Self, NoRoute>> {
        let [
            namespace,
            "topics",
            topic,
            resource @ ("records" | "records:batch"),
        ] = rest
        else {
            return None;
        };
        Some(if method == Method::POST {
            Ok(Self {
                path: TopicPath {
                    namespace: (*namespace).to_owned(),
                    topic: (*topic).to_owned(),
                },
                is_batch: *resource == "records:batch",
            })
        } else {
            Err(NoRoute::MethodNotAllowed("POST"))
        })
    }

    /// A word for logs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        if self.is_batch { "produce batch" } else { "produce" }
    }
}
