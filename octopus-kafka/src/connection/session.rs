//! Signing in on a connection, and again before its session ends (KIP-368).

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, Weak, atomic::Ordering},
    time::{Duration, SystemTime},
};

use bytes::{Bytes, BytesMut};
use kafka_protocol::{
    error::ResponseError,
    messages::{ApiKey, SaslAuthenticateRequest, SaslHandshakeRequest},
    protocol::{Request, StrBytes},
};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{Connection, Line, Shared, request_frame};
use crate::{
    answer,
    error::Kind,
    security::{Credential, Exchange, Sasl, Step},
    transport::host,
    versions::Versions,
};

/// The longest that a sign-in may take, a new credential included.
const PATIENCE: Duration = Duration::from_secs(15);
/// The longest that requests are held while a session is renewed, once those that were sent are answered.
const RENEWAL: Duration = Duration::from_secs(10);
/// A broker takes no two sign-ins on one connection within a second.
const CLOSEST: Duration = Duration::from_millis(1100);
/// The longest session that is believed.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
/// The time between two tries to have a credential for a renewal.
const AGAIN: Duration = Duration::from_secs(1);
/// The most that is said and heard in one sign-in.
const ROUNDS: usize = 8;
/// The most of a broker's own words that the log is told, in characters.
const WORDS: usize = 200;

/// When a session is renewed, and when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Session {
    renewed: Instant,
    ends: Instant,
    /// It is too short to be renewed: the connection is given up instead.
    is_last: bool,
}

/// A connection, as long as others hold it.
struct Watched {
    requests: Weak<Line>,
    shared: Arc<Shared>,
    versions: Versions,
}

impl Connection {
    /// Tells the broker who we are, and again before the session ends, for as long as the connection is held. Nothing
    /// else may be sent before.
    pub(crate) async fn sign_in(&self, sasl: &Sasl, address: &Arc<str>) -> Result<(), Kind> {
        let deadline = Instant::now() + PATIENCE;
        let credential = match timeout_at(deadline, sasl.credential()).await {
            Ok(Ok(credential)) => credential,
            Ok(Err(why)) => return Err(refused(sasl, &format!("no credential: {why}"))),
            Err(_) => return Err(refused(sasl, "no credential in time")),
        };
        let lifetime = self
            .authenticate(sasl, &credential, host(address), deadline)
            .await?;
        if let Some(lifetime) = lifetime {
            let watched = Watched {
                requests: Arc::downgrade(&self.requests),
                shared: Arc::clone(&self.shared),
                versions: self.versions.clone(),
            };
            let session = Session::new(Instant::now(), lifetime);
            tokio::spawn(watched.keep(sasl.clone(), Arc::clone(address), session));
        }
        Ok(())
    }

    /// One sign-in; how long the session lasts, if it ends. The broker must have nothing else to answer.
    async fn authenticate(
        &self,
        sasl: &Sasl,
        credential: &Credential,
        host: &str,
        deadline: Instant,
    ) -> Result<Option<Duration>, Kind> {
        let mut exchange = sasl
            .begin(credential, host, SystemTime::now())
            .map_err(|why| refused(sasl, &why))?;
        let mechanism = StrBytes::from_static_str(sasl.mechanism());
        let handshake = SaslHandshakeRequest::default().with_mechanism(mechanism);
        let answer = self.ask(&handshake, 1, deadline).await?;
        if answer.error_code != 0 {
            let offers: Vec<_> = answer
                .mechanisms
                .iter()
                .take(16)
                .map(|name| words(name))
                .collect();
            let why = match ResponseError::try_from_code(answer.error_code) {
                Some(ResponseError::UnsupportedSaslMechanism) => {
                    format!("the broker does not offer it, but {}", offers.join(", "))
                }
                Some(ResponseError::IllegalSaslState) => "the port wants no sign-in".to_owned(),
                Some(code) => format!("the broker answered {code:?}"),
                None => "the broker answered nothing that is known".to_owned(),
            };
            return Err(refused(sasl, &why));
        }
        let mut message = exchange.first();
        for _ in 0..ROUNDS {
            let request = SaslAuthenticateRequest::default().with_auth_bytes(Bytes::from_owner(message));
            let answer = self.ask(&request, 2, deadline).await?;
            if let Some(code) = ResponseError::try_from_code(answer.error_code) {
                sasl.refuse(credential);
                return Err(refused(
                    sasl,
                    &told(code, answer.error_message.as_deref(), credential),
                ));
            }
            match step(&mut exchange, answer.auth_bytes).await {
                Ok((next, going_on)) => {
                    exchange = going_on;
                    match next {
                        Step::Send(next) => message = next,
                        Step::Done => {
                            let ms = u64::try_from(answer.session_lifetime_ms).unwrap_or(0);
                            return Ok((ms > 0).then(|| Duration::from_millis(ms).min(LONGEST)));
                        }
                    }
                }
                Err(why) => {
                    sasl.refuse(credential);
                    return Err(refused(sasl, &why));
                }
            }
        }
        Err(refused(sasl, "it does not come to an end"))
    }

