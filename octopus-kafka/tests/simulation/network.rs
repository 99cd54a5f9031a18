//! The network of a world: each connection keeps its order, and nothing else is sure.

use std::{future::pending, io, sync::Arc};

use bytes::{BufMut as _, Bytes, BytesMut};
use kafka_protocol::messages::ApiKey;
use octopus_kafka::broker::{ConsumerMember, GroupState};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf, duplex, split},
    sync::{Notify, mpsc},
    time::{Instant, sleep, sleep_until},
};

use crate::{
    sim::{self, Sim, THROTTLED},
    wire::{About, Answered, Frame},
};

/// What lies in a stream at once, in bytes.
const STREAM_BYTES: usize = 64 << 10;
/// How long an opening takes that comes to nothing.
const NO_ANSWER: std::time::Duration = std::time::Duration::from_secs(5);
/// The answer to a heartbeat of a member that the group does not know.
const UNKNOWN_MEMBER: i16 = 25;

/// One connection.
struct Line {
    sim: Arc<Sim>,
    number: u64,
    node: usize,
    /// It breaks.
    broken: Notify,
    /// The client closed it.
    closed: Notify,
}

/// Opens a connection to an address, if it can be.
pub(crate) async fn dial(sim: Arc<Sim>, address: Arc<str>) -> io::Result<DuplexStream> {
    let node = sim::node(&address);
    let (number, refused, hangs, wait) = {
        let mut state = sim.lock();
        let flaws = state.flaws;
        let down = state.down[node] > Instant::now() && !state.quiet;
        let refused = down || state.happens(flaws.refusals);
        let hangs = state.happens(flaws.stuck);
        let wait = state.chance.wait(0, 8);
        (state.connection(), refused, hangs, wait)
    };
    sleep(wait).await;
    if hangs {
        sleep(NO_ANSWER).await;
        return Err(io::ErrorKind::TimedOut.into());
    }
    if refused {
        sim.note(format_args!("#{number} refused by {node}"));
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    let (client, ours) = duplex(STREAM_BYTES);
    sim.note(format_args!("#{number} to {node}"));
    sim.lock().wire.open(number);
    let line = Line {
        sim,
        number,
        node,
        broken: Notify::new(),
        closed: Notify::new(),
    };
    tokio::spawn(carry(line, ours));
    Ok(client)
}

async fn carry(line: Line, client: DuplexStream) {
    let broker = line.sim.broker.connect();
    let (from_client, to_client) = split(client);
    let (from_broker, to_broker) = split(broker);
    let (queue, queued) = mpsc::unbounded_channel();
    let up = async {
        tokio::join!(hear(&line, from_client, queue), ask(&line, queued, to_broker));
        pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = answer(&line, from_broker, to_client) => {}
        () = line.broken.notified() => {}
        () = up => {}
    }
    let mut state = line.sim.lock();
    state.wire.close(line.number);
    state.note(format_args!("#{} ended", line.number));
}

/// Reads what the client sends, as soon as it does, and decides what comes of it.
async fn hear(
    line: &Line,
    mut from: ReadHalf<DuplexStream>,
    queue: mpsc::UnboundedSender<(Instant, Frame, Bytes)>,
) {
    while let Some(bytes) = frame(&mut from).await {
        let Some(frame) = Frame::read(bytes) else {
            line.sim.fail("a request that can't be read");
            break;
        };
        let mut state = line.sim.lock();
        let flaws = state.flaws;
        let about = match state.wire.sent(line.number, &frame) {
            Ok(about) => about,
            Err(why) => {
                state.fail(format_args!("#{} {why}", line.number));
                break;
            }
        };
        let (api, client_id) = (frame.api, frame.client_id.clone());
        state.note(format_args!("#{} {client_id} {api:?} {about:?}", line.number));
        let astray = match about {
            About::Topics(topics) if topics.iter().any(|topic| state.leader(topic) != line.node) => {
                Some(sim::astray(false))
            }
            About::Group(group) if state.coordinator(&group) != line.node => Some(sim::astray(true)),
            About::Topics(_) | About::Group(_) | About::Any => None,
        };
        let error = if state.happens(flaws.errors) {
            state.error(api)
        } else {
            None
        };
        let throttles = !matches!(api, ApiKey::JoinGroup | ApiKey::SyncGroup | ApiKey::OffsetCommit);
        let throttled = (throttles && state.happens(flaws.throttles)).then(|| THROTTLED.to_owned());
        let renamed = astray.or(error).or(throttled);
        if let Some(name) = &renamed {
            state.note(format_args!("#{} {api:?} gets {name}", line.number));
        }
        let bytes = renamed.map_or_else(|| frame.bytes.clone(), |name| frame.renamed(&name));
        let mut wait = state.chance.wait(0, 5);
        if state.happens(flaws.slow) {
            wait += state.chance.wait(100, 3000);
        }
        drop(state);
        if queue.send((Instant::now() + wait, frame, bytes)).is_err() {
            break;
        }
    }
    line.sim.lock().wire.close(line.number);
    line.closed.notify_one();
}

/// Takes requests to the broker.
async fn ask(
    line: &Line,
    mut queued: mpsc::UnboundedReceiver<(Instant, Frame, Bytes)>,
    mut to: WriteHalf<DuplexStream>,
) {
    while let Some((at, frame, bytes)) = queued.recv().await {
        sleep_until(at).await;
        line.pass().await;
        if frame.api == ApiKey::OffsetCommit && bytes == frame.bytes {
            line.commits(&frame);
        }
        let mut out = BytesMut::new();
        out.put_u32(u32::try_from(bytes.len()).expect("a small frame"));
        out.extend_from_slice(&bytes);
        if to.write_all(&out).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

/// Takes answers to the client.
async fn answer(line: &Line, mut from: ReadHalf<DuplexStream>, mut to: WriteHalf<DuplexStream>) {
    while let Some(bytes) = frame(&mut from).await {
        let (wait, cut, stuck) = {
            let mut state = line.sim.lock();
            let flaws = state.flaws;
            let mut wait = state.chance.wait(0, 5);
            if state.happens(flaws.slow) {
                wait += state.chance.wait(100, 3000);
            }
            let cut = state
                .happens(flaws.cuts)
                .then(|| state.chance.below(bytes.len() + 4));
            (wait, cut, state.happens(flaws.stuck))
        };
        sleep(wait).await;
        line.pass().await;
        if stuck {
            line.sim.note(format_args!("#{} says nothing more", line.number));
            return line.closed.notified().await;
        }
        let mut out = BytesMut::new();
        out.put_u32(u32::try_from(bytes.len()).expect("a small frame"));
        out.extend_from_slice(&bytes);
        if let Some(cut) = cut {
            line.sim.note(format_args!("#{} cut after {cut}", line.number));
            let _ = to.write_all(&out[..cut]).await;
            return;
        }
        {
            let mut state = line.sim.lock();
            if let Some(Answered { api, client_id, code }) = state.wire.answered(line.number, &bytes) {
                state.note(format_args!("#{} {client_id} {api:?} answered", line.number));
                let expelled = code == Some(UNKNOWN_MEMBER) && !state.wire.leaving.contains(&client_id);
                if expelled && state.calm {
                    state.fail(format_args!("I8: {client_id} was put out of its group"));
                }
            }
        }
        if to.write_all(&out).await.is_err() {
            return;
        }
        line.sim.within_budget();
    }
}

impl Line {
    /// Waits while the node is frozen; breaks where it is down.
    async fn pass(&self) {
        loop {
            let (frozen, down) = {
                let state = self.sim.lock();
                let now = Instant::now();
                let is = |until: Instant| (until > now && !state.quiet).then_some(until);
                (is(state.frozen[self.node]), is(state.down[self.node]))
            };
            if down.is_some() {
                self.broken.notify_one();
                return pending().await;
            }
            let Some(frozen) = frozen else { return };
            sleep_until(frozen.min(Instant::now() + std::time::Duration::from_millis(50))).await;
        }
    }

    /// A commit gets to the broker: it must be one of what the group gave the member in this generation.
    fn commits(&self, frame: &Frame) {
        let committing = self.sim.lock().wire.committing(frame);
        let committing = match committing {
            Ok(committing) => committing,
            Err(why) => return self.sim.fail(why),
        };
        let (group, topics) = (&committing.group, &committing.offsets);
        let standing = self.sim.broker.group_state(group);
        let settled = matches!(standing, Some((GroupState::Stable | GroupState::PreparingRebalance, now)) if now == committing.generation);
        if settled {
            let members = self.sim.broker.group_members(group);
            let member = members
                .iter()
                .find(|member| member.member_id == committing.member_id);
            let has = |topic: &str| {
                let bytes = member.map_or(&[][..], |member| &member.assignment[..]);
                bytes.windows(topic.len()).any(|part| part == topic.as_bytes())
            };
            if member.is_some() && !topics.iter().all(|(topic, _)| has(topic)) {
                self.sim.fail(format_args!(
                    "I3: a commit of what the group gave to others: {committing:?}"
                ));
            }
        }
        let members = self.sim.broker.consumer_members(group);
        let member = members
            .iter()
            .find(|member| member.member_id == committing.member_id && member.epoch == committing.generation);
        let takes_of_others = |member: &ConsumerMember| {
            // What it has of a topic that was deleted is nobody's.
            let is_there = |topic: &String| self.sim.broker.end_offset(topic).is_some();
            member.topics.iter().all(is_there)
                && !topics.iter().all(|(topic, _)| member.topics.contains(topic))
        };
        if member.is_some_and(takes_of_others) {
            self.sim.fail(format_args!(
                "I3: a commit of what the coordinator gave to others: {committing:?}"
            ));
        }
        let mut state = self.sim.lock();
        state.note(format_args!("commit {committing:?}"));
        let seen = state.wire.committed.entry(committing.group.clone()).or_default();
        seen.extend(committing.offsets);
    }
}

/// The next frame without its length; `None` at the end.
async fn frame(from: &mut ReadHalf<DuplexStream>) -> Option<Bytes> {
    let mut length = [0; 4];
    from.read_exact(&mut length).await.ok()?;
    let mut bytes = vec![0; usize::try_from(u32::from_be_bytes(length)).ok()?];
    from.read_exact(&mut bytes).await.ok()?;
    Some(bytes.into())
}
