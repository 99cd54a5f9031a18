//! Tokens that an OAuth 2.0 authority is asked about (token introspection, RFC 7662).

pub(crate) mod answer;
mod known;
mod outage;

use std::{
    collections::HashMap,
    fmt,
    net::IpAddr,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Instant, SystemTime},
};

use bytes::Bytes;
use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared, WeakShared},
};
use octopus_core::Subject;
use ring::hmac;

pub use self::answer::Form;
use self::{answer::Answer, known::Known, outage::Outage};
use crate::{
    Caller, Checked, Credentials, TokenCheck, TokenFault,
    cache::{Cache, Places, Verdict},
};

/// The tokens that are known to have held, in each of two halves: 4 MB at most.
const KNOWN: usize = 32_768;

/// What is remembered at most: about 8 MB, at 250 bytes a token.
const PLACES: Places = Places {
    holding: 16_384,
    refused: 16_384,
};

/// The token authority, which is asked over HTTP by whoever implements this: a `POST` of the [`Form`] to its introspection
/// endpoint, with the service's own id and secret. A redirect is an answer, and is not followed.
pub trait Authority: Send + Sync + 'static {
    /// Sends the form and gives what came back. It ends in good time.
    fn ask<'a>(&'a self, form: &'a Form) -> Asking<'a>;
}

/// A reply that is on its way.
pub type Asking<'a> = Pin<Box<dyn Future<Output = Result<Reply, NoReply>> + Send + 'a>>;

/// What an authority replied.
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Bytes,
}

/// Why there is no reply, in words for the log: nothing that was sent or that came may be in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoReply(Why);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Why {
    NoPlace,
    Failed(Arc<str>),
}

/// The time, as two clocks show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// By the clock that never steps: how long answers are remembered.
    pub monotonic: Instant,
    /// By the clock that the world agrees on: when tokens end.
    pub wall: SystemTime,
}

/// Asks a token authority whether a token is active, has the scope, and is its subject's or an identity's that is linked
/// to it [AU-02].
///
/// An answer is remembered for 60 s from when it was asked for, and never past the token's end; a refusal for 5 s. What is
/// remembered is keyed by a hash under a secret key, not by the token. Callers that bring one token at the same time share
/// one look-up, which goes on while one of them waits. While the authority does not answer nobody is let in who is not
/// remembered [D-35]; the log says so once a minute. That a token held is known for longer than the answer is remembered: it
/// lets nobody in, and [`Form::is_known`] tells it, so that look-ups of tokens that are made up do not shut out others.
pub struct Introspection(Arc<Inner>);

struct Inner {
    authority: Box<dyn Authority>,
    scope: String,
    key: hmac::Key,
    clock: Box<dyn Fn() -> Now + Send + Sync>,
    state: Mutex<State>,
}

struct State {
    cache: Cache,
    /// The look-ups under way.
    asking: HashMap<TokenHash, (u64, WeakShared<LookUp>)>,
    /// How many there were.
    asked: u64,
    outage: Outage,
    /// The look-ups that found no place.
    crowding: Outage,
    known: Known,
}

type LookUp = BoxFuture<'static, Result<Arc<Answer>, TokenFault>>;

/// What a token is known by: HMAC-SHA-256 under the key of the process.
pub(crate) type TokenHash = [u8; 32];

impl Introspection {
    /// Asks this authority, and lets in tokens that have `scope` among their scopes. `key` must be random, and of this
    /// process alone.
    #[must_use]
    pub fn new(
        authority: impl Authority,
        scope: impl Into<String>,
        key: &[u8; 32],
        clock: impl Fn() -> Now + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            authority: Box::new(authority),
            scope: scope.into(),
            key: hmac::Key::new(hmac::HMAC_SHA256, key),
            clock: Box::new(clock),
            state: Mutex::new(State {
                cache: Cache::new(PLACES),
                asking: HashMap::new(),
                asked: 0,
                outage: Outage::default(),
                crowding: Outage::default(),
                known: Known::new(KNOWN),
            }),
        }))
    }

    async fn caller(&self, credentials: &Credentials) -> Result<Caller, TokenFault> {
        let inner = &self.0;
        let subject = credentials.subject()?;
        let token = credentials.token()?;
        let verdict = match inner.start(token, subject, credentials.address()) {
            Start::Known(verdict) => verdict,
            Start::Asked(look_up) => look_up.await?.verdict(subject, (inner.clock)().wall),
        };
        match verdict {
            Verdict::Admitted => Ok(Caller::of(subject)),
            Verdict::Refused => Err(TokenFault::Refused),
        }
    }
}

