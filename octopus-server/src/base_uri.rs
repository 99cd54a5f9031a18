//! Where the service is reached, as an instance's `base_uri` says it.

use std::net::{Ipv6Addr, SocketAddr};

use http::{HeaderMap, Uri, Version, header};
use octopus_core::Name;

/// The scheme and the host that a caller reached the service by [BU-01].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    scheme: &'static str,
    host: String,
}

/// An HTTP/1.1 request whose `Host` is missing, comes twice or is not plain: 400 [D-28].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostInvalid;

impl Origin {
    /// The origin that a request names: by `X-Forwarded-Proto` and `X-Forwarded-Host`, each where it holds one
    /// plain value, else by its own scheme and host [BU-01] [BU-02] [D-28].
    ///
    /// `scheme` is the connection's; `local` is its address here, for the requests that name no host: those of
    /// HTTP/1.0 may.
    ///
    /// # Errors
    ///
    /// [`HostInvalid`] on HTTP/1.1, also where a forwarded host would take its place.
    pub fn of(
        headers: &HeaderMap,
        uri: &Uri,
        version: Version,
        scheme: Scheme,
        local: SocketAddr,
    ) -> Result<Self, HostInvalid> {
        let own = single(headers, header::HOST.as_str()).filter(|host| is_plain_host(host));
        if version == Version::HTTP_11 && own.is_none() {
            return Err(HostInvalid);
        }
        // The authority of a target in absolute form, and that of HTTP/2, stand above `Host`.
        let target = uri.authority().map(|authority| authority.as_str());
        let forwarded = single(headers, "x-forwarded-host");
        let host = [forwarded, target, own]
            .into_iter()
            .flatten()
            .find(|host| is_plain_host(host));
        let scheme = single(headers, "x-forwarded-proto")
            .and_then(Scheme::parse)
            .unwrap_or(scheme);
        Ok(Self {
            scheme: scheme.as_str(),
            host: host.map_or_else(|| local.to_string(), str::to_owned),
        })
    }

    /// The absolute URL of an instance [BU-01].
    #[must_use]
    pub fn base_uri(&self, group: &Name, instance: &Name) -> String {
        let Self { scheme, host } = self;
        format!("{scheme}://{host}/api/v2/consumers/{group}/instances/{instance}")
    }
}

/// A URL's scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant is its word")]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    fn parse(text: &str) -> Option<Self> {
        [Self::Http, Self::Https]
            .into_iter()
            .find(|scheme| text.eq_ignore_ascii_case(scheme.as_str()))
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// The value of a header that has one line.
fn single<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Whether the text is one host, with or without a port, and nothing else [D-28].
fn is_plain_host(text: &str) -> bool {
    const LONGEST: usize = 255;
    if text.len() > LONGEST {
        return false;
    }
    let (host_is_plain, rest) = if let Some(inner) = text.strip_prefix('[') {
        let Some((address, rest)) = inner.split_once(']') else {
            return false;
        };
        (address.parse::<Ipv6Addr>().is_ok(), rest)
    } else {
        let (host, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
        (is_plain_name(host), rest)
    };
    host_is_plain && (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
}

/// Letters, digits, dashes and underscores between dots; one dot may follow. An IPv4 address is one too.
fn is_plain_name(text: &str) -> bool {
    let labels = text.strip_suffix('.').unwrap_or(text);
    labels.split('.').all(|label| {
        !label.is_empty()
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    })
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests;
