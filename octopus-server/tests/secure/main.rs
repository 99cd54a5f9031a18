//! The binary on a Kafka that wants TLS or a sign-in: what callers and the log are told when that fails, and that nothing
//! secret is among it. With a real Kafka (where `OCTOPUS_TEST_KAFKA` is set) also that it works.
#![allow(clippy::unwrap_used, reason = "tests")]

mod kafka;
mod refused;
mod scripted;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../support/mod.rs"]
mod support;

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

/// A file of the test's own. It is removed with this.
pub(crate) struct OwnFile(PathBuf);

impl OwnFile {
    pub(crate) fn new(text: &str) -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let name = format!("secure-{}-{number}", std::process::id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::write(&path, text).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A certificate for `localhost` that signs itself, and its key, in PEM.
pub(crate) fn self_signed() -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    (certificate.pem(), key.serialize_pem())
}
