#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod cache;
mod credentials;
pub mod introspection;
mod subject;
pub mod tokens;

use std::{fmt, pin::Pin};

pub use credentials::{Credentials, is_token};
pub use introspection::Introspection;
pub use subject::{Caller, subject};
pub use tokens::Tokens;

/// What a check of credentials comes to: a caller, or why there is none.
pub type Checked<'a> = Pin<Box<dyn Future<Output = Result<Caller, TokenFault>> + Send + 'a>>;

/// Decides whether a token is a caller's [AU-02].
///
/// Embedders implement it for a token authority of their own. A check that is dropped is given up.
pub trait TokenCheck: Send + Sync {
    /// The caller that these credentials prove.
    ///
    /// # Errors
    ///
    /// [`TokenFault::Refused`] where they do not hold, [`TokenFault::Unreachable`] where nobody could say.
    fn check<'a>(&'a self, credentials: &'a Credentials) -> Checked<'a>;
}

/// Why a check gave no caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenFault {
    /// The subject or the token does not hold [AU-02].
    Refused,
    /// The token authority does not answer; no one is let in [D-35].
    Unreachable,
}

impl From<TokenFault> for octopus_core::Error {
    fn from(fault: TokenFault) -> Self {
        match fault {
            TokenFault::Refused => Self::TokenRefused,
            TokenFault::Unreachable => Self::AuthorityUnreachable,
        }
    }
}

impl fmt::Display for TokenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "the subject or its token does not hold",
            Self::Unreachable => "the token authority does not answer",
        })
    }
}

impl std::error::Error for TokenFault {}

#[cfg(test)]
mod tests {
    use octopus_core::Error;

    use super::*;

    /// [AU-02] [D-35]
    #[test]
    fn a_fault_has_its_row_of_the_table() {
        for (fault, code, status) in [
            (TokenFault::Refused, 40101, 401),
            (TokenFault::Unreachable, 503, 503),
        ] {
            let row = Error::from(fault).code();
            assert_eq!((row.error_code(), row.status()), (code, status));
        }
    }
}
