//! The memory of this process: what the system gave it, and what it asked its allocator for. The allocator is that of
//! `octopus-server`.

use std::fs;

use anyhow::{Context as _, Error, Result};
use tikv_jemalloc_ctl::{epoch, stats};
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// What a process holds, in bytes.
pub(crate) struct Memory {
    /// `RssAnon`.
    resident: i64,
    /// What is allocated, each block with what its size class adds.
    allocated: i64,
}

impl Memory {
    pub(crate) fn of_this_process() -> Result<Self> {
        let status = fs::read_to_string("/proc/self/status")?;
        let resident = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"))
            .context("a line of anonymous memory")?;
        let kibibytes: i64 = resident.trim().trim_end_matches("kB").trim().parse()?;
        epoch::advance().map_err(Error::msg)?;
        let allocated = stats::allocated::read().map_err(Error::msg)?;
        Ok(Self {
            resident: kibibytes * 1024,
            allocated: i64::try_from(allocated)?,
        })
    }

    /// How much more it is than before.
    pub(crate) fn above(&self, before: &Self) -> String {
        format!(
            "{:.1} MiB resident, {:.1} MiB allocated",
            mebibytes(self.resident - before.resident),
            mebibytes(self.allocated - before.allocated),
        )
    }
}

#[expect(clippy::cast_precision_loss, reason = "a figure to be read")]
fn mebibytes(bytes: i64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
