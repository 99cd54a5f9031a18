//! The certificate of HTTPS, and its renewal.

use std::{fmt, fs, io, path::Path};

use octopus_kafka::security::{BadTls, Identity};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    config::{Https, Stop},
    tls::Tls,
};

/// HTTPS with the certificate and the key in these files.
pub(super) fn https(files: &Https) -> Result<Tls, Stop> {
    read(files, Tls::new)
}

/// Reads the files again at each SIGHUP from here on. What can't be used is a line in the log, and the old certificate is
/// shown on. Needs a tokio runtime.
///
/// # Errors
///
/// Where the system refuses the signal.
pub fn renew_at_hangup(files: Https, tls: Tls) -> io::Result<()> {
    let mut hangups = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            match read(&files, |identity| tls.replace(identity)) {
                Ok(()) => tracing::info!(file = %files.cert.display(), "the certificate was read again"),
                Err(why) => tracing::warn!(%why, "the certificate is not renewed, the old one is shown on"),
            }
        }
    });
    Ok(())
}

fn read<T>(files: &Https, take: impl FnOnce(Identity<'_>) -> Result<T, BadTls>) -> Result<T, Stop> {
    let Https { cert, key } = files;
    let refused = |flag: &str, file: &Path, why: &dyn fmt::Display| {
        Stop::Refused(format!("{flag}: {}: {why}", file.display()))
    };
    let of_cert = |why: &dyn fmt::Display| refused("--tls-cert", cert, why);
    let of_key = |why: &dyn fmt::Display| refused("--tls-key", key, why);
    let chain = fs::read(cert).map_err(|error| of_cert(&error))?;
    let private = fs::read(key).map_err(|error| of_key(&error))?;
    let identity = Identity {
        chain: &chain,
        key: &private,
    };
    take(identity).map_err(|bad| match bad {
        BadTls::Trust(_) | BadTls::Chain(_) => of_cert(&bad),
        BadTls::Key(_) => of_key(&bad),
    })
}
