//! One record within a batch's bytes.

use octopus_core::{Headers, nullable, varint};

/// How one record begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head<'a> {
    /// Milliseconds behind the batch's base timestamp.
    pub(super) timestamp_delta: i64,
    /// Offsets behind the batch's base offset.
    pub(super) offset_delta: u32,
    /// What follows, up to the record's end.
    pub(super) body: &'a [u8],
    /// The bytes of the record with its length.
    pub(super) length: usize,
}

/// What follows the head.
#[derive(Debug, Clone, Copy)]
pub(super) struct Body<'a> {
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    pub(super) headers: Headers<'a>,
}

impl<'a> Head<'a> {
    /// Reads the head of a record; the bytes begin with the record's length and have all of it.
    #[inline]
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (record, behind) = nullable(bytes)?;
        let (_attributes, rest) = record?.split_first()?;
        let (timestamp_delta, rest) = varlong(rest)?;
        let (offset_delta, body) = varint(rest)?;
        Some(Self {
            timestamp_delta,
            offset_delta: u32::try_from(offset_delta).ok()?,
            body,
            length: bytes.len() - behind.len(),
        })
    }
}

impl<'a> Body<'a> {
    /// Reads what follows a record's head; the record's last byte is the last of `bytes`.
    #[inline]
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (key, rest) = nullable(bytes)?;
        let (value, rest) = nullable(rest)?;
        let (count, rest) = varint(rest)?;
        let (headers, rest) = Headers::parse(u32::try_from(count).ok()?, rest)?;
        rest.is_empty().then_some(Self { key, value, headers })
    }
}

/// Reads a zigzag varint of 64 bits: at most ten bytes, the tenth below 2.
#[inline]
fn varlong(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (value, rest) = match bytes {
        // Most have one byte or two.
        [a @ 0..0x80, rest @ ..] => (u64::from(*a), rest),
        [a, b @ 0..0x80, rest @ ..] => (u64::from(a & 0x7f) | u64::from(*b) << 7, rest),
        _ => longer(bytes)?,
    };
    Some(((value >> 1).cast_signed() ^ -(value & 1).cast_signed(), rest))
}

#[inline(never)]
fn longer(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (i, &byte) in bytes.iter().take(10).enumerate() {
        if i == 9 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some((value, &bytes[i + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varlongs_are_read_as_kafka_reads_them() {
        let most = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        let least = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        for (bytes, number) in [
            (&[0u8][..], 0),
            (&[1], -1),
            (&[0x80, 1], 64),
            (&most, i64::MAX),
            (&least, i64::MIN),
        ] {
            assert_eq!(varlong(bytes), Some((number, &[][..])), "{bytes:?}");
        }
        let too_large = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
        for bytes in [&[][..], &[0x80], &too_large, &[0x80; 11]] {
            assert_eq!(varlong(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_record_ends_where_its_length_says() {
        let whole = [2, b'k', 1, 2, 2, b'n', 1];
        let body = Body::parse(&whole).unwrap();
        assert_eq!(
            (body.key, body.value, body.headers.len()),
            (Some(&b"k"[..]), None, 1)
        );
        for end in 0..whole.len() {
            assert!(Body::parse(&whole[..end]).is_none(), "{end}");
        }
        assert!(Body::parse(&[1, 1, 0, 0]).is_none(), "a byte more");
        assert!(Body::parse(&[3, 1, 0]).is_none(), "a key of length -2");
        assert!(Body::parse(&[1, 1, 1]).is_none(), "-1 headers");
    }
}
