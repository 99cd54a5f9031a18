//! One consumer's place in its group: the member, the task that drives it, and the group's committed offsets.

mod alarm;
mod assignor;
mod commit;
mod consumer_protocol;
mod drive;
mod member;
mod offsets;
#[cfg(feature = "testing")]
pub(crate) mod played;
mod protocol;
mod send;
mod subscription;
mod topics;

use std::{
    collections::BTreeSet,
    fmt,
    future::Future,
    ops::RangeInclusive,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use octopus_core::Error;
use tokio::{sync::Notify, time::Instant};

pub(crate) use self::alarm::Alarms;
use self::{
    alarm::Alarm,
    member::{Identity, Timing},
    protocol::Member,
};
use crate::{changes::Changes, cluster::Cluster, consumer::Signal};

/// The versions of JoinGroup, with which the classic protocol begins.
pub(crate) const CLASSIC: RangeInclusive<i16> = 3..=9;
/// The versions of ConsumerGroupHeartbeat. The first one, of Kafka 3.7, was a trial that brokers do not speak unasked.
pub(crate) const CONSUMER: RangeInclusive<i16> = 1..=1;

/// A position of a topic's partition 0 that a group commits or has committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    /// The topic's name on Kafka.
    pub(crate) topic: String,
    /// The next record to read.
    pub(crate) offset: i64,
    /// The leader epoch of the record before.
    pub(crate) leader_epoch: Option<i32>,
    /// What is stored beside it.
    pub(crate) metadata: Box<str>,
}

/// A consumer's place in its group.
pub(crate) struct Group {
    pub(super) cluster: Cluster,
    /// The group's name on Kafka.
    pub(super) id: String,
    pub(super) client_id: String,
    membership: Mutex<Membership>,
    /// Wakes the driving task.
    woken: Notify,
    /// Counts the member's changes, for those who wait for one.
    changes: Changes,
    /// Held until a commit's answer came or never will, so that none overtakes another.
    commits: Arc<tokio::sync::Mutex<()>>,
    signal: Box<dyn Fn(Signal) + Send + Sync>,
}

struct Membership {
    member: Member,
    /// A task drives the member. At rest it has none.
    driven: bool,
    /// Wakes it from its rest.
    alarm: Option<Alarm>,
    /// The task is about to send signals: what came of a join is not given out before they are heard.
    signalling: bool,
}

impl Membership {
    /// What came of a join, once every signal before it was sent.
    fn take(&mut self) -> Option<Result<Vec<String>, Error>> {
        if self.signalling || self.member.has_signals() {
            None
        } else {
            self.member.take()
        }
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Group {
    pub(crate) fn new(
        cluster: Cluster,
        id: String,
        client_id: String,
        signal: impl Fn(Signal) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let config = cluster.config();
        let timing = Timing {
            session: config.session_timeout,
            rebalance: config.rebalance_timeout,
            heartbeat: config.heartbeat_interval,
        };
        let member = Member::new(config.group_protocol, timing, Instant::now().into_std(), || {
            cluster.member_seed()
        });
        Arc::new(Self {
            cluster,
            id,
            client_id,
            membership: Mutex::new(Membership {
                member,
                driven: false,
                alarm: None,
                signalling: false,
            }),
            woken: Notify::new(),
            changes: Changes::default(),
            commits: Arc::default(),
            signal: Box::new(signal),
        })
    }

    /// Joins the group for these topics, or takes up the join that is under way. Returns the topics that it got, or
    /// `None` if the group has not answered by the deadline, or once `hurried` is ready; the join goes on then. Nothing
    /// is lost where the future is dropped.
    pub(crate) async fn join(
        self: &Arc<Self>,
        topics: BTreeSet<String>,
        commit: Vec<Stored>,
        deadline: Instant,
        hurried: impl Future<Output = ()>,
    ) -> Result<Option<Vec<String>>, Error> {
        let mut hurried = pin!(hurried);
        let mut changes = self.changes.watch();
        self.tell(|member, now| member.want(topics, commit, now));
        loop {
            changes.mark_seen();
            let result = self.membership().take();
            if let Some(result) = result {
                return result.map(Some);
            }
            let is_over = tokio::select! {
                biased;
                () = changes.changed() => false,
                () = &mut hurried => true,
                () = tokio::time::sleep_until(deadline) => true,
            };
            if is_over {
                let unreachable = !self.membership().member.was_reached() && !self.cluster.is_live();
                return if unreachable {
                    Err(Error::KafkaUnreachable)
                } else {
                    Ok(None)
                };
            }
        }
    }

    /// Leaves the group if it is a member, and waits for that until the deadline. It goes on after it.
    pub(crate) async fn leave(self: &Arc<Self>, deadline: Instant) {
        let mut changes = self.changes.watch();
        self.give_up();
        while !self.membership().member.is_out() {
            if tokio::time::timeout_at(deadline, changes.changed())
                .await
                .is_err()
            {
                return;
            }
        }
    }

    /// Leaves the group in the background if it is a member.
    pub(crate) fn give_up(self: &Arc<Self>) {
        self.tell(Member::leave);
    }

    /// Whether what the member was given may be read. It may not once its session passed unheard, also where the task that
    /// sees to that has not run yet, as in a process that stood still.
    pub(crate) fn is_held(self: &Arc<Self>) -> bool {
        let now = Instant::now().into_std();
        let is_due = self.membership().member.wake().is_some_and(|at| at <= now);
        if is_due {
            self.tell(Member::timeout);
        }
        self.membership().member.identity() != Identity::Lost
    }

    /// Who commits, once no join is under way; `None` if one still is at the deadline.
    async fn settled(&self, deadline: Instant) -> Option<Identity> {
        let mut changes = self.changes.watch();
        loop {
            changes.mark_seen();
            let identity = self.membership().member.identity();
            if identity != Identity::Joining {
                return Some(identity);
            }
            tokio::time::timeout_at(deadline, changes.changed()).await.ok()?;
        }
    }

    /// Changes the member, and sees to it that a task does what follows.
    fn tell(self: &Arc<Self>, change: impl FnOnce(&mut Member, std::time::Instant)) {
        let mut membership = self.membership();
        change(&mut membership.member, Instant::now().into_std());
        if membership.driven {
            self.woken.notify_one();
        } else if !membership.member.is_out() {
            membership.driven = true;
            tokio::spawn(drive::drive(Arc::clone(self)));
        }
    }

    /// The alarm that its member set has rung.
    fn alarmed(self: &Arc<Self>) {
        self.membership().alarm = None;
        self.tell(Member::timeout);
    }

    /// Nothing is on its way: the task ends that drove the member, and an alarm wakes it when it has something to do.
    fn rest(self: &Arc<Self>, membership: &mut Membership) {
        membership.driven = false;
        let alarms = self.cluster.alarms();
        if let Some(alarm) = membership.alarm.take() {
            alarms.unset(alarm);
        }
        let wake = membership.member.wake();
        membership.alarm = wake.map(|at| alarms.set(at.into(), self));
    }

    fn membership(&self) -> MutexGuard<'_, Membership> {
        self.membership.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