    /// One request of a sign-in in the highest common version from this one down.
    async fn ask<R: Request>(
        &self,
        request: &R,
        newest: i16,
        deadline: Instant,
    ) -> Result<R::Response, Kind> {
        let oldest = if R::KEY == ApiKey::SaslHandshake as i16 {
            1
        } else {
            0
        };
        let version = self
            .versions
            .choose(R::KEY, &(oldest..=newest))
            .ok_or_else(|| Kind::SignIn("the broker knows no sign-in, or is older than Kafka 1.0".into()))?;
        let frame = request_frame(R::KEY, version, "octopus", &|out: &mut BytesMut| {
            request.encode(out, version).map_err(|_| Kind::Malformed)
        })?;
        let bytes = self.enqueue(frame, None, None, deadline)?.await?;
        answer::read::<R>(version, bytes).ok_or_else(|| {
            self.poison("its answer to the sign-in can't be read");
            Kind::Malformed
        })
    }

    /// Renews the session: what was sent is answered first, and what comes meanwhile waits.
    async fn sign_in_again(
        &self,
        sasl: &Sasl,
        credential: &Credential,
        address: &str,
    ) -> Result<Option<Duration>, Kind> {
        let _alone = self.shared.gate.write().await;
        self.shared.quiet().await;
        let used = self.shared.lock().used;
        self.shared.is_renewing.store(true, Ordering::Release);
        let deadline = Instant::now() + RENEWAL;
        let renewed = self.authenticate(sasl, credential, host(address), deadline).await;
        if renewed.is_err() {
            // What waits must not be sent on it any more.
            self.poison("its session could not be renewed");
        }
        // A connection that nobody uses is idle, however often its session is renewed.
        self.shared.lock().used = used;
        self.shared.is_renewing.store(false, Ordering::Release);
        renewed
    }
}

impl Watched {
    /// Renews the session each time before it ends.
    async fn keep(self, sasl: Sasl, address: Arc<str>, mut session: Session) {
        loop {
            tokio::select! {
                biased;
                () = self.shared.ended() => return,
                () = sleep_until(session.renewed) => {}
            }
            if session.is_last {
                let _alone = self.shared.gate.write().await;
                self.shared.quiet().await;
                self.shared.poison("its session is too short to be renewed");
                return;
            }
            let Some(credential) = self.credential(&sasl, &address, session.ends).await else {
                return;
            };
            let Some(connection) = self.upgrade() else { return };
            match connection.sign_in_again(&sasl, &credential, &address).await {
                Ok(Some(lifetime)) => session = Session::new(Instant::now(), lifetime),
                Ok(None) => return,
                Err(why) => {
                    tracing::warn!(%address, %why, "a session with a broker could not be renewed");
                    return;
                }
            }
        }
    }

    /// What to renew it with; the session is left to its end where there is nothing.
    async fn credential(&self, sasl: &Sasl, address: &str, ends: Instant) -> Option<Credential> {
        loop {
            let why = tokio::select! {
                biased;
                () = self.shared.ended() => return None,
                got = timeout_at(ends, sasl.credential()) => match got {
                    Ok(Ok(credential)) => return Some(credential),
                    Ok(Err(why)) => why.to_string(),
                    Err(_) => "no answer in time".to_owned(),
                },
            };
            if Instant::now() + AGAIN >= ends {
                tracing::warn!(
                    address,
                    why,
                    "a session with a broker ends without a credential for the next"
                );
                self.shared.poison("its session ended");
                return None;
            }
            sleep_until(Instant::now() + AGAIN).await;
        }
    }

    fn upgrade(&self) -> Option<Connection> {
        Some(Connection {
            requests: self.requests.upgrade()?,
            shared: Arc::clone(&self.shared),
            versions: self.versions.clone(),
        })
    }
}

impl Session {
    /// It is renewed after 85 to 95 % of its life, so that connections of one age do not do it together.
    fn new(now: Instant, lifetime: Duration) -> Self {
        // Each state is seeded anew.
        let chance = RandomState::new().hash_one(());
        let thousandths = 850 + u32::try_from(chance % 101).unwrap_or(0);
        let life = lifetime * thousandths / 1000;
        Self {
            renewed: now + life,
            ends: now + lifetime,
            is_last: life < CLOSEST,
        }
    }
}

/// The next step, away from the tasks that must not wait: a password's proof takes up to a second of work.
async fn step(exchange: &mut Exchange, answer: Bytes) -> Result<(Step, Exchange), String> {
    let mut exchange = std::mem::replace(exchange, Exchange::Once(Vec::new().into()));
    let done = tokio::task::spawn_blocking(move || exchange.next(&answer).map(|step| (step, exchange)));
    done.await.unwrap_or_else(|_| Err("it was broken off".to_owned()))
}

fn refused(sasl: &Sasl, why: &str) -> Kind {
    Kind::SignIn(format!("{}: {why}", sasl.mechanism()).into())
}

/// A broker's refusal: its code, and its own words where they give nothing away.
fn told(code: ResponseError, text: Option<&str>, credential: &Credential) -> String {
    let code = if code == ResponseError::SaslAuthenticationFailed {
        "refused by the broker".to_owned()
    } else {
        format!("the broker answered {code:?}")
    };
    match text {
        Some(text) if !text.is_empty() && !credential.is_in(text) => format!("{code}: {}", words(text)),
        Some(_) | None => code,
    }
}

/// Somebody else's words for the log: on one line, and not too many.
fn words(text: &str) -> String {
    let cut: String = text.chars().take(WORDS).collect();
    cut.escape_debug().to_string()
}

#[cfg(test)]
mod tests;
