//! Certificates that sign themselves, and the files that they are in.

use std::{fs, path::PathBuf};

use tempfile::TempDir;

use crate::support::server::Server;

/// A certificate for `localhost` and its key, in PEM.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Pair {
    pub(crate) fn new() -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()])
            .unwrap()
            .self_signed(&key)
            .unwrap();
        Self {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }
}

/// The files that the flags name.
pub(crate) struct Files {
    folder: TempDir,
}

impl Files {
    pub(crate) fn of(pair: &Pair) -> Self {
        let files = Self {
            folder: TempDir::new().unwrap(),
        };
        files.write(&pair.certificate, &pair.key);
        files
    }

    pub(crate) fn write(&self, certificate: &str, key: &str) {
        fs::write(self.certificate(), certificate).unwrap();
        fs::write(self.key(), key).unwrap();
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.folder.path().join("certificate.pem")
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.folder.path().join("key.pem")
    }

    /// A server without a Kafka that shows what they hold.
    pub(crate) async fn serve(&self, more: &[&str]) -> Server {
        self.serve_on("", more).await
    }

    /// A server on a Kafka that shows what they hold.
    pub(crate) async fn serve_on(&self, bootstrap: &str, more: &[&str]) -> Server {
        let (certificate, key) = (self.certificate(), self.key());
        let mut flags = vec![
            "--tls-cert",
            certificate.to_str().unwrap(),
            "--tls-key",
            key.to_str().unwrap(),
        ];
        flags.extend(more);
        Server::start(bootstrap, &flags).await
    }
}
