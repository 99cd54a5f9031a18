//! A map on disk: a file of changes that is replayed at the start, and written anew when most of it is old.

use std::{collections::BTreeMap, io, sync::Arc};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use crate::broker::disk::Disk;

/// The length of a frame and the checksum of what follows.
const HEAD: usize = 8;
/// Below this length a file is not written anew.
const SMALL: u64 = 1 << 20;
/// How much of a map is written as one frame when it is written anew.
const FRAME: usize = 256 << 10;

/// Keys with their values, each change of them kept when it has been written.
#[derive(Debug)]
pub(super) struct Journal {
    disk: Arc<dyn Disk>,
    file: String,
    length: u64,
    live: BTreeMap<Bytes, Bytes>,
    live_bytes: u64,
    /// At which length it is written anew.
    renew_at: u64,
    /// Whether its end is not known, so that nothing can be written behind it.
    is_broken: bool,
}

/// A key with its new value, or with none.
pub(super) type Change = (Bytes, Option<Bytes>);

impl Journal {
    /// Replays a file; a change that was not written whole is taken away.
    ///
    /// # Errors
    ///
    /// Those of the disk; `InvalidData` where the file is damaged elsewhere than at its end.
    pub(super) fn open(disk: Arc<dyn Disk>, file: &str) -> io::Result<Self> {
        let files = disk.files("")?;
        let length = files.iter().find(|(name, _)| name == file).map_or(0, |(_, l)| *l);
        let mut journal = Self {
            disk,
            file: file.to_owned(),
            length: 0,
            live: BTreeMap::new(),
            live_bytes: 0,
            renew_at: SMALL,
            is_broken: false,
        };
        journal.disk.remove(&journal.renewed())?;
        if length == 0 {
            return Ok(journal);
        }
        let whole = usize::try_from(length).map_err(io::Error::other)?;
        let mut rest = journal.disk.read(file, 0, whole)?;
        while !rest.is_empty() {
            match frame(&rest) {
                Ok(Some(body)) => {
                    rest.advance(HEAD + body.len());
                    let changes = changes(body).ok_or_else(|| journal.damaged())?;
                    journal.length = length - rest.len() as u64;
                    journal.apply(changes);
                }
                Ok(None) => {
                    tracing::warn!(
                        file,
                        bytes = rest.len(),
                        "a change that was not written whole is dropped"
                    );
                    journal.disk.cut(file, journal.length)?;
                    break;
                }
                Err(()) => return Err(journal.damaged()),
            }
        }
        journal.renew_at = journal.next_renewal();
        Ok(journal)
    }

    pub(super) fn find(&self, key: &[u8]) -> Option<&Bytes> {
        self.live.get(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        self.live.iter()
    }

    /// Keeps changes, all or none of them.
    ///
    /// # Errors
    ///
    /// Those of the disk; nothing has changed then.
    pub(super) fn write(&mut self, changes: Vec<Change>) -> io::Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        if self.is_broken {
            return Err(io::Error::other("an earlier write failed half-way"));
        }
        let mut out = BytesMut::new();
        put_frame(&mut out, changes.iter().map(|(key, value)| (key, value.as_ref())));
        if let Err(error) = self.disk.write(&self.file, self.length, &out) {
            self.is_broken = self.disk.cut(&self.file, self.length).is_err();
            return Err(error);
        }
        self.length += out.len() as u64;
        self.apply(changes);
        if self.length >= self.renew_at {
            if let Err(error) = self.renew() {
                tracing::warn!(file = self.file, %error, "it could not be written anew");
            }
            self.renew_at = self.next_renewal();
        }
        Ok(())
    }

