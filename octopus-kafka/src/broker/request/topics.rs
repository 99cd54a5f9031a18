//! CreateTopics, DeleteTopics, DeleteRecords and DescribeConfigs.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use kafka_protocol::messages::{
    CreateTopicsRequest, CreateTopicsResponse, DeleteRecordsRequest, DeleteRecordsResponse,
    DeleteTopicsRequest, DeleteTopicsResponse, DescribeConfigsRequest, DescribeConfigsResponse,
    create_topics_request::CreatableTopic,
    create_topics_response::{CreatableTopicConfigs, CreatableTopicResult},
    delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult},
    delete_topics_response::DeletableTopicResult,
    describe_configs_request::DescribeConfigsResource,
    describe_configs_response::{DescribeConfigsResourceResult, DescribeConfigsResult},
};
use uuid::Uuid;

use crate::broker::{
    api::{Head, Response, text},
    code::{self, Code},
    log::Mark,
    machine::Machine,
    topic::{CONFIGS, MAX_MESSAGE_BYTES, PARTITIONS},
};

/// The resource types of a DescribeConfigs that the broker has.
const TOPIC: i8 = 2;
const BROKER: i8 = 4;

/// Where a setting's value comes from.
const FROM_TOPIC: i8 = 1;
const FROM_BROKER: i8 = 4;
const FROM_DEFAULT: i8 = 5;

impl Machine {
    pub(crate) fn create_topics(&mut self, head: &Head, request: &CreateTopicsRequest) -> Response {
        let mut response = CreateTopicsResponse::default();
        let mut seen = BTreeSet::new();
        for topic in &request.topics {
            if !seen.insert(&topic.name) {
                continue;
            }
            let twice = request
                .topics
                .iter()
                .filter(|other| other.name == topic.name)
                .count()
                > 1;
            let created = if twice {
                Err(code::INVALID_REQUEST)
            } else {
                self.create_topic(topic, request.validate_only)
            };
            let mut result = CreatableTopicResult::default()
                .with_name(topic.name.clone())
                .with_error_message(None);
            match created {
                Ok((id, partitions, configs)) => {
                    result.topic_id = id;
                    result.num_partitions = partitions;
                    result.replication_factor = 1;
                    result.configs = (head.version >= 5).then(|| {
                        let config = |(name, value, source): (String, String, i8)| {
                            CreatableTopicConfigs::default()
                                .with_name(text(&name))
                                .with_value(Some(text(&value)))
                                .with_config_source(source)
                        };
                        self.configs(&configs).into_iter().map(config).collect()
                    });
                }
                Err(code) => {
                    result.error_code = code;
                    result.error_message = Some(text(reason(code)));
                    result.configs = None;
                }
            }
            response.topics.push(result);
        }
        Response::CreateTopics(response)
    }

    pub(crate) fn delete_topics(&mut self, request: &DeleteTopicsRequest, now: Instant) -> Response {
        let mut response = DeleteTopicsResponse::default();
        for name in &request.topic_names {
            let code = match self.delete_topic(name, now) {
                Ok(()) => code::NONE,
                Err(code) => code,
            };
            response.responses.push(
                DeletableTopicResult::default()
                    .with_name(Some(name.clone()))
                    .with_error_code(code),
            );
        }
        Response::DeleteTopics(response)
    }

    pub(crate) fn delete_records(&mut self, request: &DeleteRecordsRequest, now: Instant) -> Response {
        let mut response = DeleteRecordsResponse::default();
        for topic in &request.topics {
            let mut answer = DeleteRecordsTopicResult::default().with_name(topic.name.clone());
            for named in &topic.partitions {
                let mut result = DeleteRecordsPartitionResult::default()
                    .with_partition_index(named.partition_index)
                    .with_low_watermark(-1);
                match self.delete_records_before(&topic.name, named.partition_index, named.offset, now) {
                    Ok(start) => result.low_watermark = start,
                    Err(code) => result.error_code = code,
                }
                answer.partitions.push(result);
            }
            response.topics.push(answer);
        }
        Response::DeleteRecords(response)
    }

