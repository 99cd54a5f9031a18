//! What the broker does with each request.

use bytes::Bytes;
use kafka_protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, FindCoordinatorRequest, FindCoordinatorResponse,
    InitProducerIdRequest, InitProducerIdResponse, ProduceRequest, SaslAuthenticateRequest,
    api_versions_response::ApiVersion, find_coordinator_response::Coordinator,
};

use super::{
    api::{Head, Response, text},
    code::{self, Code},
    machine::Machine,
    topic,
};

mod consumer;
mod fetch;
mod hint;
mod metadata;
mod offset;
mod produce;
mod sasl;
mod topics;

/// How many producer ids are taken at once, as Kafka's brokers take them.
const PRODUCER_IDS: i64 = 1000;
/// Only groups have a coordinator here: transactions have none.
const GROUP: i8 = 0;

impl Machine {
    /// The version ranges, with this code.
    pub(super) fn api_versions(&self, code: Code) -> Response {
        let range = |(api, versions): (&i16, &std::ops::RangeInclusive<i16>)| {
            ApiVersion::default()
                .with_api_key(*api)
                .with_min_version(*versions.start())
                .with_max_version(*versions.end())
        };
        let response = ApiVersionsResponse::default()
            .with_error_code(code)
            .with_api_keys(self.versions.iter().map(range).collect());
        Response::ApiVersions(response)
    }

    pub(super) fn hello(&self, head: &Head, request: &ApiVersionsRequest) -> Response {
        let fine = head.version < 3
            || (is_software(&request.client_software_name) && is_software(&request.client_software_version));
        if fine {
            self.api_versions(code::NONE)
        } else {
            Response::ApiVersions(ApiVersionsResponse::default().with_error_code(code::INVALID_REQUEST))
        }
    }

    pub(super) fn find_coordinator(&self, head: &Head, request: &FindCoordinatorRequest) -> Response {
        let node = &self.settings.node;
        let code = if request.key_type == GROUP {
            code::NONE
        } else {
            code::INVALID_REQUEST
        };
        let message = (code != code::NONE).then(|| text("this broker coordinates groups only"));
        let (id, host, port) = if code == code::NONE {
            (node.id, text(&node.host), i32::from(node.port))
        } else {
            (-1, text(""), -1)
        };
        let mut response = FindCoordinatorResponse::default();
        if head.version >= 4 {
            for key in &request.coordinator_keys {
                response.coordinators.push(
                    Coordinator::default()
                        .with_key(key.clone())
                        .with_error_code(code)
                        .with_error_message(message.clone())
                        .with_node_id(id.into())
                        .with_host(host.clone())
                        .with_port(port),
                );
            }
        } else {
            response = response
                .with_error_code(code)
                .with_error_message(message)
                .with_node_id(id.into())
                .with_host(host)
                .with_port(port);
        }
        Response::FindCoordinator(response)
    }

    /// A new producer id. Ids are for idempotent producers only, which go to their next epoch on their own.
    pub(super) fn init_producer_id(&mut self, request: &InitProducerIdRequest) -> Response {
        let refused = |code| {
            InitProducerIdResponse::default()
                .with_error_code(code)
                .with_producer_id((-1).into())
                .with_producer_epoch(-1)
        };
        let mut response = InitProducerIdResponse::default();
        if request.transactional_id.is_some() {
            response = refused(code::INVALID_REQUEST);
        } else {
            match self.new_producer_id() {
                Ok(id) => response.producer_id = id.into(),
                Err(code) => response = refused(code),
            }
        }
        Response::InitProducerId(response)
    }

    /// An id that no producer has, nor had before a restart.
    fn new_producer_id(&mut self) -> Result<i64, Code> {
        let id = self.next_producer_id;
        if let Some(store) = &mut self.store
            && id >= self.producer_ids_below
        {
            store.reserve_producer_ids(id + PRODUCER_IDS)?;
            self.producer_ids_below = id + PRODUCER_IDS;
        }
        self.next_producer_id += 1;
        Ok(id)
    }
}

/// A copy of a Produce that shares nothing with its frame, and has no records.
pub(super) fn without_records(request: &mut ProduceRequest) {
    request.transactional_id = request.transactional_id.as_ref().map(|id| text(id).into());
    for topic in &mut request.topic_data {
        topic.name = topic::wire_name(&topic.name);
        for partition in &mut topic.partition_data {
            partition.records = None;
        }
    }
}

/// A copy of a SaslAuthenticate without its secrets.
pub(super) fn without_secrets(request: &mut SaslAuthenticateRequest) {
    request.auth_bytes = Bytes::new();
}

/// Kafka's rule for the name and version of a client's software.
fn is_software(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    !text.is_empty()
        && text.chars().all(inner)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
}
