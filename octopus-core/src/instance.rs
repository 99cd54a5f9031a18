//! One life of a consumer instance.

pub(crate) mod commit;
pub(crate) mod lock;
pub(crate) mod positions;
pub(crate) mod subscription;

use std::time::Instant;

use crate::{CallId, Commit, InstanceKey, RequestId, Settings};
use commit::AutoCommit;
use lock::Lock;
use positions::Positions;
use subscription::Subscription;

/// A consumer instance, from its create to the end of its close.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) key: InstanceKey,
    pub(crate) settings: Settings,
    pub(crate) life: Life,
    pub(crate) lock: Lock,
    pub(crate) subscription: Subscription,
    pub(crate) positions: Positions,
    pub(crate) auto_commit: AutoCommit,
    /// The fetch in progress.
    pub(crate) fetch: Option<RequestId>,
    /// The join without a fetch that is under way [D-23].
    pub(crate) rejoin: Option<CallId>,
    /// The requests that found the instance and whose reply has not ended [D-30].
    pub(crate) in_hand: usize,
    /// Since when there is none.
    pub(crate) idle_since: Instant,
    /// Whether the instance still holds its name and its places.
    pub(crate) is_named: bool,
}

/// Where an instance is in its life.
#[derive(Debug)]
pub(crate) enum Life {
    /// Its create is not answered from Kafka yet: nobody finds it, but its name and its places are held.
    Opening,
    /// It serves requests.
    Open,
    /// Nobody finds it any more; it closes when the request that holds it ends.
    Doomed(LastCommit),
    /// It closes.
    Closing(Closing),
}

/// Whether an instance that commits by itself does so before it closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastCommit {
    /// It does [AK-03].
    Yes,
    /// It does not: its create is undone [D-29].
    No,
}

/// A close under way.
#[derive(Debug)]
pub(crate) struct Closing {
    /// The delete that it answers.
    pub(crate) request: Option<RequestId>,
    pub(crate) last_commit: LastCommit,
    /// When its time ends [AK-03] [D-46].
    pub(crate) until: Instant,
    /// Whether it waits for a fetch's commit before its own.
    pub(crate) waits: bool,
}

impl Instance {
    /// An instance that is being made.
    pub(crate) fn new(key: InstanceKey, settings: Settings, now: Instant) -> Self {
        Self {
            auto_commit: AutoCommit::new(settings.auto_commit, now),
            key,
            settings,
            life: Life::Opening,
            lock: Lock::default(),
            subscription: Subscription::None,
            positions: Positions::default(),
            fetch: None,
            rejoin: None,
            in_hand: 0,
            idle_since: now,
            is_named: true,
        }
    }

    /// Whether requests find it.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.life, Life::Open)
    }

    /// What it commits by itself: nothing where it does not, or where its group put it out, since another member
    /// may have moved on.
    pub(crate) fn own_commit(&self) -> Vec<Commit> {
        let lost = self
            .subscription
            .membership()
            .is_some_and(|group| group.is_lost());
        if self.auto_commit.is_on() && !lost {
            self.positions.known()
        } else {
            Vec::new()
        }
    }
}
