use octopus_core::Header;

use super::*;
use crate::records::{BatchWriter, Compression};

mod bounds;
mod damage;
mod round_trip;

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
                let position = reader.position();
                assert_eq!(reader.next().map(|again| again.err()), Some(Some(fault)));
                assert_eq!(reader.position(), position);
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

fn plain(base_offset: i64, count: i64) -> Bytes {
    batch(Compression::None, base_offset, count).finish()
}

/// Makes the checksum right again.
fn sealed(mut batch: Vec<u8>) -> Vec<u8> {
    let crc = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    batch
}

/// A batch at offset 0 that says it has so many records, and has these bytes for them.
fn raw(compression: Compression, count: i32, records: &[u8]) -> Vec<u8> {
    let mut batch = plain(0, 1)[..61].to_vec();
    batch.extend_from_slice(records);
    let length = i32::try_from(batch.len() - 12).unwrap();
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    batch[21..23].copy_from_slice(&(compression as i16).to_be_bytes());
    batch[23..27].copy_from_slice(&count.saturating_sub(1).max(0).to_be_bytes());
    batch[57..61].copy_from_slice(&count.to_be_bytes());
    sealed(batch)
}

/// The bytes of one record: of the offset's delta, without key, value and headers.
fn bare(offset_delta: u8) -> [u8; 7] {
    [12, 0, 0, offset_delta << 1, 1, 1, 0]
}

/// [K07] [FE-11] Nothing below the position, everything from it on, and the batch's epoch goes along.
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

/// [FE-11] The position follows each record, and what comes behind a record is reached by the next call.
#[test]
fn the_position_is_behind_the_record_that_was_given() {
    let mut first = batch(Compression::None, 0, 2);
    first.last_offset_delta(9);
    let bytes = [first.finish(), plain(10, 1)].concat();
    let mut reader = Reader::new(bytes.into(), Position::at(0));
    assert_eq!(reader.position(), Position::at(0));
    for behind in [1, 2, 11] {
        assert!(reader.next().unwrap().is_ok());
        assert_eq!(reader.position(), at(behind, 4));
    }
    assert!(reader.next().is_none());
}

/// [KF-16] [K05] [K06] [D-21] Records of open and aborted transactions are given, the markers are not.
#[test]
fn markers_are_passed_and_transactions_are_read() {
    let mut open = batch(Compression::None, 0, 3);
    open.transactional(7);
    let mut marker = batch(Compression::None, 3, 1);
    marker.transactional(7).control();
    let bytes = [open.finish(), marker.clone().finish(), plain(4, 1)].concat();
    assert_eq!(offsets(&bytes, 0), (vec![0, 1, 2, 4], Ok(()), at(5, 4)));
    assert_eq!(offsets(&bytes, 3), (vec![4], Ok(()), at(5, 4)));
    let log_ends_with_marker = marker.finish();
    assert_eq!(offsets(&log_ends_with_marker, 3), (vec![], Ok(()), at(4, 4)));
}

/// [KF-15] [K11]
#[test]
fn what_compaction_took_is_passed() {
    for compression in Compression::ALL {
        let mut gaps = BatchWriter::new(compression);
        gaps.base_offset(10).leader_epoch(6).skip(2);
        gaps.push(0, None, None, &[]);
        gaps.skip(3).push(0, None, None, &[]);
        gaps.last_offset_delta(20);
        let mut empty = BatchWriter::new(compression);
        empty.base_offset(31).leader_epoch(7).last_offset_delta(49);
        let bytes = [gaps.finish(), empty.finish()].concat();
        assert_eq!(offsets(&bytes, 10), (vec![12, 16], Ok(()), at(81, 7)));
        assert_eq!(offsets(&bytes, 13), (vec![16], Ok(()), at(81, 7)));
        assert_eq!(offsets(&bytes, 17), (vec![], Ok(()), at(81, 7)));
        assert_eq!(
            offsets(&bytes[..bytes.len() - 1], 17),
            (vec![], Ok(()), at(31, 6))
        );
    }
}

#[test]
fn nothing_is_no_record_and_no_fault() {
    assert_eq!(offsets(b"", 5), (vec![], Ok(()), Position::at(5)));
}

#[test]
fn a_position_has_no_epoch_where_the_batch_has_none() {
    let bytes = batch(Compression::None, 0, 1).leader_epoch(-1).clone().finish();
    assert_eq!(offsets(&bytes, 0).2, Position::at(1));
}

#[test]
fn the_append_time_is_that_of_every_record() {
    for compression in Compression::ALL {
        let bytes = batch(compression, 0, 3).append_time(77).clone().finish();
        let (records, _) = read(&mut Reader::new(bytes, Position::at(0)));
        assert!(records.iter().all(|record| record.timestamp == 77));
    }
}

