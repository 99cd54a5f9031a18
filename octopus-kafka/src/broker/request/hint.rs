//! Who leads: the hint that an answer gives to a client that is wrong about it.

use kafka_protocol::messages::{fetch_response, produce_response};

use crate::broker::{
    api::{Response, text},
    code::{self, Code},
    machine::Machine,
};

/// The first versions of a Fetch and of a Produce with leaders in their answers.
const FETCH: i16 = 16;
const PRODUCE: i16 = 10;

impl Machine {
    /// Names the leader of every partition that a Fetch or a Produce had a wrong idea of, and where it is.
    pub(crate) fn hint(&self, response: &mut Response, version: i16) {
        let node = &self.settings.node;
        let mut hinted = false;
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "the other APIs have no such fields"
        )]
        match response {
            Response::Fetch(response) if version >= FETCH => {
                for topic in &mut response.responses {
                    for partition in topic.partitions.iter_mut().filter(|p| is_astray(p.error_code)) {
                        let name = self.topics.name_of(topic.topic_id).unwrap_or(&topic.topic);
                        let Some(log) = self.topics.log(name, partition.partition_index) else {
                            continue;
                        };
                        hinted = true;
                        partition.current_leader = fetch_response::LeaderIdAndEpoch::default()
                            .with_leader_id(node.id.into())
                            .with_leader_epoch(log.leader_epoch());
                    }
                }
                if hinted {
                    response.node_endpoints = vec![
                        fetch_response::NodeEndpoint::default()
                            .with_node_id(node.id.into())
                            .with_host(text(&node.host))
                            .with_port(node.port.into()),
                    ];
                }
            }
            Response::Produce(response) if version >= PRODUCE => {
                for topic in &mut response.responses {
                    for partition in topic
                        .partition_responses
                        .iter_mut()
                        .filter(|p| is_astray(p.error_code))
                    {
                        let Some(log) = self.topics.log(&topic.name, partition.index) else {
                            continue;
                        };
                        hinted = true;
                        partition.current_leader = produce_response::LeaderIdAndEpoch::default()
                            .with_leader_id(node.id.into())
                            .with_leader_epoch(log.leader_epoch());
                    }
                }
                if hinted {
                    response.node_endpoints = vec![
                        produce_response::NodeEndpoint::default()
                            .with_node_id(node.id.into())
                            .with_host(text(&node.host))
                            .with_port(node.port.into()),
                    ];
                }
            }
            _ => {}
        }
    }
}

/// Whether an error says that the client has a wrong idea of the leader.
const fn is_astray(code: Code) -> bool {
    matches!(code, code::NOT_LEADER_OR_FOLLOWER | code::FENCED_LEADER_EPOCH)
}
