//! What happens in a world: to its logs, its leaders and its nodes.

use std::sync::Arc;

use octopus_kafka::{
    GroupProtocol,
    records::{BatchWriter, Compression},
};
use tokio::{task::JoinSet, time::Instant};

use super::GROUPS;
use crate::{
    foreign::{self, Manners},
    sim::Sim,
    truth::Truth,
};

/// The smallest large record, and how much larger it may be.
const LARGE: (usize, usize) = (70 << 10, 100 << 10);

/// Something happens.
pub(super) fn happen(sim: &Arc<Sim>, topics: &[String], calm: bool, tasks: &mut JoinSet<()>) {
    let (topic, group, roll, nodes) = {
        let mut state = sim.lock();
        let topic = state.chance.pick(topics).clone();
        let group = (*state.chance.pick(&GROUPS[..2])).to_owned();
        (topic, group, state.chance.below(100), state.down.len())
    };
    if roll < 50 {
        return write(sim, &topic);
    }
    if roll < 56 {
        return mark(sim, &topic);
    }
    if calm {
        return;
    }
    let now = Instant::now();
    match roll {
        56..62 => {
            let mut state = sim.lock();
            let node = state.chance.below(nodes);
            state.leaders.insert(topic.clone(), node);
            state.note(format_args!("{node} leads {topic}"));
            drop(state);
            let _ = sim.broker.elect(&topic, None);
        }
        62..67 => {
            let mut state = sim.lock();
            let node = state.chance.below(nodes);
            state.note(format_args!("{node} coordinates {group}"));
            state.coordinators.insert(group, node);
        }
        67..70 => cut(sim, &topic),
        70..75 => retain(sim, &topic),
        75..78 if sim.broker.delete_topic(&topic) => {
            sim.lock().note(format_args!("{topic} is deleted"));
            // It is made again at some time, by this or the end.
        }
        75..80 => make(sim, &topic),
        80..85 => {
            let mut state = sim.lock();
            let (node, long) = (state.chance.below(nodes), state.chance.wait(100, 8000));
            state.frozen[node] = now + long;
            state.note(format_args!("{node} is frozen for {long:?}"));
        }
        85..89 => {
            let mut state = sim.lock();
            let (node, long) = (state.chance.below(nodes), state.chance.wait(100, 6000));
            state.down[node] = now + long;
            state.note(format_args!("{node} is down for {long:?}"));
        }
        // Strangers speak the classic protocol.
        89..95 if sim.protocol == GroupProtocol::Classic => {
            let (manners, long) = {
                let mut state = sim.lock();
                let manners = [Manners::Well, Manners::Silent, Manners::NeverSyncs];
                (*state.chance.pick(&manners), state.chance.wait(500, 9000))
            };
            tasks.spawn(foreign::live(
                Arc::clone(sim),
                group,
                topics.to_vec(),
                manners,
                long,
            ));
        }
        _ => {}
    }
}

/// Writes a batch of some records, now and then a large one, or one that compaction took records from, perhaps all.
pub(super) fn write(sim: &Sim, topic: &str) {
    let (records, end, large, packed) = {
        let mut state = sim.lock();
        let compacted = state.chance.happens(150);
        let (mut records, mut end) = (Vec::new(), 0);
        for _ in 0..=state.chance.below(4) {
            if compacted {
                end += i32::try_from(state.chance.below(3)).expect("a small gap");
            }
            if !compacted || state.chance.happens(600) {
                records.push((end, state.next));
                state.next += 1;
            }
            end += 1;
        }
        let large = state.chance.happens(80);
        let large = large.then(|| LARGE.0 + state.chance.below(LARGE.1));
        (records, end, large, state.chance.happens(200))
    };
    let compression = if packed {
        Compression::Zstd
    } else {
        Compression::None
    };
    let mut batch = BatchWriter::new(compression);
    let mut next = 0;
    for (delta, number) in &records {
        batch.skip(delta - next);
        next = delta + 1;
        let mut value = number.to_be_bytes().to_vec();
        if let Some(large) = large {
            value.resize(large, 7);
        }
        batch.push(1_700_000_000_000, None, Some(&value), &[]);
    }
    batch.last_offset_delta(end - 1);
    if let Some(base) = sim.broker.append(topic, batch.finish()) {
        let mut state = sim.lock();
        state.note(format_args!("{records:?} at {base} of {topic}"));
        if let Some(truth) = state.topics.get_mut(topic) {
            let records = records
                .into_iter()
                .map(|(delta, number)| (base + i64::from(delta), number));
            truth.append(records, base + i64::from(end));
        }
    }
}

/// Writes what ends a transaction: an offset without a record for a client.
fn mark(sim: &Sim, topic: &str) {
    let mut batch = BatchWriter::new(Compression::None);
    batch.transactional(1).control();
    batch.push(1_700_000_000_000, Some(&[0, 0, 0, 1]), Some(&[0; 6]), &[]);
    if let Some(base) = sim.broker.append(topic, batch.finish()) {
        let mut state = sim.lock();
        state.note(format_args!("a marker at {base} of {topic}"));
        if let Some(truth) = state.topics.get_mut(topic) {
            truth.append([], base + 1);
        }
    }
}

/// A leader that lacks the last records is elected.
fn cut(sim: &Sim, topic: &str) {
    let to = {
        let mut state = sim.lock();
        let Some((start, end)) = state.topics.get(topic).map(Truth::bounds) else {
            return;
        };
        let lost = i64::try_from(state.chance.below(5)).expect("few records");
        (end - lost).max(start)
    };
    if sim.broker.elect(topic, Some(to)).is_some() {
        let end = sim.broker.end_offset(topic).unwrap_or(0);
        let mut state = sim.lock();
        state.note(format_args!("{topic} is cut at {end}"));
        if let Some(truth) = state.topics.get_mut(topic) {
            truth.cut(end);
        }
    }
}

fn retain(sim: &Sim, topic: &str) {
    let from = {
        let mut state = sim.lock();
        let Some((start, end)) = state.topics.get(topic).map(Truth::bounds) else {
            return;
        };
        let span = usize::try_from(end - start).unwrap_or(0) + 1;
        start + i64::try_from(state.chance.below(span)).expect("an offset")
    };
    if let Some(start) = sim.broker.delete_records_before(topic, from) {
        let mut state = sim.lock();
        state.note(format_args!("{topic} begins at {start}"));
        if let Some(truth) = state.topics.get_mut(topic) {
            truth.starts_at(start);
        }
    }
}

fn make(sim: &Sim, topic: &str) {
    if sim.broker.create_topic(topic) {
        let mut state = sim.lock();
        state.note(format_args!("{topic} is made anew"));
        if let Some(truth) = state.topics.get_mut(topic) {
            truth.made_anew();
        }
    }
}

/// Nothing goes wrong from here on.
pub(super) fn heal(sim: &Sim, topics: &[String]) {
    {
        let mut state = sim.lock();
        state.quiet = true;
        state.note("quiet");
    }
    for topic in topics {
        make(sim, topic);
        write(sim, topic);
    }
}
