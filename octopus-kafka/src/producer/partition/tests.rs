//! What is sent, and what is said of it, step by step.

mod model;

use bytes::Bytes;
use kafka_protocol::error::ResponseError as Code;

use super::*;
use crate::producer::NewRecord;

const SECOND: Duration = Duration::from_secs(1);
/// A record's size in these tests.
const SIZE: usize = 100;

/// A partition with an identity, ten records a batch, and a clock.
struct Rig {
    partition: Partition,
    now: Instant,
}

impl Rig {
    fn new() -> Self {
        let mut rig = Self {
            partition: Partition::new(10 * SIZE, 7),
            now: Instant::now(),
        };
        rig.push(10 * SECOND);
        assert_eq!(rig.partition.poll_want(rig.now), Want::Identity);
        rig.identify(70);
        let first = rig.take().records[0].id;
        rig.written(0);
        assert_eq!(rig.settled(), [(first, Ok(Some(0)))]);
        rig
    }

    fn identify(&mut self, producer_id: i64) {
        let identity = Identity {
            producer_id,
            epoch: 0,
        };
        self.partition.handle_identity(Ok(identity), self.now);
    }

    fn push(&mut self, within: Duration) -> u64 {
        self.push_sized(SIZE, within)
    }

    fn push_sized(&mut self, size: usize, within: Duration) -> u64 {
        let deadline = self.now + within;
        self.partition.push(|id| Queued {
            id,
            record: NewRecord {
                timestamp: Some(1000 + i64::try_from(id).unwrap()),
                ..NewRecord::default()
            },
            size,
            deadline,
            _hold: None,
        })
    }

    /// Lets time pass.
    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.partition.handle_timeout(self.now);
    }

    /// The batch that is sent next, which waits for nothing but time.
    fn take(&mut self) -> Arc<Batch> {
        if self.partition.poll_want(self.now) == Want::Nothing {
            let then = self.partition.poll_timeout().expect("something to send");
            self.wait(then - self.now);
        }
        assert_eq!(self.partition.poll_want(self.now), Want::Connection);
        self.partition.take(self.now).expect("a batch").0
    }

    fn answer(&mut self, answer: Answer) {
        self.partition.handle_answer(answer, self.now);
    }

    fn written(&mut self, base_offset: i64) {
        self.answer(Answer::Written {
            base_offset: Some(base_offset),
            append_time: None,
        });
    }

    fn lost(&mut self) {
        self.answer(Answer::Lost(Error::new(Api::Produce, Kind::Timeout)));
    }

    /// What was settled: each record's offset, or whether it may have been written.
    fn settled(&mut self) -> Vec<(u64, Result<Option<i64>, bool>)> {
        let settled = std::iter::from_fn(|| self.partition.poll_settled());
        settled
            .map(|(id, result)| {
                let result = result.map(|written| written.offset);
                (id, result.map_err(|not| not.may_be_written()))
            })
            .collect()
    }
}

fn ids(batch: &Batch) -> Vec<u64> {
    batch.records.iter().map(|queued| queued.id).collect()
}

#[test]
fn one_that_is_quiet_sends_at_once_and_a_busy_one_what_has_come_meanwhile() {
    let mut rig = Rig::new();
    let first = rig.push(SECOND);
    let batch = rig.take();
    assert_eq!((ids(&batch), batch.base_sequence), (vec![first], 1));
    let more: Vec<_> = (0..3).map(|_| rig.push(SECOND)).collect();
    assert_eq!(rig.partition.poll_want(rig.now), Want::Nothing);
    rig.written(50);
    let batch = rig.take();
    assert_eq!((ids(&batch), batch.base_sequence), (more.clone(), 2));
    rig.written(51);
    let offsets = [
        (first, Ok(Some(50))),
        (more[0], Ok(Some(51))),
        (more[1], Ok(Some(52))),
        (more[2], Ok(Some(53))),
    ];
    assert_eq!(rig.settled(), offsets);
    assert!(rig.partition.is_empty());
}

