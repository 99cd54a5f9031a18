//! Requests to brokers: to a certain one, or to any that can be reached.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use bytes::BytesMut;
use kafka_protocol::{
    error::{ParseResponseErrorCode, ResponseError},
    messages::{ApiKey, BrokerId},
    protocol::Request,
};
use tokio::time::{Instant, sleep_until};

use super::{Class, Cluster};
use crate::{
    answer::{self, Aside},
    api::fetch::{self, FetchRequest, FetchResponse},
    error::{Api, Error, Kind},
    pool::{Lease, Origin},
};

/// The client id of requests that are no consumer's.
pub(super) const CLIENT_ID: &str = "octopus";
/// The longest that one broker is waited for while others may be there.
const ONE_BROKER: Duration = Duration::from_secs(5);
/// The least time between two rounds over all brokers.
const AGAIN: Duration = Duration::from_millis(50);

impl Cluster {
    /// One request on a connection of this class to this broker, in the highest version that both speak; `make` builds
    /// it. Gives the answer and the version. Not tried again: what to do after a failure depends on who asks.
    pub(crate) async fn request<R: Request<Response: Aside>>(
        &self,
        broker: BrokerId,
        class: Class,
        client_id: &str,
        range: RangeInclusive<i16>,
        make: impl FnOnce(i16) -> R + Send,
        deadline: Instant,
    ) -> Result<(R::Response, i16), Error> {
        let lease = self
            .lease_for(broker, class, "", Api::of(R::KEY), deadline)
            .await?;
        ask_on(&lease, client_id, range, make, deadline).await
    }

    /// A connection of this class to this broker, for a request of `api`; those of one party that join wait for each
    /// other.
    pub(crate) async fn lease_for(
        &self,
        broker: BrokerId,
        class: Class,
        party: &str,
        api: Api,
        deadline: Instant,
    ) -> Result<Lease, Error> {
        let address = self.address(broker, api)?;
        self.lease(&address, class, party, api, deadline).await
    }

    /// A Fetch, on a connection that carries nothing else until its answer came. The records of the answer are slices
    /// of its one frame; beside it is the connection that it came on.
    pub(crate) async fn fetch(
        &self,
        broker: BrokerId,
        client_id: &str,
        request: &FetchRequest,
        deadline: Instant,
    ) -> Result<(FetchResponse, Origin), Error> {
        let failed = |kind| Error::new(Api::Fetch, kind);
        let address = self.address(broker, Api::Fetch)?;
        let lease = self
            .lease(&address, Class::Fetch, "", Api::Fetch, deadline)
            .await?;
        // Brokers that gave no topic ids are asked by name.
        let by_id = request
            .partitions
            .iter()
            .all(|partition| !partition.topic_id.is_nil());
        let newest = if by_id {
            *fetch::VERSIONS.end()
        } else {
            fetch::BY_ID - 1
        };
        let encode = |version, out: &mut BytesMut| {
            request.encode(version, out);
            Ok(())
        };
        let range = *fetch::VERSIONS.start()..=newest;
        let answer = lease
            .send(ApiKey::Fetch as i16, &range, client_id, encode, deadline)
            .await
            .map_err(failed)?;
        let Some(response) = answer::fetched(answer.version, answer.bytes) else {
            lease.poison("its answer to a fetch can't be read");
            return Err(failed(Kind::Malformed));
        };
        let code = match response.error_code {
            0 => response.partitions.first().map_or(0, |part| part.error_code),
            code => code,
        };
        if took_back(&lease, ApiKey::Fetch as i16, answer.version, &range, code) {
            return Err(failed(taken_back()));
        }
        Ok((response, lease.origin()))
    }

    /// A connection for control requests to any broker: a known one, or a bootstrap server; those of `avoid` last.
    /// Tries them in turn, each again after its backoff, until one answers or the time is over.
    pub(super) async fn any_broker(
        &self,
        api: Api,
        avoid: &[Arc<str>],
        deadline: Instant,
    ) -> Result<(Arc<str>, Lease), Error> {
        // Why there is none, as far as it was found out.
        let mut known = None;
        loop {
            let mut addresses = self.known_addresses();
            addresses.sort_by_key(|address| (avoid.contains(address), self.0.pool.standing(address)));
            let count = addresses.len();
            let mut earliest = None;
            let mut all_refuse = count > 0;
            let mut last = Kind::Unreachable("any broker: there are no bootstrap servers".into());
            for (i, address) in addresses.into_iter().enumerate() {
                // One that swallows packets leaves time for those behind it; it is still being connected to then.
                let left = deadline.saturating_duration_since(Instant::now());
                let share = left / u32::try_from(count - i).unwrap_or(u32::MAX);
                let limit = Instant::now() + share.min(ONE_BROKER);
                match self.0.pool.lease_for(&address, Class::Control, "", limit).await {
                    Ok(lease) => return Ok((address, lease)),
                    Err(no) => {
                        earliest = Some(earliest.map_or(no.next, |earliest: Instant| earliest.min(no.next)));
                        all_refuse &= matches!(no.kind, Kind::SignIn(_));
                        if !no.is_late {
                            known = Some(no.kind.clone());
                        }
                        last = no.kind;
                    }
                }
            }
            if all_refuse {
                // Each was tried twice; waiting does not mend a password.
                return Err(Error::new(api, last));
            }
            match earliest.filter(|next| *next < deadline) {
                Some(next) => sleep_until(next.max(Instant::now() + AGAIN).min(deadline)).await,
                None => {
                    sleep_until(deadline).await;
                    let kind = match known.unwrap_or(last) {
                        // Where there was no place on a connection in time, the broker is there.
                        kind @ (Kind::Malformed | Kind::SignIn(_) | Kind::Unreachable(_) | Kind::Timeout) => {
                            kind
                        }
                        Kind::Closed { .. }
                        | Kind::Unsupported
                        | Kind::InvalidTopic
                        | Kind::TooLarge
                        | Kind::Full
                        | Kind::Response(_) => Kind::Unreachable("any broker in time".into()),
                    };
                    return Err(Error::new(api, kind));
                }
            }
        }
    }