    pub(crate) fn describe_configs(&self, request: &DescribeConfigsRequest) -> Response {
        let results = request.resources.iter();
        let results = results.map(|resource| self.describe_resource(resource)).collect();
        Response::DescribeConfigs(DescribeConfigsResponse::default().with_results(results))
    }

    /// Creates a topic and returns its id.
    ///
    /// # Errors
    ///
    /// Those of [`Topics::create`](crate::broker::topic::Topics::create).
    pub(crate) fn add_topic(
        &mut self,
        name: &str,
        partitions: i32,
        configs: BTreeMap<String, String>,
    ) -> Result<Uuid, Code> {
        self.topics
            .create(name, partitions, configs, &mut self.ids, self.store.as_mut())
    }

    /// Deletes a topic with all that groups committed for it, and answers the fetches that wait for it.
    ///
    /// # Errors
    ///
    /// `UNKNOWN_TOPIC_OR_PARTITION`, `KAFKA_STORAGE_ERROR`.
    pub(crate) fn delete_topic(&mut self, name: &str, now: Instant) -> Result<(), Code> {
        let topic = self.topics.find(name).ok_or(code::UNKNOWN_TOPIC_OR_PARTITION)?;
        if let Some(store) = &mut self.store {
            store.delete_topic(name, topic)?;
        }
        self.topics.delete(name);
        self.groups.forget_topic(name);
        self.wake_fetches(name, now);
        Ok(())
    }

    pub(crate) fn delete_records_before(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        now: Instant,
    ) -> Result<i64, Code> {
        let log = self.topics.log_mut(topic, partition);
        let log = log.ok_or(code::UNKNOWN_TOPIC_OR_PARTITION)?;
        let start = log.start_at(offset)?;
        if let Some(store) = &mut self.store {
            // Before the records go: they must not be there again after a restart.
            store.mark(topic, partition, &Mark { start, ..log.mark() })?;
        }
        log.delete_before(start)?;
        self.wake_fetches(topic, now);
        Ok(start)
    }

    /// Gives a partition a new leader, who lacks what lies from `truncate_to` on, and returns its epoch.
    pub(crate) fn elect(
        &mut self,
        topic: &str,
        partition: i32,
        truncate_to: Option<i64>,
        now: Instant,
    ) -> Result<i32, Code> {
        let log = self.topics.log_mut(topic, partition);
        let log = log.ok_or(code::UNKNOWN_TOPIC_OR_PARTITION)?;
        let epoch = log.elect(truncate_to)?;
        if let Some(store) = &mut self.store {
            store.mark(topic, partition, &log.mark())?;
        }
        self.wake_fetches(topic, now);
        Ok(epoch)
    }

    fn create_topic(
        &mut self,
        topic: &CreatableTopic,
        validate_only: bool,
    ) -> Result<(Uuid, i32, BTreeMap<String, String>), Code> {
        self.topics.check_name(&topic.name)?;
        let partitions = if topic.assignments.is_empty() {
            if !matches!(topic.replication_factor, -1 | 1) {
                return Err(code::INVALID_REPLICATION_FACTOR);
            }
            match topic.num_partitions {
                -1 => self.settings.num_partitions,
                given => given,
            }
        } else {
            if topic.num_partitions != -1 || topic.replication_factor != -1 {
                return Err(code::INVALID_REQUEST);
            }
            let mut indexes: Vec<i32> = topic.assignments.iter().map(|a| a.partition_index).collect();
            indexes.sort_unstable();
            let node = self.settings.node.id;
            let ours = topic
                .assignments
                .iter()
                .all(|a| matches!(a.broker_ids[..], [id] if *id == node));
            if !ours || !indexes.iter().copied().eq((0..).take(indexes.len())) {
                return Err(code::INVALID_REPLICA_ASSIGNMENT);
            }
            i32::try_from(indexes.len()).map_err(|_| code::INVALID_PARTITIONS)?
        };
        if !(1..=PARTITIONS).contains(&partitions) {
            return Err(code::INVALID_PARTITIONS);
        }
        let mut configs = BTreeMap::new();
        for config in &topic.configs {
            let known = CONFIGS.iter().any(|(name, _)| *name == config.name.as_str());
            let value = config.value.as_deref().ok_or(code::INVALID_CONFIG)?;
            let holds = config.name.as_str() != MAX_MESSAGE_BYTES || value.parse::<u32>().is_ok();
            if !known || !holds {
                return Err(code::INVALID_CONFIG);
            }
            configs.insert(config.name.to_string(), value.to_owned());
        }
        if validate_only {
            return Ok((Uuid::nil(), partitions, configs));
        }
        let id = self.add_topic(&topic.name, partitions, configs.clone())?;
        Ok((id, partitions, configs))
    }