#[test]
fn a_batch_has_so_many_bytes_or_one_record() {
    let mut rig = Rig::new();
    let small: Vec<_> = (0..12).map(|_| rig.push(SECOND)).collect();
    let large = rig.push_sized(50 * SIZE, SECOND);
    assert_eq!(ids(&rig.take()), small[..10]);
    rig.written(1);
    assert_eq!(ids(&rig.take()), small[10..]);
    rig.written(11);
    assert_eq!(ids(&rig.take()), [large]);
}

#[test]
fn a_batch_whose_answer_was_lost_is_sent_again_as_it_was() {
    let mut rig = Rig::new();
    let first = rig.push(60 * SECOND);
    let sent = rig.take().encode();
    let second = rig.push(60 * SECOND);
    for code in [
        Code::NotLeaderOrFollower,
        Code::RequestTimedOut,
        Code::NotEnoughReplicasAfterAppend,
        Code::UnknownTopicOrPartition,
        Code::KafkaStorageError,
    ] {
        rig.lost();
        assert_eq!(rig.take().encode(), sent);
        rig.answer(Answer::Refused(code));
        assert_eq!(rig.take().encode(), sent);
        rig.answer(Answer::NotSent(Error::new(
            Api::Produce,
            Kind::Unreachable("it".into()),
        )));
        assert_eq!(rig.take().encode(), sent);
    }
    assert_eq!(rig.settled(), []);
    rig.written(9);
    assert_eq!(rig.settled(), [(first, Ok(Some(9)))]);
    let batch = rig.take();
    assert_eq!((ids(&batch), batch.base_sequence), (vec![second], 2));
}

#[test]
fn a_batch_that_was_surely_not_appended_takes_along_what_has_come_since() {
    let mut rig = Rig::new();
    let mut all = vec![rig.push(60 * SECOND)];
    for answer in [
        Answer::Refused(Code::NotEnoughReplicas),
        Answer::NotSent(Error::new(Api::Produce, Kind::Unreachable("it".into()))),
    ] {
        let batch = rig.take();
        assert_eq!((ids(&batch), batch.base_sequence), (all.clone(), 1));
        rig.answer(answer);
        assert_eq!(
            rig.partition.poll_want(rig.now),
            Want::Nothing,
            "it waits a little"
        );
        all.push(rig.push(60 * SECOND));
    }
    assert_eq!(ids(&rig.take()), all);
}

#[test]
fn what_was_never_sent_in_its_time_is_surely_not_written() {
    let mut rig = Rig::new();
    let out = rig.push(5 * SECOND);
    let _batch = rig.take();
    let queued = rig.push(SECOND);
    let later = rig.push(20 * SECOND);
    assert_eq!(rig.partition.poll_timeout(), Some(rig.now + SECOND));
    rig.wait(SECOND);
    assert_eq!(rig.settled(), [(queued, Err(false))]);
    rig.wait(4 * SECOND);
    assert_eq!(rig.settled(), [(out, Err(true))]);
    rig.answer(Answer::Refused(Code::NotEnoughReplicas));
    let batch = rig.take();
    assert_eq!(ids(&batch), [later]);
    assert_eq!((batch.identity.epoch, batch.base_sequence), (0, 1));
}

#[test]
fn the_error_of_the_last_try_is_told() {
    let mut rig = Rig::new();
    rig.push(SECOND);
    rig.take();
    rig.answer(Answer::Refused(Code::NotEnoughReplicas));
    rig.wait(SECOND);
    let (_, result) = rig.partition.poll_settled().unwrap();
    let not = result.unwrap_err();
    assert!(!not.may_be_written());
    assert_eq!(not.error().kind(), &Kind::Response(Code::NotEnoughReplicas));
}

