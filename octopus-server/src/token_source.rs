//! Tokens for Kafka, from an OAuth 2.0 token endpoint (client credentials, RFC 6749 section 4.4).

use std::{fmt, time::Duration};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use octopus_kafka::security::{Issued, Issuing, NotIssued, Secret, Source, Tls, Token};
use serde::Deserialize;

use crate::{config::TokenEndpoint, outgoing};

/// How long a token is taken to hold whose issuer does not say.
const UNSAID: Duration = Duration::from_secs(300);

/// Asks a token endpoint each time.
pub struct TokenSource {
    endpoint: TokenEndpoint,
    tls: Tls,
}

impl TokenSource {
    /// Asks this one; `tls` says whether its certificate is to be believed.
    #[must_use]
    pub const fn new(endpoint: TokenEndpoint, tls: Tls) -> Self {
        Self { endpoint, tls }
    }

    async fn ask(&self) -> Result<Issued<Token>, NotIssued> {
        let request = self
            .request()
            .ok_or_else(|| NotIssued::new("the request can't be made"))?;
        let (status, body) = outgoing::send(request, &self.tls)
            .await
            .map_err(|why| NotIssued::new(&format!("the token endpoint: {why}")))?;
        if !status.is_success() {
            return Err(NotIssued::new(&format!(
                "the token endpoint answered {}",
                status.as_u16()
            )));
        }
        read(&body).ok_or_else(|| NotIssued::new("the token endpoint's answer has no bearer token in it"))
    }

    fn request(&self) -> Option<Request<Full<Bytes>>> {
        let TokenEndpoint {
            url,
            client_id,
            client_secret,
            scope,
        } = &self.endpoint;
        let pair = outgoing::encoded_pair(client_id, client_secret.expose());
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "client_credentials");
        if let Some(scope) = scope {
            form.append_pair("scope", scope);
        }
        outgoing::form(url, &pair, form.finish())
    }
}

impl Source<Token> for TokenSource {
    fn issue(&self) -> Issuing<'_, Token> {
        Box::pin(self.ask())
    }
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TokenSource").field(&self.endpoint.url).finish()
    }
}

/// The token of an answer (RFC 6749, section 5.1).
fn read(body: &[u8]) -> Option<Issued<Token>> {
    #[derive(Deserialize)]
    struct Answer {
        access_token: String,
        token_type: Option<String>,
        expires_in: Option<Seconds>,
    }
    // Some issuers write the number as a string.
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Seconds {
        Number(f64),
        Text(String),
    }
    let answer: Answer = serde_json::from_slice(body).ok()?;
    let secret = Secret::from(answer.access_token);
    let is_bearer = answer
        .token_type
        .is_none_or(|name| name.eq_ignore_ascii_case("bearer"));
    let seconds = match answer.expires_in {
        None => Some(UNSAID.as_secs_f64()),
        Some(Seconds::Number(seconds)) => Some(seconds),
        Some(Seconds::Text(text)) => text.parse().ok(),
    };
    let lifetime = Duration::try_from_secs_f64(seconds?).ok()?;
    (is_bearer && !secret.expose().is_empty()).then(|| Issued {
        credential: Token::new(secret),
        lifetime: Some(lifetime),
    })
}

#[cfg(test)]
mod tests;
