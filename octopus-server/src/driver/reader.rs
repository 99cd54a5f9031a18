//! An instance's consumer and the turn that it takes ahead: while a reply is sent, the next one is made. Nothing depends on
//! it: a turn that another plan is for, or that comes late, is taken anew.

use std::{
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use octopus_core::{Effect, Error, FetchPlan, Fetched, Outcome, limits::REPLY_BYTES};
use octopus_kafka::Consumer;
use tokio::{
    sync::{Notify, oneshot},
    task::AbortHandle,
    time::Instant,
};

use super::turn::{self, Turned};

/// How long a turn that was taken ahead is kept for its client, as long as what was read ahead for it.
const KEPT_FOR: Duration = Duration::from_secs(2);

/// Reads for one instance.
pub(super) struct Reader {
    pub(super) consumer: Consumer,
    ahead: Mutex<Option<Ahead>>,
}

/// A turn that is taken ahead. Dropped, it is given up.
struct Ahead {
    plan: FetchPlan,
    /// What it came to, if the turn may come to the same.
    turned: oneshot::Receiver<Turned>,
    hurry: Arc<Notify>,
    task: AbortHandle,
}

impl Ahead {
    /// What it comes to, with what it has once `hurried` is ready.
    async fn turned(mut self, hurried: impl Future<Output = ()>) -> Option<Turned> {
        tokio::select! {
            biased;
            turned = &mut self.turned => turned.ok(),
            () = hurried => {
                self.hurry.notify_one();
                (&mut self.turned).await.ok()
            }
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Reader {
    pub(super) fn new(consumer: Consumer) -> Arc<Self> {
        Arc::new(Self {
            consumer,
            ahead: Mutex::default(),
        })
    }

    /// Does what an effect other than a fetch asks, as [`Consumer::run_until`]. One that changes what the instance may read
    /// ends what was taken ahead.
    pub(super) async fn run(
        &self,
        effect: Effect,
        within: Duration,
        hurried: impl Future<Output = ()>,
    ) -> Result<Outcome, Error> {
        if matches!(effect, Effect::Join(_) | Effect::Leave | Effect::Close) {
            drop(self.ahead().take());
        }
        self.consumer.run_until(effect, within, hurried).await
    }

    /// One turn of a fetch, which may have been taken ahead, and the next one ahead behind it.
    pub(super) async fn turn(
        self: &Arc<Self>,
        plan: FetchPlan,
        within: Duration,
        hurried: impl Future<Output = ()>,
    ) -> Result<Turned, Error> {
        let began = Instant::now();
        let mut hurried = pin!(hurried);
        let mut is_hurried = false;
        let ahead = self.ahead().take();
        let turned = match ahead.filter(|ahead| ahead.plan == plan) {
            Some(ahead) => {
                let hurried = async {
                    hurried.as_mut().await;
                    is_hurried = true;
                };
                ahead.turned(hurried).await
            }
            None => None,
        };
        let turned = if let Some(turned) = turned.filter(|turned| self.is_current(turned, &plan)) {
            turned
        } else {
            let within = within.saturating_sub(began.elapsed());
            let hurried = async {
                if !is_hurried {
                    hurried.await;
                }
            };
            turn::take(&self.consumer, &plan, within, hurried).await?
        };
        if turned.body.is_some() {
            let next = plan.after(&turned.fetched);
            // Behind a record of megabytes, or beside a topic that fails, the next turn would hardly be plain.
            if self.consumer.read_ahead(&next) && turned.is_plain() {
                self.take_ahead(next);
            }
        }
        Ok(turned)
    }

    /// Whether the turn with this plan would still find what it found.
    fn is_current(&self, turned: &Turned, plan: &FetchPlan) -> bool {
        let Fetched { next, skipped, .. } = &turned.fetched;
        let mut read = next.iter().chain(skipped).map(|(at, _)| at);
        read.all(|at| {
            let planned = plan.positions.iter().find(|(planned, _)| planned == at);
            planned.is_some_and(|(_, from)| from.is_some_and(|from| self.consumer.is_current(at, from)))
        })
    }

    /// Takes the turn with this plan ahead, whose records are on their way.
    fn take_ahead(self: &Arc<Self>, plan: FetchPlan) {
        let Some(room) = self.consumer.room_ahead(REPLY_BYTES) else {
            return;
        };
        let (sender, turned) = oneshot::channel();
        let hurry = Arc::new(Notify::new());
        let task = {
            let (consumer, plan, hurry) = (self.consumer.clone(), plan.clone(), Arc::clone(&hurry));
            let reader = Arc::downgrade(self);
            tokio::spawn(async move {
                let _room = room;
                let Some(turned) = turn::take_ahead(&consumer, &plan, hurry.notified()).await else {
                    return;
                };
                consumer.read_ahead(&plan.after(&turned.fetched));
                if sender.send(turned).is_err() {
                    return;
                }
                tokio::time::sleep(KEPT_FOR).await;
                if let Some(reader) = reader.upgrade() {
                    let mut ahead = reader.ahead();
                    // Another one may have taken its place just now.
                    let own = ahead.take_if(|ahead| Arc::ptr_eq(&ahead.hurry, &hurry));
                    drop(ahead);
                    drop(own);
                }
            })
        };
        let ahead = Ahead {
            plan,
            turned,
            hurry,
            task: task.abort_handle(),
        };
        *self.ahead() = Some(ahead);
    }

    fn ahead(&self) -> MutexGuard<'_, Option<Ahead>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