#[test]
fn a_batch_that_is_given_up_is_fenced_by_the_next_epoch() {
    let mut rig = Rig::new();
    let lost = rig.push(SECOND);
    let batch = rig.take();
    assert_eq!((batch.identity.epoch, batch.base_sequence), (0, 1));
    rig.lost();
    let next = rig.push(60 * SECOND);
    rig.wait(SECOND);
    assert_eq!(rig.settled(), [(lost, Err(true))]);
    let batch = rig.take();
    assert_eq!(ids(&batch), [next]);
    assert_eq!(batch.identity.producer_id, 70);
    assert_eq!((batch.identity.epoch, batch.base_sequence), (1, 0));
}

#[test]
fn behind_the_last_epoch_comes_another_producer_id() {
    let mut rig = Rig::new();
    rig.partition.identity = Some(Identity {
        producer_id: 70,
        epoch: i16::MAX,
    });
    rig.push(SECOND);
    rig.take();
    rig.lost();
    rig.push(60 * SECOND);
    rig.wait(SECOND);
    assert_eq!(rig.partition.poll_want(rig.now), Want::Identity);
    rig.identify(71);
    let batch = rig.take();
    assert_eq!((batch.identity.producer_id, batch.base_sequence), (71, 0));
}

#[test]
fn sequence_numbers_go_on_at_zero() {
    let mut rig = Rig::new();
    rig.partition.sequence = i32::MAX - 1;
    for _ in 0..3 {
        rig.push(SECOND);
    }
    assert_eq!(rig.take().base_sequence, i32::MAX - 1);
    rig.written(1);
    rig.push(SECOND);
    assert_eq!(rig.take().base_sequence, 1);
}

#[test]
fn a_batch_that_is_too_large_goes_in_parts_and_those_behind_it_too() {
    let mut rig = Rig::new();
    let all: Vec<_> = (0..20).map(|_| rig.push(SECOND)).collect();
    assert_eq!(rig.take().records.len(), 10);
    rig.answer(Answer::Refused(Code::MessageTooLarge));
    for records in all.chunks(5) {
        assert_eq!(ids(&rig.take()), records);
        rig.written(0);
    }
    assert_eq!(rig.settled().len(), 20);
}

#[test]
fn a_record_over_the_limit_is_refused_alone() {
    for code in [Code::MessageTooLarge, Code::RecordListTooLarge] {
        let mut rig = Rig::new();
        let small = [rig.push(SECOND), rig.push(SECOND)];
        let large = rig.push_sized(8 * SIZE, SECOND);
        let behind = rig.push(SECOND);
        assert_eq!(ids(&rig.take()), [small[0], small[1], large]);
        rig.answer(Answer::Refused(code));
        assert_eq!(ids(&rig.take()), small);
        rig.written(1);
        assert_eq!(ids(&rig.take()), [large]);
        rig.answer(Answer::Refused(code));
        let batch = rig.take();
        assert_eq!((ids(&batch), batch.base_sequence), (vec![behind], 3));
        let settled = [
            (small[0], Ok(Some(1))),
            (small[1], Ok(Some(2))),
            (large, Err(false)),
        ];
        assert_eq!(rig.settled(), settled);
    }
}

#[test]
fn a_record_that_is_not_taken_is_found_among_many() {
    let mut rig = Rig::new();
    rig.partition.most_bytes = 1000 * SIZE;
    let all: Vec<_> = (0..1000).map(|_| rig.push(SECOND)).collect();
    let bad = [all[0], all[700]];
    let (mut requests, mut end) = (0, 0);
    while !rig.partition.is_empty() {
        let batch = rig.take();
        requests += 1;
        if ids(&batch).iter().any(|id| bad.contains(id)) {
            rig.answer(Answer::Refused(Code::InvalidRecord));
        } else {
            rig.written(end);
            end += i64::try_from(batch.records.len()).unwrap();
        }
        for (id, result) in rig.settled() {
            assert_eq!(result.is_err(), bad.contains(&id));
            assert_ne!(result, Err(true));
        }
    }
    assert_eq!(end, 998);
    assert!(requests < 80, "{requests}");
}

