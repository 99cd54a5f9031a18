//! The requests of a member on the wire.

mod beat;

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::{
    error::{ParseResponseErrorCode, ResponseError},
    messages::{
        GroupId, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, SyncGroupRequest,
        join_group_request::JoinGroupRequestProtocol, leave_group_request::MemberIdentity,
        sync_group_request::SyncGroupRequestAssignment,
    },
    protocol::StrBytes,
};
use std::{ops::RangeInclusive, sync::Arc, time::Duration};
use tokio::time::Instant;

use super::{
    CLASSIC, Group,
    assignor::Assignor,
    member::{Answer, Joined, Request, Trouble},
    subscription,
};
use crate::{
    Error,
    answer::Aside,
    cluster::{Class, Cluster, Lease, Party, Topic, ask_on},
    error::Api,
    position::each_topic,
};

/// The kind of group that consumers are in.
const PROTOCOL_TYPE: &str = "consumer";

/// Sends a request, and says what came of it by the deadline. With the answer to a join comes the place that the group
/// has among those that join.
pub(super) async fn send(
    group: &Arc<Group>,
    request: Request,
    deadline: Instant,
) -> (Answer, Option<Arc<Party>>) {
    let answer = match request {
        // What is rare takes no room in what each heartbeat takes.
        Request::Commit(stored) => {
            if let Err(error) = Box::pin(group.commit(stored, deadline)).await {
                tracing::warn!(group = group.id, %error, "the commit before a join failed");
            }
            Answer::Commit
        }
        Request::Join { member_id, topics } => match join(group, &member_id, &topics, deadline).await {
            Ok((response, place)) => match response.error_code.err() {
                None => return (Answer::Join(Ok(joined(response))), place),
                Some(ResponseError::MemberIdRequired) => {
                    return (Answer::MemberId(response.member_id.to_string()), place);
                }
                Some(code) => Answer::Join(Err(Trouble::Code(code))),
            },
            Err(error) => Answer::Join(Err(trouble(error))),
        },
        Request::Partitions(topics) => {
            let counts = Box::pin(counts(&group.cluster, topics, deadline)).await;
            Answer::Partitions(counts.map_err(trouble))
        }
        Request::Sync {
            member_id,
            generation,
            protocol,
            assignments,
        } => {
            let make = |version| {
                let assignments = assignments.into_iter().map(|(member_id, assignment)| {
                    SyncGroupRequestAssignment::default()
                        .with_member_id(member_id.into())
                        .with_assignment(assignment)
                });
                let request = SyncGroupRequest::default()
                    .with_group_id(group_id(group))
                    .with_generation_id(generation)
                    .with_member_id(member_id.into())
                    .with_assignments(assignments.collect());
                if version < 5 {
                    return request;
                }
                request
                    .with_protocol_type(Some(StrBytes::from_static_str(PROTOCOL_TYPE)))
                    .with_protocol_name(Some(protocol.into()))
            };
            let answer = group.request(Class::Join, 2..=5, make, deadline).await;
            Answer::Sync(match answer {
                Ok(response) => coded(response.error_code).map(|()| response.assignment),
                Err(error) => Err(trouble(error)),
            })
        }
        Request::Heartbeat {
            member_id,
            generation,
        } => {
            let make = |_| {
                HeartbeatRequest::default()
                    .with_group_id(group_id(group))
                    .with_generation_id(generation)
                    .with_member_id(member_id.into())
            };
            let answer = group.request(Class::Beat, 2..=4, make, deadline).await;
            Answer::Heartbeat(match answer {
                Ok(response) => coded(response.error_code),
                Err(error) => Err(trouble(error)),
            })
        }
        Request::Leave { member_id } => {
            let make = |version| {
                let request = LeaveGroupRequest::default().with_group_id(group_id(group));
                if version < 3 {
                    return request.with_member_id(member_id.into());
                }
                request.with_members(vec![MemberIdentity::default().with_member_id(member_id.into())])
            };
            let answer = group.request(Class::Control, 2..=5, make, deadline).await;
            match answer {
                Ok(response) => {
                    tracing::debug!(group = group.id, code = response.error_code, "left the group")
                }
                Err(error) => tracing::debug!(group = group.id, %error, "leaving the group failed"),
            }
            Answer::Leave
        }
        Request::Beat(beat) => Answer::Beat(Box::pin(beat::beat(group, beat, deadline)).await),
        Request::Ids { topics, anew } => {
            if anew {
                topics.iter().for_each(|topic| group.cluster.stale(topic));
            }
            let ids = Box::pin(beat::ids(&group.cluster, topics, deadline)).await;
            Answer::Ids(ids.map_err(trouble))
        }
    };
    (answer, None)
}

