//! The task that drives one member: it sends what the member asks for and tells it what comes of it. It lives while
//! something is on its way; between two heartbeats there is none, and an alarm wakes the member, also while its
//! consumer is idle [LC-03].

use std::{collections::BTreeMap, future::Future, pin::Pin, sync::Arc};

use tokio::time::Instant;

use super::{
    Group,
    member::{Answer, Output, Request},
    send,
};
use crate::cluster::Party;

/// What a task waits for, if for anything.
type Waiting<T> = Option<Pin<Box<dyn Future<Output = T> + Send>>>;

/// A request's number, its answer, and with that to a join the group's place among those that join.
type Flight = Waiting<(u64, Answer, Option<Arc<Party>>)>;

/// Drives the group's member until it is out or at rest.
pub(super) async fn drive(group: Arc<Group>) {
    let mut flight: Flight = None;
    let mut beside: Flight = None;
    // From the first answer to a join to the last one, the group keeps its place among those that join.
    let mut place = None;
    let mut look: Waiting<Option<BTreeMap<String, i32>>> = None;
    loop {
        let (outputs, wake) = {
            let mut membership = group.membership();
            let outputs: Vec<_> = std::iter::from_fn(|| membership.member.poll()).collect();
            let nothing_comes = flight.is_none() && beside.is_none() && look.is_none();
            if outputs.is_empty() && (nothing_comes || membership.member.is_out()) {
                group.rest(&mut membership);
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
                    if !request.is_of_a_join() {
                        place = None;
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
        group.changes.tell();
        tokio::select! {
            biased;
            (number, answer, of_party) = ready(&mut flight) => {
                flight = None;
                place = of_party.or(place);
                group.membership().member.answered(number, answer, Instant::now().into_std());
            }
            (number, answer, _) = ready(&mut beside) => {
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
    group.changes.tell();
}

/// A request that is in flight.
fn sent(group: &Arc<Group>, number: u64, request: Request, deadline: Instant) -> Flight {
    let group = Arc::clone(group);
    Some(Box::pin(async move {
        let (answer, place) = send::send(&group, request, deadline).await;
        (number, answer, place)
    }))
}

/// As the leader: what the cluster lists at present of the topics that were assigned.
fn watch(group: &Arc<Group>, deadline: Instant) -> Waiting<Option<BTreeMap<String, i32>>> {
    let topics = group.membership().member.watched()?;
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
        let idle = size_of::<Group>() + size_of::<super::super::member::Member>();
        assert!(idle < 704, "{idle} bytes while it waits");
        assert!(
            task + flight < 2048,
            "{task} and {flight} bytes while a heartbeat is on its way"
        );
    }
}