#[test]
fn a_batch_that_kafka_takes_for_out_of_order_goes_in_another_epoch_if_it_was_surely_not_appended() {
    for code in [Code::OutOfOrderSequenceNumber, Code::UnknownProducerId] {
        let mut rig = Rig::new();
        let id = rig.push(10 * SECOND);
        rig.take();
        rig.answer(Answer::Refused(code));
        let batch = rig.take();
        assert_eq!(ids(&batch), [id]);
        assert_eq!((batch.identity.epoch, batch.base_sequence), (1, 0));

        rig.lost();
        rig.take();
        rig.answer(Answer::Refused(code));
        assert_eq!(rig.settled(), [(id, Err(true))]);
        let next = rig.push(10 * SECOND);
        let batch = rig.take();
        assert_eq!(ids(&batch), [next]);
        assert_eq!((batch.identity.epoch, batch.base_sequence), (2, 0));
    }
}

#[test]
fn a_producer_that_is_fenced_takes_another_id() {
    for code in [Code::InvalidProducerEpoch, Code::ProducerFenced] {
        let mut rig = Rig::new();
        let id = rig.push(10 * SECOND);
        rig.take();
        rig.answer(Answer::Refused(code));
        rig.wait(SECOND);
        assert_eq!(rig.partition.poll_want(rig.now), Want::Identity);
        rig.identify(71);
        let batch = rig.take();
        assert_eq!((ids(&batch), batch.base_sequence), (vec![id], 0));
        assert_eq!(batch.identity.producer_id, 71);
    }
}

#[test]
fn a_batch_that_kafka_has_is_written_wherever_it_stands() {
    let mut rig = Rig::new();
    let id = rig.push(SECOND);
    rig.take();
    rig.answer(Answer::Refused(Code::DuplicateSequenceNumber));
    assert_eq!(rig.settled(), [(id, Ok(None))]);
    rig.push(SECOND);
    assert_eq!(rig.take().base_sequence, 2);
}

#[test]
fn the_time_of_the_append_is_told_where_the_topic_goes_by_it() {
    let mut rig = Rig::new();
    let times = |rig: &mut Rig, append_time| {
        rig.answer(Answer::Written {
            base_offset: Some(1),
            append_time,
        });
        let settled = std::iter::from_fn(|| rig.partition.poll_settled());
        settled
            .map(|(_, result)| result.unwrap().timestamp)
            .collect::<Vec<_>>()
    };
    let ids = [rig.push(SECOND), rig.push(SECOND)];
    let own = ids.map(|id| 1000 + i64::try_from(id).unwrap());
    rig.take();
    assert_eq!(times(&mut rig, Some(5555)), [5555, 5555]);

    rig.push(SECOND);
    rig.push(SECOND);
    rig.take();
    rig.lost();
    rig.take();
    let own = own.map(|time| time + 2);
    let known = times(&mut rig, Some(own[1]));
    assert_eq!(known, own, "of a batch that it has, Kafka tells the largest time");
}

#[test]
fn who_leaves_withdraws_what_waits_and_not_what_is_out() {
    let mut rig = Rig::new();
    let out = rig.push(SECOND);
    let batch = rig.take();
    let queued = [rig.push(SECOND), rig.push(SECOND), rig.push(SECOND)];
    rig.partition.withdraw(queued[1]);
    rig.partition.withdraw(out);
    rig.lost();
    drop(batch);
    let batch = rig.take();
    assert_eq!(ids(&batch), [queued[0], queued[2]]);
    assert_eq!((batch.identity.epoch, batch.base_sequence), (1, 0));
    rig.written(3);
    assert_eq!(
        rig.settled(),
        [(queued[0], Ok(Some(3))), (queued[2], Ok(Some(4)))]
    );
    rig.partition.withdraw(queued[0]);
    rig.wait(60 * SECOND);
    assert_eq!(rig.settled(), []);
}

