//! What the broker keeps on disk: all that it acknowledged, whatever fails and wherever it ends.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use kafka_protocol::messages::{InitProducerIdResponse, ListOffsetsResponse};
use octopus_core::{Position, Records as _};
use proptest::prelude::*;

use super::*;
use crate::{
    broker::{
        disk::{Disk as _, ram::Ram},
        id::Ids,
        store::Store,
    },
    records::Reader,
};

/// A length of files that is soon reached.
const SHORT: u64 = 300;

fn open(ram: &Ram) -> io::Result<World> {
    static SEED: AtomicU64 = AtomicU64::new(0);
    let mut world = World::new();
    // No process has the ids of another one.
    world.machine.ids = Ids::new(SEED.fetch_add(1, Ordering::Relaxed));
    let (store, kept) = Store::open(Arc::new(ram.clone()), SHORT)?;
    world.machine.restore(store, kept);
    Ok(world)
}

/// The machine that starts on a copy of the disk, as after a SIGKILL.
fn restarted(ram: &Ram) -> World {
    open(&ram.copy()).unwrap()
}

fn send(world: &mut World, topic: &str, value: &str) -> (i16, i64) {
    let id = world.connect();
    produced(&world.ask(id, 9, &produce(topic, &batch(&[value.as_bytes()], 5))))
}

/// The values in a topic from an offset on.
fn values(world: &World, topic: &str, from: i64) -> Vec<String> {
    let log = world.machine.topics.log(topic, 0).unwrap();
    let bytes = log.load(&log.find(from, usize::MAX, true).unwrap()).unwrap();
    let mut reader = Reader::new(bytes, Position::at(from));
    let mut values = Vec::new();
    while let Some(record) = reader.next() {
        let value = record.unwrap().value.unwrap().to_vec();
        values.push(String::from_utf8(value).unwrap());
    }
    values
}

fn commit_code(world: &mut World, topic: &str, offset: i64) -> i16 {
    let id = world.connect();
    let request = Request::OffsetCommit(commit("g", &[topic], offset));
    let Response::OffsetCommit(response) = world.ask(id, 8, &request) else {
        unreachable!();
    };
    response.topics[0].partitions[0].error_code
}

fn committed(world: &World, topic: &str) -> Option<i64> {
    let offsets = &world.machine.groups.find("g")?.offsets;
    Some(offsets.get(&(topic.to_owned(), 0))?.offset)
}

fn producer_id(world: &mut World) -> InitProducerIdResponse {
    let id = world.connect();
    let request = Request::InitProducerId(InitProducerIdRequest::default().with_transactional_id(None));
    let Response::InitProducerId(response) = world.ask(id, 4, &request) else {
        unreachable!();
    };
    response
}

/// Like Kafka: a producer without transactions goes to its next epoch on its own, whatever it says of the one before.
#[test]
fn a_producer_without_transactions_gets_a_new_id_each_time() {
    let mut world = open(&Ram::default()).unwrap();
    let id = world.connect();
    let mut ask = |version, request: InitProducerIdRequest| {
        let request = Request::InitProducerId(request);
        let Response::InitProducerId(response) = world.ask(id, version, &request) else {
            unreachable!();
        };
        (
            response.error_code,
            *response.producer_id,
            response.producer_epoch,
        )
    };
    let plain = || InitProducerIdRequest::default().with_transactional_id(None);
    let (_, first, _) = ask(1, plain());
    let known = plain().with_producer_id(first.into()).with_producer_epoch(4);
    assert_eq!(ask(4, known), (0, first + 1, 0));
    for transactional_id in ["", "t"] {
        let named = plain().with_transactional_id(Some(text(transactional_id).into()));
        assert_eq!(ask(4, named), (code::INVALID_REQUEST, -1, -1));
    }
}

#[test]
fn what_was_acknowledged_is_there_after_a_restart() {
    let ram = Ram::default();
    let mut world = open(&ram).unwrap();
    let id = world.topic("t");
    for n in 0..20 {
        assert_eq!(send(&mut world, "t", &format!("value {n}")), (0, n));
    }
    assert!(
        ram.files("topics/t-0").unwrap().len() > 3,
        "files are of a bounded length"
    );
    assert_eq!(commit_code(&mut world, "t", 7), 0);
    let now = world.now;
    assert_eq!(world.machine.delete_records_before("t", 0, 3, now), Ok(3));
    assert_eq!(world.machine.elect("t", 0, Some(15), now), Ok(1));
    assert_eq!(send(&mut world, "t", "of epoch 1"), (0, 15));
    let mut given = vec![*producer_id(&mut world).producer_id];
    for _ in 0..2 {
        world = open(&ram).unwrap();
        let log = world.machine.topics.log("t", 0).unwrap();
        assert_eq!((log.start(), log.end(), log.leader_epoch()), (3, 16, 1));
        assert_eq!((log.end_of_epoch(0), log.epoch_at(15)), ((0, 15), 1));
        let all = values(&world, "t", 3);
        assert_eq!((all.len(), &*all[0], &*all[12]), (13, "value 3", "of epoch 1"));
        assert_eq!(committed(&world, "t"), Some(7));
        assert_eq!(world.machine.topics.find("t").unwrap().id, id);
        given.push(*producer_id(&mut world).producer_id);
    }
    let mut once = given.clone();
    once.dedup();
    assert_eq!(
        given.len(),
        once.len(),
        "no producer id is given twice: {given:?}"
    );
}

