//! The turn that is taken ahead, as the service takes it while it sends a reply.

use std::time::Duration;

use octopus_core::FetchPlan;
use tokio::time::Instant;

use super::{Reader, read::Found};

/// How long it is kept.
const KEPT_FOR: Duration = Duration::from_secs(2);

/// A turn that was taken ahead.
pub(super) struct Ahead {
    plan: FetchPlan,
    found: Found,
    at: Instant,
}

impl Reader {
    /// What the turn with this plan has found already, if it would find the same.
    pub(super) fn taken_ahead(&mut self, plan: &FetchPlan) -> Option<Found> {
        let Ahead {
            plan: planned,
            found,
            at,
        } = self.ahead.take()?;
        if planned != *plan || at.elapsed() >= KEPT_FOR {
            return None;
        }
        let from = |at| plan.positions.iter().find(|(planned, _)| planned == at);
        let is_current = found.parts.iter().all(|(at, _)| {
            from(at).is_some_and(|(_, from)| from.is_some_and(|from| self.consumer.is_current(at, from)))
        });
        if is_current {
            self.sim.note(format_args!(
                "{} has the turn of {plan:?} already",
                self.client_id
            ));
        }
        is_current.then_some(found)
    }

    /// Takes the turn with this plan ahead, where its records are on their way.
    pub(super) async fn take_ahead(&mut self, plan: FetchPlan) {
        if !self.consumer.read_ahead(&plan) || self.sim.lock().happens(100) {
            return;
        }
        let Ok(polled) = self.consumer.poll(&plan, Duration::ZERO).await else {
            return;
        };
        if polled.parts.is_empty() || !polled.started.is_empty() || !polled.failed.is_empty() {
            return;
        }
        let found = self.walked(polled);
        self.consumer.read_ahead(&plan.after(&found.fetched()));
        self.ahead = Some(Ahead {
            plan,
            found,
            at: Instant::now(),
        });
    }
}
