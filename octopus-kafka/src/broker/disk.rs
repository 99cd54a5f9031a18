//! Where the broker's files lie: a folder of this machine, or what stands in for one in a test.

use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;

#[cfg(test)]
pub(crate) mod ram;

/// The file that one process at a time has locked.
const LOCK: &str = "lock";
/// How many files are open at once.
const OPEN: usize = 128;

/// A folder with files, and folders of files; names have `/` between their parts.
///
/// What was written survives the process, however it ends.
pub(crate) trait Disk: fmt::Debug + Send + Sync {
    /// Writes at a place of a file, which is made where there is none.
    fn write(&self, file: &str, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// Reads so many bytes; it is an error if there are fewer.
    fn read(&self, file: &str, at: u64, length: usize) -> io::Result<Bytes>;
    /// Takes away what lies behind this length.
    fn cut(&self, file: &str, length: u64) -> io::Result<()>;
    /// Removes a file; that there is none is fine.
    fn remove(&self, file: &str) -> io::Result<()>;
    /// Gives a file another name, in place of the file that has it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// The files in a folder with their lengths, in the order of their names; none where there is no folder.
    fn files(&self, folder: &str) -> io::Result<Vec<(String, u64)>>;
    /// The folders in a folder, in the order of their names; none where there is no folder.
    fn folders(&self, folder: &str) -> io::Result<Vec<String>>;
    /// Makes a folder, and those that it lies in.
    fn make_folder(&self, folder: &str) -> io::Result<()>;
    /// Removes a folder of files; that there is none is fine.
    fn remove_folder(&self, folder: &str) -> io::Result<()>;
}

/// A folder of this machine, locked as long as this lives.
///
/// A write has reached the kernel when it returns, so the end of the process, by whatever signal, takes nothing
/// away. Only with `fsync` has it reached the device, and outlives a loss of power.
pub(crate) struct Folder {
    root: PathBuf,
    fsync: bool,
    open: Mutex<Open>,
    /// Held, not read: its lock goes with it.
    _lock: File,
}

/// The files that are open, each with the turn of its last use.
#[derive(Default)]
struct Open {
    files: BTreeMap<String, (File, u64)>,
    turn: u64,
}

impl Folder {
    /// Takes a folder, which is made where there is none.
    ///
    /// # Errors
    ///
    /// Those of the file system; `ResourceBusy` where another process has it.
    pub(crate) fn take(root: &Path, fsync: bool) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        let path = root.join(LOCK);
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                io::Error::new(io::ErrorKind::ResourceBusy, "it is in use by another process")
            }
            TryLockError::Error(error) => error,
        })?;
        Ok(Self {
            root: root.to_owned(),
            fsync,
            open: Mutex::default(),
            _lock: lock,
        })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with a file, which stays open for the next time.
    fn with<T>(
        &self,
        name: &str,
        create: bool,
        act: impl FnOnce(&mut File) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut open = self.open();
        open.turn += 1;
        let turn = open.turn;
        if let Some((file, used)) = open.files.get_mut(name) {
            *used = turn;
            return act(file);
        }
        if open.files.len() >= OPEN {
            let oldest = open.files.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                open.files.remove(&oldest);
            }
        }
        let path = self.root.join(name);
        let is_new = create && self.fsync && !path.exists();
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(create).open(&path)?;
        if is_new {
            self.sync_parent(&path)?;
        }
        let result = act(&mut file);
        open.files.insert(name.to_owned(), (file, turn));
        result
    }

    /// Has a file's entry in its folder reach the device.
    fn sync_parent(&self, path: &Path) -> io::Result<()> {
        match path.parent() {
            Some(parent) if self.fsync => File::open(parent)?.sync_all(),
            Some(_) | None => Ok(()),
        }
    }

    fn list(&self, folder: &str) -> io::Result<Vec<(String, fs::Metadata)>> {
        let entries = match fs::read_dir(self.root.join(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            // None of ours has a name that is no text.
            if let Ok(name) = entry.file_name().into_string() {
                found.push((name, entry.metadata()?));
            }
        }
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(found)
    }
}

impl Disk for Folder {
    fn write(&self, file: &str, at: u64, bytes: &[u8]) -> io::Result<()> {
        let fsync = self.fsync;
        self.with(file, true, |file| {
            file.seek(SeekFrom::Start(at))?;
            file.write_all(bytes)?;
            if fsync { file.sync_data() } else { Ok(()) }
        })
    }

