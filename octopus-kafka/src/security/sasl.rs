//! Signing in: the mechanisms, and what each says to a broker. Bytes in, bytes out.

mod msk_iam;
mod oauth;
mod plain;
mod scram;

use std::{fmt, sync::Arc, time::SystemTime};

use ring::rand::{SecureRandom as _, SystemRandom};
use zeroize::Zeroizing;

pub use self::{msk_iam::AwsCredentials, oauth::Token};
use self::{oauth::OAuth, scram::Scram};
use super::{NotIssued, Renewed, Secret};

/// How the service signs in to brokers.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Sasl {
    /// A name and a password in plain text: over TLS only.
    Plain(Login),
    /// A name and a password that the broker never sees; it must prove to know it too (RFC 5802, RFC 7677).
    ScramSha256(Login),
    /// The same, with SHA-512.
    ScramSha512(Login),
    /// A token (RFC 7628).
    OAuthBearer(Renewed<Token>),
    /// A signature by AWS credentials.
    AwsMskIam {
        /// Where the cluster is, such as `us-east-1`.
        region: String,
        /// What to sign with.
        credentials: Renewed<AwsCredentials>,
    },
}

/// A name and its password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The name.
    pub username: String,
    /// The password.
    pub password: Secret,
}

/// What one sign-in is made with, at one time.
#[derive(Clone)]
pub(crate) enum Credential {
    Login(Login),
    Token(Arc<Token>),
    Aws(Arc<AwsCredentials>),
}

/// One sign-in: what is said first, and then to each answer.
pub(crate) enum Exchange {
    /// Says all that it has to at once.
    Once(Zeroizing<Vec<u8>>),
    OAuth(OAuth),
    Scram(Box<Scram>),
}

/// What follows an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Send(Zeroizing<Vec<u8>>),
    /// The broker is content, and so are we.
    Done,
}

impl Sasl {
    /// The mechanism's name on the wire.
    #[must_use]
    pub const fn mechanism(&self) -> &'static str {
        match self {
            Self::Plain(_) => "PLAIN",
            Self::ScramSha256(_) => "SCRAM-SHA-256",
            Self::ScramSha512(_) => "SCRAM-SHA-512",
            Self::OAuthBearer(_) => "OAUTHBEARER",
            Self::AwsMskIam { .. } => "AWS_MSK_IAM",
        }
    }

    /// What to sign in with from here on.
    pub(crate) async fn credential(&self) -> Result<Credential, NotIssued> {
        Ok(match self {
            Self::Plain(login) | Self::ScramSha256(login) | Self::ScramSha512(login) => {
                Credential::Login(login.clone())
            }
            Self::OAuthBearer(tokens) => Credential::Token(tokens.get().await?),
            Self::AwsMskIam { credentials, .. } => Credential::Aws(credentials.get().await?),
        })
    }

    /// A broker refused it.
    pub(crate) fn refuse(&self, credential: &Credential) {
        match (self, credential) {
            (Self::OAuthBearer(tokens), Credential::Token(token)) => tokens.refuse(token),
            (Self::AwsMskIam { credentials, .. }, Credential::Aws(refused)) => credentials.refuse(refused),
            (
                Self::Plain(_)
                | Self::ScramSha256(_)
                | Self::ScramSha512(_)
                | Self::OAuthBearer(_)
                | Self::AwsMskIam { .. },
                Credential::Login(_) | Credential::Token(_) | Credential::Aws(_),
            ) => {}
        }
    }

    /// Begins a sign-in to the broker on this host.
    ///
    /// # Errors
    ///
    /// Why there can be none: the credential is of another mechanism's, or can't be said by this one.
    pub(crate) fn begin(
        &self,
        credential: &Credential,
        host: &str,
        now: SystemTime,
    ) -> Result<Exchange, String> {
        self.begin_with(credential, host, now, nonce)
    }

    /// As [`begin`](Self::begin), with a nonce from here where the mechanism has one.
    pub(crate) fn begin_with(
        &self,
        credential: &Credential,
        host: &str,
        now: SystemTime,
        nonce: impl FnOnce() -> Result<String, String>,
    ) -> Result<Exchange, String> {
        match (self, credential) {
            (Self::Plain(_), Credential::Login(login)) => plain::message(login).map(Exchange::Once),
            (Self::ScramSha256(_), Credential::Login(login)) => Ok(Exchange::Scram(Box::new(Scram::new(
                scram::Hash::Sha256,
                login.clone(),
                nonce()?,
            )))),
            (Self::ScramSha512(_), Credential::Login(login)) => Ok(Exchange::Scram(Box::new(Scram::new(
                scram::Hash::Sha512,
                login.clone(),
                nonce()?,
            )))),
            (Self::OAuthBearer(_), Credential::Token(token)) => OAuth::new(token).map(Exchange::OAuth),
            (Self::AwsMskIam { region, .. }, Credential::Aws(credentials)) => {
                let region = msk_iam::region_of(host).unwrap_or(region);
                msk_iam::message(credentials, region, host, now).map(Exchange::Once)
            }
            (
                Self::Plain(_)
                | Self::ScramSha256(_)
                | Self::ScramSha512(_)
                | Self::OAuthBearer(_)
                | Self::AwsMskIam { .. },
                Credential::Login(_) | Credential::Token(_) | Credential::Aws(_),
            ) => Err("the credential is another mechanism's".to_owned()),
        }
    }
}

impl Credential {
    /// Whether somebody else's words give it away.
    pub(crate) fn is_in(&self, text: &str) -> bool {
        match self {
            Self::Login(login) => login.password.is_in(text),
            Self::Token(token) => token.secret().is_in(text),
            Self::Aws(credentials) => credentials.is_in(text),
        }
    }
}

impl Exchange {
    /// What is said first.
    pub(crate) fn first(&self) -> Zeroizing<Vec<u8>> {
        match self {
            Self::Once(message) => message.clone(),
            Self::OAuth(oauth) => oauth.first(),
            Self::Scram(scram) => scram.first(),
        }
    }

    /// What is said to this answer. May take a second of the processor.
    ///
    /// # Errors
    ///
    /// Why the broker is not to be believed, or does not believe us; none of its words are in it.
    pub(crate) fn next(&mut self, answer: &[u8]) -> Result<Step, String> {
        match self {
            Self::Once(_) => Ok(Step::Done),
            Self::OAuth(oauth) => oauth.next(answer),
            Self::Scram(scram) => scram.next(answer),
        }
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exchange")
    }
}

/// 24 random bytes as text.
fn nonce() -> Result<String, String> {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let mut bytes = [0; 24];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| "the machine has no randomness to give".to_owned())?;
    Ok(STANDARD.encode(bytes))
}