#[test]
fn a_topic_that_is_not_there_is_waited_for_shortly() {
    let mut rig = Rig::new();
    let missing = || Error::response(Api::Produce, Code::UnknownTopicOrPartition);
    let id = rig.push(60 * SECOND);
    let start = rig.now;
    while rig.settled() != [(id, Err(false))] {
        assert!(rig.now - start < 2 * MISSING);
        let then = rig.partition.poll_timeout().unwrap_or(rig.now).max(rig.now);
        if rig.partition.poll_want(rig.now) == Want::Connection {
            rig.partition.handle_no_connection(missing(), rig.now);
        } else {
            rig.wait(then - rig.now);
        }
    }
    assert!(rig.now - start >= MISSING);
    let id = rig.push(60 * SECOND);
    rig.partition.handle_no_connection(missing(), rig.now);
    assert_eq!(ids(&rig.take()), [id], "it was made meanwhile");
}

#[test]
fn what_will_not_pass_ends_at_once() {
    let denied = || Error::response(Api::Produce, Code::TopicAuthorizationFailed);
    let mut rig = Rig::new();
    let id = rig.push(60 * SECOND);
    rig.partition.handle_no_connection(denied(), rig.now);
    assert_eq!(rig.settled(), [(id, Err(false))]);

    let all = [rig.push(60 * SECOND), rig.push(60 * SECOND)];
    rig.partition.most_bytes = SIZE;
    rig.take();
    rig.answer(Answer::Refused(Code::TopicAuthorizationFailed));
    assert_eq!(rig.settled(), all.map(|id| (id, Err(false))));

    let all = [rig.push(60 * SECOND), rig.push(60 * SECOND)];
    rig.take();
    rig.lost();
    rig.take();
    rig.answer(Answer::Refused(Code::TopicAuthorizationFailed));
    assert_eq!(rig.settled(), [(all[0], Err(true)), (all[1], Err(false))]);

    let id = rig.push(60 * SECOND);
    rig.take();
    rig.answer(Answer::Refused(Code::UnknownServerError));
    assert_eq!(rig.settled(), [(id, Err(true))]);
    assert!(rig.partition.is_empty());
}

#[test]
fn without_an_id_nothing_is_sent() {
    let mut partition = Partition::new(SIZE, 0);
    let mut rig = Rig::new();
    std::mem::swap(&mut rig.partition, &mut partition);
    let id = rig.push(SECOND);
    let away = Error::response(Api::InitProducerId, Code::CoordinatorLoadInProgress);
    rig.partition.handle_identity(Err(away), rig.now);
    assert_eq!(rig.partition.poll_want(rig.now), Want::Nothing);
    rig.wait(SECOND);
    assert_eq!(rig.settled(), [(id, Err(false))]);
    let id = rig.push(SECOND);
    rig.wait(SECOND / 2);
    assert_eq!(rig.partition.poll_want(rig.now), Want::Identity);
    let denied = Error::response(Api::InitProducerId, Code::ClusterAuthorizationFailed);
    rig.partition.handle_identity(Err(denied), rig.now);
    assert_eq!(rig.settled(), [(id, Err(false))]);
}

#[test]
fn a_batch_is_compressed_where_that_makes_it_smaller() {
    let mut rig = Rig::new();
    let noise: Vec<u8> = (0..4000u32)
        .map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[1] ^ i.to_be_bytes()[3].wrapping_mul(77))
        .collect();
    let mut sizes = [vec![b'x'; 4000], noise].map(|value| {
        let deadline = rig.now + SECOND;
        rig.partition.push(|id| Queued {
            id,
            record: NewRecord {
                value: Some(Bytes::from(value)),
                ..NewRecord::default()
            },
            size: 11 * SIZE,
            deadline,
            _hold: None,
        });
        let bytes = rig.take().encode();
        rig.written(1);
        (bytes[22], bytes.len())
    });
    sizes[0].1 /= 1000;
    assert_eq!(sizes[0], (3, 0), "lz4");
    assert_eq!(sizes[1].0, 0, "not compressed");
    assert!((4000..4100).contains(&sizes[1].1));
}
