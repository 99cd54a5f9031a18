//! The memory of this process: what the system gave it, and what it asked its allocator for.

use std::{alloc::System, fs};

use anyhow::{Context as _, Result};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What a process holds.
pub(crate) struct Memory {
    /// `RssAnon`, in KiB.
    resident: i64,
    /// The bytes that are allocated.
    allocated: i64,
    /// The allocations that they are in.
    allocations: i64,
}

impl Memory {
    pub(crate) fn of_this_process() -> Result<Self> {
        let status = fs::read_to_string("/proc/self/status")?;
        let resident = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"))
            .context("a line of anonymous memory")?;
        let resident = resident.trim().trim_end_matches("kB").trim().parse()?;
        let stats = ALLOCATOR.stats();
        // A block that grew is counted by what it grew by.
        let allocated = i64::try_from(stats.bytes_allocated)? - i64::try_from(stats.bytes_deallocated)?;
        let allocations = i64::try_from(stats.allocations)? - i64::try_from(stats.deallocations)?;
        Ok(Self {
            resident,
            allocated,
            allocations,
        })
    }

    /// How much more it is than before.
    pub(crate) fn above(&self, before: &Self) -> String {
        format!(
            "{:.1} MiB resident, {:.1} MiB allocated in {} blocks",
            mebibytes((self.resident - before.resident) * 1024),
            mebibytes(self.allocated - before.allocated),
            self.allocations - before.allocations,
        )
    }
}

#[expect(clippy::cast_precision_loss, reason = "a figure to be read")]
fn mebibytes(bytes: i64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