impl TokenCheck for Introspection {
    fn check<'a>(&'a self, credentials: &'a Credentials) -> Checked<'a> {
        Box::pin(self.caller(credentials))
    }
}

enum Start {
    Known(Verdict),
    Asked(Shared<LookUp>),
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of the token, or the look-up that will tell: one that is under way, or a new one.
    fn start(self: &Arc<Self>, token: &str, subject: Subject, address: Option<IpAddr>) -> Start {
        let hash = self.hash(token);
        let mut state = self.lock();
        if let Some(verdict) = state.cache.find(&hash, subject, (self.clock)()) {
            return Start::Known(verdict);
        }
        if let Some(look_up) = state.asking.get(&hash).and_then(|(_, look_up)| look_up.upgrade()) {
            return Start::Asked(look_up);
        }
        state.asked += 1;
        let under_way = UnderWay {
            inner: Arc::clone(self),
            hash,
            number: state.asked,
        };
        let number = under_way.number;
        let form = Form::of(token).brought(address, state.known.contains(&hash));
        let look_up = under_way.look_up(form).boxed().shared();
        if let Some(weak) = look_up.downgrade() {
            state.asking.insert(hash, (number, weak));
        }
        Start::Asked(look_up)
    }

    fn hash(&self, token: &str) -> TokenHash {
        let mut hash = TokenHash::default();
        let tag = hmac::sign(&self.key, token.as_bytes());
        for (to, from) in hash.iter_mut().zip(tag.as_ref()) {
            *to = *from;
        }
        hash
    }
}

/// A look-up's place among those under way, until it ends or nobody waits for it any more.
struct UnderWay {
    inner: Arc<Inner>,
    hash: TokenHash,
    number: u64,
}

impl UnderWay {
    async fn look_up(self, form: Form) -> Result<Arc<Answer>, TokenFault> {
        let inner = &self.inner;
        let asked = (inner.clock)().monotonic;
        let reply = inner.authority.ask(&form).await;
        let now = (inner.clock)();
        let answer = reply.and_then(|reply| Answer::read(&reply, &inner.scope, now.wall));
        let mut state = inner.lock();
        match answer {
            Ok(answer) => {
                match &answer {
                    Answer::Holds(_) => state.known.keep(self.hash),
                    Answer::Refused => state.known.remove(&self.hash),
                }
                let answer = Arc::new(answer);
                state.cache.keep(self.hash, Arc::clone(&answer), asked);
                if state.outage.handle_answer() {
                    tracing::info!("the token authority answers again");
                }
                Ok(answer)
            }
            Err(NoReply(Why::NoPlace)) => {
                if let Some(failed) = state.crowding.handle_failure(now.monotonic) {
                    tracing::warn!(
                        failed,
                        "tokens could not be checked: too many are asked about at once, and there was no place for a look-up"
                    );
                }
                Err(TokenFault::Unreachable)
            }
            Err(why) => {
                if let Some(failed) = state.outage.handle_failure(now.monotonic) {
                    tracing::warn!(%why, failed, "the token authority does not answer: nobody new is let in");
                }
                Err(TokenFault::Unreachable)
            }
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.inner.lock();
        // Another look-up may have begun between the last waiter's leave and this.
        if state
            .asking
            .get(&self.hash)
            .is_some_and(|(number, _)| *number == self.number)
        {
            state.asking.remove(&self.hash);
        }
    }
}

impl NoReply {
    /// For this reason.
    #[must_use]
    pub fn new(why: &str) -> Self {
        Self(Why::Failed(why.into()))
    }

    /// Since too many look-ups are under way: the authority was not asked, and is not to blame.
    #[must_use]
    pub const fn no_place() -> Self {
        Self(Why::NoPlace)
    }
}

impl fmt::Display for NoReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Why::NoPlace => f.write_str("there is no place for a look-up"),
            Why::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for NoReply {}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Introspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Introspection")
            .field("scope", &self.0.scope)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
