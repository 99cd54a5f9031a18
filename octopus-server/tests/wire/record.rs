//! Records of 8 MiB, and the replies that hold one.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use octopus_kafka::records::{BatchWriter, Compression};

/// The bytes of a value whose batch is just under 8 MiB.
pub(crate) const LENGTH: usize = 8 * 1024 * 1024 - 1024;

/// What a value is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    /// Control characters: 48 MiB of escaped text.
    Control,
    /// One JSON value: a string of letters.
    Letters,
    /// Bytes that do not compress.
    Random,
}

impl Value {
    pub(crate) fn bytes(self) -> Vec<u8> {
        let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
        let mut value = Vec::with_capacity(LENGTH);
        while value.len() < LENGTH {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            let eight = match self {
                Self::Control => [1; 8],
                Self::Letters => (dice & 0x0f0f_0f0f_0f0f_0f0f | 0x6060_6060_6060_6060).to_le_bytes(),
                Self::Random => dice.to_le_bytes(),
            };
            value.extend_from_slice(&eight);
        }
        if self == Self::Letters {
            value[0] = b'"';
            value[LENGTH - 1] = b'"';
        }
        value
    }

    /// A batch of this record alone.
    pub(crate) fn batch(self, compression: Compression) -> Bytes {
        let mut batch = BatchWriter::new(compression);
        batch.push(1_700_000_000_000, None, Some(&self.bytes()), &[]);
        batch.finish()
    }

    /// The value in a reply of a json or a binary instance, made by the book and not by the product.
    pub(crate) fn in_reply(self, is_json: bool) -> Vec<u8> {
        match (self, is_json) {
            (Self::Control, true) => [b"\"", &*b"\\u0001".repeat(LENGTH), b"\""].concat(),
            (Self::Letters, true) => self.bytes(),
            (Self::Random, true) => panic!("a json instance cannot return it"),
            (_, false) => [b"\"", STANDARD.encode(self.bytes()).as_bytes(), b"\""].concat(),
        }
    }
}

/// The offset of the only record of a reply, which may be too large to be parsed for it.
pub(crate) fn offset(reply: &[u8]) -> i64 {
    assert!(reply.starts_with(b"[{") && reply.ends_with(b"}]"));
    let end = String::from_utf8_lossy(&reply[reply.len().saturating_sub(100)..]);
    let (_, offset) = end.rsplit_once(r#""offset":"#).expect("an offset");
    offset.split_once(',').unwrap().0.parse().expect("a number")
}

/// A reply of the one record at this offset.
pub(crate) fn reply(topic: &str, offset: i64, value: &[u8]) -> Vec<u8> {
    let head = format!(r#"[{{"topic":"{topic}","key":null,"value":"#);
    let tail = format!(r#","partition":0,"offset":{offset},"headers":[]}}]"#);
    [head.as_bytes(), value, tail.as_bytes()].concat()
}