#[test]
fn a_batch_that_was_sent_before_the_restart_is_stored_once() {
    let ram = Ram::default();
    let mut world = open(&ram).unwrap();
    world.topic("t");
    let mut sequenced = batch(&[b"a", b"b"], 5);
    sequenced[43..51].copy_from_slice(&7i64.to_be_bytes());
    sequenced[51..57].copy_from_slice(&[0; 6]);
    seal(&mut sequenced);
    let id = world.connect();
    assert_eq!(produced(&world.ask(id, 9, &produce("t", &sequenced))), (0, 0));
    let mut world = restarted(&ram);
    let id = world.connect();
    assert_eq!(produced(&world.ask(id, 9, &produce("t", &sequenced))), (0, 0));
    assert_eq!(world.machine.topics.log("t", 0).unwrap().end(), 2);
}

#[test]
fn settings_and_partitions_of_a_topic_are_kept_and_a_deleted_one_is_gone() {
    let ram = Ram::default();
    let mut world = open(&ram).unwrap();
    let configs = [("max.message.bytes".to_owned(), "77".to_owned())].into();
    world.machine.add_topic("t", 3, configs).unwrap();
    world.topic("gone");
    send(&mut world, "gone", "x");
    assert_eq!(commit_code(&mut world, "gone", 1), 0);
    let now = world.now;
    world.machine.delete_topic("gone", now).unwrap();
    let mut world = restarted(&ram);
    let topic = world.machine.topics.find("t").unwrap();
    assert_eq!((topic.partitions.len(), topic.max_message_bytes(9)), (3, 77));
    assert!(world.machine.topics.find("gone").is_none());
    assert_eq!(ram.folders("topics").unwrap(), ["t-0", "t-1", "t-2"]);
    world.topic("gone");
    assert_eq!(values(&world, "gone", 0), Vec::<String>::new());
    assert_eq!(
        committed(&world, "gone"),
        None,
        "nothing comes back with the name"
    );
}

#[test]
fn a_deletion_that_the_disk_hinders_leaves_nothing_for_the_next_topic_of_the_name() {
    let ram = Ram::default();
    let mut world = open(&ram).unwrap();
    world.topic("t");
    send(&mut world, "t", "old");
    assert_eq!(commit_code(&mut world, "t", 1), 0);
    ram.set_stuck(true);
    let now = world.now;
    world.machine.delete_topic("t", now).unwrap();
    let again = world.machine.add_topic("t", 1, Default::default());
    assert_eq!(
        again,
        Err(code::KAFKA_STORAGE_ERROR),
        "the old records are in the way"
    );
    ram.set_stuck(false);
    let mut swept = restarted(&ram);
    assert!(swept.machine.topics.find("t").is_none());
    for world in [&mut world, &mut swept] {
        world.topic("t");
        assert_eq!(values(world, "t", 0), Vec::<String>::new());
    }
    let world = restarted(&ram);
    assert_eq!((values(&world, "t", 0).len(), committed(&world, "t")), (0, None));
}

#[test]
fn a_batch_cut_anywhere_by_the_end_of_the_process_is_whole_or_gone() {
    let ram = Ram::default();
    let mut world = open(&ram).unwrap();
    world.topic("t");
    for n in 0..4 {
        send(&mut world, "t", &format!("value {n}"));
    }
    let (file, length) = ram.files("topics/t-0").unwrap().pop().unwrap();
    let file = format!("topics/t-0/{file}");
    let first: i64 = file[11..31].parse().unwrap();
    let size = batch(&[b"value 0"], 5).len() as u64;
    for kept in 0..length {
        let torn = ram.copy();
        torn.cut(&file, kept).unwrap();
        let mut world = open(&torn).unwrap();
        let end = first + i64::try_from(kept / size).unwrap();
        assert_eq!(world.machine.topics.log("t", 0).unwrap().end(), end, "{kept}");
        assert_eq!(send(&mut world, "t", "next"), (0, end));
        let all = values(&open(&torn).unwrap(), "t", 0);
        assert_eq!(all.len() as i64, end + 1);
        assert_eq!(all[all.len() - 1], "next");
    }
}

