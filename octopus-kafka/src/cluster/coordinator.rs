//! Which broker coordinates which group.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kafka_protocol::{
    error::{ParseResponseErrorCode, ResponseError},
    messages::{BrokerId, FindCoordinatorRequest, FindCoordinatorResponse},
    protocol::StrBytes,
};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until, timeout_at},
};

use super::Cluster;
use crate::{
    answer::Aside as _,
    backoff,
    error::{Api, Error, Kind},
};

/// The groups that are kept; past them all are looked up anew.
const KEPT: usize = 16 * 1024;
/// The longest wait before a look-up is tried again.
const PACE: Duration = Duration::from_secs(1);

/// The most look-ups at once: all groups want one when they lose their coordinator together.
const TOGETHER: usize = 64;

#[derive(Debug)]
pub(super) struct Cache {
    known: Mutex<HashMap<Box<str>, BrokerId>>,
    /// A permit for each look-up.
    turns: Semaphore,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            turns: Semaphore::new(TOGETHER),
        }
    }
}

impl Cache {
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, BrokerId>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, group: &str) -> Option<BrokerId> {
        self.lock().get(group).copied()
    }
}

impl Cluster {
    /// The broker that coordinates a group, by the group's name on Kafka; looked up if it is not known. Tried again
    /// while the cluster is finding one.
    pub(crate) async fn coordinator(&self, group: &str, deadline: Instant) -> Result<BrokerId, Error> {
        let cache = &self.0.coordinators;
        if let Some(broker) = cache.find(group) {
            return Ok(broker);
        }
        // Those who wait take little room, and who is next may find it known.
        let turn = timeout_at(deadline, cache.turns.acquire()).await;
        let late = || {
            let kind = if self.is_live() {
                Kind::Timeout
            } else {
                Kind::Unreachable("any broker in time".into())
            };
            Error::new(Api::FindCoordinator, kind)
        };
        let _turn = turn.map_err(|_| late())?.map_err(|_| late())?;
        match cache.find(group) {
            Some(broker) => Ok(broker),
            None => Box::pin(self.look_up(group, deadline)).await,
        }
    }

    async fn look_up(&self, group: &str, deadline: Instant) -> Result<BrokerId, Error> {
        for tries in 1.. {
            // The first form takes one group, the second many; a request has the one of its version.
            let response = match self.find(group, 4..=6, deadline).await {
                Ok(response) if !is_unsupported(&response) => response,
                Err(error) if *error.kind() != Kind::Unsupported => return Err(error),
                Ok(_) | Err(_) => self.find(group, 1..=3, deadline).await?,
            };
            match read(&response, group) {
                Ok((broker, host, port)) => {
                    self.0.metadata.learn(broker, host, port);
                    let mut coordinators = self.0.coordinators.lock();
                    if coordinators.len() >= KEPT {
                        coordinators.clear();
                    }
                    coordinators.insert(group.into(), broker);
                    return Ok(broker);
                }
                Err(code) => {
                    let next = Instant::now() + backoff::wait(tries, u64::from(tries)).min(PACE);
                    if !code.is_retriable() || next >= deadline {
                        return Err(Error::response(Api::FindCoordinator, code));
                    }
                    sleep_until(next).await;
                }
            }
        }
        Err(Error::new(Api::FindCoordinator, Kind::Timeout))
    }

    /// A broker turned out not to coordinate this group.
    pub(crate) fn forget_coordinator(&self, group: &str) {
        self.0.coordinators.lock().remove(group);
    }

    async fn find(
        &self,
        group: &str,
        range: std::ops::RangeInclusive<i16>,
        deadline: Instant,
    ) -> Result<FindCoordinatorResponse, Error> {
        let many = *range.start() >= 4;
        let make = || {
            let key = StrBytes::from_string(group.to_owned());
            let request = FindCoordinatorRequest::default();
            if many {
                request.with_coordinator_keys(vec![key])
            } else {
                request.with_key(key)
            }
        };
        self.ask_any(range, make, deadline).await
    }
}

/// Whether the broker does not speak the version that it told of.
fn is_unsupported(response: &FindCoordinatorResponse) -> bool {
    response.code().err() == Some(ResponseError::UnsupportedVersion)
}

