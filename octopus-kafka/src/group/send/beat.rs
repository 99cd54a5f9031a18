//! The heartbeats of the protocol where the coordinator assigns, and what they need to know of topics.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kafka_protocol::{
    error::ResponseError,
    messages::{ConsumerGroupHeartbeatRequest, TopicName, consumer_group_heartbeat_request::TopicPartitions},
};
use tokio::time::Instant;
use uuid::Uuid;

use super::{coded, group_id, millis, trouble};
use crate::{
    Error,
    cluster::{Class, Cluster, Topic},
    error::Kind,
    group::{
        CONSUMER, Group,
        member::{Beat, Beaten, Trouble},
    },
    position::each_topic,
};

/// What stands for a time that the coordinator knows.
const UNCHANGED: i32 = -1;

/// The ids of these topics; without those that the cluster does not list.
pub(super) async fn ids(
    cluster: &Cluster,
    topics: BTreeSet<String>,
    deadline: Instant,
) -> Result<BTreeMap<String, Uuid>, Error> {
    let mut ids = BTreeMap::new();
    for (name, topic) in each_topic(cluster, topics, deadline).await {
        match topic? {
            Topic::Known(info) => _ = ids.insert(name, info.id),
            Topic::Missing | Topic::Denied => {}
        }
    }
    Ok(ids)
}

/// A ConsumerGroupHeartbeat.
pub(super) async fn beat(group: &Group, beat: Beat, deadline: Instant) -> Result<Beaten, Trouble> {
    let is_whole = beat.topics.is_some() && beat.owned.is_some();
    let names = beat.topics.map(|topics| {
        let names = topics.into_iter().map(|topic| TopicName(topic.into()));
        names.collect()
    });
    let owned = beat.owned.map(|owned| {
        let topics = owned.into_iter().map(|(id, partitions)| {
            TopicPartitions::default()
                .with_topic_id(id)
                .with_partitions(partitions.into_iter().collect())
        });
        topics.collect()
    });
    let rebalance = if is_whole {
        millis(group.cluster.config().rebalance_timeout)
    } else {
        UNCHANGED
    };
    let request = ConsumerGroupHeartbeatRequest::default()
        .with_group_id(group_id(group))
        .with_member_id(beat.member_id.into())
        .with_member_epoch(beat.epoch)
        .with_rebalance_timeout_ms(rebalance)
        .with_subscribed_topic_names(names)
        .with_topic_partitions(owned);
    let response = match group.request(Class::Beat, CONSUMER, |_| request, deadline).await {
        Ok(response) => response,
        Err(error) => {
            if *error.kind() == Kind::Unsupported {
                warn_of_no_protocol(group);
            }
            return Err(trouble(error));
        }
    };
    if let Err(trouble) = coded(response.error_code) {
        if trouble == Trouble::Code(ResponseError::UnsupportedVersion) {
            warn_of_no_protocol(group);
        }
        let why = response.error_message.as_deref().unwrap_or_default();
        tracing::debug!(group = group.id, ?trouble, why, "a heartbeat was refused");
        return Err(trouble);
    }
    let interval = u64::try_from(response.heartbeat_interval_ms).unwrap_or(0);
    Ok(Beaten {
        epoch: response.member_epoch,
        interval: Duration::from_millis(interval),
        assigned: response.assignment.map(|assigned| {
            let topics = assigned.topic_partitions.into_iter();
            let topics = topics.map(|topic| (topic.topic_id, topic.partitions.into_iter().collect()));
            topics.collect()
        }),
    })
}

/// The cluster is older than the protocol, or its feature `group.version` is off.
fn warn_of_no_protocol(group: &Group) {
    tracing::warn!(
        group = group.id,
        "the group's coordinator does not speak the group protocol `consumer`: Kafka does from 4.0 on"
    );
}
