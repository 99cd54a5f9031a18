//! How brokers are known, and how they are told who we are.

mod renewed;
mod sasl;
mod secret;
mod tls;

use std::fmt;

pub use self::{
    renewed::{Issued, Issuing, NotIssued, Renewed, Source},
    sasl::{AwsCredentials, Login, Sasl, Token},
    secret::Secret,
    tls::{BadTls, Identity, Tls, Trust},
};
pub(crate) use self::{
    sasl::{Credential, Exchange, Step},
    tls::explain,
};

/// How every connection to a broker is secured. None of it is plain TCP.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Security {
    /// TLS, by which brokers are known.
    pub tls: Option<Tls>,
    /// The sign-in, by which brokers know us.
    pub sasl: Option<Sasl>,
}

impl Security {
    /// With TLS, with a sign-in, with both, or with none.
    #[must_use]
    pub const fn new(tls: Option<Tls>, sasl: Option<Sasl>) -> Self {
        Self { tls, sasl }
    }
}

/// Kafka's name for it, such as `SASL_SSL`.
impl fmt::Display for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (&self.sasl, &self.tls) {
            (None, None) => "PLAINTEXT",
            (None, Some(_)) => "SSL",
            (Some(_), None) => "SASL_PLAINTEXT",
            (Some(_), Some(_)) => "SASL_SSL",
        })
    }
}
