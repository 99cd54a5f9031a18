//! Fetch: the request and its answer, in the versions that this client speaks.
//!
//! The answer is the largest and most exposed frame of the protocol, so it is decoded here: without a copy
//! of the records, and with nothing allocated by a count that the frame names.

mod cursor;

use std::{fmt, ops::RangeInclusive, sync::Arc, time::Duration};

use bytes::{BufMut, Bytes, BytesMut};
use uuid::Uuid;

use self::cursor::Cursor;
use crate::answer;

/// The versions that are spoken.
pub(crate) const VERSIONS: RangeInclusive<i16> = 4..=17;

/// The first version with tagged fields and compact lengths.
pub(crate) const FLEXIBLE: i16 = 12;
/// The first version that names topics by their ids.
pub(crate) const BY_ID: i16 = 13;

/// The first version that says where the leaders are that it names, and the tag that it says it by.
const WITH_NODES: i16 = 16;
const NODES: u32 = 0;

/// What is asked of one broker, outside any session and with open transactions' records [D-21].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FetchRequest {
    pub(crate) max_wait_ms: i32,
    pub(crate) min_bytes: i32,
    pub(crate) max_bytes: i32,
    /// In the order in which the broker shall fill its answer.
    pub(crate) partitions: Vec<FetchPartition>,
}

/// One partition that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FetchPartition {
    /// The topic's name on Kafka, sent up to version 12.
    pub(crate) topic: String,
    /// The topic's id, sent from version 13.
    pub(crate) topic_id: Uuid,
    pub(crate) partition: i32,
    pub(crate) fetch_offset: i64,
    /// -1 for a leader of any epoch.
    pub(crate) current_leader_epoch: i32,
    pub(crate) partition_max_bytes: i32,
}

/// What a broker answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FetchResponse {
    pub(crate) throttle_time_ms: i32,
    pub(crate) error_code: i16,
    /// In the broker's order; it may name what was not asked for, and name it twice.
    pub(crate) partitions: Vec<FetchedPartition>,
    /// The leaders that the partitions name, each by its id, host and port.
    pub(crate) nodes: Vec<(i32, Box<str>, i32)>,
}

impl FetchResponse {
    /// How long the broker will not read from the connection, if it throttles it.
    pub(crate) fn throttled(&self) -> Option<Duration> {
        answer::throttled(self.throttle_time_ms)
    }

    /// Lets go of all its records.
    pub(crate) fn drop_records(&mut self) {
        self.partitions
            .iter_mut()
            .for_each(|part| part.records = Bytes::new());
    }

    /// The bytes of all its records.
    pub(crate) fn record_bytes(&self) -> usize {
        self.partitions.iter().map(|part| part.records.len()).sum()
    }
}

/// What a broker answers for one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FetchedPartition {
    /// The topic's name up to version 12, empty behind.
    pub(crate) topic: Arc<str>,
    /// The topic's id from version 13, nil before.
    pub(crate) topic_id: Uuid,
    pub(crate) partition: i32,
    pub(crate) error_code: i16,
    pub(crate) high_watermark: i64,
    /// -1 if unknown.
    pub(crate) last_stable_offset: i64,
    /// -1 if unknown.
    pub(crate) log_start_offset: i64,
    /// The broker and the epoch of the leader, where the broker knows a newer one.
    pub(crate) current_leader: Option<(i32, i32)>,
    /// A slice of the frame, empty for null.
    pub(crate) records: Bytes,
}

/// A frame that is no answer in its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer does not fit its version")
    }
}

impl std::error::Error for Malformed {}

impl FetchRequest {
    /// Writes the request as one of [`VERSIONS`], without the request's header.
    pub(crate) fn encode(&self, version: i16, out: &mut BytesMut) {
        let flexible = version >= FLEXIBLE;
        if version <= 14 {
            out.put_i32(-1); // No replica.
        }
        out.put_i32(self.max_wait_ms);
        out.put_i32(self.min_bytes);
        out.put_i32(self.max_bytes);
        out.put_i8(0); // Read uncommitted.
        if version >= 7 {
            out.put_i32(0); // No session,
            out.put_i32(-1); // and none to be made.
        }
        let same_topic =
            |a: &FetchPartition, b: &FetchPartition| (&a.topic, a.topic_id) == (&b.topic, b.topic_id);
        put_count(out, flexible, self.partitions.chunk_by(same_topic).count());
        for partitions in self.partitions.chunk_by(same_topic) {
            put_topic(out, version, partitions);
        }
        if version >= 7 {
            put_count(out, flexible, 0); // No forgotten topics.
        }
        if version >= 11 {
            put_string(out, flexible, ""); // No rack.
        }
        if flexible {
            out.put_u8(0);
        }
    }
}

