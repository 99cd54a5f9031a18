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
use tokio::time::{Instant, sleep_until};

use super::Cluster;
use crate::{
    backoff,
    error::{Api, Error, Kind},
};

/// The groups that are kept; past them all are looked up anew.
const KEPT: usize = 16 * 1024;
/// The longest wait before a look-up is tried again.
const PACE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Cache(Mutex<HashMap<Box<str>, BrokerId>>);

impl Cache {
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, BrokerId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cluster {
    /// The broker that coordinates a group, by the group's name on Kafka; looked up if it is not known. Tried again
    /// while the cluster is finding one.
    pub(crate) async fn coordinator(&self, group: &str, deadline: Instant) -> Result<BrokerId, Error> {
        let known = self.0.coordinators.lock().get(group).copied();
        if let Some(broker) = known {
            return Ok(broker);
        }
        for tries in 1.. {
            // The first form takes one group, the second many; a request has the one of its version.
            let response = match self.find(group, 4..=6, deadline).await {
                Err(error) if *error.kind() == Kind::Unsupported => self.find(group, 1..=3, deadline).await?,
                found => found?,
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
