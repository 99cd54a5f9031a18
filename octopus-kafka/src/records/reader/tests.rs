use octopus_core::Header;

use super::*;
use crate::records::{BatchWriter, Compression};

/// A record that was read, as its own.
#[derive(Debug, Clone, PartialEq)]
struct Owned {
    offset: i64,
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Owned {
    fn of(record: Record<'_>) -> Self {
        let own = |Header { name, value }: Header<'_>| (name.to_vec(), value.map(<[u8]>::to_vec));
        Self {
            offset: record.offset.0,
            timestamp: record.timestamp,
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
            headers: record.headers.map(own).collect(),
        }
    }
}

/// All records, and how it ended.
fn read(reader: &mut Reader) -> (Vec<Owned>, Result<(), Fault>) {
    let mut records = Vec::new();
    loop {
        match reader.next() {
            Some(Ok(record)) => {
                let record = Owned::of(record);
                assert_eq!(reader.position().offset, record.offset + 1);
                records.push(record);
            }
            Some(Err(fault)) => {
                assert_eq!(reader.next().map(|again| again.err()), Some(Some(fault)));
                return (records, Err(fault));
            }
            None => {
                assert!(reader.next().is_none());
                return (records, Ok(()));
            }
        }
    }
}

/// The offsets of the records, how it ended, and the position behind.
fn offsets(bytes: &[u8], from: i64) -> (Vec<i64>, Result<(), Fault>, Position) {
    let mut reader = Reader::new(Bytes::copy_from_slice(bytes), Position::at(from));
    let (records, end) = read(&mut reader);
    (records.iter().map(|r| r.offset).collect(), end, reader.position())
}

fn at(offset: i64, leader_epoch: i32) -> Position {
    Position {
        offset,
        leader_epoch: Some(leader_epoch),
    }
}

/// A batch of so many records, of the leader's epoch 4.
fn batch(compression: Compression, base_offset: i64, count: i64) -> BatchWriter {
    let mut batch = BatchWriter::new(compression);
    batch.base_offset(base_offset).leader_epoch(4);
    for i in base_offset..base_offset + count {
        batch.push(1000 + i, Some(&i.to_be_bytes()), Some(b"value"), &[]);
    }
    batch
}

/// [FE-11] Nothing below the position, everything from it on, and the batch's epoch goes along.
#[test]
fn reading_starts_at_the_position_also_within_a_batch() {
    for compression in Compression::ALL {
        let bytes = [
            batch(compression, 0, 100).finish(),
            batch(compression, 100, 5).finish(),
        ]
        .concat();
        for from in [0, 1, 57, 99, 100, 104] {
            let expected: Vec<_> = (from..105).collect();
            assert_eq!(
                offsets(&bytes, from),
                (expected, Ok(()), at(105, 4)),
                "{compression:?}"
            );
        }
        assert_eq!(offsets(&bytes, 105), (vec![], Ok(()), Position::at(105)));
        assert_eq!(offsets(&bytes, 1000), (vec![], Ok(()), Position::at(1000)));
    }
}
