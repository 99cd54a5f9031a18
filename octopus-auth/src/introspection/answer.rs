//! The form that is sent to the authority, and what its answer means (RFC 7662, section 2).

use std::{
    fmt,
    net::IpAddr,
    time::{Duration, SystemTime},
};

use octopus_core::Subject;
use serde::{Deserialize, de::IgnoredAny};

use super::{NoReply, Reply};
use crate::{cache::Verdict, subject};

/// What is asked of the authority: a body of the type `application/x-www-form-urlencoded`. It holds the token, so `Debug`
/// shows none of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Form {
    body: String,
    address: Option<IpAddr>,
    is_known: bool,
}

impl Form {
    /// Asks for this token, and for the identities that are linked to its owner's, which Globus Auth tells on request. Its
    /// form needs no escapes [D-42].
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self {
            body: format!("token={token}&include=identity_set"),
            address: None,
            is_known: false,
        }
    }

    /// The same, for a token that came from this address, and whether an answer said before that it holds.
    #[must_use]
    pub fn brought(self, address: Option<IpAddr>, is_known: bool) -> Self {
        Self {
            address,
            is_known,
            ..self
        }
    }

    /// The address that the token came from, if it was told.
    #[must_use]
    pub const fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Whether the authority said before that the token holds, and not since that it does not. Nobody gets there by tokens
    /// that are made up: look-ups of these may go first.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.is_known
    }

    /// The body. It is a secret: it belongs in no log and in no error.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.body
    }
}

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Form")
    }
}

/// What the authority says of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is active and has the scope.
    Holds(Grant),
    /// It is nobody's.
    Refused,
}

/// Whose a token is, and until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    /// Sorted, each once, at least one.
    pub(crate) subjects: Box<[Subject]>,
    pub(crate) end: Option<SystemTime>,
}

impl Answer {
    /// Reads a reply to a [`Form`]. A token without `scope`, past its end or of no subject is refused.
    ///
    /// # Errors
    ///
    /// Where it is no answer to the question: then nobody knows whether the token holds [D-35].
    pub(crate) fn read(reply: &Reply, scope: &str, wall: SystemTime) -> Result<Self, NoReply> {
        match reply.status {
            200 => {}
            // The service's own id or secret; what a caller sent has no part in it.
            401 => {
                return Err(NoReply::new(
                    "it answered 401: it refuses the id or the secret of the service",
                ));
            }
            status => return Err(NoReply::new(&format!("it answered {status}"))),
        }
        let body: Body = serde_json::from_slice(&reply.body)
            .map_err(|_| NoReply::new("its answer is not one of token introspection"))?;
        if !body.active {
            return Ok(Self::Refused);
        }
        let end = match body.exp.map(Seconds::read) {
            None => None,
            Some(Some(end)) => Some(end),
            Some(None) => return Err(NoReply::new("its answer has an end that is no time")),
        };
        let is_bearer = body
            .token_type
            .as_deref()
            .is_none_or(|name| name.eq_ignore_ascii_case("bearer"));
        let has_scope = body
            .scope
            .as_deref()
            .is_some_and(|scopes| scopes.split(' ').any(|word| word == scope));
        let linked = body
            .identity_set
            .into_iter()
            .chain(body.identity_set_detail)
            .flatten();
        let owners = body.sub.into_iter().chain(linked.filter_map(Identity::id));
        let mut subjects: Vec<_> = owners.filter_map(|id| subject(&id)).collect();
        subjects.sort_unstable();
        subjects.dedup();
        if !is_bearer || !has_scope || subjects.is_empty() {
            return Ok(Self::Refused);
        }
        let answer = Self::Holds(Grant {
            subjects: subjects.into(),
            end,
        });
        Ok(if answer.is_over(wall) {
            Self::Refused
        } else {
            answer
        })
    }

    /// What it means for a caller that says to be this subject [AU-02].
    pub(crate) fn verdict(&self, subject: Subject, wall: SystemTime) -> Verdict {
        match self {
            Self::Holds(grant) if !self.is_over(wall) && grant.subjects.binary_search(&subject).is_ok() => {
                Verdict::Admitted
            }
            Self::Holds(_) | Self::Refused => Verdict::Refused,
        }
    }

    /// Whether the token has come to its end: it counts up to it, not at it.
    pub(crate) fn is_over(&self, wall: SystemTime) -> bool {
        match self {
            Self::Holds(grant) => grant.end.is_some_and(|end| end <= wall),
            Self::Refused => false,
        }
    }

    /// The places that it takes in memory.
    pub(crate) fn places(&self) -> usize {
        match self {
            Self::Holds(grant) => grant.subjects.len(),
            Self::Refused => 1,
        }
    }
}

/// The members that count; others are passed over.
#[derive(Deserialize)]
struct Body {
    active: bool,
    token_type: Option<String>,
    scope: Option<String>,
    exp: Option<Seconds>,
    sub: Option<String>,
    identity_set: Option<Vec<Identity>>,
    identity_set_detail: Option<Vec<Identity>>,
}

/// Seconds since 1970. Some authorities write the number as a string.
#[derive(Deserialize)]
#[serde(untagged)]
enum Seconds {
    Number(f64),
    Text(String),
}

impl Seconds {
    /// The time; `None` where there is none such.
    fn read(self) -> Option<SystemTime> {
        let seconds = match self {
            Self::Number(seconds) => seconds,
            Self::Text(text) => text.parse().ok()?,
        };
        let since = Duration::try_from_secs_f64(seconds.max(0.0)).ok()?;
        SystemTime::UNIX_EPOCH.checked_add(since)
    }
}

/// One of the identities of a token's owner: a UUID, or an object with it, as Globus Auth has it in its details.
#[derive(Deserialize)]
#[serde(untagged)]
enum Identity {
    Id(String),
    Detail { sub: String },
    Other(IgnoredAny),
}

impl Identity {
    fn id(self) -> Option<String> {
        match self {
            Self::Id(id) | Self::Detail { sub: id } => Some(id),
            Self::Other(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
