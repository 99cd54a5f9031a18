//! The authority over TLS, which the system's roots vouch for.

use std::{io::Write as _, sync::Arc};

use tempfile::NamedTempFile;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig, crypto,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    },
};

use crate::{
    ADMITTED, ANN, AWAY, CLIENT_ID, SCOPE, SECRET, active, asks, authority::Authority, caller,
    support::server::Server,
};

/// A certificate for `localhost` that signs itself, and its key, in PEM.
pub(crate) fn self_signed() -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    (certificate.pem(), key.serialize_pem())
}

fn acceptor(certificate: &str, key: &str) -> TlsAcceptor {
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// A server that asks this authority and whose system trusts this certificate.
async fn serve(authority: &Authority, root: &str) -> Server {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(root.as_bytes()).unwrap();
    let variables = [
        ("OCTOPUS_INTROSPECTION_URL", &*authority.url()),
        ("OCTOPUS_REQUIRED_SCOPE", SCOPE),
        ("SERVER_CLIENT_ID", CLIENT_ID),
        ("SERVER_SECRET", SECRET),
        ("SSL_CERT_FILE", file.path().to_str().unwrap()),
    ];
    Server::with("", &["--auth=introspection"], &variables).await
}

/// [AU-02] [D-35] an authority that the system's roots vouch for is asked; to another nothing is said.
#[tokio::test]
async fn an_authority_is_known_by_its_certificate() {
    let (certificate, key) = self_signed();
    let authority = Authority::over(Some(acceptor(&certificate, &key))).await;
    authority.knows("ann", active(ANN, ""));
    let deceived = serve(&authority, &self_signed().0).await;
    assert_eq!(asks(&caller(&deceived, ANN, "ann")).await, AWAY);
    assert_eq!(authority.asked(), 0);
    let log = deceived.log();
    assert!(
        log.contains("the certificate is refused: its issuer is not trusted"),
        "{log}"
    );

    let server = serve(&authority, &certificate).await;
    assert_eq!(asks(&caller(&server, ANN, "ann")).await, ADMITTED);
    assert_eq!(authority.asked(), 1);
}
