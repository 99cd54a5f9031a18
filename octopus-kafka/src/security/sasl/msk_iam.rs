//! AWS_MSK_IAM: a request that is signed (AWS Signature Version 4) and never sent, whose parts are the message.

use std::{
    fmt::{self, Write as _},
    time::SystemTime,
};

use jiff::Timestamp;
use ring::{digest, hmac};
use zeroize::Zeroizing;

use crate::security::{Issued, Issuing, Secret, Source};

const ACTION: &str = "kafka-cluster:Connect";
const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const SERVICE: &str = "kafka-cluster";
const USER_AGENT: &str = concat!("octopus/", env!("CARGO_PKG_VERSION"));
/// How long a signature holds, in seconds.
const EXPIRES: u32 = 900;

/// What signs for an AWS principal.
#[derive(Clone, PartialEq, Eq)]
pub struct AwsCredentials {
    /// The access key's id, which is no secret.
    pub access_key_id: String,
    /// The access key.
    pub secret_access_key: Secret,
    /// What comes with it where it ends.
    pub session_token: Option<Secret>,
}

impl AwsCredentials {
    pub(super) fn is_in(&self, text: &str) -> bool {
        let token = self.session_token.as_ref();
        self.secret_access_key.is_in(text) || token.is_some_and(|token| token.is_in(text))
    }
}

/// Credentials that are given once for all.
impl Source<Self> for AwsCredentials {
    fn issue(&self) -> Issuing<'_, Self> {
        let issued = Issued {
            credential: self.clone(),
            lifetime: None,
        };
        Box::pin(std::future::ready(Ok(issued)))
    }
}

impl fmt::Debug for AwsCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AwsCredentials")
            .field(&self.access_key_id)
            .finish()
    }
}

/// The region that a broker's name on AWS tells, as in `b-1.name.abc.c2.kafka.us-east-1.amazonaws.com`.
pub(super) fn region_of(host: &str) -> Option<&str> {
    let host = host.strip_suffix(".cn").unwrap_or(host);
    let (before, region) = host.strip_suffix(".amazonaws.com")?.rsplit_once('.')?;
    let service = before.rsplit('.').next()?;
    matches!(service, "kafka" | "kafka-serverless").then_some(region)
}