fn put_topic(out: &mut BytesMut, version: i16, partitions: &[FetchPartition]) {
    let flexible = version >= FLEXIBLE;
    if version >= BY_ID {
        out.put_slice(partitions[0].topic_id.as_bytes());
    } else {
        put_string(out, flexible, &partitions[0].topic);
    }
    put_count(out, flexible, partitions.len());
    for asked in partitions {
        out.put_i32(asked.partition);
        if version >= 9 {
            out.put_i32(asked.current_leader_epoch);
        }
        out.put_i64(asked.fetch_offset);
        if flexible {
            out.put_i32(-1); // No epoch of a record fetched before.
        }
        if version >= 5 {
            out.put_i64(-1); // No log of our own.
        }
        out.put_i32(asked.partition_max_bytes);
        if flexible {
            out.put_u8(0);
        }
    }
    if flexible {
        out.put_u8(0);
    }
}

fn put_count(out: &mut BytesMut, flexible: bool, count: usize) {
    let count = i32::try_from(count).expect("a request's items fit in memory");
    if flexible {
        put_unsigned_varint(out, count.unsigned_abs() + 1);
    } else {
        out.put_i32(count);
    }
}

/// Writes a string; one that no version can hold is cut, and then names nothing that Kafka has.
fn put_string(out: &mut BytesMut, flexible: bool, text: &str) {
    let text = &text.as_bytes()[..text.len().min(0x7fff)];
    let length = i16::try_from(text.len()).unwrap_or(i16::MAX);
    if flexible {
        put_unsigned_varint(out, u32::from(length.unsigned_abs()) + 1);
    } else {
        out.put_i16(length);
    }
    out.put_slice(text);
}

fn put_unsigned_varint(out: &mut BytesMut, mut number: u32) {
    while number >= 0x80 {
        out.put_u8(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.put_u8(number.to_le_bytes()[0]);
}

impl FetchResponse {
    /// Reads an answer of one of [`VERSIONS`] from a frame behind its header.
    ///
    /// # Errors
    ///
    /// [`Malformed`] where the bytes end too early or too late, or hold what the version does not.
    pub(crate) fn decode(version: i16, frame: Bytes) -> Result<Self, Malformed> {
        if !VERSIONS.contains(&version) {
            return Err(Malformed);
        }
        let mut cursor = Cursor::new(&frame, version >= FLEXIBLE);
        let throttle_time_ms = cursor.i32()?;
        let mut error_code = 0;
        if version >= 7 {
            error_code = cursor.i16()?;
            cursor.i32()?; // The session.
        }
        let mut partitions = Vec::new();
        for _ in 0..cursor.count()?.ok_or(Malformed)? {
            topic(&mut cursor, version, &frame, &mut partitions)?;
        }
        let mut nodes = Vec::new();
        cursor.tags(|tag, value| {
            if tag == NODES && version >= WITH_NODES {
                for _ in 0..value.count()?.ok_or(Malformed)? {
                    nodes.push((value.i32()?, value.string()?.into(), value.i32()?));
                    value.nullable_bytes()?; // The rack.
                    value.tags(|_, _| Ok(()))?;
                }
            }
            Ok(())
        })?;
        if !cursor.is_empty() {
            return Err(Malformed);
        }
        Ok(Self {
            throttle_time_ms,
            error_code,
            partitions,
            nodes,
        })
    }
}

fn topic(
    cursor: &mut Cursor<'_>,
    version: i16,
    frame: &Bytes,
    partitions: &mut Vec<FetchedPartition>,
) -> Result<(), Malformed> {
    let (topic, topic_id): (Arc<str>, _) = if version >= BY_ID {
        (Arc::default(), cursor.uuid()?)
    } else {
        (cursor.string()?.into(), Uuid::nil())
    };
    for _ in 0..cursor.count()?.ok_or(Malformed)? {
        partitions.push(partition(cursor, version, frame, &topic, topic_id)?);
    }
    cursor.tags(|_, _| Ok(()))
}

fn partition(
    cursor: &mut Cursor<'_>,
    version: i16,
    frame: &Bytes,
    topic: &Arc<str>,
    topic_id: Uuid,
) -> Result<FetchedPartition, Malformed> {
    let partition = cursor.i32()?;
    let error_code = cursor.i16()?;
    let high_watermark = cursor.i64()?;
    let last_stable_offset = cursor.i64()?;
    let log_start_offset = if version >= 5 { cursor.i64()? } else { -1 };
    for _ in 0..cursor.count()?.unwrap_or(0) {
        cursor.i64()?; // An aborted transaction's producer
        cursor.i64()?; // and first offset.
        cursor.tags(|_, _| Ok(()))?;
    }
    if version >= 11 {
        cursor.i32()?; // A replica to read from instead, which takes a rack in the request.
    }
    let records = cursor
        .nullable_bytes()?
        .map_or_else(Bytes::new, |records| frame.slice_ref(records));
    let mut current_leader = None;
    cursor.tags(|tag, value| {
        if tag == 1 {
            current_leader = Some((value.i32()?, value.i32()?));
            value.tags(|_, _| Ok(()))?;
        }
        Ok(())
    })?;
    Ok(FetchedPartition {
        topic: topic.clone(),
        topic_id,
        partition,
        error_code,
        high_watermark,
        last_stable_offset,
        log_start_offset,
        current_leader: current_leader.filter(|(leader, _)| *leader >= 0),
        records,
    })
}

#[cfg(test)]
mod tests;
