//! A partition in memory.

use bytes::Bytes;
use octopus_core::{Fault, Headers, Offset, Position, Record, Records};

use crate::is_utf8;

/// A record as it was produced.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
    pub(super) headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Sent {
    pub(super) fn new(key: Option<&[u8]>, value: Option<&[u8]>, headers: &[(&str, Option<&[u8]>)]) -> Self {
        Self {
            key: key.map(<[u8]>::to_vec),
            value: value.map(<[u8]>::to_vec),
            headers: headers
                .iter()
                .map(|(name, value)| (name.as_bytes().to_vec(), value.map(<[u8]>::to_vec)))
                .collect(),
        }
    }

    pub(super) fn payload(&self) -> usize {
        [&self.key, &self.value].into_iter().flatten().map(Vec::len).sum()
    }

    pub(super) fn is_text(&self) -> bool {
        [&self.key, &self.value]
            .into_iter()
            .flatten()
            .all(|bytes| is_utf8(bytes))
    }
}

/// A partition in memory.
pub(super) struct Log {
    /// Each record and the bytes that it lies in: key, value, headers.
    pub(super) records: Vec<(i64, Sent, Bytes)>,
    /// The position behind the last record and what follows it.
    pub(super) end: i64,
    /// What stands behind the last record.
    pub(super) fault: Option<Fault>,
    /// Whether the records' buffer is given.
    pub(super) shares: bool,
    position: i64,
    next: usize,
}

impl Log {
    pub(super) fn of(records: Vec<Sent>) -> Self {
        Self::from(records, 0)
    }

    /// The records from an offset on, which is their index.
    pub(super) fn from(records: Vec<Sent>, offset: usize) -> Self {
        let end = i64::try_from(records.len()).unwrap();
        Self {
            records: (0..)
                .zip(records)
                .skip(offset)
                .map(|(i, sent)| (i, sent.clone(), layout(&sent)))
                .collect(),
            end,
            fault: None,
            shares: true,
            position: i64::try_from(offset).unwrap(),
            next: 0,
        }
    }
}

impl Records for Log {
    fn next(&mut self) -> Option<Result<Record<'_>, Fault>> {
        let Some((offset, sent, bytes)) = self.records.get(self.next) else {
            if let Some(fault) = self.fault {
                return Some(Err(fault));
            }
            self.position = self.end;
            return None;
        };
        self.next += 1;
        self.position = offset + 1;
        let key = sent.key.as_ref().map_or(0, Vec::len);
        let value = sent.value.as_ref().map_or(0, Vec::len);
        let count = u32::try_from(sent.headers.len()).unwrap();
        Some(Ok(Record {
            offset: Offset(*offset),
            timestamp: 0,
            key: sent.key.as_ref().map(|_| &bytes[..key]),
            value: sent.value.as_ref().map(|_| &bytes[key..key + value]),
            headers: Headers::parse(count, &bytes[key + value..]).unwrap().0,
            buffer: self.shares.then_some(bytes),
        }))
    }

    fn position(&self) -> Position {
        Position::at(self.position)
    }
}

fn layout(sent: &Sent) -> Bytes {
    let mut bytes = Vec::new();
    for part in [&sent.key, &sent.value].into_iter().flatten() {
        bytes.extend_from_slice(part);
    }
    for (name, value) in &sent.headers {
        for part in [Some(name), value.as_ref()] {
            let length = part.map_or(-1, |part| i64::try_from(part.len()).unwrap());
            let mut zigzag = (length << 1 ^ length >> 63).cast_unsigned();
            while zigzag >= 0x80 {
                bytes.push(u8::try_from(zigzag & 0x7f).unwrap() | 0x80);
                zigzag >>= 7;
            }
            bytes.push(u8::try_from(zigzag).unwrap());
            bytes.extend_from_slice(part.map_or(&[], Vec::as_slice));
        }
    }
    bytes.into()
}
