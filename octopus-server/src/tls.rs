//! HTTPS: the service's certificate, which may be changed while it serves, and the handshake.

use std::{
    fmt, io,
    sync::{Arc, PoisonError, RwLock},
};

use octopus_kafka::security::{BadTls, Identity};
use rustls::{
    InvalidMessage, ServerConfig,
    crypto::ring,
    sign::SingleCertAndKey,
    version::{TLS12, TLS13},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::{listener::Protocol, wire::Socket};

/// What is spoken over TLS, the best first, as ALPN names it.
const PROTOCOLS: [(&[u8], Protocol); 2] = [(b"h2", Protocol::Http2), (b"http/1.1", Protocol::Http1)];

/// TLS 1.2 and 1.3 as a server, with one certificate for whatever name it is called by.
///
/// Those who share it by cloning see it change together.
#[derive(Clone)]
pub struct Tls(Arc<RwLock<Arc<ServerConfig>>>);

impl Tls {
    /// Shows this certificate.
    ///
    /// # Errors
    ///
    /// Where the certificate or the key can't be read, or they do not belong together.
    pub fn new(identity: Identity<'_>) -> Result<Self, BadTls> {
        Ok(Self(Arc::new(RwLock::new(config(identity)?))))
    }

    /// Shows this certificate from here on. Connections that are open keep what they have.
    ///
    /// # Errors
    ///
    /// As of [`new`](Self::new); the old certificate is shown on.
    pub fn replace(&self, identity: Identity<'_>) -> Result<(), BadTls> {
        let new = config(identity)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// Shakes hands with a client, and gives what they agree to speak.
    ///
    /// # Errors
    ///
    /// Where the client breaks off or does not speak TLS, in words for the log.
    pub async fn accept(self, socket: Socket) -> io::Result<(TlsStream<Socket>, Protocol)> {
        let config = Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner));
        let stream = TlsAcceptor::from(config)
            .accept(socket)
            .await
            .map_err(|error| io::Error::new(error.kind(), explain(&error)))?;
        let agreed = stream.get_ref().1.alpn_protocol();
        let protocol = PROTOCOLS.iter().find(|(name, _)| agreed == Some(*name));
        // Who names no protocol has only one in mind.
        let protocol = protocol.map_or(Protocol::Http1, |(_, protocol)| *protocol);
        Ok((stream, protocol))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

fn config(identity: Identity<'_>) -> Result<Arc<ServerConfig>, BadTls> {
    let certified = SingleCertAndKey::from(identity.certified()?);
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(|error| BadTls::Key(error.to_string()))?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(certified));
    config.alpn_protocols = PROTOCOLS.iter().map(|(name, _)| name.to_vec()).collect();
    Ok(Arc::new(config))
}

/// What broke a handshake.
fn explain(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            "the client speaks no TLS: is it plain HTTP?".to_owned()
        }
        Some(error) => format!("TLS: {error}"),
        // The TLS library has a page to say about an end without a farewell.
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            "the client left in the TLS handshake".to_owned()
        }
        None => error.to_string(),
    }
}
