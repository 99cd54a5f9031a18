//! Counts changes, for those who wait for one.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// A count of changes. A tenth of what a watch channel takes, for there is one for each consumer.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    count: AtomicU64,
    told: Notify,
}

/// Waits for changes that it has not seen.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    changes: &'a Changes,
    seen: u64,
}

impl Changes {
    /// Something changed: all who wait are told.
    pub(crate) fn tell(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.told.notify_waiters();
    }

    /// Waits for changes from here on.
    pub(crate) fn watch(&self) -> Watch<'_> {
        let mut watch = Watch {
            changes: self,
            seen: 0,
        };
        watch.mark_seen();
        watch
    }
}

impl Watch<'_> {
    /// All changes so far are known.
    pub(crate) fn mark_seen(&mut self) {
        self.seen = self.changes.count.load(Ordering::Acquire);
    }

    /// Ends once there is a change that was not seen, which is seen by that. Dropped before, it has seen nothing.
    pub(crate) async fn changed(&mut self) {
        // Who waits is told of every change after this, and the count says what was before it.
        let told = self.changes.told.notified();
        if self.changes.count.load(Ordering::Acquire) == self.seen {
            told.await;
        }
        self.mark_seen();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future as _,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use super::*;

    #[test]
    fn a_change_is_seen_once_by_each_who_waits() {
        let changes = Changes::default();
        let context = &mut Context::from_waker(Waker::noop());
        let (mut one, mut two) = (changes.watch(), changes.watch());
        {
            let mut early = pin!(one.changed());
            assert_eq!(early.as_mut().poll(context), Poll::Pending);
            changes.tell();
            assert_eq!(early.as_mut().poll(context), Poll::Ready(()));
        }
        assert_eq!(pin!(one.changed()).poll(context), Poll::Pending);
        assert_eq!(
            pin!(two.changed()).poll(context),
            Poll::Ready(()),
            "it came before"
        );
        changes.tell();
        changes.tell();
        two.mark_seen();
        assert_eq!(pin!(two.changed()).poll(context), Poll::Pending);
        assert_eq!(pin!(one.changed()).poll(context), Poll::Ready(()));
        assert_eq!(
            pin!(one.changed()).poll(context),
            Poll::Pending,
            "two are seen at once"
        );
    }

    #[test]
    fn a_change_between_the_call_and_the_wait_is_not_missed() {
        let changes = Changes::default();
        let mut watch = changes.watch();
        let mut changed = pin!(watch.changed());
        changes.tell();
        assert_eq!(
            changed.as_mut().poll(&mut Context::from_waker(Waker::noop())),
            Poll::Ready(())
        );
    }
}