#[test]
fn records_of_a_plain_batch_lie_in_the_fetched_bytes() {
    let bytes = plain(0, 1);
    let mut reader = Reader::new(bytes.clone(), Position::at(0));
    let record = reader.next().unwrap().unwrap();
    let (buffer, value) = (record.buffer.unwrap(), record.value.unwrap());
    assert_eq!(buffer.as_ptr(), bytes.as_ptr());
    assert_eq!(buffer.slice_ref(value), &b"value"[..]);

    let bytes = batch(Compression::Zstd, 0, 1).finish();
    let mut reader = Reader::new(bytes, Position::at(0));
    assert!(reader.next().unwrap().unwrap().buffer.is_none());
}

/// A large record of a compressed batch is unpacked where a reply may share it; what lies around it is read as well.
#[test]
fn a_large_record_of_a_packed_batch_may_be_shared() {
    let large = vec![b'l'; 3 << 20];
    for compression in &Compression::ALL[1..] {
        let mut batch = BatchWriter::new(*compression);
        for value in [b"before", &*large, b"between", &*large, b"behind"] {
            batch.push(0, None, Some(value), &[]);
        }
        let mut reader = Reader::new(batch.finish(), Position::at(0));
        let mut shared = Vec::new();
        for expected in [b"before", &*large, b"between", &*large, b"behind"] {
            let record = reader.next().unwrap().unwrap();
            assert!(record.value == Some(expected), "{compression:?}");
            assert_eq!(record.buffer.is_some(), expected.len() > 10, "{compression:?}");
            shared.extend(
                record
                    .buffer
                    .zip(record.value)
                    .map(|(buffer, value)| buffer.slice_ref(value)),
            );
        }
        assert!(reader.next().is_none());
        // They outlive the reader.
        drop(reader);
        assert!(shared == [&*large, &*large], "{compression:?}");
    }
}

/// [FE-11]
#[test]
fn reading_goes_on_in_what_was_fetched_behind() {
    let all = |reader: Reader| {
        let mut reader = reader;
        let (records, end) = read(&mut reader);
        let offsets: Vec<_> = records.iter().map(|record| record.offset).collect();
        (offsets, end, reader.position())
    };
    let first = || Reader::new(plain(0, 3), Position::at(1));
    let three = first().then(plain(3, 2)).then(plain(5, 1));
    assert_eq!(
        three.stored_bytes(),
        plain(0, 3).len() + plain(3, 2).len() + plain(5, 1).len()
    );
    assert_eq!(all(three), (vec![1, 2, 3, 4, 5], Ok(()), at(6, 4)));
    // The batch that holds the place may begin before it.
    assert_eq!(
        all(first().then(plain(2, 3))),
        (vec![1, 2, 3, 4], Ok(()), at(5, 4))
    );
    assert_eq!(all(first().then(Bytes::new())), (vec![1, 2], Ok(()), at(3, 4)));
    let packed = batch(Compression::Lz4, 3, 2).finish();
    let two = first().then(packed);
    assert!(two.unpacks() && !first().unpacks());
    assert_eq!(all(two), (vec![1, 2, 3, 4], Ok(()), at(5, 4)));
}

#[test]
fn what_is_wrong_with_what_was_fetched_behind_comes_in_its_turn() {
    let all = |behind: Bytes| {
        let mut reader = Reader::new(plain(0, 3), Position::at(1))
            .then(behind)
            .then(plain(5, 1));
        let (records, end) = read(&mut reader);
        (records.len(), end, reader.position())
    };
    let whole = plain(3, 2);
    let mut damaged = whole.to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(all(damaged.into()), (2, Err(Fault::Corrupt), at(3, 4)));
    // A fetch from there has more of it, or says that it is too large.
    assert_eq!(all(whole.slice(..whole.len() - 1)), (2, Ok(()), at(3, 4)));
}

#[test]
fn a_packed_batch_is_known_before_it_is_read() {
    for compression in Compression::ALL {
        let packed = batch(compression, 1, 1).finish();
        let is_packed = compression != Compression::None;
        for bytes in [packed.clone(), [plain(0, 1), packed].concat().into()] {
            let reader = Reader::new(bytes.clone(), Position::at(0));
            assert_eq!(reader.unpacks(), is_packed, "{compression:?}");
            // A batch that was cut has said so, or is not read.
            let reader = Reader::new(bytes.slice(..bytes.len() - 1), Position::at(0));
            assert_eq!(reader.unpacks(), is_packed, "{compression:?}");
        }
    }
    assert!(!Reader::new(Bytes::new(), Position::at(0)).unpacks());
}
