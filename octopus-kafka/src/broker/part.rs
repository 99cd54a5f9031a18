//! The part of a request, and of a response, that is about one topic.

use kafka_protocol::messages::metadata_request::MetadataRequestTopic;

use super::api::{Request, Response};

/// Whether a request names a topic.
pub(crate) fn names(request: &Request, topic: &str) -> bool {
    take_topic(&mut request.clone(), topic).is_some()
}

/// Takes one topic's part out of a request. `None` where it has none, or its API is not about topics.
pub(crate) fn take_topic(request: &mut Request, topic: &str) -> Option<Request> {
    macro_rules! part {
        ($api:ident, $from:expr, $field:ident, |$item:ident| $name:expr) => {{
            let taken: Vec<_> = $from
                .$field
                .extract_if(.., |$item| $name.as_str() == topic)
                .collect();
            if taken.is_empty() {
                return None;
            }
            let mut part = $from.clone();
            part.$field = taken;
            Request::$api(part)
        }};
    }
    let part = match request {
        Request::Produce(from) => part!(Produce, from, topic_data, |t| t.name),
        Request::Fetch(from) => part!(Fetch, from, topics, |t| t.topic),
        Request::ListOffsets(from) => part!(ListOffsets, from, topics, |t| t.name),
        Request::OffsetCommit(from) => part!(OffsetCommit, from, topics, |t| t.name),
        Request::CreateTopics(from) => part!(CreateTopics, from, topics, |t| t.name),
        Request::DeleteTopics(from) => part!(DeleteTopics, from, topic_names, |t| t),
        Request::DeleteRecords(from) => part!(DeleteRecords, from, topics, |t| t.name),
        Request::OffsetForLeaderEpoch(from) => part!(OffsetForLeaderEpoch, from, topics, |t| t.topic),
        Request::DescribeConfigs(from) => part!(DescribeConfigs, from, resources, |r| r.resource_name),
        Request::Metadata(from) => {
            let named =
                |t: &mut MetadataRequestTopic| t.name.as_ref().is_some_and(|name| name.as_str() == topic);
            let taken: Vec<_> = from.topics.as_mut()?.extract_if(.., named).collect();
            if taken.is_empty() {
                return None;
            }
            let mut part = from.clone();
            part.topics = Some(taken);
            Request::Metadata(part)
        }
        Request::OffsetFetch(from) => {
            let mut part = from.clone();
            let mut found = false;
            if let Some(topics) = &mut from.topics {
                let taken: Vec<_> = topics.extract_if(.., |t| t.name.as_str() == topic).collect();
                found |= !taken.is_empty();
                part.topics = Some(taken);
            }
            part.groups.clear();
            for group in &mut from.groups {
                let Some(topics) = &mut group.topics else { continue };
                let taken: Vec<_> = topics.extract_if(.., |t| t.name.as_str() == topic).collect();
                if !taken.is_empty() {
                    found = true;
                    part.groups.push(group.clone().with_topics(Some(taken)));
                }
            }
            if !found {
                return None;
            }
            Request::OffsetFetch(part)
        }
        Request::ApiVersions(_)
        | Request::FindCoordinator(_)
        | Request::Heartbeat(_)
        | Request::InitProducerId(_)
        | Request::JoinGroup(_)
        | Request::LeaveGroup(_)
        | Request::ConsumerGroupHeartbeat(_)
        | Request::ConsumerGroupDescribe(_)
        | Request::SaslHandshake(_)
        | Request::SaslAuthenticate(_)
        | Request::SyncGroup(_) => return None,
    };
    Some(part)
}

/// Adds the topics of a second answer of the same API to the first.
pub(crate) fn merge(into: &mut Response, other: Response) {
    match (into, other) {
        (Response::Produce(into), Response::Produce(other)) => into.responses.extend(other.responses),
        (Response::Fetch(into), Response::Fetch(other)) => into.responses.extend(other.responses),
        (Response::ListOffsets(into), Response::ListOffsets(other)) => into.topics.extend(other.topics),
        (Response::Metadata(into), Response::Metadata(other)) => into.topics.extend(other.topics),
        (Response::OffsetCommit(into), Response::OffsetCommit(other)) => into.topics.extend(other.topics),
        (Response::OffsetFetch(into), Response::OffsetFetch(other)) => {
            into.topics.extend(other.topics);
            for group in other.groups {
                if let Some(same) = into.groups.iter_mut().find(|g| g.group_id == group.group_id) {
                    same.topics.extend(group.topics);
                } else {
                    into.groups.push(group);
                }
            }
        }
        (Response::CreateTopics(into), Response::CreateTopics(other)) => into.topics.extend(other.topics),
        (Response::DeleteTopics(into), Response::DeleteTopics(other)) => {
            into.responses.extend(other.responses)
        }
        (Response::DeleteRecords(into), Response::DeleteRecords(other)) => into.topics.extend(other.topics),
        (Response::OffsetForLeaderEpoch(into), Response::OffsetForLeaderEpoch(other)) => {
            into.topics.extend(other.topics);
        }
        (Response::DescribeConfigs(into), Response::DescribeConfigs(other)) => {
            into.results.extend(other.results)
        }
        // The other APIs name no topics, and two APIs never answer one request.
        (_, _) => {}
    }
}
