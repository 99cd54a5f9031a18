//! What all consumers of a cluster may keep and read ahead together.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The bytes that one permit of the budget stands for.
pub(super) const PERMIT_BYTES: usize = 1024;
/// All of it, in bytes.
pub(super) const BUDGET_BYTES: usize = 16 * 1024 * 1024;

/// The budget of a cluster's consumers.
pub(crate) fn budget() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(BUDGET_BYTES / PERMIT_BYTES))
}

/// The bytes of the budget that are taken.
#[cfg(feature = "testing")]
pub(crate) fn taken(budget: &Semaphore) -> usize {
    BUDGET_BYTES - budget.available_permits() * PERMIT_BYTES
}

/// Room of the budget for what is read ahead; free again when it is dropped.
#[derive(Debug)]
pub struct Room {
    _permit: OwnedSemaphorePermit,
}

impl Room {
    /// Room for so many bytes, if there is.
    pub(super) fn of(bytes: usize, budget: &Arc<Semaphore>) -> Option<Self> {
        let permits = u32::try_from(bytes.div_ceil(PERMIT_BYTES)).ok()?;
        let permit = Arc::clone(budget).try_acquire_many_owned(permits).ok()?;
        Some(Self { _permit: permit })
    }
}
