//! Metadata.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::{
    MetadataRequest, MetadataResponse,
    metadata_response::{MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic},
};
use uuid::Uuid;

use crate::broker::{
    api::{Head, Response, text},
    code::{self, Code},
    log::Log,
    machine::Machine,
    topic::{self, Topic, wire_name},
};

/// What anybody may do with a topic, and with the cluster, as bits of Kafka's operations.
const TOPIC_OPERATIONS: i32 = 0b1101_1111_1000;
const CLUSTER_OPERATIONS: i32 = 0b1_1111_1010_0000;

impl Machine {
    pub(crate) fn metadata(&mut self, head: &Head, request: &MetadataRequest) -> Response {
        let mut response = MetadataResponse::default();
        self.describe_cluster(&mut response);
        response.topics = self.describe_topics(head, request);
        if request.include_topic_authorized_operations {
            for topic in &mut response.topics {
                topic.topic_authorized_operations = TOPIC_OPERATIONS;
            }
        }
        if request.include_cluster_authorized_operations {
            response.cluster_authorized_operations = CLUSTER_OPERATIONS;
        }
        Response::Metadata(response)
    }

    fn describe_topics(&mut self, head: &Head, request: &MetadataRequest) -> Vec<MetadataResponseTopic> {
        // Version 0 has no null: an empty list asks for all topics.
        let named = request
            .topics
            .as_ref()
            .filter(|topics| head.version > 0 || !topics.is_empty());
        let Some(named) = named else {
            let all = self.topics.iter();
            return all.map(|(name, topic)| self.describe(name, topic)).collect();
        };
        let mut topics = Vec::new();
        let mut seen = BTreeSet::new();
        for asked in named {
            if !seen.insert((asked.name.as_ref(), asked.topic_id)) {
                continue;
            }
            let name = match &asked.name {
                Some(name) => name.to_string(),
                None => match self.topics.name_of(asked.topic_id) {
                    Some(name) => name.to_owned(),
                    None => {
                        let unknown = unknown(None, code::UNKNOWN_TOPIC_ID).with_topic_id(asked.topic_id);
                        topics.push(unknown);
                        continue;
                    }
                },
            };
            let missing = self.topics.find(&name).is_none();
            if missing && self.settings.auto_create && request.allow_auto_topic_creation {
                let partitions = self.settings.num_partitions;
                // Where it can't be created the answer below says so.
                let _ = self.add_topic(&name, partitions, BTreeMap::new());
            }
            topics.push(match self.topics.find(&name) {
                Some(topic) => self.describe(&name, topic),
                None if !topic::is_valid(&name) => unknown(Some(&name), code::INVALID_TOPIC),
                None => unknown(Some(&name), code::UNKNOWN_TOPIC_OR_PARTITION),
            });
        }
        topics
    }

    /// Fills in the brokers.
    pub(crate) fn describe_cluster(&self, response: &mut MetadataResponse) {
        let node = &self.settings.node;
        response.cluster_id = Some(text(&self.settings.cluster_id));
        response.controller_id = node.id.into();
        response.brokers = vec![
            MetadataResponseBroker::default()
                .with_node_id(node.id.into())
                .with_host(text(&node.host))
                .with_port(node.port.into()),
        ];
    }

    fn describe(&self, name: &str, topic: &Topic) -> MetadataResponseTopic {
        let node = self.settings.node.id.into();
        let partition = |(index, log): (i32, &Log)| {
            MetadataResponsePartition::default()
                .with_partition_index(index)
                .with_leader_id(node)
                .with_leader_epoch(log.leader_epoch())
                .with_replica_nodes(vec![node])
                .with_isr_nodes(vec![node])
        };
        MetadataResponseTopic::default()
            .with_name(Some(wire_name(name)))
            .with_topic_id(topic.id)
            .with_partitions((0..).zip(&topic.partitions).map(partition).collect())
    }
}

fn unknown(name: Option<&str>, code: Code) -> MetadataResponseTopic {
    MetadataResponseTopic::default()
        .with_name(name.map(wire_name))
        .with_topic_id(Uuid::nil())
        .with_error_code(code)
}
