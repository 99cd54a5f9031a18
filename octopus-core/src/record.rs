//! One record as it lies in a fetched batch, borrowed; nothing of it is copied or owned here.

use std::fmt;

use bytes::Bytes;

use crate::{Offset, Position};

/// A source of one partition's records in the order of their offsets.
///
/// Each record is borrowed from the source until the next call, so that a source may reuse its memory.
pub trait Records {
    /// The next record, `None` behind the last one.
    ///
    /// # Errors
    ///
    /// A [`Fault`] ends the source: every later call returns it again.
    fn next(&mut self) -> Option<Result<Record<'_>, Fault>>;

    /// Where reading goes on behind what [`next`](Self::next) has returned. After `None` it is past
    /// everything that was fetched, also past stretches that hold no record for a client: transaction
    /// markers and what compaction took away.
    fn position(&self) -> Position;
}

/// Why a partition can't be read further at this place [D-26].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// A checksum, a length or a count is wrong, or a compressed part does not unpack.
    Corrupt,
    /// A message set of magic 0 or 1.
    OldFormat,
    /// A batch or a record is, or unpacks to, more than the bound.
    TooLarge,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Corrupt => "a batch of records is damaged",
            Self::OldFormat => "a batch of records has a format from before Kafka 0.11",
            Self::TooLarge => "a batch of records or a record is larger than the bound",
        })
    }
}

impl std::error::Error for Fault {}

/// One record.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Its offset in the partition.
    pub offset: Offset,
    /// Milliseconds since 1970 UTC, as its batch says.
    pub timestamp: i64,
    /// The key's bytes, `None` for null.
    pub key: Option<&'a [u8]>,
    /// The value's bytes, `None` for null.
    pub value: Option<&'a [u8]>,
    /// The headers.
    pub headers: Headers<'a>,
    /// The buffer that the key, the value and the headers lie in, where it is shared: a large value can
    /// then be sent as a slice of it. `None` where the source reuses its memory.
    pub buffer: Option<&'a Bytes>,
}

/// A record's headers in Kafka's order, repeated names kept; read from the batch's bytes as they are asked for.
#[derive(Debug, Clone, Copy)]
pub struct Headers<'a> {
    bytes: &'a [u8],
    left: u32,
}

impl<'a> Headers<'a> {
    /// No headers.
    pub const NONE: Self = Self { bytes: &[], left: 0 };

    /// Reads a record's header list from the bytes behind its count: each a varint length and a name, a varint
    /// length (-1 for null) and a value. Returns the headers and what follows them, or `None` where a length
    /// does not fit the bytes. Every header is checked here, so that iterating can't fail.
    #[must_use]
    #[inline]
    pub fn parse(count: u32, bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let mut rest = bytes;
        for _ in 0..count {
            (_, rest) = header(rest)?;
        }
        Some((
            Self {
                bytes: &bytes[..bytes.len() - rest.len()],
                left: count,
            },
            rest,
        ))
    }

    /// The bytes of the headers that are left, as [`parse`](Self::parse) reads them: for a caller that keeps
    /// them longer than the record's source does.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    #[inline]
    fn next(&mut self) -> Option<Header<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (header, rest) = header(self.bytes)?;
        self.bytes = rest;
        Some(header)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Headers<'_> {}

/// One header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// The name's bytes, which Kafka does not hold to be UTF-8 [D-25].
    pub name: &'a [u8],
    /// The value's bytes, `None` for null.
    pub value: Option<&'a [u8]>,
}

/// Reads a zigzag varint of 32 bits as Kafka writes them: at most five bytes, the fifth below 16.
/// Returns the number and what follows it, or `None` where the bytes end or go on too long.
#[must_use]
#[inline]
pub fn varint(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let (value, rest) = unsigned(bytes)?;
    Some(((value >> 1).cast_signed() ^ -(value & 1).cast_signed(), rest))
}

/// Reads bytes that stand behind their varint length, -1 for null. Returns them and what follows them, or `None`
/// where the length does not fit the bytes or is below -1.
#[must_use]
#[inline]
pub fn nullable(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let (length, rest) = unsigned(bytes)?;
    if length & 1 == 0 {
        let (value, rest) = rest.split_at_checked((length >> 1) as usize)?;
        Some((Some(value), rest))
    } else if length == NULL {
        Some((None, rest))
    } else {
        None
    }
}

/// How a varint has -1.
const NULL: u32 = 1;

/// Reads a varint and leaves it in its zigzag form: an odd one is below 0.
#[inline]
fn unsigned(bytes: &[u8]) -> Option<(u32, &[u8])> {
    match bytes {
        // Most have one byte or two.
        [a @ 0..0x80, rest @ ..] => Some((u32::from(*a), rest)),
        [a, b @ 0..0x80, rest @ ..] => Some((u32::from(a & 0x7f) | u32::from(*b) << 7, rest)),
        _ => longer(bytes),
    }
}

#[inline(never)]
fn longer(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut value = 0u32;
    for (i, &byte) in bytes.iter().take(5).enumerate() {
        if i == 4 && byte > 0x0f {
            return None;
        }
        value |= u32::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some((value, &bytes[i + 1..]));
        }
    }
    None
}

#[inline]
fn header(bytes: &[u8]) -> Option<(Header<'_>, &[u8])> {
    let (name, rest) = nullable(bytes)?;
    let (value, rest) = nullable(rest)?;
    Some((Header { name: name?, value }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_read_as_kafka_reads_them() {
        for (bytes, number) in [
            (&[0u8][..], 0),
            (&[1], -1),
            (&[2], 1),
            (&[0x7f], -64),
            (&[0x80, 1], 64),
            (&[0xff, 0xff, 0xff, 0xff, 0x0f], i32::MIN),
            (&[0xfe, 0xff, 0xff, 0xff, 0x0f], i32::MAX),
        ] {
            assert_eq!(varint(bytes), Some((number, &[][..])), "{bytes:?}");
        }
        for bytes in [
            &[][..],
            &[0x80],
            &[0xff, 0xff, 0xff, 0xff, 0x10],
            &[0x80, 0x80, 0x80, 0x80, 0x80, 0],
        ] {
            assert_eq!(varint(bytes), None, "{bytes:?}");
        }
    }

    /// [FE-01] order, repeated names and null values are kept.
    #[test]
    fn headers_are_read_in_order() {
        let bytes = [2, b'a', 2, b'1', 2, b'b', 1, 2, b'a', 0, 9, 9];
        let (headers, rest) = Headers::parse(3, &bytes).unwrap();
        assert_eq!(rest, [9, 9]);
        assert_eq!(headers.len(), 3);
        assert_eq!(headers.as_bytes(), &bytes[..10]);
        let read: Vec<_> = headers.map(|h| (h.name, h.value)).collect();
        assert_eq!(
            read,
            [(&b"a"[..], Some(&b"1"[..])), (b"b", None), (b"a", Some(b""))]
        );
    }

    #[test]
    fn a_header_that_does_not_fit_is_refused() {
        for bytes in [&[2][..], &[2, b'a', 4, b'1'], &[1, 1], &[2, b'a', 3]] {
            assert!(Headers::parse(1, bytes).is_none(), "{bytes:?}");
        }
        assert!(Headers::parse(u32::MAX, &[2, b'a', 1]).is_none());
    }
}
