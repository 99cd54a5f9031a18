//! Signing in to a broker that says anything: it is believed only where it proves to know the password.

use std::num::NonZeroU32;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use octopus_kafka::testing::SignIn;
use ring::{digest, hmac, pbkdf2};

const MECHANISMS: [&str; 5] = [
    "SCRAM-SHA-256",
    "SCRAM-SHA-512",
    "OAUTHBEARER",
    "PLAIN",
    "AWS_MSK_IAM",
];
const NONCE: &str = "fyko+d2lbbFgONRv9qkxdawL";
/// The most work that an input may make; what a broker may ask for takes a second.
const MOST_WORK: u32 = 4_200;

/// The input is a mechanism, a name and a password, each behind its length, and what the broker says: each a way to make
/// it, and behind their length its bytes.
pub fn check(data: &[u8]) {
    let Some((mechanism, data)) = data.split_first() else {
        return;
    };
    let mechanism = MECHANISMS[usize::from(*mechanism) % MECHANISMS.len()];
    let (username, data) = part(data);
    let (password, data) = part(data);
    let (username, password) = (text(username), format!("ß{}", text(password)));
    // A token is of letters; the others take anything.
    let password = match mechanism {
        "OAUTHBEARER" => password.replace('ß', ""),
        _ => password,
    };
    let begun = SignIn::new(mechanism, &username, &password, &username, NONCE);
    match mechanism {
        "SCRAM-SHA-256" => scram(begun, &Hash::sha256(), &username, &password, data),
        "SCRAM-SHA-512" => scram(begun, &Hash::sha512(), &username, &password, data),
        "OAUTHBEARER" => oauth(begun, &password, data),
        "PLAIN" => plain(begun, &username, &password),
        _ => msk_iam(begun, &username, &password),
    }
}

fn scram(begun: Result<SignIn, String>, hash: &Hash, username: &str, password: &str, data: &[u8]) {
    let mut sign_in = begun.expect("any name and any password can be proved");
    let bare = format!("n={},r={NONCE}", username.replace('=', "=3D").replace(',', "=2C"));
    assert_eq!(sign_in.first(), format!("n,,{bare}").as_bytes());
    let honest = format!("r={NONCE}theirs,s=QSXCR+Q6sek8bf92,i=4096").into_bytes();
    let (challenge, data) = said(honest.clone(), data);
    let is_work = str::from_utf8(&challenge).is_ok_and(|text| {
        let counts = text.split("i=").skip(1);
        let counts = counts.filter_map(|rest| rest.split(',').next()?.parse().ok());
        counts
            .into_iter()
            .any(|count: u32| (MOST_WORK..=1_000_000).contains(&count))
    });
    if is_work {
        return;
    }
    let last = match sign_in.next(&challenge) {
        Ok(Some(last)) => last,
        Ok(None) => panic!("a broker is believed before it proved anything"),
        Err(why) => {
            is_plain(&why);
            return assert!(sign_in.next(&honest).is_err(), "it is over");
        }
    };
    let expected = Exchange::new(hash, password, &bare, &challenge);
    assert_eq!(last, expected.last.as_bytes());

    let proof = format!("v={}", BASE64_STANDARD.encode(expected.signature.as_ref()));
    let (answer, _) = said(proof.clone().into_bytes(), data);
    let signature = str::from_utf8(&answer)
        .ok()
        .and_then(|text| text.split(',').next()?.strip_prefix("v="))
        .and_then(|text| BASE64_STANDARD.decode(text).ok());
    let is_proved = answer.len() <= 4096 && signature.as_deref() == Some(expected.signature.as_ref());
    match sign_in.next(&answer) {
        Ok(None) => assert!(is_proved, "a broker is believed that does not know the password"),
        Ok(Some(_)) => panic!("there is nothing more to say"),
        Err(why) => {
            is_plain(&why);
            assert!(!is_proved, "a broker that knows the password is believed");
        }
    }
    assert!(sign_in.next(proof.as_bytes()).is_err(), "it is over");
}

/// Both sides' last messages, as RFC 5802 has them, made apart from the code that is looked at.
struct Exchange {
    last: String,
    signature: hmac::Tag,
}