/// The only message, for the broker on this host, signed at this time.
pub(super) fn message(
    credentials: &AwsCredentials,
    region: &str,
    host: &str,
    now: SystemTime,
) -> Result<Zeroizing<Vec<u8>>, String> {
    let signed = Request {
        host,
        parameters: &[("Action", ACTION)],
        region,
        service: SERVICE,
        expires: EXPIRES,
    }
    .sign(credentials, now)?;
    let mut json = Zeroizing::new(String::with_capacity(1024));
    json.push_str(r#"{"version":"2020_10_22""#);
    let expires = EXPIRES.to_string();
    let token = credentials.session_token.as_ref().map(Secret::expose);
    for (name, value) in [
        ("host", Some(host)),
        ("user-agent", Some(USER_AGENT)),
        ("action", Some(ACTION)),
        ("x-amz-algorithm", Some(ALGORITHM)),
        ("x-amz-credential", Some(&signed.credential)),
        ("x-amz-date", Some(&signed.date)),
        ("x-amz-security-token", token),
        ("x-amz-signedheaders", Some("host")),
        ("x-amz-expires", Some(&expires)),
        ("x-amz-signature", Some(&signed.signature)),
    ] {
        if let Some(value) = value {
            let _ = write!(*json, r#","{name}":"#);
            quote(&mut json, value);
        }
    }
    json.push('}');
    Ok(Zeroizing::new(json.as_bytes().to_vec()))
}

/// `GET /` with these parameters, signed by its query.
struct Request<'a> {
    host: &'a str,
    parameters: &'a [(&'a str, &'a str)],
    region: &'a str,
    service: &'a str,
    expires: u32,
}

struct Signed {
    credential: String,
    date: String,
    signature: String,
}

impl Request<'_> {
    fn sign(&self, credentials: &AwsCredentials, now: SystemTime) -> Result<Signed, String> {
        let now = Timestamp::try_from(now).map_err(|_| "the clock is out of bounds".to_owned())?;
        let date = now.strftime("%Y%m%dT%H%M%SZ").to_string();
        let day = now.strftime("%Y%m%d").to_string();
        let scope = format!("{day}/{}/{}/aws4_request", self.region, self.service);
        let credential = format!("{}/{scope}", credentials.access_key_id);
        let expires = self.expires.to_string();

        let mut query = vec![
            ("X-Amz-Algorithm", ALGORITHM),
            ("X-Amz-Credential", &credential),
            ("X-Amz-Date", &date),
            ("X-Amz-Expires", &expires),
            ("X-Amz-SignedHeaders", "host"),
        ];
        if let Some(token) = &credentials.session_token {
            query.push(("X-Amz-Security-Token", token.expose()));
        }
        query.extend_from_slice(self.parameters);
        let mut query: Vec<_> = query
            .into_iter()
            .map(|(name, value)| Zeroizing::new(format!("{}={}", encoded(name), encoded(value))))
            .collect();
        query.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        let mut canonical = Zeroizing::new(String::from("GET\n/\n"));
        for (i, pair) in query.iter().enumerate() {
            canonical.push_str(if i == 0 { "" } else { "&" });
            canonical.push_str(pair);
        }
        // The only header that is signed, their list, and the hash of no body.
        let _ = write!(
            *canonical,
            "\nhost:{}\n\nhost\n{}",
            self.host,
            hex(sha256(b"").as_ref())
        );

        let to_sign = format!(
            "{ALGORITHM}\n{date}\n{scope}\n{}",
            hex(sha256(canonical.as_bytes()).as_ref())
        );
        let secret = Zeroizing::new(format!("AWS4{}", credentials.secret_access_key.expose()));
        let mut key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        for part in [&day, self.region, self.service, "aws4_request"] {
            key = hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, part.as_bytes()).as_ref());
        }
        Ok(Signed {
            signature: hex(hmac::sign(&key, to_sign.as_bytes()).as_ref()),
            credential,
            date,
        })
    }
}

