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
        let was_served = std::mem::replace(&mut set.is_served, true);
        // A runtime that ends drops what it is given at once, and a service locks the set as it is dropped.
        drop(set);
        if !was_served {
            tokio::spawn(Service::of(Arc::clone(self)).run());
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

/// The task that waits. Where it is dropped before its end, the next alarm has another one serve.
struct Service {
    alarms: Arc<Alarms>,
    is_over: bool,
}

impl Service {
    fn of(alarms: Arc<Alarms>) -> Self {
        Self {
            alarms,
            is_over: false,
        }
    }

    /// Until nothing is left to wait for.
    async fn run(mut self) {
        loop {
            let first = {
                let mut set = self.alarms.lock();
                let Some((first, _)) = set.groups.first_key_value() else {
                    set.is_served = false;
                    self.is_over = true;
                    return;
                };
                *first
            };
            tokio::select! {
                biased;
                () = sleep_until(first.at) => self.ring(Instant::now()),
                () = self.alarms.sooner.notified() => {}
            }
        }
    }

    fn ring(&self, now: Instant) {
        loop {
            let group = {
                let mut set = self.alarms.lock();
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
        if !self.is_over {
            self.alarms.lock().is_served = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread, time::Duration};

    use super::*;
    use crate::{Cluster, Config};

    fn group() -> Arc<Group> {
        let cluster = Cluster::new(Config::new(vec!["127.0.0.1:1".to_owned()]));
        Group::new(cluster, "group".to_owned(), "client".to_owned(), |_| {})
    }

    /// An embedder may drop its runtime at any time.
    #[test]
    fn an_alarm_set_as_the_runtime_ends_waits_for_no_lock() {
        struct Last(Arc<Alarms>, Arc<Group>);
        impl Drop for Last {
            fn drop(&mut self) {
                self.0.set(Instant::now(), &self.1);
            }
        }
        let (ended, end) = mpsc::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let alarms = Arc::new(Alarms::default());
            let last = Last(Arc::clone(&alarms), group());
            runtime.spawn(async move {
                let _last = last;
                std::future::pending::<()>().await;
            });
            runtime.block_on(tokio::task::yield_now());
            drop(runtime);
            ended.send(alarms.lock().is_served).unwrap();
        });
        let is_served = end.recv_timeout(Duration::from_secs(30));
        assert_eq!(is_served, Ok(false), "the next alarm has it served");
    }

    #[tokio::test(start_paused = true)]
    async fn one_task_serves_until_no_alarm_is_left() {
        let alarms = Arc::new(Alarms::default());
        let group = group();
        let now = Instant::now();
        let _first = alarms.set(now + Duration::from_secs(1), &group);
        let late = alarms.set(now + Duration::from_secs(9), &group);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(alarms.lock().groups.len(), 1, "one rang");
        alarms.unset(late);
        tokio::time::sleep(Duration::from_secs(9)).await;
        assert!(!alarms.lock().is_served);
        alarms.set(now + Duration::from_secs(20), &group);
        assert!(alarms.lock().is_served);
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert!(alarms.lock().groups.is_empty(), "the second task served it");
    }
}
