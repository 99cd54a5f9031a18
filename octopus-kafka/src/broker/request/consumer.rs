//! ConsumerGroupHeartbeat and ConsumerGroupDescribe.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use kafka_protocol::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse, GroupId,
    consumer_group_describe_response::{
        Assignment as Described, DescribedGroup, Member as DescribedMember, TopicPartitions as DescribedTopic,
    },
    consumer_group_heartbeat_response::{Assignment, TopicPartitions},
};
use uuid::Uuid;

use crate::broker::{
    api::{Head, Response, text},
    code::{self, Code},
    consumers::{AWAY, Answer, Assignor, Beat, JOIN, Partitions, Stage, regex},
    machine::Machine,
    topic::wire_name,
};

/// A member of the protocol that has no other one.
const CONSUMER: i8 = 1;

impl Machine {
    pub(crate) fn consumer_heartbeat(
        &mut self,
        head: &Head,
        request: &ConsumerGroupHeartbeatRequest,
        now: Instant,
    ) -> Response {
        let mut response = ConsumerGroupHeartbeatResponse::default();
        let mut member_id = request.member_id.to_string();
        if head.version == 0 && member_id.is_empty() && request.member_epoch == JOIN {
            // Only the first version has the coordinator name its members.
            member_id = self.ids.uuid().to_string();
        }
        let answer = read(head, request, &member_id).and_then(|beat| {
            let topics: BTreeMap<String, (Uuid, i32)> = self
                .topics
                .iter()
                .map(|(name, topic)| {
                    let count = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
                    (name.to_owned(), (topic.id, count))
                })
                .collect();
            self.groups.beat(&request.group_id, &beat, &topics, now)
        });
        match answer {
            Ok(Answer { epoch, assigned }) => {
                let interval = self.settings.groups.consumer_heartbeat_interval.as_millis();
                response.member_id = Some(text(&member_id));
                response.member_epoch = epoch;
                response.heartbeat_interval_ms = i32::try_from(interval).unwrap_or(i32::MAX);
                response.assignment = assigned.map(|assigned| {
                    let topics = assigned.into_iter().map(|(topic, partitions)| {
                        TopicPartitions::default()
                            .with_topic_id(topic)
                            .with_partitions(partitions.into_iter().collect())
                    });
                    Assignment::default().with_topic_partitions(topics.collect())
                });
            }
            Err(code) => {
                response.error_code = code;
                response.error_message = Some(text(reason(code)));
            }
        }
        Response::ConsumerGroupHeartbeat(response)
    }

    pub(crate) fn describe_consumers(&self, request: &ConsumerGroupDescribeRequest) -> Response {
        let groups = request
            .group_ids
            .iter()
            .map(|id| self.describe_consumer_group(id));
        Response::ConsumerGroupDescribe(
            ConsumerGroupDescribeResponse::default().with_groups(groups.collect()),
        )
    }

    fn describe_consumer_group(&self, id: &GroupId) -> DescribedGroup {
        let described = DescribedGroup::default().with_group_id(id.clone());
        let consumers = self.groups.find(id).and_then(|group| group.consumers.as_ref());
        let Some(consumers) = consumers else {
            return described
                .with_error_code(code::GROUP_ID_NOT_FOUND)
                .with_error_message(Some(text(reason(code::GROUP_ID_NOT_FOUND))));
        };
        let members = consumers.members.iter().map(|(id, member)| {
            DescribedMember::default()
                .with_member_id(text(id))
                .with_instance_id(member.instance.as_deref().map(text))
                .with_rack_id(member.rack.as_deref().map(text))
                .with_member_epoch(member.epoch)
                .with_client_id(text(&member.client_id))
                .with_client_host(text("/127.0.0.1"))
                .with_subscribed_topic_names(member.topics.iter().map(|name| wire_name(name)).collect())
                .with_subscribed_topic_regex(member.pattern().map(text))
                .with_assignment(self.described(&member.assigned))
                .with_target_assignment(self.described(&consumers.target_of(id)))
                .with_member_type(CONSUMER)
        });
        described
            .with_group_state(text(match consumers.stage() {
                Stage::Empty => "Empty",
                Stage::Assigning => "Assigning",
                Stage::Reconciling => "Reconciling",
                Stage::Stable => "Stable",
            }))
            .with_group_epoch(consumers.epoch)
            .with_assignment_epoch(consumers.target_epoch)
            .with_assignor_name(text(consumers.assignor().name()))
            .with_members(members.collect())
    }

