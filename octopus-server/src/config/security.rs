//! How Kafka is reached and signed in to, as the flags and variables say.

mod flags;

use std::path::PathBuf;

use http::Uri;
use octopus_kafka::security::{AwsCredentials, Secret};

pub(super) use self::flags::{SecurityFlags, Variables};

/// How every connection to Kafka is secured. Files are only named here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Security {
    /// TLS, by which brokers are known.
    pub tls: Option<Tls>,
    /// The sign-in, by which brokers know us.
    pub sasl: Option<Sasl>,
}

/// Whom to trust, and what to show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// A file of certificates to trust; the system's roots where there is none.
    pub ca_file: Option<PathBuf>,
    /// The files of our certificate and of its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// How to sign in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sasl {
    /// By a name and a password.
    Login(LoginMechanism, String, Password),
    /// By a token that is given once for all.
    Token(Secret),
    /// By tokens of an endpoint.
    Endpoint(TokenEndpoint),
    /// By AWS credentials.
    Aws {
        /// Where a broker's name does not tell it.
        region: String,
        /// What to sign with.
        credentials: AwsCredentials,
    },
}

/// How a password is proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginMechanism {
    /// PLAIN.
    Plain,
    /// SCRAM-SHA-256.
    ScramSha256,
    /// SCRAM-SHA-512.
    ScramSha512,
}

/// Where a password is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Password {
    /// Here.
    Given(Secret),
    /// In a file, whose last line end is none of it.
    File(PathBuf),
}

/// Where tokens are had for a client's id and secret (OAuth 2.0, client credentials).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenEndpoint {
    /// Its URL: `https`, or `http` on this machine.
    pub url: Uri,
    /// The client.
    pub client_id: String,
    /// Its secret.
    pub client_secret: Secret,
    /// What to ask for.
    pub scope: Option<String>,
}
