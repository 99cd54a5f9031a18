//! What the objects of a partition's records have in common.

use octopus_core::TopicPartition;

use crate::{reply::Out, text};

/// The bytes of an object around its key, its value and its headers, ready to be copied.
#[derive(Debug)]
pub(crate) struct Skeleton {
    /// From the object's start to its key.
    head: Blocks,
    /// From the object's start to its value, where the key is null.
    null_head: Blocks,
    tail: Tail,
}

/// From behind a value to the end of an object without headers, with room for a longest partition and offset.
#[derive(Debug)]
struct Tail {
    text: [u8; 80],
    /// The bytes up to the offset.
    start: usize,
    /// The bytes up to the offset's end.
    end: usize,
    /// The offset that stands there.
    offset: i64,
}

/// Between the offset and the first header.
const HEADERS: &[u8; 12] = b",\"headers\":[";
/// Behind the last header.
pub(crate) const END: &[u8; 2] = b"]}";
/// Between the key and the value.
pub(crate) const VALUE: &[u8; 9] = b",\"value\":";
pub(crate) const NULL: &[u8; 4] = b"null";

impl Skeleton {
    pub(crate) fn new(partition: &TopicPartition) -> Self {
        let topic = partition.topic.as_str().as_bytes();
        let mut name = vec![0; text::len(topic)];
        text::write(topic, &mut name);
        let head = [b"{\"topic\":\"", &name[..], b"\",\"key\":"].concat();
        let null_head = [&head[..], NULL, VALUE].concat();
        Self {
            head: Blocks::new(&head),
            null_head: Blocks::new(&null_head),
            tail: Tail::new(partition.partition),
        }
    }

    /// The bytes of an object, without what stands for its key, its value and its headers.
    pub(crate) fn len(&self, offset: i64) -> usize {
        let digits = digits(offset.unsigned_abs(), &mut [0; DIGITS]) + usize::from(offset < 0);
        self.head.length + VALUE.len() + self.tail.start + digits + HEADERS.len() + END.len()
    }

    /// No object has more of them.
    pub(crate) const fn most(&self) -> usize {
        self.head.length + VALUE.len() + size_of::<Tail>()
    }

    /// From the object's start to its key.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head.blocks.as_flattened()[..self.head.length]
    }

    /// From behind the value to the first header.
    pub(crate) fn tail(&mut self, offset: i64) -> &[u8] {
        self.tail.set(offset);
        &self.tail.text[..self.tail.end + HEADERS.len()]
    }

    #[inline]
    pub(crate) fn write_head(&self, out: &mut Out<'_>) {
        self.head.write(out);
    }

    /// Writes what stands before a value whose key is null.
    #[inline]
    pub(crate) fn write_null_head(&self, out: &mut Out<'_>) {
        self.null_head.write(out);
    }

    /// Writes what is behind a value, with the end, or up to the first header.
    #[inline]
    pub(crate) fn write_tail(&mut self, offset: i64, has_headers: bool, out: &mut Out<'_>) {
        self.tail.set(offset);
        let end = if has_headers { 0 } else { END.len() };
        out.start_of(&self.tail.text, self.tail.end + HEADERS.len() + end);
    }
}

impl Tail {
    fn new(partition: i32) -> Self {
        let mut tail = Self {
            text: [0; 80],
            start: 0,
            end: 0,
            offset: i64::MIN,
        };
        tail.put(b",\"partition\":");
        tail.put_number(partition.into());
        tail.put(b",\"offset\":");
        tail.start = tail.end;
        tail.finish(0);
        tail
    }

    /// Puts another offset in its place. Mostly it is the next one, and then there is a digit to change.
    #[inline]
    fn set(&mut self, offset: i64) {
        let is_next = self.offset >= 0 && offset.checked_sub(1) == Some(self.offset);
        if is_next
            && let Some(last) = self.text.get_mut(self.end - 1)
            && *last < b'9'
        {
            *last += 1;
            self.offset = offset;
        } else if offset != self.offset {
            self.end = self.start;
            self.finish(offset);
        }
    }

