//! A partition's batches on disk: files of batches as they came, each named by the first one's offset.

use std::{collections::VecDeque, io, sync::Arc};

use bytes::Bytes;

use super::header::{Header, is_whole};
use crate::broker::disk::Disk;

/// How much of a file is read at once when it is gone through.
const WINDOW: usize = 1 << 20;

/// The files of one partition.
#[derive(Debug)]
pub(crate) struct Segments {
    disk: Arc<dyn Disk>,
    folder: String,
    files: VecDeque<Segment>,
    /// From which length on a file is followed by another one.
    full: u64,
    /// Whether the end of the last file is not known, so that nothing can be written behind it.
    is_broken: bool,
}

#[derive(Debug)]
struct Segment {
    base: i64,
    length: u64,
}

/// Where a batch lies: in which file, and behind how many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) segment: i64,
    pub(super) at: u64,
}

impl Segments {
    /// The files of a folder; what they hold is found by [`scan`](Self::scan).
    ///
    /// # Errors
    ///
    /// Those of the disk.
    pub(crate) fn open(disk: Arc<dyn Disk>, folder: String, full: u64) -> io::Result<Self> {
        let mut files = VecDeque::new();
        for (name, length) in disk.files(&folder)? {
            let base = name.strip_suffix(".log").and_then(|base| base.parse().ok());
            if let Some(base) = base.filter(|base| name_of(*base) == name) {
                files.push_back(Segment { base, length });
            }
        }
        Ok(Self {
            disk,
            folder,
            files,
            full,
            is_broken: false,
        })
    }

    /// Hands over every batch with its place. What does not follow from a whole batch at the end of the last file
    /// is taken away: it was never acknowledged.
    ///
    /// # Errors
    ///
    /// Those of the disk; `InvalidData` where a file before the last one is damaged.
    pub(super) fn scan(&mut self, mut found: impl FnMut(&Header, Spot)) -> io::Result<()> {
        let mut next = 0;
        let count = self.files.len();
        for index in 0..count {
            let (base, length) = (self.files[index].base, self.files[index].length);
            let good = self.scan_file(base, length, &mut next, &mut found)?;
            if good == length {
                continue;
            }
            let file = self.path(base);
            if index + 1 < count {
                let text = format!("{file} is damaged at byte {good}");
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            tracing::warn!(
                file,
                bytes = length - good,
                "what was not written whole is dropped"
            );
            self.disk.cut(&file, good)?;
            self.files[index].length = good;
        }
        Ok(())
    }

    /// Goes through one file, and returns up to where it is good.
    fn scan_file(
        &self,
        base: i64,
        length: u64,
        next: &mut i64,
        found: &mut impl FnMut(&Header, Spot),
    ) -> io::Result<u64> {
        let file = self.path(base);
        let (mut window, mut at) = (Bytes::new(), 0);
        while at < length {
            let left = usize::try_from(length - at).unwrap_or(usize::MAX);
            let announced = Header::read(&window).map_or(0, |header| header.length);
            if window.len() < left && (announced == 0 || announced > window.len()) {
                let wanted = announced.max(WINDOW).min(left);
                window = self.disk.read(&file, at, wanted)?;
            }
            let Some(header) = is_whole(&window).filter(|header| header.base_offset >= *next) else {
                return Ok(at);
            };
            found(&header, Spot { segment: base, at });
            *next = header.next_offset();
            window = window.slice(header.length..);
            at += header.length as u64;
        }
        Ok(at)
    }

    /// Writes a batch behind the others.
    ///
    /// # Errors
    ///
    /// Those of the disk; the batch is not there then.
    pub(super) fn append(&mut self, base: i64, batch: &[u8]) -> io::Result<Spot> {
        if self.is_broken {
            return Err(io::Error::other("an earlier write failed half-way"));
        }
        let room = |last: &Segment| last.length == 0 || last.length + batch.len() as u64 <= self.full;
        if !self.files.back().is_some_and(room) {
            self.files.push_back(Segment { base, length: 0 });
        }
        let Some(last) = self.files.back_mut() else {
            return Err(io::Error::other("a partition without a file"));
        };
        if last.length == 0 && last.base != base {
            // A file that never got a batch is named by the one it would have got.
            self.disk.remove(&path(&self.folder, last.base))?;
            last.base = base;
        }
        let file = path(&self.folder, last.base);
        let spot = Spot {
            segment: last.base,
            at: last.length,
        };
        if let Err(error) = self.disk.write(&file, spot.at, batch) {
            self.is_broken = self.disk.cut(&file, spot.at).is_err();
            tracing::error!(file, %error, "a batch could not be written");
            return Err(error);
        }
        last.length += batch.len() as u64;
        Ok(spot)
    }

    pub(super) fn read(&self, spot: Spot, length: usize) -> io::Result<Bytes> {
        self.disk.read(&self.path(spot.segment), spot.at, length)
    }

    /// Takes away a batch, and all behind it.
    ///
    /// # Errors
    ///
    /// Those of the disk; nothing is taken away of what lies before.
    pub(super) fn truncate(&mut self, from: Spot) -> io::Result<()> {
        while let Some(last) = self.files.back()
            && last.base > from.segment
        {
            self.disk.remove(&self.path(last.base))?;
            self.files.pop_back();
        }
        self.disk.cut(&self.path(from.segment), from.at)?;
        if let Some(last) = self.files.back_mut() {
            last.length = from.at;
        }
        Ok(())
    }

    /// Gives up the files before the one that the first batch lies in; all of them where there is no batch.
    pub(super) fn drop_before(&mut self, first: Option<Spot>) {
        while let Some(oldest) = self.files.front()
            && first.is_none_or(|first| oldest.base < first.segment)
        {
            let file = self.path(oldest.base);
            if let Err(error) = self.disk.remove(&file) {
                // The next start finds what it holds before the log's start, and tries again.
                tracing::warn!(file, %error, "an old file could not be removed");
            }
            self.files.pop_front();
        }
    }

    fn path(&self, base: i64) -> String {
        path(&self.folder, base)
    }
}

fn path(folder: &str, base: i64) -> String {
    format!("{folder}/{}", name_of(base))
}

fn name_of(base: i64) -> String {
    format!("{base:020}.log")
}
