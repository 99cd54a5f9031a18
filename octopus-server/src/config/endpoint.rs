//! A URL that a secret may be sent to.

use std::fmt;

use http::Uri;

/// A URL of an endpoint, or an empty variable.
#[derive(Debug, Clone)]
pub(super) struct OptionalUri(pub(super) Option<Uri>);

impl fmt::Display for OptionalUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |uri| fmt::Display::fmt(uri, f))
    }
}

/// Reads one, as clap wants it: over TLS, or on this machine.
pub(super) fn endpoint(text: &str) -> Result<OptionalUri, &'static str> {
    const RULE: &str =
        "a URL with https, or with http on this machine, such as https://id.example.org/oauth2/token";
    if text.is_empty() {
        return Ok(OptionalUri(None));
    }
    let uri: Uri = text.parse().map_err(|_| RULE)?;
    let authority = uri.authority().ok_or(RULE)?;
    let is_plain = !authority.as_str().contains('@') && !authority.host().is_empty();
    let is_here = matches!(authority.host(), "localhost" | "127.0.0.1" | "[::1]");
    match uri.scheme_str() {
        Some("https") if is_plain => Ok(OptionalUri(Some(uri))),
        Some("http") if is_plain && is_here => Ok(OptionalUri(Some(uri))),
        _ => Err(RULE),
    }
}
