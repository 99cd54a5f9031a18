//! Certificates of the test's own.

use std::time::{Duration, SystemTime};

use octopus_kafka::security::{Identity, Tls, Trust};
use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

/// Who signs certificates.
pub(crate) struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
pub(crate) struct Signed {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("a certificate of a test");
        let mut params = CertificateParams::new(Vec::new()).expect("a certificate of a test");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate of a test");
        let issuer = Issuer::new(params, key);
        Self { certificate, issuer }
    }

    pub(crate) fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// A certificate for these names, good for an hour.
    pub(crate) fn sign(&self, names: &[&str]) -> Signed {
        let now = SystemTime::now();
        self.sign_with(names, |params| {
            params.not_before = (now - Duration::from_secs(3600)).into();
            params.not_after = (now + Duration::from_secs(3600)).into();
        })
    }

    /// One that was good until the end of 2020.
    pub(crate) fn sign_expired(&self, names: &[&str]) -> Signed {
        self.sign_with(names, |params| {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2020, 12, 31);
        })
    }

    fn sign_with(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Signed {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("a certificate of a test");
        change(&mut params);
        let key = KeyPair::generate().expect("a certificate of a test");
        let certificate = params
            .signed_by(&key, &self.issuer)
            .expect("a certificate of a test");
        Signed {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    /// A client that trusts whom this one signed, and shows a certificate if it has one.
    pub(crate) fn client(&self, identity: Option<&Signed>) -> Tls {
        let identity = identity.map(|signed| Identity {
            chain: signed.certificate.as_bytes(),
            key: signed.key.as_bytes(),
        });
        Tls::new(Trust::Pem(self.pem().as_bytes()), identity).expect("a certificate of a test")
    }
}