    /// Writes the map as it is beside the file, and puts it in the file's place.
    fn renew(&mut self) -> io::Result<()> {
        let renewed = self.renewed();
        self.disk.remove(&renewed)?;
        let mut length = 0;
        let mut live = self.live.iter().peekable();
        while live.peek().is_some() {
            let mut taken = 0;
            let some = std::iter::from_fn(|| {
                let (key, value) = live.next_if(|_| taken < FRAME)?;
                taken += key.len() + value.len();
                Some((key, Some(value)))
            });
            let mut out = BytesMut::new();
            put_frame(&mut out, some);
            self.disk.write(&renewed, length, &out)?;
            length += out.len() as u64;
        }
        if length == 0 {
            return Ok(());
        }
        self.disk.rename(&renewed, &self.file)?;
        self.length = length;
        Ok(())
    }

    fn apply(&mut self, changes: Vec<Change>) {
        for (key, value) in changes {
            let size = |value: &Bytes| (key.len() + value.len() + HEAD) as u64;
            let added = value.as_ref().map_or(0, size);
            let old = match value {
                Some(value) => self.live.insert(key.clone(), value),
                None => self.live.remove(&key),
            };
            self.live_bytes = self.live_bytes + added - old.as_ref().map_or(0, size);
        }
    }

    fn next_renewal(&self) -> u64 {
        SMALL
            .max(4 * self.live_bytes)
            .max(self.length.saturating_add(SMALL / 4))
    }

    fn renewed(&self) -> String {
        format!("{}.new", self.file)
    }

    fn damaged(&self) -> io::Error {
        let text = format!("{} is damaged at byte {}", self.file, self.length);
        io::Error::new(io::ErrorKind::InvalidData, text)
    }
}

/// The body of the first frame; `None` where it was not written whole, an error where it is damaged.
fn frame(bytes: &Bytes) -> Result<Option<Bytes>, ()> {
    let mut head = bytes.clone();
    let (Ok(length), Ok(crc)) = (head.try_get_u32(), head.try_get_u32()) else {
        return Ok(None);
    };
    let length = usize::try_from(length).map_err(|_| ())?;
    let Some(body) = bytes.get(HEAD..HEAD.saturating_add(length)) else {
        return Ok(None);
    };
    if length > 0 && crc32c::crc32c(body) == crc {
        return Ok(Some(bytes.slice(HEAD..HEAD + length)));
    }
    let is_last = HEAD + length == bytes.len();
    // A file system that lost its power may leave zeros.
    if is_last || bytes.iter().all(|byte| *byte == 0) {
        Ok(None)
    } else {
        Err(())
    }
}

fn put_frame<'a>(out: &mut BytesMut, changes: impl Iterator<Item = (&'a Bytes, Option<&'a Bytes>)>) {
    let at = out.len();
    out.put_u64(0);
    for (key, value) in changes {
        put_bytes(out, key);
        out.put_u8(u8::from(value.is_some()));
        if let Some(value) = value {
            put_bytes(out, value);
        }
    }
    let body = &out[at + HEAD..];
    let (length, crc) = (body.len() as u64, crc32c::crc32c(body));
    let head = (length << 32) | u64::from(crc);
    out[at..at + HEAD].copy_from_slice(&head.to_be_bytes());
}

fn changes(mut body: Bytes) -> Option<Vec<Change>> {
    let mut changes = Vec::new();
    while !body.is_empty() {
        let key = take_bytes(&mut body)?;
        let value = match body.try_get_u8().ok()? {
            0 => None,
            1 => Some(take_bytes(&mut body)?),
            _ => return None,
        };
        changes.push((key, value));
    }
    Some(changes)
}

/// Bytes behind their length.
pub(super) fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    out.put_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    out.put_slice(bytes);
}

