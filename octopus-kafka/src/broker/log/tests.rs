//! The log by itself.

use super::*;
use crate::{
    broker::tests::{batch, seal},
    records::{BatchWriter, Compression},
};

const MAX: usize = 1 << 20;

fn read(log: &Log, offset: i64, max_bytes: usize, first_whole: bool) -> Result<Bytes, Code> {
    log.load(&log.find(offset, max_bytes, first_whole)?)
}

fn sequenced(epoch: i16, sequence: i32) -> BytesMut {
    let mut batch = batch(&[b"a", b"b"], 5);
    batch[43..51].copy_from_slice(&7i64.to_be_bytes());
    batch[51..53].copy_from_slice(&epoch.to_be_bytes());
    batch[53..57].copy_from_slice(&sequence.to_be_bytes());
    seal(&mut batch);
    batch
}

#[test]
fn a_batch_is_kept_as_it_was_sent_but_for_its_offset_and_epoch() {
    let mut log = Log::default();
    let sent = batch(&[b"a", b"b"], 5);
    assert_eq!(log.produce(&sent, MAX, true), Ok(0));
    assert_eq!(log.produce(&sent, MAX, true), Ok(2));
    let got = read(&log, 2, MAX, true).unwrap();
    assert_eq!(got[..8], 2i64.to_be_bytes());
    assert_eq!(got[8..12], sent[8..12]);
    assert_eq!(got[12..16], 0i32.to_be_bytes());
    assert_eq!(got[16..], sent[16..]);
    assert_eq!(
        read(&log, 1, MAX, true).unwrap().len(),
        2 * sent.len(),
        "the batch that holds it"
    );
}

#[test]
fn a_damaged_or_malformed_batch_is_refused() {
    let good = batch(&[b"a", b"b"], 5);
    let refused = |change: fn(&mut BytesMut), sealed: bool| {
        let mut bad = good.clone();
        change(&mut bad);
        if sealed {
            seal(&mut bad);
        }
        let mut log = Log::default();
        let result = log.produce(&bad, MAX, false);
        assert_eq!(log.end(), 0);
        result
    };
    let flip = |batch: &mut BytesMut| *batch.last_mut().unwrap() ^= 1;
    assert_eq!(refused(flip, false), Err(code::CORRUPT_MESSAGE));
    assert_eq!(refused(|batch| batch[16] = 1, false), Err(code::INVALID_RECORD));
    assert_eq!(refused(|batch| batch[60] = 9, true), Err(code::INVALID_RECORD));
    assert_eq!(refused(|batch| batch[22] = 0x20, true), Err(code::INVALID_RECORD));
    assert_eq!(
        refused(|batch| batch.truncate(70), false),
        Err(code::INVALID_RECORD)
    );
    assert_eq!(refused(BytesMut::clear, false), Err(code::INVALID_RECORD));
    let zstd: fn(&mut BytesMut) = |batch| batch[22] = 4;
    assert_eq!(refused(zstd, true), Err(code::UNSUPPORTED_COMPRESSION_TYPE));
    let mut log = Log::default();
    assert_eq!(
        log.produce(&good, good.len() - 1, true),
        Err(code::MESSAGE_TOO_LARGE)
    );
    let two = [&good[..], &good[..]].concat();
    assert_eq!(log.produce(&two, MAX, true), Err(code::INVALID_RECORD));
}

#[test]
fn a_batch_sent_twice_is_stored_once() {
    let mut log = Log::default();
    assert_eq!(log.produce(&sequenced(0, 0), MAX, true), Ok(0));
    assert_eq!(log.produce(&sequenced(0, 2), MAX, true), Ok(2));
    assert_eq!(log.produce(&sequenced(0, 0), MAX, true), Ok(0));
    assert_eq!(log.end(), 4);
    let gap = log.produce(&sequenced(0, 9), MAX, true);
    assert_eq!(gap, Err(code::OUT_OF_ORDER_SEQUENCE_NUMBER));
    let overlap = log.produce(&sequenced(0, 1), MAX, true);
    assert_eq!(overlap, Err(code::OUT_OF_ORDER_SEQUENCE_NUMBER));
    let restart = log.produce(&sequenced(1, 3), MAX, true);
    assert_eq!(restart, Err(code::OUT_OF_ORDER_SEQUENCE_NUMBER));
    assert_eq!(log.produce(&sequenced(1, 0), MAX, true), Ok(4));
    let negative = log.produce(&sequenced(1, -1), MAX, true);
    assert_eq!(negative, Err(code::INVALID_RECORD));
    let fenced = log.produce(&sequenced(0, 4), MAX, true);
    assert_eq!(fenced, Err(code::INVALID_PRODUCER_EPOCH));
}