    /// A control request to any broker, on another one if a connection breaks or is silent.
    pub(super) async fn ask_any<R: Request<Response: Aside>>(
        &self,
        range: RangeInclusive<i16>,
        make: impl Fn() -> R + Send + Sync,
        deadline: Instant,
    ) -> Result<R::Response, Error> {
        let api = Api::of(R::KEY);
        let mut avoid = Vec::new();
        loop {
            let (address, lease) = self.any_broker(api, &avoid, deadline).await?;
            let asked = Instant::now();
            let left = deadline.saturating_duration_since(asked);
            let share = (left / 2).clamp(AGAIN, ONE_BROKER).min(left);
            match exchange(&lease, CLIENT_ID, &range, |_| make(), asked + share).await {
                Ok((answer, _)) => return Ok(answer),
                Err(kind @ (Kind::Timeout | Kind::Closed { .. } | Kind::TooLarge))
                    if Instant::now() < deadline =>
                {
                    // Others may share the connection: it is only given up for a long silence.
                    if kind == Kind::Timeout && share == ONE_BROKER {
                        lease.poison("it did not answer");
                    }
                    if !avoid.contains(&address) {
                        avoid.push(address);
                    }
                }
                Err(kind) => return Err(Error::new(api, kind)),
            }
        }
    }

    /// A connection to one broker. The cluster as a whole is unreachable only where no other broker is connected
    /// either [ER-06] [ER-07].
    async fn lease(
        &self,
        address: &str,
        class: Class,
        party: &str,
        api: Api,
        deadline: Instant,
    ) -> Result<Lease, Error> {
        let lease = self.0.pool.lease_for(address, class, party, deadline);
        lease.await.map_err(|no| {
            tracing::debug!(address, why = ?no.kind, "no connection to a broker");
            Error::new(api, self.of_one_broker(no.kind))
        })
    }

    /// What a broker's being out of reach means while others are there: no answer from Kafka, which may be asked again.
    fn of_one_broker(&self, kind: Kind) -> Kind {
        let is_live = |address: &Arc<str>| self.0.pool.is_live(address);
        if let Kind::Unreachable(why) = &kind
            && self.known_addresses().iter().any(is_live)
        {
            return Kind::Closed {
                sent: false,
                why: why.clone(),
            };
        }
        kind
    }

    fn address(&self, broker: BrokerId, api: Api) -> Result<Arc<str>, Error> {
        let unknown = || Kind::Unreachable(format!("broker {}: it is not known", broker.0).into());
        self.0
            .metadata
            .address(broker)
            .ok_or_else(|| Error::new(api, self.of_one_broker(unknown())))
    }

    /// The addresses of the brokers that are known, then those of the bootstrap servers.
    pub(super) fn known_addresses(&self) -> Vec<Arc<str>> {
        let mut addresses = self.0.metadata.addresses();
        for bootstrap in &self.0.config.bootstrap {
            if !addresses.iter().any(|known| **known == **bootstrap) {
                addresses.push(bootstrap.as_str().into());
            }
        }
        addresses
    }
}

/// A request on this connection, in the highest version that both speak. Gives the answer and the version.
pub(crate) async fn ask_on<R: Request<Response: Aside>>(
    lease: &Lease,
    client_id: &str,
    range: RangeInclusive<i16>,
    make: impl FnOnce(i16) -> R + Send,
    deadline: Instant,
) -> Result<(R::Response, i16), Error> {
    exchange(lease, client_id, &range, make, deadline)
        .await
        .map_err(|kind| Error::new(Api::of(R::KEY), kind))
}

async fn exchange<R: Request<Response: Aside>>(
    lease: &Lease,
    client_id: &str,
    range: &RangeInclusive<i16>,
    make: impl FnOnce(i16) -> R + Send,
    deadline: Instant,
) -> Result<(R::Response, i16), Kind> {
    let encode =
        |version, out: &mut BytesMut| make(version).encode(out, version).map_err(|_| Kind::Unsupported);
    let answer = lease.send(R::KEY, range, client_id, encode, deadline).await?;
    let version = answer.version;
    let Some(response) = answer::read::<R>(version, answer.bytes) else {
        lease.poison("an answer can't be read");
        return Err(Kind::Malformed);
    };
    let told = answer::throttle_at(R::KEY, version).is_some();
    if let Some(time) = answer::throttled(response.throttle_time_ms()).filter(|_| !told) {
        lease.throttle(Instant::now() + time);
    }
    if took_back(lease, R::KEY, version, range, response.code()) {
        return Err(taken_back());
    }
    Ok((response, version))
}

/// Whether the broker refused a version that it told of, so that the one below is to be tried once.
fn took_back(lease: &Lease, api_key: i16, version: i16, range: &RangeInclusive<i16>, code: i16) -> bool {
    code.err() == Some(ResponseError::UnsupportedVersion) && lease.lower(api_key, version, range)
}

/// The request was not carried out, and goes out again in another version.
fn taken_back() -> Kind {
    Kind::Closed {
        sent: false,
        why: "the broker refused a version that it told of".into(),
    }
}

#[cfg(test)]
mod tests;