fn read<'a>(
    response: &'a FindCoordinatorResponse,
    group: &str,
) -> Result<(BrokerId, &'a str, i32), ResponseError> {
    let Some(found) = response
        .coordinators
        .iter()
        .find(|found| found.key.as_str() == group)
    else {
        return match response.error_code.err() {
            Some(code) => Err(code),
            None if response.coordinators.is_empty() && !response.host.is_empty() => {
                Ok((response.node_id, &response.host, response.port))
            }
            None => Err(ResponseError::CoordinatorNotAvailable),
        };
    };
    match found.error_code.err() {
        Some(code) => Err(code),
        None => Ok((found.node_id, &found.host, found.port)),
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::ApiKey;

    use super::*;
    use crate::{
        Config,
        broker::{self, Broker, first},
    };

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(30)
    }

    async fn world() -> (Broker, Cluster) {
        let broker = Broker::start(broker::Config::default()).await.unwrap();
        let cluster = Cluster::new(Config::new(vec![broker.addr().to_string()]));
        (broker, cluster)
    }

    fn look_ups(broker: &Broker) -> Vec<i16> {
        let requests = broker.requests().into_iter();
        requests
            .filter(|received| received.api == ApiKey::FindCoordinator)
            .map(|received| received.version)
            .collect()
    }

    /// [KF-26] [ER-06] a group whose coordinator is being found, or is loading, is looked up until it is there.
    #[tokio::test]
    async fn a_coordinator_that_is_not_there_yet_is_waited_for() {
        for code in [14, 15] {
            let (broker, cluster) = world().await;
            broker.faults().on(ApiKey::FindCoordinator, first(3)).error(code);
            assert_eq!(cluster.coordinator("g", soon()).await, Ok(BrokerId(1)));
            assert_eq!(look_ups(&broker).len(), 4);
            // It is known, and its address with it, until it turns out to be another one.
            cluster.coordinator("g", soon()).await.unwrap();
            assert_eq!(look_ups(&broker).len(), 4);
            assert!(cluster.0.metadata.address(BrokerId(1)).is_some());
            cluster.forget_coordinator("g");
            cluster.coordinator("g", soon()).await.unwrap();
            assert_eq!(look_ups(&broker).len(), 5);
        }
    }

    /// [ER-02] [ER-06] what a look-up ends in, in time.
    #[tokio::test]
    async fn a_look_up_that_fails_is_told_by_its_row() {
        let (broker, cluster) = world().await;
        broker.faults().on(ApiKey::FindCoordinator, first(1)).error(30);
        let denied = cluster.coordinator("g", soon()).await.unwrap_err();
        assert_eq!(
            denied,
            Error::response(Api::FindCoordinator, ResponseError::GroupAuthorizationFailed)
        );
        broker.faults().clear();
        broker
            .faults()
            .on(ApiKey::FindCoordinator, broker::always())
            .error(15);
        let deadline = Instant::now() + Duration::from_millis(300);
        let away = cluster.coordinator("g", deadline).await.unwrap_err();
        assert_eq!(
            octopus_core::Error::from(away),
            octopus_core::Error::KafkaRetriable
        );
        assert!(look_ups(&broker).len() > 2);
    }

    /// [ER-01] brokers before 2.1 or so know one group a request only.
    #[tokio::test]
    async fn each_form_of_the_request_is_spoken() {
        for (versions, asked) in [(0..=2, 2), (0..=3, 3), (0..=4, 4), (0..=9, 6)] {
            let (broker, cluster) = world().await;
            broker.set_versions(ApiKey::FindCoordinator, versions);
            assert_eq!(cluster.coordinator("g", soon()).await, Ok(BrokerId(1)));
            assert_eq!(look_ups(&broker), [asked]);
        }
        let (broker, cluster) = world().await;
        broker.set_versions(ApiKey::FindCoordinator, 7..=9);
        let none = cluster.coordinator("g", soon()).await.unwrap_err();
        assert_eq!(*none.kind(), Kind::Unsupported);
    }

    /// An answer about another group says nothing of this one.
    #[test]
    fn an_answer_is_about_the_group_that_it_names() {
        use kafka_protocol::messages::find_coordinator_response::Coordinator;
        let found = |key| {
            Coordinator::default()
                .with_key(StrBytes::from_static_str(key))
                .with_node_id(BrokerId(4))
                .with_host(StrBytes::from_static_str("host"))
                .with_port(1)
        };
        let response = FindCoordinatorResponse::default().with_coordinators(vec![found("h"), found("g")]);
        assert_eq!(read(&response, "g"), Ok((BrokerId(4), "host", 1)));
        for key in ["x", "", "gg"] {
            assert_eq!(read(&response, key), Err(ResponseError::CoordinatorNotAvailable));
        }
        let nothing = FindCoordinatorResponse::default();
        assert_eq!(read(&nothing, "g"), Err(ResponseError::CoordinatorNotAvailable));
    }
}
