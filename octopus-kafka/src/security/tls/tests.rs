use rcgen::{CertificateParams, KeyPair};

use super::*;

fn pair() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    (certificate.pem(), key.serialize_pem())
}

fn of(trust: &str, identity: Option<(&str, &str)>) -> Result<Tls, BadTls> {
    let identity = identity.map(|(chain, key)| Identity {
        chain: chain.as_bytes(),
        key: key.as_bytes(),
    });
    Tls::new(Trust::Pem(trust.as_bytes()), identity)
}

#[test]
fn certificates_and_keys_are_read_from_pem() {
    let (certificate, key) = pair();
    of(&certificate, None).unwrap();
    of(&certificate, Some((&certificate, &key))).unwrap();
    let several = format!("# a comment\n{certificate}\n{}", pair().0);
    of(&several, Some((&certificate, &format!("{certificate}{key}")))).unwrap();
}

#[test]
fn what_can_not_be_read_is_refused_and_named() {
    let (certificate, key) = pair();
    let broken = certificate.replacen('M', "*", 1);
    let cut = &certificate[..certificate.len() / 2];
    let other_key = pair().1;
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let no_certificate = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    for pem in ["", "nothing", cut, &broken, &key, no_certificate] {
        assert!(matches!(of(pem, None), Err(BadTls::Trust(_))), "{pem}");
        let identity = of(&certificate, Some((pem, &key)));
        assert!(matches!(identity, Err(BadTls::Chain(_))), "{pem}");
    }
    for pem in [
        "",
        "nothing",
        encrypted,
        &certificate,
        &key[..key.len() / 2],
        &other_key,
    ] {
        let identity = of(&certificate, Some((&certificate, pem)));
        let Err(BadTls::Key(why)) = identity else {
            panic!("{pem}: {identity:?}")
        };
        let line = key.lines().nth(1).unwrap();
        assert!(
            !why.is_empty() && !why.contains('\n') && !why.contains(line),
            "{why}"
        );
    }
}

#[test]
fn nothing_of_a_key_is_shown() {
    let (certificate, key) = pair();
    let identity = Identity {
        chain: certificate.as_bytes(),
        key: key.as_bytes(),
    };
    let shown = format!(
        "{identity:?} {:?}",
        Tls::new(Trust::Pem(certificate.as_bytes()), Some(identity))
    );
    assert_eq!(shown, "Identity Ok(Tls)");
}
