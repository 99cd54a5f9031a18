//! A caller over TLS.

use std::{io, net::SocketAddr, sync::Arc};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore, SupportedProtocolVersion,
        crypto::ring,
        pki_types::{CertificateDer, pem::PemObject as _},
        version::{TLS12, TLS13},
    },
};

use crate::files::Pair;

/// What a caller trusts and speaks.
#[derive(Clone)]
pub(crate) struct Caller(ClientConfig);

impl Caller {
    /// Trusts one certificate and nothing else.
    pub(crate) fn trusting(pair: &Pair) -> Self {
        Self::with_versions(pair, &[&TLS13, &TLS12])
    }

    pub(crate) fn with_versions(pair: &Pair, versions: &[&'static SupportedProtocolVersion]) -> Self {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
        roots.add(certificate).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self(config)
    }

    /// Offers to speak these, the best first.
    pub(crate) fn speaking(mut self, protocols: &[&str]) -> Self {
        self.0.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        self
    }

    pub(crate) async fn connect(&self, address: SocketAddr) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(address).await?;
        let name = "localhost".try_into().unwrap();
        TlsConnector::from(Arc::new(self.0.clone()))
            .connect(name, stream)
            .await
    }
}

/// One request of HTTP/1.1 and all of its response, which ends with the head's `\r\n\r\n` and what its length says.
pub(crate) async fn ask(stream: &mut TlsStream<TcpStream>, request: &str) -> (String, String) {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut read = String::new();
    loop {
        let mut some = [0; 4096];
        let count = stream.read(&mut some).await.unwrap();
        assert_ne!(count, 0, "the end came first: {read}");
        read += std::str::from_utf8(&some[..count]).unwrap();
        if let Some((head, body)) = read.split_once("\r\n\r\n")
            && body.len() >= length(head)
        {
            return (head.to_owned(), body.to_owned());
        }
    }
}

fn length(head: &str) -> usize {
    let head = head.to_ascii_lowercase();
    let length = head.split_once("content-length: ");
    length.map_or(0, |(_, rest)| rest.lines().next().unwrap().parse().unwrap())
}
