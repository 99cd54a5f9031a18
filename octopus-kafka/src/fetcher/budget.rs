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
pub struct Room(OwnedSemaphorePermit);

impl Room {
    /// Room for so many bytes, if there is.
    pub(super) fn of(bytes: usize, budget: &Arc<Semaphore>) -> Option<Self> {
        let permits = u32::try_from(bytes.div_ceil(PERMIT_BYTES)).ok()?;
        let permit = Arc::clone(budget).try_acquire_many_owned(permits).ok()?;
        Some(Self(permit))
    }

    /// Whether it is room for so many bytes, or could be made so much larger.
    pub(super) fn grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.0.num_permits() * PERMIT_BYTES);
        match Self::of(more, self.0.semaphore()) {
            Some(Self(more)) => {
                self.0.merge(more);
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_grows_as_far_as_there_is_some_and_is_given_back_whole() {
        let budget = Arc::new(Semaphore::new(4));
        let mut room = Room::of(PERMIT_BYTES + 1, &budget).unwrap();
        for (bytes, grows, left) in [
            (0, true, 2),
            (2 * PERMIT_BYTES, true, 2),
            (2 * PERMIT_BYTES + 1, true, 1),
            (5 * PERMIT_BYTES, false, 1),
            (4 * PERMIT_BYTES, true, 0),
        ] {
            assert_eq!((room.grow_to(bytes), budget.available_permits()), (grows, left));
        }
        drop(room);
        assert_eq!(budget.available_permits(), 4);
    }
}