    fn finish(&mut self, offset: i64) {
        self.put_number(offset);
        let end = self.end;
        self.put(HEADERS);
        self.put(END);
        self.end = end;
        self.offset = offset;
    }

    fn put(&mut self, bytes: &[u8]) {
        self.text[self.end..][..bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
    }

    fn put_number(&mut self, number: i64) {
        if number < 0 {
            self.put(b"-");
        }
        let mut text = [0; DIGITS];
        let length = digits(number.unsigned_abs(), &mut text);
        self.put(&text[DIGITS - length..]);
    }
}

/// The digits of the greatest number.
const DIGITS: usize = 20;

/// Writes a number's digits at the end of `text` and says how many they are.
fn digits(mut number: u64, text: &mut [u8; DIGITS]) -> usize {
    let mut length = 0;
    for digit in text.iter_mut().rev() {
        *digit = b'0' + (number % 10).to_le_bytes()[0];
        number /= 10;
        length += 1;
        if number == 0 {
            break;
        }
    }
    length
}

/// A block that holds most topics' heads.
const BLOCK: usize = 64;

/// Bytes that are copied by whole blocks.
#[derive(Debug)]
struct Blocks {
    blocks: Vec<[u8; BLOCK]>,
    length: usize,
}

impl Blocks {
    fn new(bytes: &[u8]) -> Self {
        let block = |bytes: &[u8]| {
            let mut block = [0; BLOCK];
            block[..bytes.len()].copy_from_slice(bytes);
            block
        };
        Self {
            blocks: bytes.chunks(BLOCK).map(block).collect(),
            length: bytes.len(),
        }
    }

    #[inline]
    fn write(&self, out: &mut Out<'_>) {
        let mut left = self.length;
        for block in &self.blocks {
            let length = left.min(block.len());
            out.start_of(block, length);
            left -= length;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tail_of(partition: i32, offset: i64) -> String {
        format!(r#","partition":{partition},"offset":{offset},"headers":["#)
    }

    #[test]
    fn every_offset_and_partition_has_room() {
        let extremes = [i64::MIN, -10, -1, 0, 1, 9, 10, i64::MAX];
        for partition in [i32::MIN, 0, i32::MAX] {
            let mut skeleton = Skeleton::new(&TopicPartition {
                topic: "t".into(),
                partition,
            });
            for offset in extremes {
                let expected = tail_of(partition, offset);
                assert_eq!(skeleton.tail(offset), expected.as_bytes());
                let around = r#"{"topic":"t","key":,"value":]}"#.len();
                assert_eq!(skeleton.len(offset), around + expected.len());
                assert!(skeleton.most() >= skeleton.len(offset));
            }
        }
    }

    proptest! {
        /// Whatever stood there before.
        #[test]
        fn the_offset_is_the_one_that_was_set(
            steps in proptest::collection::vec((prop_oneof![-3..300i64, any::<i64>()], 0..30usize), 1..20),
        ) {
            let mut skeleton = Skeleton::new(&TopicPartition::only("t".into()));
            for (first, count) in steps {
                for offset in (first..i64::MAX).take(count) {
                    prop_assert_eq!(skeleton.tail(offset), &tail_of(0, offset).into_bytes()[..]);
                }
            }
        }

        #[test]
        fn a_head_of_any_length_is_written(name in "[a-z\"]{0,200}") {
            let skeleton = Skeleton::new(&TopicPartition::only(name.as_str().into()));
            let expected = format!(r#"{{"topic":"{}","key":"#, name.replace('"', "\\\""));
            let (mut buffer, mut shares) = (vec![b'-'; 1000], Vec::new());
            let mut out = Out::new(&mut buffer, 0, &mut shares);
            skeleton.write_head(&mut out);
            let end = out.at();
            skeleton.write_null_head(&mut out);
            let all = out.at();
            prop_assert_eq!(&buffer[..end], expected.as_bytes());
            prop_assert_eq!(skeleton.head(), expected.as_bytes());
            prop_assert_eq!(&buffer[end..all], &(expected + "null,\"value\":").into_bytes()[..]);
        }
    }
}
