//! What the broker keeps on disk beside its records: topics, where their logs start, what groups have committed,
//! and which producer ids have been given out.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use uuid::Uuid;

use super::{
    code::{self, Code},
    disk::Disk,
    group::Committed,
    log::{Log, Mark, Segments},
    topic::Topic,
};

mod journal;

use journal::{Journal, put_bytes, take_bytes};

/// The file with the topics and what belongs to them.
const STATE: &str = "state.log";
/// The file with what groups have committed.
const OFFSETS: &str = "offsets.log";
/// The folder with a folder for each partition.
const TOPICS: &str = "topics";
/// The key of the layout's number, and the number.
const FORMAT: (&[u8], &[u8]) = (b"format", b"1");
/// The key of the first producer id that has not been given out.
const PRODUCERS: &[u8] = b"producers";

/// The broker's folder.
#[derive(Debug)]
pub(crate) struct Store {
    disk: Arc<dyn Disk>,
    state: Journal,
    offsets: Journal,
    segment_bytes: u64,
}

/// What a folder held when it was opened.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) topics: Vec<(String, Topic)>,
    /// Group, topic, partition and what was committed.
    pub(crate) commits: Vec<(String, String, i32, Committed)>,
    pub(crate) next_producer_id: i64,
}

impl Store {
    /// Takes over what a folder holds. A file of records is followed by another one at `segment_bytes`.
    ///
    /// # Errors
    ///
    /// Those of the disk; `InvalidInput` for a folder of something else; `InvalidData` where it is damaged, or of
    /// another layout.
    pub(crate) fn open(disk: Arc<dyn Disk>, segment_bytes: u64) -> io::Result<(Self, Kept)> {
        let files = disk.files("")?;
        let is_ours = files.iter().any(|(name, _)| name == STATE);
        let is_new = disk.folders("")?.is_empty() && files.iter().all(|(name, _)| name == "lock");
        if !is_ours && !is_new {
            let text = "the folder is not empty, and not of an embedded broker";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let mut store = Self {
            state: Journal::open(Arc::clone(&disk), STATE)?,
            offsets: Journal::open(Arc::clone(&disk), OFFSETS)?,
            disk,
            segment_bytes,
        };
        let (key, format) = FORMAT;
        match store.state.find(key) {
            Some(found) if found == format => {}
            Some(_) => return Err(damaged("the folder is of another version")),
            None if store.state.iter().next().is_none() => {
                let (key, value) = (Bytes::from_static(key), Bytes::from_static(format));
                store.state.write(vec![(key, Some(value))])?;
            }
            None => return Err(damaged("the folder's state lacks its version")),
        }
        let kept = store.load()?;
        store.sweep(&kept)?;
        Ok((store, kept))
    }

    /// Makes the folders of a topic, keeps it, and returns its logs.
    pub(crate) fn create_topic(
        &mut self,
        name: &str,
        id: Uuid,
        partitions: i32,
        configs: &BTreeMap<String, String>,
    ) -> Result<Vec<Log>, Code> {
        let logs = self.make_logs(name, partitions).map_err(refused)?;
        let mut value = BytesMut::new();
        value.put_slice(id.as_bytes());
        value.put_i32(partitions);
        for (key, config) in configs {
            put_bytes(&mut value, key.as_bytes());
            put_bytes(&mut value, config.as_bytes());
        }
        let change = (topic_key(name), Some(value.freeze()));
        self.state.write(vec![change]).map_err(refused)?;
        Ok(logs)
    }

    /// Forgets a topic, and gives up its files.
    pub(crate) fn delete_topic(&mut self, name: &str, topic: &Topic) -> Result<(), Code> {
        let partitions = 0i32..;
        let partitions: Vec<i32> = partitions.take(topic.partitions.len()).collect();
        let marks = partitions.iter().map(|partition| mark_key(name, *partition));
        let marks = marks.filter(|key| self.state.find(key).is_some());
        let mut changes = vec![(topic_key(name), None)];
        changes.extend(marks.map(|key| (key, None)));
        self.state.write(changes).map_err(refused)?;
        // From here on it is gone: what remains of it counts for nothing, and the next start removes it.
        let prefix = topic.id.as_bytes().as_slice();
        let commits = self.offsets.iter().filter(|(key, _)| key.starts_with(prefix));
        let commits = commits.map(|(key, _)| (key.clone(), None)).collect();
        let removed = self.offsets.write(commits).and_then(|()| {
            partitions
                .iter()
                .try_for_each(|partition| self.disk.remove_folder(&folder(name, *partition)))
        });
        if let Err(error) = removed {
            tracing::warn!(%error, "a deleted topic has left something behind");
        }
        Ok(())
    }

    /// Keeps where a log starts, and its epochs.
    pub(crate) fn mark(&mut self, topic: &str, partition: i32, mark: &Mark) -> Result<(), Code> {
        let mut value = BytesMut::new();
        value.put_i64(mark.start);
        for (epoch, first) in &mark.epochs {
            value.put_i32(*epoch);
            value.put_i64(*first);
        }
        let change = (mark_key(topic, partition), Some(value.freeze()));
        self.state.write(vec![change]).map_err(refused)
    }

    /// Keeps what a group commits for partitions of these topics.
    pub(crate) fn commit<'a>(
        &mut self,
        group: &str,
        commits: impl Iterator<Item = (Uuid, i32, &'a Committed)>,
    ) -> Result<(), Code> {
        let change = |(topic, partition, committed): (Uuid, i32, &Committed)| {
            let mut key = BytesMut::new();
            key.put_slice(topic.as_bytes());
            key.put_i32(partition);
            key.put_slice(group.as_bytes());
            let mut value = BytesMut::new();
            value.put_i64(committed.offset);
            value.put_i32(committed.leader_epoch);
            value.put_slice(committed.metadata.as_bytes());
            (key.freeze(), Some(value.freeze()))
        };
        self.offsets.write(commits.map(change).collect()).map_err(refused)
    }

    /// Keeps that producer ids below this one may have been given out.
    pub(crate) fn reserve_producer_ids(&mut self, below: i64) -> Result<(), Code> {
        let value = Bytes::copy_from_slice(&below.to_be_bytes());
        let change = (Bytes::from_static(PRODUCERS), Some(value));
        self.state.write(vec![change]).map_err(refused)
    }

    fn load(&self) -> io::Result<Kept> {
        let mut kept = Kept::default();
        let mut names = BTreeMap::new();
        for (key, value) in self.state.iter() {
            if let Some(name) = key.strip_prefix(b"topic/") {
                let name = String::from_utf8(name.to_vec()).map_err(|_| damaged("a topic's name"))?;
                let topic = self.load_topic(&name, value.clone())?;
                names.insert(topic.id, name.clone());
                kept.topics.push((name, topic));
            }
        }
        if let Some(value) = self.state.find(PRODUCERS) {
            kept.next_producer_id = value.clone().try_get_i64().map_err(io::Error::other)?;
        }
        for (key, value) in self.offsets.iter() {
            let (id, partition, group) = offset_key(key).ok_or_else(|| damaged("a commit"))?;
            // A commit for a topic that was deleted since.
            let Some(name) = names.get(&id) else { continue };
            let committed = committed(value.clone()).ok_or_else(|| damaged("a commit"))?;
            kept.commits.push((group, name.clone(), partition, committed));
        }
        Ok(kept)
    }

    fn load_topic(&self, name: &str, mut value: Bytes) -> io::Result<Topic> {
        let broken = || damaged("a topic");
        let id = value.try_get_u128().map_err(|_| broken())?;
        let partitions = value.try_get_i32().map_err(|_| broken())?;
        let mut configs = BTreeMap::new();
        while !value.is_empty() {
            let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).ok();
            let mut next = || take_bytes(&mut value).and_then(text).ok_or_else(broken);
            configs.insert(next()?, next()?);
        }
        let logs = (0..partitions).map(|partition| {
            let folder = folder(name, partition);
            self.disk.make_folder(&folder)?;
            let mark = match self.state.find(&mark_key(name, partition)) {
                Some(value) => mark(value.clone()).ok_or_else(|| damaged("a log's start"))?,
                None => Mark::default(),
            };
            Log::open(self.segments(folder)?, mark)
        });
        Ok(Topic {
            id: Uuid::from_u128(id),
            partitions: logs.collect::<io::Result<_>>()?,
            configs,
        })
    }

