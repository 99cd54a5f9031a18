//! ListOffsets, OffsetForLeaderEpoch, OffsetCommit and OffsetFetch.

use std::time::Instant;

use kafka_protocol::messages::{
    ListOffsetsRequest, ListOffsetsResponse, OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest,
    OffsetFetchResponse, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, TopicName,
    list_offsets_request::ListOffsetsPartition,
    list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse},
    offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic},
    offset_fetch_response::{
        OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
        OffsetFetchResponseTopic, OffsetFetchResponseTopics,
    },
    offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult},
};
use uuid::Uuid;

use crate::broker::{
    api::{Head, Response, text},
    code::{self, Code},
    group::Committed,
    machine::Machine,
    topic::wire_name,
};

/// The longest metadata of a commit.
const METADATA: usize = 4096;

// Times of a ListOffsets that ask for something else.
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;

impl Machine {
    pub(crate) fn list_offsets(&self, head: &Head, request: &ListOffsetsRequest) -> Response {
        let mut response = ListOffsetsResponse::default();
        for topic in &request.topics {
            let mut answer = ListOffsetsTopicResponse::default().with_name(topic.name.clone());
            for asked in &topic.partitions {
                let mut partition =
                    ListOffsetsPartitionResponse::default().with_partition_index(asked.partition_index);
                match self.list_offset(head.version, &topic.name, asked) {
                    Ok(Some((offset, timestamp, epoch))) => {
                        partition.offset = offset;
                        partition.timestamp = timestamp;
                        partition.leader_epoch = epoch;
                    }
                    Ok(None) => {}
                    Err(code) => partition.error_code = code,
                }
                answer.partitions.push(partition);
            }
            response.topics.push(answer);
        }
        Response::ListOffsets(response)
    }

    pub(crate) fn offset_for_leader_epoch(&self, request: &OffsetForLeaderEpochRequest) -> Response {
        let mut response = OffsetForLeaderEpochResponse::default();
        for topic in &request.topics {
            let mut answer = OffsetForLeaderTopicResult::default().with_topic(topic.topic.clone());
            for asked in &topic.partitions {
                let mut partition = EpochEndOffset::default().with_partition(asked.partition);
                let log = self.topics.log(&topic.topic, asked.partition);
                let end = log.ok_or(code::UNKNOWN_TOPIC_OR_PARTITION).and_then(|log| {
                    log.check_epoch(asked.current_leader_epoch)?;
                    Ok(log.end_of_epoch(asked.leader_epoch))
                });
                match end {
                    Ok((epoch, offset)) => {
                        partition.leader_epoch = epoch;
                        partition.end_offset = offset;
                    }
                    Err(code) => partition.error_code = code,
                }
                answer.partitions.push(partition);
            }
            response.topics.push(answer);
        }
        Response::OffsetForLeaderEpoch(response)
    }

    pub(crate) fn offset_commit(
        &mut self,
        head: &Head,
        request: &OffsetCommitRequest,
        now: Instant,
    ) -> Response {
        let mut refused = self.groups.may_commit(head.version, request, now);
        let mut taken: Vec<(String, Uuid, i32, Committed)> = Vec::new();
        if refused == code::NONE {
            for topic in &request.topics {
                let Some(found) = self.topics.find(&topic.name) else {
                    continue;
                };
                for named in &topic.partitions {
                    let metadata = named.committed_metadata.as_deref().unwrap_or("");
                    let is_there = self.topics.log(&topic.name, named.partition_index).is_some();
                    if !is_there || metadata.len() > METADATA {
                        continue;
                    }
                    let committed = Committed {
                        offset: named.committed_offset,
                        leader_epoch: named.committed_leader_epoch,
                        metadata: metadata.to_owned(),
                    };
                    taken.push((topic.name.to_string(), found.id, named.partition_index, committed));
                }
            }
            if self.commit(&request.group_id, taken).is_err() {
                // What Kafka makes of a log of offsets that can't be written.
                refused = code::NOT_COORDINATOR;
            }
        }
        let mut response = OffsetCommitResponse::default();
        for topic in &request.topics {
            let mut answer = OffsetCommitResponseTopic::default().with_name(topic.name.clone());
            for named in &topic.partitions {
                let metadata = named.committed_metadata.as_deref().unwrap_or("");
                let code = if self.topics.log(&topic.name, named.partition_index).is_none() {
                    code::UNKNOWN_TOPIC_OR_PARTITION
                } else if refused != code::NONE {
                    refused
                } else if metadata.len() > METADATA {
                    code::OFFSET_METADATA_TOO_LARGE
                } else {
                    code::NONE
                };
                answer.partitions.push(
                    OffsetCommitResponsePartition::default()
                        .with_partition_index(named.partition_index)
                        .with_error_code(code),
                );
            }
            response.topics.push(answer);
        }
        Response::OffsetCommit(response)
    }