    /// A topic's settings: name, value and where it comes from.
    fn configs(&self, set: &BTreeMap<String, String>) -> Vec<(String, String, i8)> {
        let config = |(name, default): &(&str, &str)| {
            let (value, source) = match set.get(*name) {
                Some(value) => (value.clone(), FROM_TOPIC),
                None if *name == MAX_MESSAGE_BYTES => {
                    (self.settings.max_message_bytes.to_string(), FROM_BROKER)
                }
                None => ((*default).to_owned(), FROM_DEFAULT),
            };
            ((*name).to_owned(), value, source)
        };
        CONFIGS.iter().map(config).collect()
    }

    fn describe_resource(&self, resource: &DescribeConfigsResource) -> DescribeConfigsResult {
        let mut result = DescribeConfigsResult::default()
            .with_error_message(None)
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name.clone());
        let node = self.settings.node.id.to_string();
        let configs = match (resource.resource_type, resource.resource_name.as_str()) {
            (TOPIC, name) => match self.topics.find(name) {
                Some(topic) => Ok(self.configs(&topic.configs)),
                None => Err(code::UNKNOWN_TOPIC_OR_PARTITION),
            },
            (BROKER, name) if name.is_empty() || name == node => Ok(self.broker_configs()),
            _ => Err(code::INVALID_REQUEST),
        };
        match configs {
            Ok(configs) => {
                let keys = resource.configuration_keys.as_ref();
                let asked = |name: &str| keys.is_none_or(|keys| keys.iter().any(|key| key.as_str() == name));
                result.configs = configs
                    .into_iter()
                    .filter(|(name, ..)| asked(name))
                    .map(|(name, value, source)| {
                        DescribeConfigsResourceResult::default()
                            .with_name(text(&name))
                            .with_value(Some(text(&value)))
                            .with_config_source(source)
                    })
                    .collect();
            }
            Err(code) => {
                result.error_code = code;
                result.error_message = Some(text(reason(code)));
            }
        }
        result
    }

    fn broker_configs(&self) -> Vec<(String, String, i8)> {
        let settings = &self.settings;
        let rules = &settings.groups;
        let values = [
            ("auto.create.topics.enable", settings.auto_create.to_string()),
            ("broker.id", settings.node.id.to_string()),
            ("fetch.max.bytes", settings.max_fetch_bytes.to_string()),
            (
                "group.initial.rebalance.delay.ms",
                rules.initial_rebalance_delay.as_millis().to_string(),
            ),
            (
                "group.max.session.timeout.ms",
                rules.max_session_timeout.as_millis().to_string(),
            ),
            (
                "group.min.session.timeout.ms",
                rules.min_session_timeout.as_millis().to_string(),
            ),
            ("message.max.bytes", settings.max_message_bytes.to_string()),
            ("num.partitions", settings.num_partitions.to_string()),
        ];
        let config = |(name, value): (&str, String)| (name.to_owned(), value, FROM_BROKER);
        values.into_iter().map(config).collect()
    }
}

/// What an error says to a person.
const fn reason(code: Code) -> &'static str {
    match code {
        code::INVALID_TOPIC => "The topic's name is not valid",
        code::TOPIC_ALREADY_EXISTS => "There is a topic of this name",
        code::INVALID_PARTITIONS => "The number of partitions must be 1 to 10000",
        code::INVALID_REPLICATION_FACTOR => "There is one broker, so the replication factor must be 1",
        code::INVALID_REPLICA_ASSIGNMENT => "Every partition must be assigned to this one broker",
        code::INVALID_CONFIG => "A setting is not known, or its value is not valid",
        code::UNKNOWN_TOPIC_OR_PARTITION => "There is no such topic",
        code::KAFKA_STORAGE_ERROR => "The broker's disk fails",
        _ => "The request is not valid",
    }
}