/// What [`put_bytes`] wrote.
pub(super) fn take_bytes(from: &mut Bytes) -> Option<Bytes> {
    let length = usize::try_from(from.try_get_u32().ok()?).ok()?;
    (length <= from.len()).then(|| Bytes::copy_from_slice(&from.split_to(length)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::disk::ram::Ram;

    fn open(ram: &Ram) -> io::Result<Journal> {
        Journal::open(Arc::new(ram.clone()), "j")
    }

    fn set(key: &str, value: &str) -> Change {
        (Bytes::from(key.to_owned()), Some(Bytes::from(value.to_owned())))
    }

    fn shown(journal: &Journal) -> Vec<(String, String)> {
        let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        journal
            .iter()
            .map(|(key, value)| (text(key), text(value)))
            .collect()
    }

    #[test]
    fn what_was_written_is_there_again_and_a_change_cut_anywhere_is_whole_or_gone() {
        let ram = Ram::default();
        let mut journal = open(&ram).unwrap();
        journal.write(vec![set("a", "1"), set("b", "2")]).unwrap();
        let first = journal.length;
        journal
            .write(vec![(Bytes::from("a"), None), set("c", "3")])
            .unwrap();
        let whole = [("b", "2"), ("c", "3")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(shown(&open(&ram).unwrap()), whole);
        let half = [("a", "1"), ("b", "2")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        for length in first..journal.length {
            let torn = ram.copy();
            torn.cut("j", length).unwrap();
            assert_eq!(shown(&open(&torn).unwrap()), half, "{length}");
            let mut again = open(&torn).unwrap();
            assert_eq!(again.length, first);
            again.write(vec![set("d", "4")]).unwrap();
            assert_eq!(shown(&open(&torn).unwrap()).len(), 3);
        }
    }

    #[test]
    fn damage_before_the_end_is_an_error_and_zeros_at_the_end_are_none() {
        let ram = Ram::default();
        let mut journal = open(&ram).unwrap();
        journal.write(vec![set("a", "1")]).unwrap();
        journal.write(vec![set("b", "2")]).unwrap();
        let damaged = ram.copy();
        damaged.edit("j", |bytes| bytes[HEAD + 4] ^= 1);
        assert_eq!(open(&damaged).unwrap_err().kind(), io::ErrorKind::InvalidData);
        ram.edit("j", |bytes| bytes.extend([0; 100]));
        assert_eq!(shown(&open(&ram).unwrap()).len(), 2);
    }

    #[test]
    fn a_change_that_failed_has_not_happened() {
        let ram = Ram::default();
        let mut journal = open(&ram).unwrap();
        journal.write(vec![set("a", "1")]).unwrap();
        ram.set_space(Some(5));
        journal.write(vec![set("a", "2")]).unwrap_err();
        assert_eq!(shown(&journal), shown(&open(&ram).unwrap()));
        assert_eq!(journal.find(b"a").unwrap(), "1");
        ram.set_space(None);
        journal.write(vec![set("a", "3")]).unwrap();
        assert_eq!(open(&ram).unwrap().find(b"a").unwrap(), "3");
        ram.set_space(Some(5));
        ram.set_stuck(true);
        journal.write(vec![set("a", "4")]).unwrap_err();
        ram.set_space(None);
        ram.set_stuck(false);
        journal.write(vec![set("a", "5")]).unwrap_err();
        assert_eq!(
            open(&ram).unwrap().find(b"a").unwrap(),
            "3",
            "its end is known again"
        );
    }

    #[test]
    fn a_file_of_old_changes_is_written_anew() {
        let ram = Ram::default();
        let mut journal = open(&ram).unwrap();
        let value = "v".repeat(1000);
        let size = |ram: &Ram| ram.files("").unwrap()[0].1;
        let mut largest = 0;
        for n in 0..5000 {
            journal
                .write(vec![set(&format!("key {}", n % 7), &value)])
                .unwrap();
            largest = largest.max(size(&ram));
        }
        assert!(largest < SMALL + 2000, "{largest}");
        assert_eq!(ram.names(), ["j"]);
        assert_eq!(shown(&open(&ram).unwrap()), shown(&journal));
        assert_eq!(journal.iter().count(), 7);
        ram.set_stuck(true);
        for n in 0..2000 {
            journal
                .write(vec![set(&format!("key {}", n % 7), &value)])
                .unwrap();
        }
        ram.set_stuck(false);
        assert_eq!(
            shown(&open(&ram).unwrap()),
            shown(&journal),
            "it goes on as it was"
        );
    }
}
