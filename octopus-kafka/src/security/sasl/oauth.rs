//! OAUTHBEARER (RFC 7628): a token that somebody else issued.

use std::fmt;

use zeroize::Zeroizing;

use super::Step;
use crate::security::{Issued, Issuing, Secret, Source};

/// A bearer token.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Secret);

impl Token {
    /// This text.
    #[must_use]
    pub const fn new(text: Secret) -> Self {
        Self(text)
    }

    pub(super) const fn secret(&self) -> &Secret {
        &self.0
    }
}

/// A token that is given once for all.
impl Source<Self> for Token {
    fn issue(&self) -> Issuing<'_, Self> {
        let issued = Issued {
            credential: self.clone(),
            lifetime: None,
        };
        Box::pin(std::future::ready(Ok(issued)))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// One sign-in.
pub(crate) struct OAuth {
    message: Zeroizing<Vec<u8>>,
    is_refused: bool,
}

impl OAuth {
    pub(super) fn new(token: &Token) -> Result<Self, String> {
        let text = token.0.expose();
        // What a bearer token is made of (RFC 6750, section 2.1).
        let is_plain =
            |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~' | b'+' | b'/' | b'=');
        if text.is_empty() || !text.bytes().all(is_plain) {
            return Err("the token is empty, or has characters that no bearer token can have".to_owned());
        }
        let mut message = Zeroizing::new(Vec::with_capacity(text.len() + 20));
        for part in ["n,,\x01auth=Bearer ", text, "\x01\x01"] {
            message.extend_from_slice(part.as_bytes());
        }
        Ok(Self {
            message,
            is_refused: false,
        })
    }

    pub(super) fn first(&self) -> Zeroizing<Vec<u8>> {
        self.message.clone()
    }

    /// A broker that is content has nothing to say. One that is not says why, and says no once that was acknowledged.
    pub(super) fn next(&mut self, answer: &[u8]) -> Result<Step, String> {
        if self.is_refused {
            Err("the token is refused".to_owned())
        } else if answer.is_empty() {
            Ok(Step::Done)
        } else {
            self.is_refused = true;
            Ok(Step::Send(Zeroizing::new(vec![1])))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oauth(token: &str) -> Result<OAuth, String> {
        OAuth::new(&Token::new(token.into()))
    }

    /// The example of RFC 7628, section 4.1, without a host and a port, which Kafka does not take.
    #[test]
    fn the_message_is_that_of_the_rfc() {
        let mut oauth = oauth("vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==").unwrap();
        assert_eq!(
            **oauth.first(),
            *b"n,,\x01auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01\x01"
        );
        assert_eq!(oauth.next(b""), Ok(Step::Done));
    }

    /// [ER-05] RFC 7628, section 4.3.
    #[test]
    fn a_refusal_is_acknowledged_and_is_one_whatever_follows() {
        let mut oauth = oauth("abc").unwrap();
        let acknowledged = oauth.next(br#"{"status":"invalid_token"}"#).unwrap();
        assert_eq!(acknowledged, Step::Send(Zeroizing::new(vec![1])));
        assert_eq!(oauth.next(b""), Err("the token is refused".to_owned()));
    }

    #[test]
    fn a_token_that_would_break_the_message_is_refused() {
        for token in ["", "a b", "a\x01b", "ä", "a\nb", "a,b"] {
            assert!(oauth(token).is_err(), "{token:?}");
        }
        assert_eq!(format!("{:?}", Token::new("abc".into())), "Token");
    }
}
