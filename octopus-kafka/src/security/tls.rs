//! TLS to brokers: whom to trust, and what to show.

use std::{fmt, io, sync::Arc, time::Duration};

use rustls::{
    AlertDescription, CertificateError, ClientConfig, InvalidMessage, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem, pem::PemObject as _},
    sign::{CertifiedKey, SingleCertAndKey},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// The longest that a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// TLS 1.2 and 1.3 as a client. A broker's certificate is checked against the host that it was dialed by, which is the
/// one that it advertises.
#[derive(Clone)]
pub struct Tls(Arc<ClientConfig>);

/// Whose certificates are believed.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Trust<'a> {
    /// The system's roots; `SSL_CERT_FILE` and `SSL_CERT_DIR` name others.
    System,
    /// Certificates in PEM, and nobody else.
    Pem(&'a [u8]),
}

/// Who we are: to brokers that want to see a certificate (mutual TLS), or to callers over HTTPS.
#[derive(Clone, Copy)]
pub struct Identity<'a> {
    /// The certificate in PEM, and those between it and the root.
    pub chain: &'a [u8],
    /// Its private key in PEM: PKCS #8, PKCS #1 or SEC 1, without a passphrase.
    pub key: &'a [u8],
}

/// What is wrong with certificates or a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadTls {
    /// With those to trust.
    Trust(String),
    /// With our certificate.
    Chain(String),
    /// With its key, or that it is no key of the certificate.
    Key(String),
}

impl Tls {
    /// Trusts these, and shows this.
    ///
    /// # Errors
    ///
    /// Where nobody is trusted, or a certificate or the key can't be read.
    pub fn new(trust: Trust<'_>, identity: Option<Identity<'_>>) -> Result<Self, BadTls> {
        let roots = roots(trust)?;
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| BadTls::Trust(error.to_string()))?
            .with_root_certificates(roots);
        let config = match identity {
            None => config.with_no_client_auth(),
            Some(identity) => {
                let certified = SingleCertAndKey::from(identity.certified()?);
                config.with_client_cert_resolver(Arc::new(certified))
            }
        };
        Ok(Self(Arc::new(config)))
    }

    /// Shakes hands over a stream with the host of this name or address.
    ///
    /// # Errors
    ///
    /// Where the other side breaks off, is not to be believed, or takes too long; in words for the log.
    pub async fn connect<S>(&self, host: &str, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "the host has no name that a certificate can have",
            )
        })?;
        let connector = TlsConnector::from(Arc::clone(&self.0));
        match timeout(HANDSHAKE, connector.connect(name, stream)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(io::Error::new(error.kind(), explain_handshake(&error))),
            Err(_) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "no TLS handshake in time: is it a plaintext port?",
            )),
        }
    }
}

impl Identity<'_> {
    /// The certificates and the key as TLS takes them, known to belong together.
    ///
    /// # Errors
    ///
    /// Where either can't be read, or the key is not the certificate's.
    pub fn certified(&self) -> Result<CertifiedKey, BadTls> {
        let chain = certificates(self.chain).map_err(BadTls::Chain)?;
        let key = private_key(self.key).map_err(BadTls::Key)?;
        CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| {
            let part = if matches!(error, rustls::Error::InvalidCertificate(_)) {
                BadTls::Chain
            } else {
                BadTls::Key
            };
            part(plain(&error))
        })
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl fmt::Debug for Identity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

impl fmt::Display for BadTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trust(why) | Self::Chain(why) | Self::Key(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for BadTls {}

/// What broke a stream, in words for who runs the service.
pub(crate) fn explain(error: &io::Error) -> String {
    match inner(error) {
        Some(error) => plain(error),
        // The TLS library has a page to say about an end without a farewell.
        None if error.kind() == io::ErrorKind::UnexpectedEof => error.kind().to_string(),
        None => error.to_string(),
    }
}

/// What broke a handshake.
fn explain_handshake(error: &io::Error) -> String {
    match inner(error) {
        Some(error) => plain(error),
        None => format!("{} in the TLS handshake: is it a plaintext port?", error.kind()),
    }
}

fn inner(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the errors are rustls's, and more come with each release"
)]
fn plain(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(why) => {
            let why = match why {
                // The second: somebody of the same name is trusted, with another key.
                CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                    "its issuer is not trusted".to_owned()
                }
                CertificateError::Expired => "it has expired".to_owned(),
                CertificateError::NotValidForName => "it is for another host".to_owned(),
                other => other.to_string(),
            };
            format!("the certificate is refused: {why}")
        }
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "it speaks no TLS: is it a plaintext port?".to_owned()
        }
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "it wants a client certificate".to_owned()
        }
        rustls::Error::AlertReceived(alert) => {
            format!("it refused the TLS handshake: {alert:?} (perhaps the client certificate, or its lack)")
        }
        rustls::Error::InconsistentKeys(_) => "it is not the key of the certificate".to_owned(),
        other => format!("TLS: {other}"),
    }
}

fn roots(trust: Trust<'_>) -> Result<RootCertStore, BadTls> {
    let mut roots = RootCertStore::empty();
    match trust {
        Trust::System => {
            let found = rustls_native_certs::load_native_certs();
            let (good, _) = roots.add_parsable_certificates(found.certs);
            if good == 0 {
                let why = found.errors.first().map(ToString::to_string);
                let why = why.unwrap_or_else(|| "there are none".to_owned());
                return Err(BadTls::Trust(format!(
                    "no root certificates of the system: {why}"
                )));
            }
        }
        Trust::Pem(pem) => {
            for certificate in certificates(pem).map_err(BadTls::Trust)? {
                roots
                    .add(certificate)
                    .map_err(|error| BadTls::Trust(plain(&error)))?;
            }
        }
    }
    Ok(roots)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if all.is_empty() => Err("there is no certificate in PEM in it".to_owned()),
        Ok(all) => Ok(all),
        Err(error) => Err(format!("it is not PEM: {error}")),
    }
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| {
        // The error says where the text breaks, and nothing of a key is wanted in a log.
        if matches!(error, pem::Error::NoItemsFound) {
            "there is no private key in PEM in it, or it is encrypted".to_owned()
        } else {
            "it is not a private key in PEM".to_owned()
        }
    })
}

#[cfg(test)]
mod tests;