    fn described(&self, partitions: &Partitions) -> Described {
        let topics = partitions.iter().map(|(topic, partitions)| {
            DescribedTopic::default()
                .with_topic_id(*topic)
                .with_topic_name(wire_name(self.topics.name_of(*topic).unwrap_or("")))
                .with_partitions(partitions.iter().copied().collect())
        });
        Described::default().with_topic_partitions(topics.collect())
    }

    /// Whether a group's commits may be looked up by this member: Kafka's code, 0 if so.
    pub(crate) fn may_look_up(&self, group: &str, member: Option<&str>, epoch: i32) -> Code {
        let consumers = self.groups.find(group).and_then(|group| group.consumers.as_ref());
        // Without both it is of an administrator, or of a client that has no membership.
        let checked = match consumers {
            Some(consumers) if member.is_some() || epoch >= 0 => consumers.check(member.unwrap_or(""), epoch),
            Some(_) | None => Ok(()),
        };
        checked.err().unwrap_or(code::NONE)
    }
}

/// Reads a heartbeat.
fn read(head: &Head, request: &ConsumerGroupHeartbeatRequest, member_id: &str) -> Result<Beat, Code> {
    let is_empty = |text: Option<&str>| text.is_some_and(str::is_empty);
    let joins = request.member_epoch == JOIN;
    let subscribes = request
        .subscribed_topic_names
        .as_ref()
        .is_some_and(|names| !names.is_empty())
        || request
            .subscribed_topic_regex
            .as_ref()
            .is_some_and(|regex| !regex.is_empty());
    let owns_some = request
        .topic_partitions
        .as_ref()
        .is_none_or(|partitions| !partitions.is_empty());
    let has_instance = request.instance_id.as_deref().is_some();
    if request.group_id.is_empty() {
        return Err(code::INVALID_GROUP_ID);
    }
    let is_malformed = member_id.is_empty()
        || is_empty(request.instance_id.as_deref())
        || is_empty(request.rack_id.as_deref())
        || request.member_epoch < AWAY
        || (request.member_epoch == AWAY && !has_instance)
        || (joins && (request.rebalance_timeout_ms < 0 || owns_some || !subscribes));
    if is_malformed {
        return Err(code::INVALID_REQUEST);
    }
    let assignor = match request.server_assignor.as_deref() {
        Some(name) => Some(Assignor::find(name).ok_or(code::UNSUPPORTED_ASSIGNOR)?),
        None => None,
    };
    let timeout = u64::try_from(request.rebalance_timeout_ms).ok();
    let names = request.subscribed_topic_names.as_ref();
    let owned = request.topic_partitions.as_ref().map(|owned| {
        let mut partitions = Partitions::new();
        for topic in owned {
            let of_topic: &mut BTreeSet<i32> = partitions.entry(topic.topic_id).or_default();
            of_topic.extend(&topic.partitions);
        }
        partitions
    });
    Ok(Beat {
        member_id: member_id.to_owned(),
        epoch: request.member_epoch,
        instance: request.instance_id.as_deref().map(str::to_owned),
        rack: request.rack_id.as_ref().map(ToString::to_string),
        rebalance_timeout: timeout.map(Duration::from_millis),
        topics: names.map(|names| names.iter().map(|name| name.to_string()).collect()),
        regex: match request.subscribed_topic_regex.as_deref() {
            Some(pattern) => Some(regex(pattern)?),
            None => None,
        },
        assignor,
        owned,
        client_id: head.client_id.clone(),
    })
}

/// What an error says to a person.
const fn reason(code: Code) -> &'static str {
    match code {
        code::FENCED_MEMBER_EPOCH => "The member's epoch is not the group's: it has to join again",
        code::UNKNOWN_MEMBER_ID => "The group has no such member",
        code::UNRELEASED_INSTANCE_ID => "Another member has this instance id",
        code::FENCED_INSTANCE_ID => "Another member has taken this instance id",
        code::UNSUPPORTED_ASSIGNOR => "The assignors are uniform and range",
        code::INVALID_REGULAR_EXPRESSION => "The regular expression is not valid",
        code::GROUP_ID_NOT_FOUND => "There is no consumer group of this id",
        _ => "The request is not valid",
    }
}
