//! The two headers that every request carries.

use std::{fmt, net::IpAddr};

use octopus_core::Subject;

use crate::{TokenFault, subject};

const SCHEME: &str = "Bearer ";
const TOKEN_LENGTHS: std::ops::RangeInclusive<usize> = 33..=254;

/// The longest token, in bytes [D-42].
pub(crate) const LONGEST_TOKEN: usize = *TOKEN_LENGTHS.end();

/// The values of a request's headers `subject` and `authorization`, as they came [AU-01].
///
/// `Debug` shows no token.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    subject: String,
    authorization: String,
    address: Option<IpAddr>,
}

impl Credentials {
    /// The credentials with these two values.
    #[must_use]
    pub fn new(subject: impl Into<String>, authorization: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            authorization: authorization.into(),
            address: None,
        }
    }

    /// The same, brought from this address: that of the client, or of the proxy before the service.
    #[must_use]
    pub fn from_address(self, address: IpAddr) -> Self {
        Self {
            address: Some(address),
            ..self
        }
    }

    /// The address that they came from, if it was told. It proves nothing: it is there so that one address does not take
    /// what is there for all.
    #[must_use]
    pub const fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// The subject that the caller says it is: 8-4-4-4-12 hex digits in any case [D-42].
    ///
    /// # Errors
    ///
    /// [`TokenFault::Refused`] where the header is no such UUID [AU-02].
    pub fn subject(&self) -> Result<Subject, TokenFault> {
        subject(&self.subject).ok_or(TokenFault::Refused)
    }

    /// The token of `Bearer TOKEN` [D-42]. It is a secret: it belongs in no log and in no error.
    ///
    /// # Errors
    ///
    /// [`TokenFault::Refused`] where the header has another form [AU-02].
    pub fn token(&self) -> Result<&str, TokenFault> {
        let token = self.authorization.strip_prefix(SCHEME);
        token.filter(|token| is_token(token)).ok_or(TokenFault::Refused)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("subject", &self.subject)
            .finish_non_exhaustive()
    }
}

/// Whether the text has the form of a token: 33 to 254 letters, digits or underscores of ASCII [D-42].
#[must_use]
pub fn is_token(text: &str) -> bool {
    TOKEN_LENGTHS.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBJECT: &str = "01234567-89ab-cdef-0011-223344556677";

    fn with(authorization: &str) -> Credentials {
        Credentials::new(SUBJECT, authorization)
    }

    /// [D-42] [AU-02]
    #[test]
    fn a_token_is_33_to_254_word_characters_behind_bearer() {
        for length in [33, 34, 253, 254] {
            let token = "a_9Z".repeat(64)[..length].to_owned();
            assert_eq!(with(&format!("Bearer {token}")).token(), Ok(&*token), "{length}");
        }
        let good = "x".repeat(33);
        for bad in [
            String::new(),
            "Bearer".to_owned(),
            "Bearer ".to_owned(),
            good.clone(),
            format!("Bearer  {good}"),
            format!("bearer {good}"),
            format!("Basic {good}"),
            format!(" Bearer {good}"),
            format!("Bearer {good} "),
            format!("Bearer {good}-"),
            format!("Bearer {}ä", "x".repeat(40)),
            format!("Bearer {}", "x".repeat(32)),
            format!("Bearer {}", "x".repeat(255)),
        ] {
            assert_eq!(with(&bad).token(), Err(TokenFault::Refused), "{bad:?}");
        }
    }

    /// [AU-02]
    #[test]
    fn a_subject_that_is_no_uuid_is_refused() {
        assert_eq!(with("").subject().map(|s| s.to_string()), Ok(SUBJECT.to_owned()));
        assert_eq!(Credentials::new("me", "").subject(), Err(TokenFault::Refused));
        assert_eq!(Credentials::new("", "").subject(), Err(TokenFault::Refused));
    }

    #[test]
    fn debug_output_shows_no_token() {
        let shown = format!("{:?}", with("Bearer secret_secret_secret_secret_secret"));
        assert!(shown.contains(SUBJECT) && !shown.contains("secret"), "{shown}");
    }
}
