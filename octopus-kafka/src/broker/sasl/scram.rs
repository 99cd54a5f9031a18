//! SCRAM as the server speaks it (RFC 5802, RFC 7677).

use std::num::NonZeroU32;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use ring::{digest, hmac, pbkdf2};

/// How often a password is hashed; Kafka's least number, and its default.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).expect("it is not zero");

/// The hash function of a mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hash {
    Sha256,
    Sha512,
}

/// What a server knows of a password.
#[derive(Clone)]
pub(super) struct Credential {
    hash: Hash,
    salt: Vec<u8>,
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
}

/// A client's first message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct First {
    pub(super) user: String,
    gs2: String,
    bare: String,
    nonce: String,
}

/// An exchange that waits for the client's last message.
#[derive(Clone)]
pub(super) struct Challenged {
    credential: Credential,
    gs2: String,
    nonce: String,
    /// The first message of each, with the comma behind.
    firsts: String,
}

impl Hash {
    fn hmac(self, key: &[u8], data: &[u8]) -> Vec<u8> {
        let algorithm = match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        };
        hmac::sign(&hmac::Key::new(algorithm, key), data)
            .as_ref()
            .to_vec()
    }

    fn digest(self, data: &[u8]) -> Vec<u8> {
        let algorithm = match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        };
        digest::digest(algorithm, data).as_ref().to_vec()
    }

    fn salted(self, password: &str, salt: &[u8]) -> Vec<u8> {
        let (algorithm, length) = match self {
            Self::Sha256 => (pbkdf2::PBKDF2_HMAC_SHA256, digest::SHA256_OUTPUT_LEN),
            Self::Sha512 => (pbkdf2::PBKDF2_HMAC_SHA512, digest::SHA512_OUTPUT_LEN),
        };
        let mut out = vec![0; length];
        pbkdf2::derive(algorithm, ITERATIONS, salt, password.as_bytes(), &mut out);
        out
    }
}

impl Credential {
    pub(super) fn new(hash: Hash, password: &str, salt: &[u8]) -> Self {
        let salted = hash.salted(password, salt);
        Self {
            hash,
            salt: salt.to_vec(),
            stored_key: hash.digest(&hash.hmac(&salted, b"Client Key")),
            server_key: hash.hmac(&salted, b"Server Key"),
        }
    }
}

impl First {
    /// Reads it; `None` where it is malformed, or asks for channel binding or another identity.
    pub(super) fn read(message: &[u8]) -> Option<Self> {
        let message = std::str::from_utf8(message).ok()?;
        let mut parts = message.splitn(3, ',');
        let (binding, identity, bare) = (parts.next()?, parts.next()?, parts.next()?);
        let mut fields = bare.split(',');
        let user = fields.next()?.strip_prefix("n=")?;
        let nonce = fields
            .next()?
            .strip_prefix("r=")
            .filter(|nonce| !nonce.is_empty())?;
        let is_allowed = matches!(binding, "n" | "y")
            && identity
                .strip_prefix("a=")
                .map_or(identity.is_empty(), |id| id.is_empty() || id == user);
        is_allowed.then_some(Self {
            user: name(user)?,
            gs2: format!("{binding},{identity},"),
            bare: bare.to_owned(),
            nonce: nonce.to_owned(),
        })
    }

    /// Answers it, with the server's part of the nonce.
    pub(super) fn challenge(self, credential: Credential, nonce: &str) -> (Bytes, Challenged) {
        let nonce = format!("{}{nonce}", self.nonce);
        let salt = STANDARD.encode(&credential.salt);
        let message = format!("r={nonce},s={salt},i={ITERATIONS}");
        let challenged = Challenged {
            credential,
            gs2: self.gs2,
            nonce,
            firsts: format!("{},{message},", self.bare),
        };
        (message.into(), challenged)
    }
}

impl Challenged {
    /// The answer to the client's last message, `None` where that proves nothing.
    pub(super) fn verify(&self, message: &[u8]) -> Option<Bytes> {
        let message = std::str::from_utf8(message).ok()?;
        let (without_proof, proof) = message.rsplit_once(",p=")?;
        let mut fields = without_proof.split(',');
        let binding = STANDARD.decode(fields.next()?.strip_prefix("c=")?).ok()?;
        let nonce = fields.next()?.strip_prefix("r=")?;
        let proof = STANDARD.decode(proof).ok()?;
        let Credential {
            hash,
            stored_key,
            server_key,
            ..
        } = &self.credential;
        let signed = format!("{}{without_proof}", self.firsts);
        let signature = hash.hmac(stored_key, signed.as_bytes());
        if binding != self.gs2.as_bytes() || nonce != self.nonce || proof.len() != signature.len() {
            return None;
        }
        let key: Vec<u8> = proof
            .iter()
            .zip(&signature)
            .map(|(one, other)| one ^ other)
            .collect();
        // Hashes are compared, so the time that it takes says nothing of the key.
        if hash.digest(&key) != *stored_key {
            return None;
        }
        let signature = hash.hmac(server_key, signed.as_bytes());
        Some(format!("v={}", STANDARD.encode(signature)).into())
    }
}

/// A user's name as it was before its commas and equals signs were written otherwise.
fn name(written: &str) -> Option<String> {
    let plain = written.replace("=2C", "").replace("=3D", "");
    let is_name = !written.is_empty() && !plain.contains('=');
    is_name.then(|| written.replace("=2C", ",").replace("=3D", "="))
}

/// Whether two passwords are the same. Their hashes are compared, so the time that it takes says nothing of them.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    Hash::Sha256.digest(one.as_bytes()) == Hash::Sha256.digest(other.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677.
    #[test]
    fn the_example_of_the_specification_comes_out() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let credential = Credential::new(Hash::Sha256, "pencil", &salt);
        let first = First::read(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").unwrap();
        assert_eq!(first.user, "user");
        let (answer, challenged) = first.challenge(credential, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0");
        assert_eq!(
            answer,
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                    p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(
            challenged.verify(last.as_bytes()).unwrap(),
            "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
        );
        for wrong in [
            last.replace("p=dH", "p=eH"),
            last.replace("c=biws", "c=eSws"),
            last.replace("r=rO", "r=rP"),
            last.replace("=biws", "=!"),
            last.replace("p=dHzb", "p="),
            String::new(),
            ",p=".to_owned(),
        ] {
            assert_eq!(challenged.verify(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn a_first_message_is_read_or_refused() {
        let user = |message: &str| First::read(message.as_bytes()).map(|first| first.user);
        assert_eq!(user("y,a=u,n=u,r=x,m=ext"), Some("u".to_owned()));
        assert_eq!(user("n,,n=a=2Cb=3Dc,r=x"), Some("a,b=c".to_owned()));
        for bad in [
            "",
            "n,,n=u",
            "n,,n=u,r=",
            "n,,n=,r=x",
            "n,,n=a=b,r=x",
            "p=tls-unique,,n=u,r=x",
            "n,a=other,n=u,r=x",
            "n,b=u,n=u,r=x",
        ] {
            assert_eq!(user(bad), None, "{bad}");
        }
        assert!(First::read(b"n,,n=\xff,r=x").is_none());
    }
}