    fn read(&self, file: &str, at: u64, length: usize) -> io::Result<Bytes> {
        self.with(file, false, |file| {
            // The length is checked against the file before room is made for it.
            let end = u64::try_from(length)
                .ok()
                .and_then(|length| at.checked_add(length));
            if end.is_none_or(|end| file.metadata().is_ok_and(|meta| meta.len() < end)) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut bytes = vec![0; length];
            file.seek(SeekFrom::Start(at))?;
            file.read_exact(&mut bytes)?;
            Ok(bytes.into())
        })
    }

    fn cut(&self, file: &str, length: u64) -> io::Result<()> {
        let fsync = self.fsync;
        self.with(file, false, |file| {
            file.set_len(length)?;
            if fsync { file.sync_data() } else { Ok(()) }
        })
    }

    fn remove(&self, file: &str) -> io::Result<()> {
        self.open().files.remove(file);
        let path = self.root.join(file);
        fine_if_missing(fs::remove_file(&path))?;
        self.sync_parent(&path)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut open = self.open();
        open.files.remove(from);
        open.files.remove(to);
        drop(open);
        let to = self.root.join(to);
        fs::rename(self.root.join(from), &to)?;
        self.sync_parent(&to)
    }

    fn files(&self, folder: &str) -> io::Result<Vec<(String, u64)>> {
        let entries = self.list(folder)?.into_iter();
        let files = entries.filter(|(_, meta)| meta.is_file());
        Ok(files.map(|(name, meta)| (name, meta.len())).collect())
    }

    fn folders(&self, folder: &str) -> io::Result<Vec<String>> {
        let entries = self.list(folder)?.into_iter();
        Ok(entries
            .filter(|(_, meta)| meta.is_dir())
            .map(|(name, _)| name)
            .collect())
    }

    fn make_folder(&self, folder: &str) -> io::Result<()> {
        let path = self.root.join(folder);
        fs::create_dir_all(&path)?;
        self.sync_parent(&path)
    }

    fn remove_folder(&self, folder: &str) -> io::Result<()> {
        let prefix = format!("{folder}/");
        self.open().files.retain(|name, _| !name.starts_with(&prefix));
        let path = self.root.join(folder);
        fine_if_missing(fs::remove_dir_all(&path))?;
        self.sync_parent(&path)
    }
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Folder")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

fn fine_if_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of its own that goes with the test.
    pub(crate) fn temporary() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn a_folder_keeps_files_and_more_of_them_than_are_open() {
        let root = temporary();
        let folder = Folder::take(root.path(), true).unwrap();
        folder.make_folder("a/b").unwrap();
        let name = |n: usize| format!("a/b/{n:03}");
        for n in 0..OPEN + 20 {
            folder.write(&name(n), 0, format!("file {n}").as_bytes()).unwrap();
        }
        assert_eq!(folder.open().files.len(), OPEN);
        for n in 0..OPEN + 20 {
            let text = format!("file {n}");
            assert_eq!(folder.read(&name(n), 0, text.len()).unwrap(), text.as_bytes());
        }
        assert_eq!(folder.open().files.len(), OPEN);
        folder.write(&name(0), 4, b"!!!").unwrap();
        folder.cut(&name(0), 6).unwrap();
        assert_eq!(folder.read(&name(0), 0, 6).unwrap(), &b"file!!"[..]);
        assert_eq!(
            folder.read(&name(0), 0, 7).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
        folder.rename(&name(0), &name(1)).unwrap();
        let files = folder.files("a/b").unwrap();
        assert_eq!(files[0], ("001".to_owned(), 6));
        assert_eq!(folder.folders("a").unwrap(), ["b"]);
        folder.remove(&name(1)).unwrap();
        folder.remove(&name(1)).unwrap();
        assert_eq!(folder.files("a/b").unwrap().len(), OPEN + 18);
        folder.remove_folder("a/b").unwrap();
        folder.remove_folder("a/b").unwrap();
        assert_eq!(folder.files("a/b").unwrap(), []);
        assert!(folder.read(&name(2), 0, 1).is_err(), "no handle is left of it");
    }

    #[test]
    fn a_folder_is_one_process_at_a_time() {
        let root = temporary();
        let first = Folder::take(root.path(), false).unwrap();
        let second = Folder::take(root.path(), false).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::ResourceBusy);
        drop(first);
        Folder::take(root.path(), false).unwrap();
    }
}
