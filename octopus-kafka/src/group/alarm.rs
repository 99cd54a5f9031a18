//! When the members that are at rest have something to do: one list and one task for all of them, so that a member that
//! only waits takes no task and no timer of its own.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use super::Group;

/// An alarm that was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Alarm {
    at: Instant,
    number: u64,
}

/// The alarms of a cluster's members.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    set: Mutex<Set>,
    /// Tells the task of an alarm before all others.
    sooner: Notify,
}

#[derive(Debug, Default)]
struct Set {
    groups: BTreeMap<Alarm, Weak<Group>>,
    number: u64,
    /// A task waits for the first of them.
    is_served: bool,
}

impl Alarms {
    /// Wakes the group's member at this time.
    pub(super) fn set(self: &Arc<Self>, at: Instant, group: &Arc<Group>) -> Alarm {
        let mut set = self.lock();
        set.number += 1;
        let alarm = Alarm {
            at,
            number: set.number,
        };
        let is_first = set
            .groups
            .first_key_value()
            .is_none_or(|(first, _)| alarm < *first);
        set.groups.insert(alarm, Arc::downgrade(group));
        if !set.is_served {
            set.is_served = true;
            tokio::spawn(Service(Arc::clone(self)).run());
        } else if is_first {
            self.sooner.notify_one();
        }
        alarm
    }

    /// Takes an alarm back.
    pub(super) fn unset(&self, alarm: Alarm) {
        self.lock().groups.remove(&alarm);
    }

    fn lock(&self) -> MutexGuard<'_, Set> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that waits. Where it ends, another one serves.
struct Service(Arc<Alarms>);

impl Service {
    /// Until nothing is left to wait for.
    async fn run(self) {
        loop {
            let first = {
                let mut set = self.0.lock();
                let Some((first, _)) = set.groups.first_key_value() else {
                    set.is_served = false;
                    return;
                };
                *first
            };
            tokio::select! {
                biased;
                () = sleep_until(first.at) => self.ring(Instant::now()),
                () = self.0.sooner.notified() => {}
            }
        }
    }

    fn ring(&self, now: Instant) {
        loop {
            let group = {
                let mut set = self.0.lock();
                match set.groups.first_entry() {
                    Some(first) if first.key().at <= now => first.remove(),
                    Some(_) | None => return,
                }
            };
            // One that is gone has left its group.
            if let Some(group) = group.upgrade() {
                group.alarmed();
            }
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.0.lock().is_served = false;
    }
}
