//! Records as they were produced, and a partition that holds them.

use arbitrary::Arbitrary;
use bytes::Bytes;
use octopus_core::{Fault, Headers, Offset, Position, Record, Records};

/// A record as it was produced.
#[derive(Debug, Clone, Arbitrary)]
pub struct Sent {
    /// The key.
    pub key: Option<Vec<u8>>,
    /// The value.
    pub value: Option<Vec<u8>>,
    /// The headers, each a name and a value.
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// A partition in memory; a record's offset is its index.
#[derive(Debug)]
pub struct Log {
    records: Vec<(Sent, Bytes)>,
    next: usize,
}

impl Log {
    /// A partition of these records.
    #[must_use]
    pub fn new(records: Vec<Sent>) -> Self {
        let laid_out = |sent: Sent| {
            let bytes = layout(&sent);
            (sent, bytes)
        };
        Self {
            records: records.into_iter().map(laid_out).collect(),
            next: 0,
        }
    }
}

impl Records for Log {
    fn next(&mut self) -> Option<Result<Record<'_>, Fault>> {
        let (sent, bytes) = self.records.get(self.next)?;
        let offset = Offset(i64::try_from(self.next).ok()?);
        self.next += 1;
        let (key, rest) = bytes.split_at(sent.key.as_ref().map_or(0, Vec::len));
        let (value, headers) = rest.split_at(sent.value.as_ref().map_or(0, Vec::len));
        Some(Ok(Record {
            offset,
            timestamp: 0,
            key: sent.key.as_ref().map(|_| key),
            value: sent.value.as_ref().map(|_| value),
            headers: Headers::parse(u32::try_from(sent.headers.len()).ok()?, headers)?.0,
            buffer: Some(bytes),
        }))
    }

    fn position(&self) -> Position {
        Position::at(i64::try_from(self.next).unwrap_or(i64::MAX))
    }
}

/// The key, the value and the headers, these as a batch has them.
fn layout(sent: &Sent) -> Bytes {
    let mut bytes = Vec::new();
    for part in [&sent.key, &sent.value].into_iter().flatten() {
        bytes.extend_from_slice(part);
    }
    for (name, value) in &sent.headers {
        for part in [Some(name), value.as_ref()] {
            let length = part.map_or(-1, |part| i32::try_from(part.len()).expect("a short input"));
            varint(length, &mut bytes);
            bytes.extend_from_slice(part.map_or(&[], Vec::as_slice));
        }
    }
    bytes.into()
}

fn varint(number: i32, out: &mut Vec<u8>) {
    let mut zigzag = (number << 1 ^ number >> 31).cast_unsigned();
    while zigzag >= 0x80 {
        out.push(zigzag.to_le_bytes()[0] | 0x80);
        zigzag >>= 7;
    }
    out.push(zigzag.to_le_bytes()[0]);
}