/// What an unclean election took away was not sent, to the new leader.
#[test]
fn a_batch_that_was_lost_is_taken_again() {
    let mut log = Log::default();
    assert_eq!(log.produce(&sequenced(0, 0), MAX, true), Ok(0));
    assert_eq!(log.produce(&sequenced(0, 2), MAX, true), Ok(2));
    assert_eq!(log.produce(&sequenced(0, 4), MAX, true), Ok(4));
    log.elect(Some(4)).unwrap();
    assert_eq!(log.end(), 4);
    assert_eq!(
        log.produce(&sequenced(0, 2), MAX, true),
        Ok(2),
        "it is there still"
    );
    let gap = log.produce(&sequenced(0, 6), MAX, true);
    assert_eq!(gap, Err(code::OUT_OF_ORDER_SEQUENCE_NUMBER));
    assert_eq!(log.produce(&sequenced(0, 4), MAX, true), Ok(4));
    assert_eq!(log.end(), 6);
}

#[test]
fn sequences_go_on_at_zero() {
    assert_eq!(header::sequence_after(i32::MAX, 1), 0);
    assert_eq!(header::sequence_after(i32::MAX - 1, 3), 1);
}

#[test]
fn what_is_deleted_or_not_there_is_out_of_range() {
    let mut log = Log::default();
    let sent = batch(&[b"a", b"b"], 5);
    for _ in 0..3 {
        log.append(&sent).unwrap();
    }
    assert_eq!(read(&log, 6, MAX, true).unwrap().len(), 0);
    assert_eq!(read(&log, 7, MAX, true), Err(code::OFFSET_OUT_OF_RANGE));
    assert_eq!(read(&log, -1, MAX, true), Err(code::OFFSET_OUT_OF_RANGE));
    assert_eq!(log.delete_before(3), Ok(3));
    assert_eq!(read(&log, 2, MAX, true), Err(code::OFFSET_OUT_OF_RANGE));
    assert_eq!(read(&log, 3, MAX, true).unwrap().len(), 2 * sent.len());
    assert_eq!(log.delete_before(1), Ok(3));
    assert_eq!(log.delete_before(7), Err(code::OFFSET_OUT_OF_RANGE));
    assert_eq!(log.delete_before(-1), Ok(6));
    assert_eq!(log.bytes, 0);
}

#[test]
fn the_oldest_batches_make_room() {
    let mut log = Log::default();
    let sent = batch(&[b"a", b"b"], 5);
    for _ in 0..3 {
        log.append(&sent).unwrap();
    }
    log.retain(2 * sent.len());
    assert_eq!((log.start(), log.end()), (2, 6));
    log.retain(0);
    assert_eq!((log.start(), log.end()), (4, 6), "the last one stays");
}

#[test]
fn a_time_finds_the_first_record_that_is_not_older_in_any_compression() {
    for compression in Compression::ALL {
        let mut log = Log::default();
        for base in [100, 200] {
            let mut writer = BatchWriter::new(compression);
            for time in [base, base + 30, base + 10, base + 40] {
                writer.push(time, None, Some(b"x"), &[]);
            }
            log.produce(&writer.finish(), MAX, true).unwrap();
        }
        assert_eq!(log.at_time(0), Ok(Some((0, 100))));
        assert_eq!(log.at_time(101), Ok(Some((1, 130))));
        assert_eq!(log.at_time(131), Ok(Some((3, 140))));
        assert_eq!(log.at_time(141), Ok(Some((4, 200))));
        assert_eq!(log.at_time(241), Ok(None));
        assert_eq!(log.latest(), Ok(Some((7, 240))));
        log.delete_before(2).unwrap();
        assert_eq!(log.at_time(0), Ok(Some((2, 110))));
    }
}

#[test]
fn a_new_leader_may_lack_what_the_old_one_had() {
    let mut log = Log::default();
    let sent = batch(&[b"a", b"b"], 5);
    log.append(&sent).unwrap();
    assert_eq!(log.elect(None), Ok(1));
    log.append(&sent).unwrap();
    assert_eq!(read(&log, 2, MAX, true).unwrap()[12..16], 1i32.to_be_bytes());
    assert_eq!(log.check_epoch(0), Err(code::FENCED_LEADER_EPOCH));
    assert_eq!(log.check_epoch(2), Err(code::UNKNOWN_LEADER_EPOCH));
    assert_eq!((log.check_epoch(1), log.check_epoch(-1)), (Ok(()), Ok(())));
    assert_eq!((log.epoch_at(1), log.epoch_at(2)), (0, 1));
    assert_eq!((log.end_of_epoch(0), log.end_of_epoch(1)), ((0, 2), (1, 4)));
    assert_eq!((log.end_of_epoch(2), log.end_of_epoch(-1)), ((-1, -1), (-1, -1)));
    assert_eq!(log.elect(Some(3)), Ok(2));
    assert_eq!((log.end(), log.leader_epoch()), (2, 2), "a batch goes whole");
    assert_eq!(log.end_of_epoch(1), (0, 2), "nothing of epoch 1 is left");
}
