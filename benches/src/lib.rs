//! What the benches share: data, a stand of processes, a client, and how two of them compare.

mod asked;
pub mod client;
pub mod ratio;
pub mod stand;
pub mod system;

use std::fmt::Write as _;

pub use asked::Asked;
use bytes::Bytes;
use octopus_core::{Fault, Headers, Offset, Position, Record, Records};

/// An event as JSON, of at least `size` bytes: an object of numbers, strings, lists and an escape here and there,
/// different with each `seed`.
#[must_use]
pub fn event(seed: u64, size: usize) -> Vec<u8> {
    let mut random = Random(seed);
    let mut text = format!("{{\"id\":{seed},\"kind\":\"event\",\"steps\":[");
    while text.len() + 2 < size {
        let (a, b) = (random.next(), random.next());
        let _ = match a % 4 {
            0 => write!(text, "{{\"step\":{},\"loss\":0.{}}},", a % 1000, b % 100_000),
            1 => write!(text, "\"{b:x} of {a:x}\","),
            2 => write!(text, "[{},null,true],", b % 10_000),
            _ => write!(text, "{{\"note\":\"line\\n{}\"}},", b % 100),
        };
    }
    if text.ends_with(',') {
        text.pop();
    }
    text.push_str("]}");
    text.into_bytes()
}

/// An event as [`event`] makes it, of exactly `size` bytes, which are at least 100.
#[must_use]
pub fn event_of(seed: u64, size: usize) -> Vec<u8> {
    /// What one step may add, and what is added here.
    const ROOM: usize = 64;
    let mut text = event(seed, size - ROOM);
    text.pop();
    text.extend_from_slice(b",\"pad\":\"");
    text.resize(size - 2, b'.');
    text.extend_from_slice(b"\"}");
    text
}

/// A partition in memory: one record for each value, each with a header.
#[derive(Debug, Clone)]
pub struct Log {
    records: Vec<(Bytes, usize)>,
    next: usize,
}

impl Log {
    /// A partition of these values.
    #[must_use]
    pub fn new(values: impl IntoIterator<Item = Vec<u8>>) -> Self {
        // Behind the value: one header, `trace` with two bytes, as a batch has it.
        let record = |mut value: Vec<u8>| {
            let length = value.len();
            value.extend_from_slice(b"\x0atrace\x04\x00\x01");
            (value.into(), length)
        };
        Self {
            records: values.into_iter().map(record).collect(),
            next: 0,
        }
    }
}

impl Records for Log {
    fn next(&mut self) -> Option<Result<Record<'_>, Fault>> {
        let (bytes, length) = self.records.get(self.next)?;
        let (value, headers) = bytes.split_at(*length);
        let offset = i64::try_from(self.next).ok()?;
        self.next += 1;
        Some(Ok(Record {
            offset: Offset(offset),
            timestamp: 0,
            key: None,
            value: Some(value),
            headers: Headers::parse(1, headers)?.0,
            buffer: Some(bytes),
        }))
    }

    fn position(&self) -> Position {
        Position::at(i64::try_from(self.next).unwrap_or(i64::MAX))
    }
}

/// Numbers that look random and are the same in every run (splitmix64).
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next one.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_a_size_is_json_of_that_size() {
        for (size, seeds) in [(100, 1000), (101, 1000), (1024, 1000), (65_536, 20)] {
            for seed in 0..seeds {
                let event = event_of(seed * seed * 77, size);
                assert_eq!(event.len(), size);
                assert!(serde_json::from_slice::<serde_json::Value>(&event).is_ok());
            }
        }
    }
}
