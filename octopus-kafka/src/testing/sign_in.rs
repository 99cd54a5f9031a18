//! A sign-in whose broker is played.

use std::{sync::Arc, time::SystemTime};

use crate::security::{AwsCredentials, Credential, Exchange, Login, Renewed, Sasl, Step, Token};

/// One sign-in, without a connection.
#[doc(hidden)]
#[derive(Debug)]
pub struct SignIn(Exchange);

impl SignIn {
    /// Begins one by this mechanism. `nonce` is what SCRAM would take at random; a token or an access key is the
    /// password; the time is the first of 1970.
    ///
    /// # Errors
    ///
    /// Why there can be none.
    pub fn new(
        mechanism: &str,
        username: &str,
        password: &str,
        host: &str,
        nonce: &str,
    ) -> Result<Self, String> {
        let login = || Login {
            username: username.to_owned(),
            password: password.into(),
        };
        let (sasl, credential) = match mechanism {
            "PLAIN" => (Sasl::Plain(login()), Credential::Login(login())),
            "SCRAM-SHA-256" => (Sasl::ScramSha256(login()), Credential::Login(login())),
            "SCRAM-SHA-512" => (Sasl::ScramSha512(login()), Credential::Login(login())),
            "OAUTHBEARER" => {
                let token = Token::new(password.into());
                let tokens = Renewed::new(token.clone());
                (Sasl::OAuthBearer(tokens), Credential::Token(Arc::new(token)))
            }
            "AWS_MSK_IAM" => {
                let credentials = AwsCredentials {
                    access_key_id: username.to_owned(),
                    secret_access_key: password.into(),
                    session_token: None,
                };
                let sasl = Sasl::AwsMskIam {
                    region: "us-east-1".to_owned(),
                    credentials: Renewed::new(credentials.clone()),
                };
                (sasl, Credential::Aws(Arc::new(credentials)))
            }
            _ => return Err("there is no such mechanism".to_owned()),
        };
        let nonce = || Ok(nonce.to_owned());
        let exchange = sasl.begin_with(&credential, host, SystemTime::UNIX_EPOCH, nonce)?;
        Ok(Self(exchange))
    }

    /// What is said first.
    #[must_use]
    pub fn first(&self) -> Vec<u8> {
        self.0.first().to_vec()
    }

    /// What is said to this answer; `None` where the broker is believed, and nothing more is to be said.
    ///
    /// # Errors
    ///
    /// Why the broker is not believed, or does not believe us.
    pub fn next(&mut self, answer: &[u8]) -> Result<Option<Vec<u8>>, String> {
        Ok(match self.0.next(answer)? {
            Step::Send(bytes) => Some(bytes.to_vec()),
            Step::Done => None,
        })
    }
}
