//! Signing in: which mechanism a connection has chosen, who it is, and until when.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

use bytes::Bytes;
use kafka_protocol::messages::ApiKey;

use super::{
    code::{self, Code},
    id::{ConnectionId, Ids},
};

mod scram;

use scram::{Challenged, Credential, First, Hash};

/// A way to sign in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mechanism {
    /// A name and a password.
    Plain,
    /// A proof of a password, by SHA-256.
    ScramSha256,
    /// A proof of a password, by SHA-512.
    ScramSha512,
}

/// Names with their passwords, which no one is shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Users {
    passwords: BTreeMap<String, String>,
}

/// How clients sign in.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// Whether they have to.
    pub(crate) is_required: bool,
    pub(crate) users: Users,
    pub(crate) mechanisms: Vec<Mechanism>,
    /// How long they may go on then, without end if there is none.
    pub(crate) max_session: Option<Duration>,
}

/// Who has signed in, and who is about to.
#[derive(Debug)]
pub(crate) struct Gate {
    rules: Rules,
    credentials: BTreeMap<(String, Mechanism), Credential>,
    visitors: BTreeMap<ConnectionId, Visitor>,
}

/// What a step of signing in gives.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) answer: Bytes,
    /// How long the session is, once it has begun and is not without end.
    pub(crate) lifetime: Option<Duration>,
}

/// One connection. It has no entry before its first step.
#[derive(Debug, Default)]
struct Visitor {
    signed_in: Option<SignedIn>,
    exchange: Option<(Mechanism, Exchange)>,
    /// Whether its messages come without the frame of a request, as before SaslAuthenticate.
    is_raw: bool,
}

#[derive(Debug)]
struct SignedIn {
    user: String,
    mechanism: Mechanism,
    until: Option<Instant>,
}

/// Which message is waited for.
enum Exchange {
    First,
    Last(String, Challenged),
}

impl Mechanism {
    /// All of them, in the order that they are offered.
    pub const ALL: [Self; 3] = [Self::Plain, Self::ScramSha256, Self::ScramSha512];

    /// Its name in the registry of mechanisms.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

impl Users {
    /// Adds one, or changes its password.
    pub fn insert(&mut self, name: impl Into<String>, password: impl Into<String>) {
        self.passwords.insert(name.into(), password.into());
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.passwords.is_empty()
    }
}

impl<N: Into<String>, P: Into<String>> FromIterator<(N, P)> for Users {
    fn from_iter<I: IntoIterator<Item = (N, P)>>(pairs: I) -> Self {
        let pairs = pairs.into_iter();
        Self {
            passwords: pairs
                .map(|(name, password)| (name.into(), password.into()))
                .collect(),
        }
    }
}

impl Gate {
    pub(crate) const fn new(rules: Rules) -> Self {
        Self {
            rules,
            credentials: BTreeMap::new(),
            visitors: BTreeMap::new(),
        }
    }

    /// The names of the mechanisms.
    pub(crate) fn offers(&self) -> impl Iterator<Item = &'static str> {
        self.rules.mechanisms.iter().map(|mechanism| mechanism.name())
    }

    /// Adds a user or changes its password; `None` takes it away. Who has signed in stays until the session ends.
    pub(crate) fn set_user(&mut self, name: &str, password: Option<&str>) {
        self.credentials.retain(|(user, _), _| user != name);
        match password {
            Some(password) => self.rules.users.insert(name, password),
            None => {
                self.rules.users.passwords.remove(name);
            }
        }
    }

    /// Whether a connection may send a request of this API; it is closed otherwise.
    pub(crate) fn admits(&self, id: ConnectionId, api: ApiKey, now: Instant) -> bool {
        if !self.rules.is_required {
            return true;
        }
        match self.visitors.get(&id) {
            Some(Visitor {
                exchange: Some(_), ..
            }) => api == ApiKey::SaslAuthenticate,
            Some(Visitor {
                signed_in: Some(session),
                ..
            }) => api == ApiKey::SaslHandshake || session.until.is_none_or(|until| now < until),
            Some(_) | None => matches!(api, ApiKey::ApiVersions | ApiKey::SaslHandshake),
        }
    }

    /// Whether a connection's next frame is a message of its mechanism alone.
    pub(crate) fn takes_raw(&self, id: ConnectionId) -> bool {
        let visitor = self.visitors.get(&id);
        visitor.is_some_and(|visitor| visitor.is_raw && visitor.exchange.is_some())
    }

