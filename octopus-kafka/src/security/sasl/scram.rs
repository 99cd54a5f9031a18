//! SCRAM (RFC 5802, RFC 7677) without channel binding: the password is proved, not sent, and the broker proves that it
//! knows it too.
//!
//! As Kafka's own clients, this one takes name and password as they are, without SASLprep: Kafka stores them so.

use std::num::NonZeroU32;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::{digest, hmac, pbkdf2};
use zeroize::Zeroizing;

use super::{Login, Step};

/// The fewest iterations that a broker may ask for: with fewer the password could be guessed from what is sent.
const FEWEST: u32 = 4096;
/// The most: a second of work.
const MOST: u32 = 1_000_000;
/// The longest message of a broker, in bytes.
const LONGEST: usize = 4096;
/// "No channel binding" (`n,,`) as the last message repeats it.
const BINDING: &str = "c=biws";

/// What SCRAM is done with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hash {
    #[cfg(test)]
    Sha1,
    Sha256,
    Sha512,
}

/// One sign-in.
pub(crate) struct Scram {
    hash: Hash,
    login: Login,
    nonce: String,
    stage: Stage,
}

/// What the broker is to say next.
enum Stage {
    Salt,
    Proof(hmac::Key, String),
    Nothing,
}

impl Scram {
    /// `nonce`: printable ASCII without a comma, never used before.
    pub(super) const fn new(hash: Hash, login: Login, nonce: String) -> Self {
        Self {
            hash,
            login,
            nonce,
            stage: Stage::Salt,
        }
    }

    pub(super) fn first(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(format!("n,,{}", self.bare()).into_bytes())
    }

    pub(super) fn next(&mut self, answer: &[u8]) -> Result<Step, String> {
        // Whatever is wrong with the answer, there is no second one in its place.
        let stage = std::mem::replace(&mut self.stage, Stage::Nothing);
        if answer.len() > LONGEST {
            return Err("the broker's part of the sign-in is too long".to_owned());
        }
        let answer = std::str::from_utf8(answer)
            .map_err(|_| "the broker's part of the sign-in is no text".to_owned())?;
        match stage {
            Stage::Salt => self.prove(answer).map(Step::Send),
            Stage::Proof(key, signed) => believe(&key, &signed, answer).map(|()| Step::Done),
            Stage::Nothing => Err("the broker goes on after the end of the sign-in".to_owned()),
        }
    }

    /// The first message without its channel binding; signed by both sides.
    fn bare(&self) -> String {
        let username = self.login.username.replace('=', "=3D").replace(',', "=2C");
        format!("n={username},r={}", self.nonce)
    }

    fn prove(&mut self, answer: &str) -> Result<Zeroizing<Vec<u8>>, String> {
        let Challenge {
            nonce,
            salt,
            iterations,
        } = Challenge::read(answer, &self.nonce)?;
        let algorithm = self.hash.hmac();
        let size = algorithm.digest_algorithm().output_len();
        let mut salted = Zeroizing::new(vec![0; size]);
        let password = self.login.password.expose().as_bytes();
        pbkdf2::derive(self.hash.pbkdf2(), iterations, &salt, password, &mut salted);

        let salted = hmac::Key::new(algorithm, &salted);
        let client_key = hmac::sign(&salted, b"Client Key");
        let stored_key = digest::digest(algorithm.digest_algorithm(), client_key.as_ref());
        let unproved = format!("{BINDING},r={nonce}");
        let signed = format!("{},{answer},{unproved}", self.bare());
        let signature = hmac::sign(&hmac::Key::new(algorithm, stored_key.as_ref()), signed.as_bytes());
        let proof: Vec<u8> = client_key
            .as_ref()
            .iter()
            .zip(signature.as_ref())
            .map(|(key, signature)| key ^ signature)
            .collect();
        let server_key = hmac::sign(&salted, b"Server Key");
        self.stage = Stage::Proof(hmac::Key::new(algorithm, server_key.as_ref()), signed);
        Ok(Zeroizing::new(
            format!("{unproved},p={}", STANDARD.encode(proof)).into_bytes(),
        ))
    }
}

/// Whether the broker knows what it was told to know. The comparison takes the same time for every wrong signature.
fn believe(key: &hmac::Key, signed: &str, answer: &str) -> Result<(), String> {
    if answer.starts_with("e=") {
        return Err("the broker refused the proof of the password".to_owned());
    }
    let signature = answer
        .split(',')
        .next()
        .and_then(|first| STANDARD.decode(first.strip_prefix("v=")?).ok())
        .ok_or_else(|| "the broker's last part of the sign-in can't be read".to_owned())?;
    hmac::verify(key, signed.as_bytes(), &signature)
        .map_err(|_| "the broker does not know the password: it may be another that poses as it".to_owned())
}

/// The broker's first message.
struct Challenge<'a> {
    nonce: &'a str,
    salt: Vec<u8>,
    iterations: NonZeroU32,
}

impl<'a> Challenge<'a> {
    fn read(text: &'a str, ours: &str) -> Result<Self, String> {
        if text.starts_with("e=") {
            return Err("the broker refused the name".to_owned());
        }
        // What may follow the three is an extension that nobody has to know.
        let mut parts = text.split(',');
        let mut part = |name: &str| parts.next().and_then(|part| part.strip_prefix(name));
        let unread = || "the broker's first part of the sign-in can't be read".to_owned();
        let nonce = part("r=").ok_or_else(unread)?;
        let salt = part("s=").ok_or_else(unread)?;
        let iterations = part("i=").ok_or_else(unread)?;
        if !nonce.starts_with(ours) || nonce.len() == ours.len() {
            return Err("the broker's nonce does not go on from ours".to_owned());
        }
        let salt = STANDARD.decode(salt).map_err(|_| unread())?;
        let digits = iterations.bytes().all(|b| b.is_ascii_digit());
        let iterations = iterations
            .parse::<u32>()
            .ok()
            .filter(|count| digits && (FEWEST..=MOST).contains(count))
            .and_then(NonZeroU32::new)
            .ok_or_else(|| format!("the broker asks for other than {FEWEST} to {MOST} iterations"))?;
        if salt.is_empty() {
            return Err(unread());
        }
        Ok(Self {
            nonce,
            salt,
            iterations,
        })
    }
}

impl Hash {
    const fn hmac(self) -> hmac::Algorithm {
        match self {
            #[cfg(test)]
            Self::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        }
    }

    const fn pbkdf2(self) -> pbkdf2::Algorithm {
        match self {
            #[cfg(test)]
            Self::Sha1 => pbkdf2::PBKDF2_HMAC_SHA1,
            Self::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            Self::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
        }
    }
}

#[cfg(test)]
mod tests;