    /// Commits for a group: topic, its id, partition and what is committed.
    pub(crate) fn commit(
        &mut self,
        group: &str,
        commits: Vec<(String, Uuid, i32, Committed)>,
    ) -> Result<(), Code> {
        if commits.is_empty() {
            return Ok(());
        }
        if let Some(store) = &mut self.store {
            store.commit(
                group,
                commits.iter().map(|(_, id, partition, c)| (*id, *partition, c)),
            )?;
        }
        let offsets = &mut self.groups.open(group).offsets;
        for (topic, _, partition, committed) in commits {
            offsets.insert((topic, partition), committed);
        }
        Ok(())
    }

    pub(crate) fn offset_fetch(&self, head: &Head, request: &OffsetFetchRequest) -> Response {
        let mut response = OffsetFetchResponse::default();
        if head.version >= 8 {
            for asked in &request.groups {
                let topics = asked.topics.as_ref().map(|topics| {
                    let topics = topics.iter();
                    topics.map(|topic| (topic.name.clone(), topic.partition_indexes.clone()))
                });
                let mut group = OffsetFetchResponseGroup::default().with_group_id(asked.group_id.clone());
                let code = self.may_look_up(&asked.group_id, asked.member_id.as_deref(), asked.member_epoch);
                if code != code::NONE {
                    response.groups.push(group.with_error_code(code));
                    continue;
                }
                for (name, partitions) in self.committed(&asked.group_id, topics) {
                    let partition = |(index, committed): (i32, Committed)| {
                        OffsetFetchResponsePartitions::default()
                            .with_partition_index(index)
                            .with_committed_offset(committed.offset)
                            .with_committed_leader_epoch(committed.leader_epoch)
                            .with_metadata(Some(text(&committed.metadata)))
                    };
                    let partitions = partitions.into_iter().map(partition).collect();
                    group.topics.push(
                        OffsetFetchResponseTopics::default()
                            .with_name(name)
                            .with_partitions(partitions),
                    );
                }
                response.groups.push(group);
            }
            return Response::OffsetFetch(response);
        }
        let topics = request.topics.as_ref().map(|topics| {
            let topics = topics.iter();
            topics.map(|topic| (topic.name.clone(), topic.partition_indexes.clone()))
        });
        for (name, partitions) in self.committed(&request.group_id, topics) {
            let partition = |(index, committed): (i32, Committed)| {
                OffsetFetchResponsePartition::default()
                    .with_partition_index(index)
                    .with_committed_offset(committed.offset)
                    .with_committed_leader_epoch(committed.leader_epoch)
                    .with_metadata(Some(text(&committed.metadata)))
            };
            let partitions = partitions.into_iter().map(partition).collect();
            response.topics.push(
                OffsetFetchResponseTopic::default()
                    .with_name(name)
                    .with_partitions(partitions),
            );
        }
        Response::OffsetFetch(response)
    }

    /// What a group has committed for these topics, or for all.
    fn committed(
        &self,
        group: &str,
        topics: Option<impl Iterator<Item = (TopicName, Vec<i32>)>>,
    ) -> Vec<(TopicName, Vec<(i32, Committed)>)> {
        let nothing = Committed {
            offset: -1,
            leader_epoch: -1,
            metadata: String::new(),
        };
        let group = self.groups.find(group);
        let Some(topics) = topics else {
            let mut all: Vec<(TopicName, Vec<(i32, Committed)>)> = Vec::new();
            for ((name, partition), committed) in group.iter().flat_map(|group| &group.offsets) {
                match all.last_mut() {
                    Some((last, partitions)) if last.as_str() == name => {
                        partitions.push((*partition, committed.clone()));
                    }
                    Some(_) | None => all.push((wire_name(name), vec![(*partition, committed.clone())])),
                }
            }
            return all;
        };
        let of_partition = |name: &TopicName, partition: i32| {
            let offsets = &group?.offsets;
            offsets.get(&(name.to_string(), partition)).cloned()
        };
        topics
            .map(|(name, partitions)| {
                let found = partitions
                    .into_iter()
                    .map(|p| (p, of_partition(&name, p).unwrap_or_else(|| nothing.clone())))
                    .collect();
                (name, found)
            })
            .collect()
    }

    /// Offset, timestamp and leader epoch, `None` where no record is that new.
    fn list_offset(
        &self,
        version: i16,
        topic: &str,
        asked: &ListOffsetsPartition,
    ) -> Result<Option<(i64, i64, i32)>, Code> {
        let log = self.topics.log(topic, asked.partition_index);
        let log = log.ok_or(code::UNKNOWN_TOPIC_OR_PARTITION)?;
        log.check_epoch(asked.current_leader_epoch)?;
        let found = match asked.timestamp {
            LATEST => return Ok(Some((log.end(), -1, log.leader_epoch()))),
            EARLIEST => Some((log.start(), -1)),
            EARLIEST_LOCAL if version >= 8 => Some((log.start(), -1)),
            MAX_TIMESTAMP if version >= 7 => log.latest()?,
            timestamp if timestamp < 0 => return Err(code::UNSUPPORTED_VERSION),
            timestamp => log.at_time(timestamp)?,
        };
        Ok(found.map(|(offset, timestamp)| (offset, timestamp, log.epoch_at(offset))))
    }
}
