//! What a request's headers say: who calls, what the body is, and what a fetch may answer.

mod accept;
mod encoding;

pub use accept::{Accept, accept};
pub use encoding::{Encoding, encoding};

use http::{HeaderMap, header};
use octopus_auth::Credentials;
use octopus_core::Error;

/// The type of every reply but a fetch's [RT-05].
pub const V2: &str = "application/vnd.kafka.v2+json";
/// The type of a binary instance's records [AC-01].
pub const BINARY: &str = "application/vnd.kafka.binary.v2+json";
/// The type of a json instance's records [AC-02].
pub const JSON: &str = "application/vnd.kafka.json.v2+json";
/// The v2 types that no instance has a format for [CR-04].
pub const AVRO: &str = "application/vnd.kafka.avro.v2+json";
/// See [`AVRO`].
pub const JSON_SCHEMA: &str = "application/vnd.kafka.jsonschema.v2+json";
/// See [`AVRO`].
pub const PROTOBUF: &str = "application/vnd.kafka.protobuf.v2+json";

/// The type of the replies below `/api/v3`.
pub const PLAIN_JSON: &str = "application/json";

/// The types that a request's body may have [CT-01].
const BODY_TYPES: [&str; 7] = [V2, BINARY, JSON, AVRO, JSON_SCHEMA, PROTOBUF, PLAIN_JSON];

/// The two headers that every route needs [AU-01].
///
/// # Errors
///
/// [`Error::HeaderMissing`] for one that is missing [AU-01]; [`Error::TokenRefused`] for one that is empty [D-42],
/// comes twice or is not UTF-8.
pub fn credentials(headers: &HeaderMap) -> Result<Credentials, Error> {
    const NAMES: [&str; 2] = ["subject", "authorization"];
    if let Some(missing) = NAMES.into_iter().find(|name| !headers.contains_key(*name)) {
        return Err(Error::HeaderMissing(missing));
    }
    let [subject, authorization] = NAMES.map(|name| {
        let mut values = headers.get_all(name).iter();
        let value = values
            .next()
            .and_then(|value| str::from_utf8(value.as_bytes()).ok());
        value.filter(|value| !value.is_empty() && values.next().is_none())
    });
    match (subject, authorization) {
        (Some(subject), Some(authorization)) => Ok(Credentials::new(subject, authorization)),
        (None, _) | (_, None) => Err(Error::TokenRefused),
    }
}

/// Checks the type of a body, for the routes that take one: parameters and case are ignored, and an absent or
/// empty header is fine [CT-01] [D-02].
///
/// # Errors
///
/// [`Error::UnsupportedMediaType`] for any other type, and for two headers [CT-02].
pub fn content_type(headers: &HeaderMap) -> Result<(), Error> {
    let mut values = headers.get_all(header::CONTENT_TYPE).iter();
    let Some(value) = values.next() else {
        return Ok(());
    };
    let essence = value
        .as_bytes()
        .split(|&byte| byte == b';')
        .next()
        .unwrap_or_default();
    let essence = essence.trim_ascii();
    let known = value.as_bytes().trim_ascii().is_empty()
        || BODY_TYPES
            .iter()
            .any(|known| essence.eq_ignore_ascii_case(known.as_bytes()));
    if known && values.next().is_none() {
        Ok(())
    } else {
        Err(Error::UnsupportedMediaType)
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    /// [AU-01]
    #[test]
    fn a_missing_header_is_422_and_named() {
        for (pairs, missing) in [
            (&[][..], "subject"),
            (&[("authorization", &b"x"[..])], "subject"),
            (&[("subject", b"x")], "authorization"),
            (&[("subject", b"")], "authorization"),
            (&[("authorization", b"")], "subject"),
        ] {
            let error = credentials(&headers(pairs)).unwrap_err();
            assert_eq!(error, Error::HeaderMissing(missing));
            assert_eq!((error.code().status(), error.code().error_code()), (422, 422));
            assert_eq!(
                error.to_string(),
                format!("Header {missing} is missing; every request needs subject and authorization")
            );
        }
    }

    /// [AU-02] [D-42]
    #[test]
    fn a_header_that_is_empty_or_comes_twice_is_40101() {
        for pairs in [
            &[("subject", &b""[..]), ("authorization", b"x")][..],
            &[("subject", b"x"), ("authorization", b"")],
            &[("subject", b"x"), ("subject", b"x"), ("authorization", b"x")],
            &[
                ("subject", b"x"),
                ("authorization", b"x"),
                ("authorization", b"y"),
            ],
            &[("subject", b"\xff"), ("authorization", b"x")],
            &[("subject", b"x"), ("authorization", b"\xff")],
        ] {
            let error = credentials(&headers(pairs)).unwrap_err();
            assert_eq!(error, Error::TokenRefused, "{pairs:?}");
            assert_eq!(error.code().error_code(), 40101);
        }
        let pairs = [("subject", &b"x"[..]), ("authorization", b"Bearer y")];
        assert_eq!(
            credentials(&headers(&pairs)),
            Ok(Credentials::new("x", "Bearer y"))
        );
    }

    /// [CT-01] [D-02]
    #[test]
    fn the_v2_types_and_json_are_taken() {
        assert_eq!(content_type(&HeaderMap::new()), Ok(()));
        for value in [
            "application/vnd.kafka.v2+json",
            "application/vnd.kafka.binary.v2+json",
            "application/vnd.kafka.json.v2+json",
            "application/vnd.kafka.avro.v2+json",
            "application/vnd.kafka.jsonschema.v2+json",
            "application/vnd.kafka.protobuf.v2+json",
            "application/json",
            "application/json; charset=utf-8",
            "application/json ;charset=utf-8",
            "application/json;",
            "Application/JSON",
            "APPLICATION/VND.KAFKA.V2+JSON;charset=UTF-8",
            "application/vnd.kafka.v2+json; charset=latin1; x=\"y;z\"",
            "",
            "  ",
        ] {
            assert_eq!(
                content_type(&headers(&[("content-type", value.as_bytes())])),
                Ok(()),
                "{value}"
            );
        }
    }

    /// [CT-02]
    #[test]
    fn any_other_type_is_415() {
        for value in [
            "application/x-www-form-urlencoded",
            "text/plain",
            "text/json",
            "application/octet-stream",
            "application/vnd.kafka+json",
            "application/vnd.kafka.v1+json",
            "application/vnd.kafka.json.v1+json",
            "application/vnd.kafka.v3+json",
            "application/vnd.kafka.string.v2+json",
            "application/*",
            "*/*",
            "json",
            "application/json, application/json",
            "application / json",
            ";",
            "; charset=utf-8",
        ] {
            let error = content_type(&headers(&[("content-type", value.as_bytes())])).unwrap_err();
            assert_eq!(
                (error.code().status(), error.code().error_code()),
                (415, 415),
                "{value}"
            );
        }
        let twice = headers(&[
            ("content-type", b"application/json"),
            ("content-type", b"application/json"),
        ]);
        assert_eq!(content_type(&twice), Err(Error::UnsupportedMediaType));
        let strange = headers(&[("content-type", b"application/json\xff")]);
        assert_eq!(content_type(&strange), Err(Error::UnsupportedMediaType));
    }

    fn headers(pairs: &[(&str, &[u8])]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            (
                name.parse::<HeaderName>().unwrap(),
                HeaderValue::from_bytes(value).unwrap(),
            )
        });
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, value);
        }
        headers
    }
}