#[test]
fn damage_at_the_end_is_cut_and_damage_before_it_stops_the_start() {
    let ram = Ram::default();
    let mut world = open(&ram).unwrap();
    world.topic("t");
    for n in 0..9 {
        send(&mut world, "t", &format!("value {n}"));
    }
    let files = ram.files("topics/t-0").unwrap();
    let path = |index: usize| format!("topics/t-0/{}", files[index].0);
    let last = ram.copy();
    last.edit(&path(files.len() - 1), |bytes| *bytes.last_mut().unwrap() ^= 1);
    let world = open(&last).unwrap();
    assert_eq!(world.machine.topics.log("t", 0).unwrap().end(), 8);
    ram.edit(&path(1), |bytes| *bytes.last_mut().unwrap() ^= 1);
    assert_eq!(open(&ram).unwrap_err().kind(), io::ErrorKind::InvalidData);
}

#[test]
fn a_full_disk_is_said_and_loses_nothing() {
    let ram = Ram::default();
    let mut world = open(&ram).unwrap();
    world.topic("t");
    assert_eq!(send(&mut world, "t", "a"), (0, 0));
    assert_eq!(commit_code(&mut world, "t", 1), 0);
    for space in [0, 1, 20, 60] {
        ram.set_space(Some(space));
        assert_eq!(
            send(&mut world, "t", "lost").0,
            code::KAFKA_STORAGE_ERROR,
            "{space}"
        );
        ram.set_space(Some(space / 3));
        assert_eq!(commit_code(&mut world, "t", 9), code::NOT_COORDINATOR);
        ram.set_space(Some(space / 3));
        let refused = world.machine.add_topic("new", 1, Default::default());
        assert_eq!(refused, Err(code::KAFKA_STORAGE_ERROR));
        ram.set_space(Some(space / 3));
        assert_eq!(producer_id(&mut world).error_code, code::KAFKA_STORAGE_ERROR);
        let now = world.now;
        ram.set_space(Some(space / 3));
        let refused = world.machine.delete_records_before("t", 0, 1, now);
        assert_eq!(refused, Err(code::KAFKA_STORAGE_ERROR));
        ram.set_space(Some(0));
        assert_eq!(
            world.machine.delete_topic("t", now),
            Err(code::KAFKA_STORAGE_ERROR)
        );
        for world in [&world, &restarted(&ram)] {
            assert_eq!(values(world, "t", 0), ["a"]);
            assert_eq!(committed(world, "t"), Some(1));
            assert!(world.machine.topics.find("new").is_none());
        }
    }
    ram.set_space(None);
    assert_eq!(send(&mut world, "t", "b"), (0, 1));
    assert_eq!(commit_code(&mut world, "t", 2), 0);
    let world = restarted(&ram);
    assert_eq!(
        (values(&world, "t", 0).len(), committed(&world, "t")),
        (2, Some(2))
    );
}

#[test]
fn a_partition_whose_end_is_not_known_takes_no_records() {
    let ram = Ram::default();
    let mut world = open(&ram).unwrap();
    world.topic("t");
    world.topic("other");
    send(&mut world, "t", "a");
    ram.set_space(Some(30));
    ram.set_stuck(true);
    assert_eq!(send(&mut world, "t", "b").0, code::KAFKA_STORAGE_ERROR);
    ram.set_space(None);
    ram.set_stuck(false);
    assert_eq!(send(&mut world, "t", "c").0, code::KAFKA_STORAGE_ERROR);
    assert_eq!(send(&mut world, "other", "c"), (0, 0), "the other ones do");
    assert_eq!(values(&world, "t", 0), ["a"]);
    let mut world = restarted(&ram);
    assert_eq!(send(&mut world, "t", "d"), (0, 1));
}

#[test]
fn records_that_cannot_be_read_are_an_error_of_their_partition() {
    let ram = Ram::default();
    let mut world = open(&ram).unwrap();
    world.topic("t");
    send(&mut world, "t", "a");
    ram.set_blind(true);
    let id = world.connect();
    let asked = Request::Fetch(fetch(&["t"], 0, 500));
    assert_eq!(fetched(&world.ask(id, 12, &asked)).0, code::KAFKA_STORAGE_ERROR);
    let partition = ListOffsetsPartition::default().with_timestamp(3);
    let topic = ListOffsetsTopic::default()
        .with_name(wire_name("t"))
        .with_partitions(vec![partition]);
    let request = Request::ListOffsets(ListOffsetsRequest::default().with_topics(vec![topic]));
    let Response::ListOffsets(ListOffsetsResponse { topics, .. }) = world.ask(id, 5, &request) else {
        unreachable!();
    };
    assert_eq!(topics[0].partitions[0].error_code, code::KAFKA_STORAGE_ERROR);
    ram.set_blind(false);
    assert_eq!(fetched(&world.ask(id, 12, &asked)).1, 1);
}

