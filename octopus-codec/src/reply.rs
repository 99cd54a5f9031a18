//! The records of a fetch as one reply: what fits, and how far it reaches [FE-05] [FE-10] [FE-11] [RP-01] [RP-02].

mod body;
mod out;
mod scratch;
mod stream;

use std::num::NonZeroU64;

pub use body::Body;
use body::Pieces;
use octopus_core::{
    Fault, Format, Position, Records, TopicPartition,
    limits::{REPLY_BYTES, WINDOW_BYTES},
};
#[cfg(test)]
pub(crate) use out::in_rooms;
pub(crate) use out::{Out, Progress};
pub use stream::Stream;

use crate::record::{Object, SHARED, Skeleton};

/// The most bytes of an object that is written before it is known whether it has room: measuring it takes longer.
const SMALL: usize = SHARED;

/// A packed reply, and how far it reaches.
#[derive(Debug, Default)]
pub struct Packed {
    /// The reply, `None` where no record is in it.
    pub body: Option<Body>,
    /// The position behind the last record in the body, for each partition with one in it.
    pub next: Vec<(TopicPartition, Position)>,
    /// The position behind what was read of each partition that was read to its end and holds no record for a
    /// client there.
    pub skipped: Vec<(TopicPartition, Position)>,
    /// The partition that comes first in the body, if records were left out at 2 MiB or at `max_bytes` [FE-12].
    pub cut: Option<TopicPartition>,
    /// The partition whose first record would be the reply's first, but is not UTF-8 [FE-06] [D-37]. There is no
    /// body then.
    pub not_utf8: Option<TopicPartition>,
    /// The partitions that can't be read from where they begin, and why [D-26].
    pub faults: Vec<(TopicPartition, Fault)>,
}

/// Packs a reply of the partitions' records, in the order of the partitions and of each one's records.
///
/// The reply's JSON is at most 2 MiB [RP-01] and the bytes of its keys and values are fewer than `max_bytes`
/// [FE-10], except that its first record is always in it, alone if need be [RP-02]. The first record that does
/// not fit ends the reply: no smaller one of a later partition is looked for.
///
/// In a json reply a key or a value that is not UTF-8 ends its partition's part [FE-05], or the reply, if the
/// record would be its first [D-37]. A fault ends its partition's part as well.
pub fn pack<R: Records>(
    parts: Vec<(TopicPartition, R)>,
    format: Format,
    max_bytes: Option<NonZeroU64>,
) -> Packed {
    Reply::new(format, max_bytes, Bounds::default()).pack(parts)
}

/// The numbers that tests make smaller.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// The most bytes of a reply of more than one record.
    reply: usize,
    /// The most bytes of a window of a larger one.
    window: usize,
    /// The most bytes of an object that is written before it is known whether it has room.
    small: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            reply: REPLY_BYTES,
            window: WINDOW_BYTES,
            small: SMALL,
        }
    }
}

/// A reply in the making.
#[derive(Debug)]
struct Reply {
    format: Format,
    max_bytes: Option<NonZeroU64>,
    bounds: Bounds,
    /// What is known so far; its body only where it is streamed.
    packed: Packed,
    pieces: Pieces,
    /// The bytes of JSON so far, without the last bracket; 0 before the first record.
    length: usize,
    /// The bytes of keys and values so far.
    payload: u64,
}

impl Reply {
    fn new(format: Format, max_bytes: Option<NonZeroU64>, bounds: Bounds) -> Self {
        Self {
            format,
            max_bytes,
            bounds,
            packed: Packed::default(),
            pieces: Pieces::default(),
            length: 0,
            payload: 0,
        }
    }

    fn pack<R: Records>(mut self, parts: Vec<(TopicPartition, R)>) -> Packed {
        let mut cut = false;
        for (partition, source) in parts {
            match self.take(partition, source) {
                End::Part => {}
                End::Reply => break,
                End::Cut => {
                    cut = true;
                    break;
                }
            }
        }
        if cut {
            self.packed.cut = self.packed.next.first().map(|(partition, _)| partition.clone());
        }
        if self.length > 0 && self.packed.body.is_none() {
            self.pieces.write(|out| out.byte(b']'));
            self.packed.body = Some(Body::Whole(self.pieces.finish()));
        }
        self.packed
    }

    /// Takes what fits of one partition's records.
    fn take<R: Records>(&mut self, partition: TopicPartition, mut source: R) -> End {
        let mut skeleton = Skeleton::new(&partition);
        let start = source.position();
        let mut next = None;
        let end = loop {
            let record = match source.next() {
                Some(Ok(record)) => record,
                Some(Err(fault)) => {
                    if next.is_none() {
                        self.packed.faults.push((partition.clone(), fault));
                    }
                    break End::Part;
                }
                None => {
                    let position = source.position();
                    if next.is_some() {
                        next = Some(position);
                    } else if position.offset != start.offset {
                        self.packed.skipped.push((partition.clone(), position));
                    }
                    break End::Part;
                }
            };
            let Ok(object) = Object::new(&record, self.format) else {
                if self.length > 0 {
                    break End::Part;
                }
                self.packed.not_utf8 = Some(partition.clone());
                break End::Reply;
            };
            if !self.put(&mut skeleton, &object) {
                break End::Cut;
            }
            next = Some(source.position());
        };
        if let Some(position) = next {
            self.packed.next.push((partition, position));
        }
        end
    }

    /// Puts an object into the reply; whether it has room.
    fn put(&mut self, skeleton: &mut Skeleton, object: &Object<'_, '_>) -> bool {
        let is_first = self.length == 0;
        let payload = self.payload + object.payload() as u64;
        if !is_first && self.max_bytes.is_some_and(|most| payload >= most.get()) {
            return false;
        }
        let before = if is_first { b"[" } else { b"," };
        let write = |skeleton: &mut Skeleton, out: &mut Out<'_>| {
            out.bytes(before);
            object.write(skeleton, out);
        };
        // A bracket comes behind it.
        let most = self.bounds.reply.saturating_sub(1);
        if object.most(skeleton) <= self.bounds.small {
            let room = most.saturating_sub(self.length);
            if let Some(written) = self.pieces.write_within(room, |out| write(skeleton, out)) {
                self.length += written;
                self.payload = payload;
                return true;
            }
        }
        let length = self.length + before.len() + object.measure(skeleton);
        if length <= most {
            self.pieces.write(|out| write(skeleton, out));
        } else if is_first {
            let after = b"]";
            let stream = object.stream(skeleton, before, after, length + after.len(), self.bounds.window);
            self.packed.body = Some(Body::Streamed(stream));
        } else {
            return false;
        }
        self.length = length;
        self.payload = payload;
        true
    }
}

/// What taking a partition's records ended.
enum End {
    /// Its part.
    Part,
    /// The reply, since nothing may be in it.
    Reply,
    /// The reply, since a record has no room.
    Cut,
}

#[cfg(test)]
mod tests;
