//! What a test's client and server speak: the cases of most tests.

use std::{
    io,
    pin::Pin,
    sync::{Arc, LazyLock},
    task::{Context, Poll},
};

use octopus_kafka::security::Identity;
use octopus_server::tls::Tls;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, pem::PemObject as _},
    },
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// HTTP/1.1 in clear.
    Http1,
    /// HTTP/1.1 over TLS.
    Https1,
    /// HTTP/2 over TLS.
    Http2,
}

impl Over {
    pub(crate) const ALL: [Self; 3] = [Self::Http1, Self::Https1, Self::Http2];
    /// Where requests stand behind each other.
    pub(crate) const ONE_BY_ONE: [Self; 2] = [Self::Http1, Self::Https1];
}

struct Pair {
    certificate: String,
    key: String,
}

static PAIR: LazyLock<Pair> = LazyLock::new(|| {
    let key = rcgen::KeyPair::generate().unwrap();
    let names = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    Pair {
        certificate: names.self_signed(&key).unwrap().pem(),
        key: key.serialize_pem(),
    }
});

/// The server's side.
pub(crate) fn tls() -> Tls {
    Tls::new(Identity {
        chain: PAIR.certificate.as_bytes(),
        key: PAIR.key.as_bytes(),
    })
    .unwrap()
}

/// The client's side of a connection, whichever way.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    pub(crate) async fn of(socket: TcpStream, over: Over) -> Self {
        let protocol = match over {
            Over::Http1 => return Self::Plain(socket),
            Over::Https1 => "http/1.1",
            Over::Http2 => "h2",
        };
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(PAIR.certificate.as_bytes()).unwrap())
            .unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let name = "localhost".try_into().unwrap();
        let stream = TlsConnector::from(Arc::new(config))
            .connect(name, socket)
            .await
            .unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol.as_bytes()));
        Self::Tls(Box::new(stream))
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