impl Group {
    /// One request to the group's coordinator.
    pub(super) async fn request<R: kafka_protocol::protocol::Request<Response: Aside>>(
        &self,
        class: Class,
        range: RangeInclusive<i16>,
        make: impl FnOnce(i16) -> R + Send,
        deadline: Instant,
    ) -> Result<R::Response, Error> {
        let lease = self.lease(class, Api::of(R::KEY), deadline).await?;
        let sent = ask_on(&lease, &self.client_id, range, make, deadline);
        Ok(sent.await?.0)
    }

    /// A connection of this class to the group's coordinator.
    async fn lease(&self, class: Class, api: Api, deadline: Instant) -> Result<Lease, Error> {
        let broker = self.cluster.coordinator(&self.id, deadline).await?;
        self.cluster
            .lease_for(broker, class, &self.id, api, deadline)
            .await
    }
}

/// How many partitions each of these topics has; without those that the cluster does not list.
pub(super) async fn counts(
    cluster: &Cluster,
    topics: BTreeSet<String>,
    deadline: Instant,
) -> Result<BTreeMap<String, i32>, Error> {
    let mut counts = BTreeMap::new();
    for (name, topic) in each_topic(cluster, topics, deadline).await {
        match topic? {
            Topic::Known(info) => _ = counts.insert(name, info.partitions),
            Topic::Missing | Topic::Denied => {}
        }
    }
    Ok(counts)
}

async fn join(
    group: &Group,
    member_id: &str,
    topics: &BTreeSet<String>,
    deadline: Instant,
) -> Result<(JoinGroupResponse, Option<Arc<Party>>), Error> {
    let lease = group.lease(Class::Join, Api::JoinGroup, deadline).await?;
    let make = |_| {
        let config = group.cluster.config();
        let metadata = subscription::subscription(topics);
        let protocols = Assignor::OFFERED.map(|assignor| {
            JoinGroupRequestProtocol::default()
                .with_name(StrBytes::from_static_str(assignor.name()))
                .with_metadata(metadata.clone())
        });
        JoinGroupRequest::default()
            .with_group_id(group_id(group))
            .with_session_timeout_ms(millis(config.session_timeout))
            .with_rebalance_timeout_ms(millis(config.rebalance_timeout))
            .with_member_id(member_id.to_owned().into())
            .with_protocol_type(StrBytes::from_static_str(PROTOCOL_TYPE))
            .with_protocols(protocols.to_vec())
    };
    let (response, _) = ask_on(&lease, &group.client_id, CLASSIC, make, deadline).await?;
    Ok((response, lease.party()))
}

fn joined(response: JoinGroupResponse) -> Joined {
    let members = response.members.into_iter().map(|member| {
        let instance = member.group_instance_id.map(|id| id.to_string());
        (member.member_id.to_string(), instance, member.metadata)
    });
    Joined {
        member_id: response.member_id.to_string(),
        generation: response.generation_id,
        protocol: response
            .protocol_name
            .map(|name| name.to_string())
            .unwrap_or_default(),
        leader: response.leader.to_string(),
        members: members.collect(),
        skip_assignment: response.skip_assignment,
    }
}

pub(super) fn group_id(group: &Group) -> GroupId {
    GroupId(group.id.clone().into())
}

fn coded(code: i16) -> Result<(), Trouble> {
    code.err().map_or(Ok(()), |code| Err(Trouble::Code(code)))
}

fn trouble(error: Error) -> Trouble {
    tracing::debug!(%error, "a request of a group member failed");
    let error = octopus_core::Error::from(error);
    if error == octopus_core::Error::KafkaRetriable {
        Trouble::Silent
    } else if error == octopus_core::Error::KafkaUnreachable {
        Trouble::Unreachable
    } else {
        Trouble::Fatal(error)
    }
}

pub(super) fn millis(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}
