//! The task that drives one member: it sends what the member asks for and tells it what comes of it. It lives as
//! long as the membership does, also while its consumer is idle [LC-03].

use std::{collections::BTreeMap, future::Future, pin::Pin, sync::Arc};

use tokio::time::Instant;

use super::{
    Group,
    member::{Answer, Output, Request},
    send,
};

/// What a task waits for, if for anything.
type Waiting<T> = Option<Pin<Box<dyn Future<Output = T> + Send>>>;

/// Drives the group's member until it is out.
pub(super) async fn drive(group: Arc<Group>) {
    let mut flight: Waiting<(u64, Answer)> = None;
    let mut beside: Waiting<(u64, Answer)> = None;
    let mut look: Waiting<Option<BTreeMap<String, i32>>> = None;
    loop {
        let (outputs, wake) = {
            let mut membership = group.membership();
            let outputs: Vec<_> = std::iter::from_fn(|| membership.member.poll()).collect();
            if outputs.is_empty() && membership.member.is_out() {
                membership.driven = false;
                break;
            }
            membership.signalling = outputs.iter().any(|output| matches!(output, Output::Signal(_)));
            (outputs, membership.member.wake())
        };
        for output in outputs {
            match output {
                Output::Send {
                    number,
                    request,
                    deadline,
                } => {
                    if let Request::Heartbeat { .. } = request {
                        look = watch(&group, deadline.into());
                    }
                    flight = sent(&group, number, request, deadline.into());
                }
                Output::Beside {
                    number,
                    request,
                    deadline,
                } => beside = sent(&group, number, request, deadline.into()),
                Output::Forget => group.cluster.forget_coordinator(&group.id),
                Output::Signal(signal) => (group.signal)(signal),
            }
        }
        group.membership().signalling = false;
        group.changes.send_modify(|changes| *changes += 1);
        tokio::select! {
            biased;
            (number, answer) = ready(&mut flight) => {
                flight = None;
                group.membership().member.answered(number, answer, Instant::now().into_std());
            }
            (number, answer) = ready(&mut beside) => {
                beside = None;
                group.membership().member.answered(number, answer, Instant::now().into_std());
            }
            counts = ready(&mut look) => {
                look = None;
                if let Some(counts) = counts {
                    group.membership().member.listed(&counts, Instant::now().into_std());
                }
            }
            () = until(wake) => group.membership().member.timeout(Instant::now().into_std()),
            () = group.woken.notified() => {}
        }
    }
    group.changes.send_modify(|changes| *changes += 1);
}

/// A request that is in flight.
fn sent(group: &Arc<Group>, number: u64, request: Request, deadline: Instant) -> Waiting<(u64, Answer)> {
    let group = Arc::clone(group);
    Some(Box::pin(async move {
        (number, send::send(&group, request, deadline).await)
    }))
}

/// As the leader: what the cluster lists at present of the topics that were assigned.
fn watch(group: &Arc<Group>, deadline: Instant) -> Waiting<Option<BTreeMap<String, i32>>> {
    let topics = group.membership().member.watched()?.clone();
    let group = Arc::clone(group);
    Some(Box::pin(async move {
        send::counts(&group.cluster, topics, deadline).await.ok()
    }))
}

async fn ready<T>(waiting: &mut Waiting<T>) -> T {
    match waiting {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

async fn until(wake: Option<std::time::Instant>) {
    match wake {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use octopus_core::{Namespace, Subject};

    use super::*;
    use crate::{Cluster, Config};

    /// Ten thousand idle members take ten thousand times this, and what stands in their strings.
    #[tokio::test]
    async fn a_member_costs_little() {
        let cluster = Cluster::new(Config::new(vec!["127.0.0.1:1".to_owned()]));
        let name = Namespace::of(Subject::from_uuid(1)).qualify("group");
        let group = Group::new(cluster, name, "octopus-group-one".to_owned(), |_| {});
        let beat = Request::Heartbeat {
            member_id: String::new(),
            generation: 1,
        };
        let deadline = Instant::now() + Duration::from_secs(1);
        let task = size_of_val(&drive(Arc::clone(&group)));
        let flight = size_of_val(&send::send(&group, beat, deadline));
        let idle = task + size_of::<Group>();
        assert!(idle < 1536, "{idle} bytes while it waits");
        assert!(flight < 4096, "{flight} bytes while a heartbeat is on its way");
    }
}
