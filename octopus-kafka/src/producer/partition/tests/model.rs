//! Any losses, elections and stragglers, against a log as a broker keeps it.

use std::collections::BTreeMap;

use kafka_protocol::error::ParseResponseErrorCode as _;
use octopus_core::{Position, Records as _};
use proptest::prelude::*;

use super::*;
use crate::{broker::Log, records::Reader};

/// The broker's limit for a batch.
const LIMIT: usize = 1500;
const PATIENCE: Duration = Duration::from_secs(1000);

#[derive(Debug, Clone)]
enum Step {
    /// A record of so many bytes comes, with so much time in milliseconds.
    Push(usize, u64),
    /// The caller of a record leaves.
    Leave(usize),
    /// So many milliseconds pass.
    Wait(u64),
    /// What is asked for next is given, and meets this fate.
    Serve(Fate),
    /// A copy of a request that was lost comes late.
    Straggle(usize),
    /// The answer that is out comes.
    Answer,
    /// A leader takes over that has all.
    Elect,
}

#[derive(Debug, Clone, Copy)]
enum Fate {
    /// All goes well.
    Well,
    /// All goes well, and the answer comes later.
    Slow,
    /// It is on its way when the connection ends, and may come yet.
    LostBefore,
    /// Its answer is lost.
    LostBehind,
    /// It is refused before it is appended.
    Refused(i16),
    /// It is appended and then refused.
    AppendedAndRefused(i16),
    /// It is not sent.
    NotSent,
}

fn step() -> impl Strategy<Value = Step> {
    let fate = prop_oneof![
        6 => Just(Fate::Well),
        3 => Just(Fate::Slow),
        2 => Just(Fate::LostBefore),
        2 => Just(Fate::LostBehind),
        // Astray and fenced, as a leader says that knows less, or more.
        2 => prop_oneof![Just(19), Just(6), Just(3), Just(7), Just(45), Just(47), Just(87)].prop_map(Fate::Refused),
        2 => prop_oneof![Just(6), Just(7), Just(20), Just(3), Just(-1)].prop_map(Fate::AppendedAndRefused),
        1 => Just(Fate::NotSent),
    ];
    prop_oneof![
        8 => (prop_oneof![4 => 0..400usize, 1 => 1400..1700usize], 1..20_000u64).prop_map(|(size, ms)| Step::Push(size, ms)),
        1 => (0..100usize).prop_map(Step::Leave),
        4 => (0..2000u64).prop_map(Step::Wait),
        10 => fate.prop_map(Step::Serve),
        2 => (0..8usize).prop_map(Step::Straggle),
        3 => Just(Step::Answer),
        1 => Just(Step::Elect),
    ]
}

struct World {
    rig: Rig,
    log: Log,
    next_producer_id: i64,
    /// The answer to the batch that is out.
    out: Option<Answer>,
    stragglers: Vec<Bytes>,
    told: BTreeMap<u64, Result<Written, NotWritten>>,
    pushed: u64,
    left: Vec<u64>,
}

