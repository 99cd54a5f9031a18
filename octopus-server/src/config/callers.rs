//! Who may call: the command line's part about it, as clap reads it, and what its parts say together.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use http::Uri;

use super::{
    Password, Stop,
    endpoint::{OptionalUri, endpoint},
    security::Variables,
};

/// Globus Auth's endpoint for token introspection.
const GLOBUS: &str = "https://auth.globus.org/v2/oauth2/token/introspect";
/// The scope that the Python SDK asks Globus Auth for.
const ACTION_ALL: &str = "https://auth.globus.org/scopes/2b9d2f5c-fa32-45b5-875b-b24cd343b917/action_all";

/// Who may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// One ready subject with one ready token.
    Dev,
    /// Whoever a token authority says a token is of.
    Introspection(Introspection),
    /// The tokens of this file.
    Tokens(PathBuf),
}

/// A token authority, and what it knows the service by (OAuth 2.0 token introspection).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introspection {
    /// Its endpoint: `https`, or `http` on this machine.
    pub url: Uri,
    /// The service's id there.
    pub client_id: String,
    /// Its secret.
    pub client_secret: Password,
    /// The scope that a token must have.
    pub scope: String,
}

/// The flags of who may call.
#[derive(Debug, Args)]
#[command(next_help_heading = "Callers")]
pub(super) struct CallerFlags {
    /// How tokens are checked [default: introspection; with --dev: tokens]
    #[arg(long, env = "OCTOPUS_AUTH", value_name = "MODE")]
    auth: Option<AuthMode>,
    /// With --auth introspection: the authority's endpoint. It knows the service by SERVER_CLIENT_ID and SERVER_SECRET,
    /// or SERVER_SECRET_FILE with the secret in a file [default: Globus Auth's]
    #[arg(long, env = "OCTOPUS_INTROSPECTION_URL", value_name = "URL", value_parser = endpoint)]
    introspection_url: Option<OptionalUri>,
    /// With --auth introspection: the scope that a token must have [default: the Python SDK's, action_all]
    #[arg(long, env = "OCTOPUS_REQUIRED_SCOPE", value_name = "SCOPE", value_parser = scope)]
    required_scope: Option<String>,
    /// With --auth tokens: a file of lines TOKEN SUBJECT, and where it ends EXPIRY
    #[arg(long, env = "OCTOPUS_TOKENS_FILE", value_name = "FILE")]
    tokens_file: Option<PathBuf>,
}

/// How tokens are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AuthMode {
    /// An OAuth 2.0 authority is asked, RFC 7662
    Introspection,
    /// A static file
    Tokens,
}

impl CallerFlags {
    /// What they say together.
    pub(super) fn read(&self, is_dev: bool, variables: Variables<'_>) -> Result<Auth, Stop> {
        let default = if is_dev {
            AuthMode::Tokens
        } else {
            AuthMode::Introspection
        };
        match self.auth.unwrap_or(default) {
            AuthMode::Introspection => self.introspection(variables).map(Auth::Introspection),
            AuthMode::Tokens => self.tokens(is_dev),
        }
    }

    fn tokens(&self, is_dev: bool) -> Result<Auth, Stop> {
        let rule = "only together with --auth introspection";
        if let Some(url) = self.introspection_url.as_ref().and_then(|url| url.0.as_ref()) {
            return Err(Stop::refused("--introspection-url", &url.to_string(), rule));
        }
        if let Some(scope) = self.required_scope.as_ref().filter(|scope| !scope.is_empty()) {
            return Err(Stop::refused("--required-scope", scope, rule));
        }
        match &self.tokens_file {
            Some(file) => Ok(Auth::Tokens(file.clone())),
            None if is_dev => Ok(Auth::Dev),
            None => Err(Stop::refused(
                "--auth",
                "tokens",
                "only together with --tokens-file FILE",
            )),
        }
    }

    fn introspection(&self, variables: Variables<'_>) -> Result<Introspection, Stop> {
        if let Some(file) = &self.tokens_file {
            let file = file.to_string_lossy();
            return Err(Stop::refused(
                "--tokens-file",
                &file,
                "only together with --auth tokens",
            ));
        }
        let refused = |rule| Stop::refused("--auth", "introspection", rule);
        let client_id = variables("SERVER_CLIENT_ID").ok_or_else(|| {
            refused(
                "only together with the variables SERVER_CLIENT_ID and SERVER_SECRET; or use --auth tokens",
            )
        })?;
        let client_secret = match (variables("SERVER_SECRET"), variables("SERVER_SECRET_FILE")) {
            (Some(secret), None) => Password::Given(secret.into()),
            (None, Some(file)) => Password::File(file.into()),
            (Some(_), Some(file)) => {
                return Err(Stop::refused(
                    "SERVER_SECRET_FILE",
                    &file,
                    "not together with SERVER_SECRET",
                ));
            }
            (None, None) => {
                return Err(refused(
                    "only together with the variable SERVER_SECRET, or with SERVER_SECRET_FILE",
                ));
            }
        };
        let url = self.introspection_url.as_ref().and_then(|url| url.0.clone());
        let scope = self.required_scope.clone().filter(|scope| !scope.is_empty());
        Ok(Introspection {
            url: url.unwrap_or_else(|| Uri::from_static(GLOBUS)),
            client_id,
            client_secret,
            scope: scope.unwrap_or_else(|| ACTION_ALL.to_owned()),
        })
    }
}

/// One scope (RFC 6749, section 3.3), or an empty variable.
fn scope(text: &str) -> Result<String, &'static str> {
    if text
        .bytes()
        .all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b'\\'))
    {
        Ok(text.to_owned())
    } else {
        Err("one scope, without blanks, quotes and backslashes")
    }
}

#[cfg(test)]
mod tests;
