//! The requests of Kafka's protocol that this client speaks, one module an API.

pub(crate) mod fetch;