fn sha256(bytes: &[u8]) -> digest::Digest {
    digest::digest(&digest::SHA256, bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Text as it stands in a query: all but unreserved characters by their bytes.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

/// A JSON string.
fn quote(json: &mut String, text: &str) {
    json.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if c < ' ' => _ = write!(json, "\\u{:04x}", u32::from(c)),
            c => json.push(c),
        }
    }
    json.push('"');
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn credentials(key: &str, secret: &str, token: Option<&str>) -> AwsCredentials {
        AwsCredentials {
            access_key_id: key.to_owned(),
            secret_access_key: secret.into(),
            session_token: token.map(Secret::from),
        }
    }

    fn at(text: &str) -> SystemTime {
        let second = text.parse::<Timestamp>().unwrap().as_second();
        SystemTime::UNIX_EPOCH + Duration::from_secs(second.try_into().unwrap())
    }

    /// AWS's published suite of test vectors for Signature Version 4, those of requests that are signed by their query.
    #[test]
    fn signatures_are_those_of_aws() {
        const UNRESERVED: &str = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let token = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";
        for (parameters, token, signature) in [
            // get-vanilla-query
            (
                &[][..],
                None,
                "e93c787ed7f371d5c6b165c1b38ede9550f4dce4144713e844b25b7192d3865d",
            ),
            // get-vanilla-empty-query-key
            (
                &[("Param1", "value1")],
                None,
                "49096700cbbaa5753443850f40df10f904fc2fdb544dc9512203cc77c471a9de",
            ),
            // get-vanilla-query-unreserved
            (
                &[(UNRESERVED, UNRESERVED)],
                None,
                "8e76a88a7433637b12778d5592799b29ad21ecd6cf6325051c21d86f0acda2bf",
            ),
            // get-vanilla-utf8-query
            (
                &[("ሴ", "bar")],
                None,
                "0bdd809b1519ac4f0c1dc3540e2cc46bd0c7f778eda408b2ebf3b913d21ff600",
            ),
            // get-vanilla-with-session-token
            (
                &[],
                Some(token),
                "7ff2b50b376cb4d151970630573d6291dc128cc5c2a12ffb237f73cc53f67b6c",
            ),
        ] {
            let request = Request {
                host: "example.amazonaws.com",
                parameters,
                region: "us-east-1",
                service: "service",
                expires: 3600,
            };
            let key = credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", token);
            let signed = request.sign(&key, at("2015-08-30T12:36:00Z")).unwrap();
            assert_eq!(signed.signature, signature, "{parameters:?}");
            assert_eq!(signed.date, "20150830T123600Z");
            assert_eq!(
                signed.credential,
                "AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
            );
        }
    }

    /// The same request, signed by AWS's SDK for Go in another client's test.
    #[test]
    fn a_kafka_request_is_signed_as_another_client_signs_it() {
        let request = Request {
            host: "localhost",
            parameters: &[("Action", ACTION)],
            region: "us-east-1",
            service: SERVICE,
            expires: 300,
        };
        let signed = request.sign(
            &credentials("ACCESS_KEY", "SECRET_KEY", None),
            at("2021-10-14T13:05:00Z"),
        );
        let signed = signed.unwrap();
        assert_eq!(
            signed.signature,
            "6b8d25f9b45b9c7db9da855a49112d80379224153a27fd279c305a5b7940d1a7"
        );
        assert_eq!(
            signed.credential,
            "ACCESS_KEY/20211014/us-east-1/kafka-cluster/aws4_request"
        );
    }

    #[test]
    fn the_message_has_the_parts_of_the_request_and_no_key() {
        let key = credentials("AKID", "the-secret-key", Some("a \"token\""));
        let now = at("2021-10-14T13:05:00Z");
        let host = "b-1.name.abc.c2.kafka.eu-central-1.amazonaws.com";
        let message = message(&key, "eu-central-1", host, now).unwrap();
        let signature = Request {
            host,
            parameters: &[("Action", ACTION)],
            region: "eu-central-1",
            service: SERVICE,
            expires: 900,
        }
        .sign(&key, now)
        .unwrap()
        .signature;
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            std::str::from_utf8(&message).unwrap(),
            format!(
                r#"{{"version":"2020_10_22","host":"{host}","user-agent":"octopus/{version}","action":"kafka-cluster:Connect","x-amz-algorithm":"AWS4-HMAC-SHA256","x-amz-credential":"AKID/20211014/eu-central-1/kafka-cluster/aws4_request","x-amz-date":"20211014T130500Z","x-amz-security-token":"a \"token\"","x-amz-signedheaders":"host","x-amz-expires":"900","x-amz-signature":"{signature}"}}"#
            )
        );
        assert_eq!(format!("{key:?}"), r#"AwsCredentials("AKID")"#);
        assert!(key.is_in("x the-secret-key") && key.is_in("a \"token\"") && !key.is_in("AKID"));
        let never = SystemTime::UNIX_EPOCH
            .checked_add(Duration::from_secs(1 << 50))
            .unwrap();
        assert!(super::message(&key, "r", "h", never).is_err());
    }

    #[test]
    fn a_brokers_name_tells_its_region() {
        for (host, region) in [
            ("b-1.name.abc.c2.kafka.us-east-1.amazonaws.com", Some("us-east-1")),
            (
                "boot-x.c1.kafka-serverless.eu-west-1.amazonaws.com",
                Some("eu-west-1"),
            ),
            (
                "b-1.name.abc.c2.kafka.cn-north-1.amazonaws.com.cn",
                Some("cn-north-1"),
            ),
            ("kafka.example.org", None),
            ("amazonaws.com", None),
            ("us-east-1.amazonaws.com", None),
            ("s3.us-east-1.amazonaws.com", None),
        ] {
            assert_eq!(region_of(host), region, "{host}");
        }
    }

    #[test]
    fn a_json_string_is_escaped() {
        let mut json = String::new();
        quote(&mut json, "a\"b\\c\nd\u{1}ä");
        assert_eq!(json, "\"a\\\"b\\\\c\\u000ad\\u0001ä\"");
    }
}