#[test]
fn the_oldest_files_make_room_and_stay_away() {
    let ram = Ram::default();
    let mut world = open(&ram).unwrap();
    world.machine.settings.retention_bytes = 1000;
    world.topic("t");
    for n in 0..100 {
        send(&mut world, "t", &format!("value {n:02}"));
    }
    let held: u64 = ram
        .files("topics/t-0")
        .unwrap()
        .iter()
        .map(|(_, length)| length)
        .sum();
    assert!(held < 1000 + 2 * SHORT, "{held}");
    let start = world.machine.topics.log("t", 0).unwrap().start();
    assert!(start > 80);
    let now = world.now;
    assert_eq!(world.machine.delete_records_before("t", 0, -1, now), Ok(100));
    assert_eq!(ram.files("topics/t-0").unwrap(), []);
    let mut world = open(&ram).unwrap();
    let log = world.machine.topics.log("t", 0).unwrap();
    assert_eq!((log.start(), log.end()), (100, 100));
    assert_eq!(send(&mut world, "t", "next"), (0, 100));
    assert_eq!(values(&restarted(&ram), "t", 100), ["next"]);
}

#[test]
fn a_folder_of_something_else_is_left_alone() {
    let ram = Ram::default();
    ram.make_folder("topics/mine-0").unwrap();
    ram.write("topics/mine-0/file", 0, b"precious").unwrap();
    assert_eq!(open(&ram).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    assert_eq!(ram.names(), ["topics/mine-0/file"]);
    let other = Ram::default();
    open(&other).unwrap();
    other.edit("state.log", |bytes| {
        let at = bytes.len() - 1;
        bytes[at] = b'2';
        let crc = crc32c::crc32c(&bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_be_bytes());
    });
    assert_eq!(open(&other).unwrap_err().kind(), io::ErrorKind::InvalidData);
}

/// What is done to a broker.
#[derive(Debug, Clone)]
enum Step {
    Send(u8, u16),
    Commit(u8, i64),
    Delete(u8),
    /// The disk has so much space left.
    Space(usize),
    /// The disk has space again.
    Free,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u8..3, 1u16..400).prop_map(|(topic, length)| Step::Send(topic, length)),
        3 => (0u8..3, 0i64..50).prop_map(|(topic, offset)| Step::Commit(topic, offset)),
        1 => (0u8..3).prop_map(Step::Delete),
        1 => (0usize..600).prop_map(Step::Space),
        2 => Just(Step::Free),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// What was acknowledged is there, in its order, and nothing else; after every step, whatever the disk did.
    #[test]
    fn nothing_acknowledged_is_lost_and_nothing_refused_is_there(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let ram = Ram::default();
        let mut world = open(&ram).unwrap();
        let name = |topic: u8| format!("t{topic}");
        let mut model: std::collections::BTreeMap<String, (Vec<String>, Option<i64>)> = Default::default();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Send(topic, length) => {
                    let topic = name(topic);
                    if !model.contains_key(&topic) {
                        if world.machine.add_topic(&topic, 1, Default::default()).is_err() {
                            continue;
                        }
                        model.insert(topic.clone(), Default::default());
                    }
                    let value = format!("{number}{}", "x".repeat(length.into()));
                    let kept = &mut model.get_mut(&topic).unwrap().0;
                    let (code, base) = send(&mut world, &topic, &value);
                    if code == 0 {
                        prop_assert_eq!(base, kept.len() as i64);
                        kept.push(value);
                    }
                }
                Step::Commit(topic, offset) => {
                    let code = commit_code(&mut world, &name(topic), offset);
                    if let Some((_, committed)) = model.get_mut(&name(topic)) && code == 0 {
                        *committed = Some(offset);
                    }
                }
                Step::Delete(topic) => {
                    let now = world.now;
                    if world.machine.delete_topic(&name(topic), now).is_ok() {
                        prop_assert!(model.remove(&name(topic)).is_some());
                    }
                }
                Step::Space(bytes) => ram.set_space(Some(bytes)),
                Step::Free => ram.set_space(None),
                Step::Restart => {
                    ram.set_space(None);
                    world = open(&ram).unwrap();
                }
            }
            let full = ram.copy();
            full.set_space(None);
            let after = open(&full).unwrap();
            for world in [&world, &after] {
                let topics: Vec<&str> = world.machine.topics.iter().map(|(name, _)| name).collect();
                let expected: Vec<&str> = model.keys().map(String::as_str).collect();
                prop_assert_eq!(topics, expected);
                for (topic, (kept, offset)) in &model {
                    prop_assert_eq!(&values(world, topic, 0), kept);
                    prop_assert_eq!(committed(world, topic), *offset);
                }
            }
        }
    }
}