impl World {
    fn new() -> Self {
        Self {
            rig: Rig {
                partition: Partition::new(2000, 7),
                now: Instant::now(),
            },
            log: Log::default(),
            next_producer_id: 1,
            out: None,
            stragglers: Vec::new(),
            told: BTreeMap::new(),
            pushed: 0,
            left: Vec::new(),
        }
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Push(bytes, ms) => {
                let deadline = self.rig.now + Duration::from_millis(ms);
                self.rig.partition.push(|id| {
                    // Bytes that do not compress, so that the broker's limit is met.
                    let noise = (0..bytes).map(|i| mixed(id.wrapping_mul(7919) + i as u64));
                    let value = id.to_be_bytes().into_iter().chain(noise).collect();
                    Queued {
                        id,
                        record: NewRecord {
                            value: Some(value),
                            timestamp: Some(0),
                            ..NewRecord::default()
                        },
                        size: bytes + 48,
                        deadline,
                        _hold: None,
                    }
                });
                self.pushed += 1;
            }
            Step::Leave(which) => {
                let id = which as u64;
                if id < self.pushed && !self.told.contains_key(&id) {
                    self.rig.partition.withdraw(id);
                    self.left.push(id);
                }
            }
            Step::Wait(ms) => self.rig.wait(Duration::from_millis(ms)),
            Step::Serve(fate) => self.serve(fate),
            Step::Straggle(which) => {
                if !self.stragglers.is_empty() {
                    let bytes = self.stragglers.remove(which % self.stragglers.len());
                    let _ = self.log.produce(&bytes, LIMIT, true);
                }
            }
            Step::Answer => self.deliver(),
            Step::Elect => _ = self.log.elect(None).unwrap(),
        }
        while let Some((id, result)) = self.rig.partition.poll_settled() {
            assert!(self.told.insert(id, result).is_none(), "{id} was settled twice");
        }
    }

    fn serve(&mut self, fate: Fate) {
        match self.rig.partition.poll_want(self.rig.now) {
            Want::Nothing => return,
            Want::Identity => {
                self.rig.identify(self.next_producer_id);
                self.next_producer_id += 1;
                return;
            }
            Want::Connection => {}
        }
        let Some((batch, _)) = self.rig.partition.take(self.rig.now) else {
            return;
        };
        let bytes = batch.encode();
        let lost = || Answer::Lost(Error::new(Api::Produce, Kind::Timeout));
        let refusal = |code: i16| Answer::Refused(code.err().expect("an error"));
        let answer = match fate {
            Fate::Well | Fate::Slow => self.append(&bytes),
            Fate::LostBefore => {
                self.stragglers.push(bytes);
                lost()
            }
            Fate::LostBehind => {
                self.append(&bytes);
                lost()
            }
            Fate::Refused(code) => refusal(code),
            Fate::AppendedAndRefused(code) => {
                let answer = self.append(&bytes);
                if matches!(answer, Answer::Written { .. }) {
                    refusal(code)
                } else {
                    answer
                }
            }
            Fate::NotSent => Answer::NotSent(Error::new(Api::Produce, Kind::Unreachable("it".into()))),
        };
        self.out = Some(answer);
        if !matches!(fate, Fate::Slow) {
            self.deliver();
        }
    }

    fn append(&mut self, bytes: &Bytes) -> Answer {
        match self.log.produce(bytes, LIMIT, true) {
            Ok(base) => Answer::Written {
                base_offset: Some(base),
                append_time: None,
            },
            Err(code) => Answer::Refused(code.err().expect("an error")),
        }
    }

    fn deliver(&mut self) {
        if let Some(answer) = self.out.take() {
            self.rig.answer(answer);
        }
    }

    /// Lets everything end, and gives what stands in the log, in its order.
    fn end(&mut self) -> Vec<u64> {
        let start = self.rig.now;
        while !self.rig.partition.is_empty() {
            assert!(self.rig.now - start < PATIENCE, "it does not end");
            self.run(Step::Answer);
            self.run(Step::Serve(Fate::Well));
            self.run(Step::Wait(50));
        }
        while !self.stragglers.is_empty() {
            self.run(Step::Straggle(0));
        }
        let found = self.log.find(0, usize::MAX, true).unwrap();
        let mut records = Reader::new(self.log.load(&found).unwrap(), Position::at(0));
        let mut ids = Vec::new();
        while let Some(record) = records.next() {
            let record = record.unwrap();
            assert_eq!(record.offset.0, i64::try_from(ids.len()).unwrap());
            let value = record.value.unwrap();
            ids.push(u64::from_be_bytes(value[..8].try_into().unwrap()));
        }
        ids
    }
}

/// A byte that looks like chance.
fn mixed(number: u64) -> u8 {
    let mixed = (number ^ 0x9e37).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).to_be_bytes()[2]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// What is acknowledged stands in the log once, where it was said to, and in the order in which it came; what is
    /// surely not written does not stand there; nothing stands there twice; and all are told, but those who left.
    #[test]
    fn a_record_is_written_once_if_it_was_said_to_be_and_never_if_it_was_said_not_to_be(
        steps in proptest::collection::vec(step(), 1..120)
    ) {
        let mut world = World::new();
        for step in steps {
            world.run(step);
        }
        let log = world.end();
        let mut places = BTreeMap::new();
        for (offset, id) in (0i64..).zip(&log) {
            prop_assert!(places.insert(*id, offset).is_none(), "{} stands there twice", id);
        }
        let mut last = -1;
        for id in 0..world.pushed {
            match world.told.get(&id) {
                None => prop_assert!(world.left.contains(&id), "{} was told nothing", id),
                Some(Ok(written)) => {
                    prop_assert_eq!(written.offset.as_ref(), places.get(&id));
                    prop_assert!(written.offset > Some(last));
                    last = written.offset.unwrap();
                }
                Some(Err(not)) if !not.may_be_written() => {
                    prop_assert!(!places.contains_key(&id), "{} was said not to be written", id);
                }
                Some(Err(_)) => {}
            }
        }
    }
}