    /// Removes what deleted topics have left behind.
    fn sweep(&mut self, kept: &Kept) -> io::Result<()> {
        let mut ours = BTreeSet::new();
        for (name, topic) in &kept.topics {
            ours.extend((0i32..).take(topic.partitions.len()).map(|p| folder(name, p)));
        }
        for name in self.disk.folders(TOPICS)? {
            let folder = format!("{TOPICS}/{name}");
            if !ours.contains(&folder) {
                self.disk.remove_folder(&folder)?;
            }
        }
        let ids: BTreeSet<Uuid> = kept.topics.iter().map(|(_, topic)| topic.id).collect();
        let is_left = |key: &Bytes| offset_key(key).is_some_and(|(id, ..)| !ids.contains(&id));
        let left = self.offsets.iter().filter(|(key, _)| is_left(key));
        let left = left.map(|(key, _)| (key.clone(), None)).collect();
        self.offsets.write(left)
    }

    fn make_logs(&self, name: &str, partitions: i32) -> io::Result<Vec<Log>> {
        let log = |partition| {
            let folder = folder(name, partition);
            self.disk.remove_folder(&folder)?;
            self.disk.make_folder(&folder)?;
            Log::open(self.segments(folder)?, Mark::default())
        };
        (0..partitions).map(log).collect()
    }

    fn segments(&self, folder: String) -> io::Result<Segments> {
        Segments::open(Arc::clone(&self.disk), folder, self.segment_bytes)
    }
}

/// A partition's folder.
fn folder(topic: &str, partition: i32) -> String {
    format!("{TOPICS}/{topic}-{partition}")
}

fn topic_key(name: &str) -> Bytes {
    format!("topic/{name}").into()
}

fn mark_key(topic: &str, partition: i32) -> Bytes {
    format!("log/{topic}/{partition}").into()
}

/// The topic, partition and group that a commit is for.
fn offset_key(key: &Bytes) -> Option<(Uuid, i32, String)> {
    let mut key = key.clone();
    let id = Uuid::from_u128(key.try_get_u128().ok()?);
    let partition = key.try_get_i32().ok()?;
    Some((id, partition, String::from_utf8(key.to_vec()).ok()?))
}

fn committed(mut value: Bytes) -> Option<Committed> {
    Some(Committed {
        offset: value.try_get_i64().ok()?,
        leader_epoch: value.try_get_i32().ok()?,
        metadata: String::from_utf8(value.to_vec()).ok()?,
    })
}

fn mark(mut value: Bytes) -> Option<Mark> {
    let start = value.try_get_i64().ok()?;
    let mut epochs = Vec::new();
    while !value.is_empty() {
        epochs.push((value.try_get_i32().ok()?, value.try_get_i64().ok()?));
    }
    (!epochs.is_empty()).then_some(Mark { start, epochs })
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// What a client hears of a disk that fails.
#[expect(clippy::needless_pass_by_value, reason = "it maps errors")]
fn refused(error: io::Error) -> Code {
    tracing::error!(%error, "the disk of the embedded broker fails");
    code::KAFKA_STORAGE_ERROR
}