impl Exchange {
    fn new(hash: &Hash, password: &str, bare: &str, challenge: &[u8]) -> Self {
        let challenge = str::from_utf8(challenge).expect("what is answered is text");
        let mut parts = challenge.split(',');
        let mut part = |name| parts.next().and_then(|part| part.strip_prefix(name));
        let nonce = part("r=").expect("a nonce");
        let salt = BASE64_STANDARD
            .decode(part("s=").expect("a salt"))
            .expect("base64");
        let iterations: u32 = part("i=").expect("iterations").parse().expect("a number");
        assert!(nonce.len() > NONCE.len() && nonce.starts_with(NONCE));
        assert!(!salt.is_empty() && (4096..=1_000_000).contains(&iterations));
        let iterations = NonZeroU32::new(iterations).expect("more than 4095");

        let sign = |key: &[u8], of: &[u8]| hmac::sign(&hmac::Key::new(hash.hmac, key), of);
        let mut salted = vec![0; hash.digest.output_len()];
        pbkdf2::derive(hash.pbkdf2, iterations, &salt, password.as_bytes(), &mut salted);
        let unproved = format!("c=biws,r={nonce}");
        let signed = format!("{bare},{challenge},{unproved}");
        let mut proof = sign(&salted, b"Client Key").as_ref().to_vec();
        let stored = digest::digest(hash.digest, &proof);
        let signature = sign(stored.as_ref(), signed.as_bytes());
        proof
            .iter_mut()
            .zip(signature.as_ref())
            .for_each(|(byte, other)| *byte ^= other);
        let server_key = sign(&salted, b"Server Key");
        Self {
            last: format!("{unproved},p={}", BASE64_STANDARD.encode(proof)),
            signature: sign(server_key.as_ref(), signed.as_bytes()),
        }
    }
}

struct Hash {
    digest: &'static digest::Algorithm,
    hmac: hmac::Algorithm,
    pbkdf2: pbkdf2::Algorithm,
}

impl Hash {
    fn sha256() -> Self {
        Self {
            digest: &digest::SHA256,
            hmac: hmac::HMAC_SHA256,
            pbkdf2: pbkdf2::PBKDF2_HMAC_SHA256,
        }
    }

    fn sha512() -> Self {
        Self {
            digest: &digest::SHA512,
            hmac: hmac::HMAC_SHA512,
            pbkdf2: pbkdf2::PBKDF2_HMAC_SHA512,
        }
    }
}

/// A broker that is content says nothing; any word of it is a refusal, and stays one [ER-05].
fn oauth(begun: Result<SignIn, String>, token: &str, mut data: &[u8]) {
    let is_plain_token =
        |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~' | b'+' | b'/' | b'=');
    let is_token = !token.is_empty() && token.bytes().all(is_plain_token);
    assert_eq!(begun.is_ok(), is_token);
    let Ok(mut sign_in) = begun else { return };
    assert_eq!(
        sign_in.first(),
        format!("n,,\u{1}auth=Bearer {token}\u{1}\u{1}").into_bytes()
    );
    let mut is_refused = false;
    while !data.is_empty() {
        let answer;
        (answer, data) = said(Vec::new(), data);
        match sign_in.next(&answer) {
            Ok(None) => return assert!(answer.is_empty() && !is_refused),
            Ok(Some(acknowledged)) => {
                assert!(acknowledged == [1] && !answer.is_empty() && !is_refused);
                is_refused = true;
            }
            Err(why) => {
                is_plain(&why);
                assert!(is_refused);
            }
        }
    }
}

fn plain(begun: Result<SignIn, String>, username: &str, password: &str) {
    let is_sendable = !username.contains('\0') && !password.contains('\0');
    match begun {
        Ok(sign_in) => {
            assert!(is_sendable);
            assert_eq!(sign_in.first(), format!("\0{username}\0{password}").into_bytes());
        }
        Err(why) => {
            is_plain(&why);
            assert!(!is_sendable);
        }
    }
}

/// The host, here the name, is what the cluster's metadata say. The key itself is never sent.
fn msk_iam(begun: Result<SignIn, String>, host: &str, key: &str) {
    if let Ok(sign_in) = begun {
        let first = sign_in.first();
        assert!(serde_json::from_slice::<serde_json::Value>(&first).is_ok_and(|message| message.is_object()));
        let is_in = first.windows(key.len()).any(|part| part == key.as_bytes());
        assert!(!is_in || host.contains('ß'), "the key is sent");
    }
}

/// What the broker says: `honest` as it is, changed in a byte or cut, or anything; and what follows it in the input.
fn said(mut honest: Vec<u8>, data: &[u8]) -> (Vec<u8>, &[u8]) {
    let Some((how, data)) = data.split_first() else {
        return (honest, data);
    };
    let (bytes, rest) = part(data);
    match (how % 4, bytes) {
        (0, _) => return (bytes.to_vec(), rest),
        (1, [at, change, ..]) if !honest.is_empty() => {
            let at = usize::from(*at) % honest.len();
            honest[at] ^= change;
        }
        (2, [at, ..]) => honest.truncate(usize::from(*at)),
        // What follows is an extension.
        (3, more) => honest.extend_from_slice(more),
        _ => {}
    }
    (honest, rest)
}

/// What the first byte says the length of.
fn part(data: &[u8]) -> (&[u8], &[u8]) {
    let Some((length, rest)) = data.split_first() else {
        return (data, data);
    };
    rest.split_at(usize::from(*length).min(rest.len()))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A refusal's words are our own: neither the password's, which has an ß, nor more than a line.
fn is_plain(why: &str) {
    assert!(
        !why.contains('ß') && !why.contains('\n') && why.len() < 200,
        "{why}"
    );
}
