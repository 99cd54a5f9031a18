//! A disk in memory that can be full, and whose power can be cut.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Arc, Mutex, MutexGuard},
};

use bytes::Bytes;

use super::Disk;

/// A disk in memory. A clone is the same disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ram {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<String, Vec<u8>>,
    folders: BTreeSet<String>,
    /// How many bytes can be written still.
    space: Option<usize>,
    /// Whether nothing but writing and reading works.
    stuck: bool,
    /// Whether nothing can be read.
    blind: bool,
}

impl Ram {
    /// Lets so many bytes be written before it is full.
    pub(crate) fn set_space(&self, space: Option<usize>) {
        self.state().space = space;
    }

    /// Has it fail to cut, remove and rename.
    pub(crate) fn set_stuck(&self, stuck: bool) {
        self.state().stuck = stuck;
    }

    /// Has it fail to read.
    pub(crate) fn set_blind(&self, blind: bool) {
        self.state().blind = blind;
    }

    /// Another disk, which has space and works, with what this one holds.
    pub(crate) fn copy(&self) -> Self {
        let state = self.state();
        let copy = State {
            files: state.files.clone(),
            folders: state.folders.clone(),
            ..State::default()
        };
        Self {
            state: Arc::new(Mutex::new(copy)),
        }
    }

    /// A file's bytes, to damage them.
    pub(crate) fn edit<T>(&self, file: &str, edit: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        edit(self.state().files.get_mut(file).expect("the file is there"))
    }

    /// The names of all files.
    pub(crate) fn names(&self) -> Vec<String> {
        self.state().files.keys().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn moving(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.state();
        if state.stuck {
            return Err(io::Error::other("a disk that is stuck"));
        }
        Ok(state)
    }
}

impl Disk for Ram {
    fn write(&self, file: &str, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let fits = state.space.map_or(bytes.len(), |space| space.min(bytes.len()));
        if let Some(space) = &mut state.space {
            *space -= fits;
        }
        if let Some((folder, _)) = file.rsplit_once('/')
            && !state.folders.contains(folder)
        {
            return Err(io::ErrorKind::NotFound.into());
        }
        let at = usize::try_from(at).unwrap();
        let content = state.files.entry(file.to_owned()).or_default();
        content.resize(content.len().max(at + fits), 0);
        content[at..at + fits].copy_from_slice(&bytes[..fits]);
        if fits < bytes.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn read(&self, file: &str, at: u64, length: usize) -> io::Result<Bytes> {
        let state = self.state();
        if state.blind {
            return Err(io::Error::other("a disk that can't be read"));
        }
        let content = state.files.get(file).ok_or(io::ErrorKind::NotFound)?;
        let at = usize::try_from(at).unwrap();
        let bytes = content.get(at..at + length);
        Ok(Bytes::copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?))
    }

    fn cut(&self, file: &str, length: u64) -> io::Result<()> {
        let mut state = self.moving()?;
        let content = state.files.get_mut(file).ok_or(io::ErrorKind::NotFound)?;
        content.resize(usize::try_from(length).unwrap(), 0);
        Ok(())
    }

    fn remove(&self, file: &str) -> io::Result<()> {
        self.moving()?.files.remove(file);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.moving()?;
        let content = state.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.files.insert(to.to_owned(), content);
        Ok(())
    }

    fn files(&self, folder: &str) -> io::Result<Vec<(String, u64)>> {
        let state = self.state();
        let within = state.files.iter().filter_map(|(name, content)| {
            let (parent, name) = name.rsplit_once('/').unwrap_or(("", name));
            (parent == folder).then(|| (name.to_owned(), content.len() as u64))
        });
        Ok(within.collect())
    }

    fn folders(&self, folder: &str) -> io::Result<Vec<String>> {
        let state = self.state();
        let within = state.folders.iter().filter_map(|name| {
            let (parent, name) = name.rsplit_once('/').unwrap_or(("", name));
            (parent == folder).then(|| name.to_owned())
        });
        Ok(within.collect())
    }

    fn make_folder(&self, folder: &str) -> io::Result<()> {
        let mut state = self.moving()?;
        for (at, _) in folder.match_indices('/') {
            state.folders.insert(folder[..at].to_owned());
        }
        state.folders.insert(folder.to_owned());
        Ok(())
    }

    fn remove_folder(&self, folder: &str) -> io::Result<()> {
        let mut state = self.moving()?;
        let prefix = format!("{folder}/");
        state.files.retain(|name, _| !name.starts_with(&prefix));
        state.folders.remove(folder);
        Ok(())
    }
}