    /// Begins to sign in, or to do so again.
    ///
    /// # Errors
    ///
    /// `UNSUPPORTED_SASL_MECHANISM`; `ILLEGAL_SASL_STATE` where there is nothing to sign in to, or by another
    /// mechanism than before.
    pub(crate) fn handshake(&mut self, id: ConnectionId, mechanism: &str, is_raw: bool) -> Result<(), Code> {
        if !self.rules.is_required {
            return Err(code::ILLEGAL_SASL_STATE);
        }
        let offered = self.rules.mechanisms.iter();
        let found = offered.copied().find(|offered| offered.name() == mechanism);
        let mechanism = found.ok_or(code::UNSUPPORTED_SASL_MECHANISM)?;
        let visitor = self.visitors.entry(id).or_default();
        if visitor
            .signed_in
            .as_ref()
            .is_some_and(|session| session.mechanism != mechanism)
        {
            return Err(code::ILLEGAL_SASL_STATE);
        }
        visitor.exchange = Some((mechanism, Exchange::First));
        visitor.is_raw = is_raw;
        Ok(())
    }

    /// Takes a message of the mechanism.
    ///
    /// # Errors
    ///
    /// `SASL_AUTHENTICATION_FAILED`, and the connection is to be closed; `ILLEGAL_SASL_STATE` where no mechanism
    /// was chosen.
    pub(crate) fn authenticate(
        &mut self,
        id: ConnectionId,
        message: &[u8],
        ids: &mut Ids,
        now: Instant,
    ) -> Result<Step, Code> {
        let visitor = self.visitors.get_mut(&id);
        let exchange = visitor.and_then(|visitor| visitor.exchange.take());
        let (mechanism, exchange) = exchange.ok_or(code::ILLEGAL_SASL_STATE)?;
        let failed = code::SASL_AUTHENTICATION_FAILED;
        let (answer, user) = match (exchange, mechanism) {
            (Exchange::First, Mechanism::Plain) => (Bytes::new(), self.plain(message).ok_or(failed)?),
            (Exchange::First, Mechanism::ScramSha256 | Mechanism::ScramSha512) => {
                let first = First::read(message).ok_or(failed)?;
                let user = first.user.clone();
                let credential = self.credential(&user, mechanism, ids).ok_or(failed)?;
                let (answer, challenged) = first.challenge(credential, &ids.uuid().simple().to_string());
                if let Some(visitor) = self.visitors.get_mut(&id) {
                    visitor.exchange = Some((mechanism, Exchange::Last(user, challenged)));
                }
                return Ok(Step {
                    answer,
                    lifetime: None,
                });
            }
            (Exchange::Last(user, challenged), _) => (challenged.verify(message).ok_or(failed)?, user),
        };
        let visitor = self.visitors.entry(id).or_default();
        if visitor
            .signed_in
            .as_ref()
            .is_some_and(|before| before.user != user)
        {
            return Err(failed);
        }
        let lifetime = self.rules.max_session;
        visitor.signed_in = Some(SignedIn {
            user,
            mechanism,
            until: lifetime.map(|lifetime| now + lifetime),
        });
        Ok(Step { answer, lifetime })
    }

    /// A connection has gone.
    pub(crate) fn leave(&mut self, id: ConnectionId) {
        self.visitors.remove(&id);
    }

    /// Whose name and password a message of PLAIN has (RFC 4616).
    fn plain(&self, message: &[u8]) -> Option<String> {
        let mut parts = std::str::from_utf8(message).ok()?.split('\0');
        let (identity, user, password) = (parts.next()?, parts.next()?, parts.next()?);
        let is_whole = parts.next().is_none() && (identity.is_empty() || identity == user);
        let known = self.rules.users.passwords.get(user);
        (is_whole && known.is_some_and(|known| scram::is_same(known, password))).then(|| user.to_owned())
    }

    /// What SCRAM knows of a user's password.
    fn credential(&mut self, user: &str, mechanism: Mechanism, ids: &mut Ids) -> Option<Credential> {
        let password = self.rules.users.passwords.get(user)?;
        let hash = match mechanism {
            Mechanism::Plain => return None,
            Mechanism::ScramSha256 => Hash::Sha256,
            Mechanism::ScramSha512 => Hash::Sha512,
        };
        let known = self.credentials.entry((user.to_owned(), mechanism));
        let credential = known.or_insert_with(|| Credential::new(hash, password, ids.uuid().as_bytes()));
        Some(credential.clone())
    }
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.passwords.keys()).finish()
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").finish_non_exhaustive()
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "First",
            Self::Last(..) => "Last",
        })
    }
}
