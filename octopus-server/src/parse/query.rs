//! A fetch's query [D-11].

use std::{num::NonZeroU64, time::Duration};

use octopus_core::{Error, Fetch, Format, limits::MAX_WAIT};

use super::number::decimal;

/// Reads `timeout` and `max_bytes`; what is 0 or less counts as not given [FE-08] [FE-10]. Other parameters
/// are ignored.
pub(super) fn fetch(query: &str, format: Option<Format>) -> Result<Fetch, Error> {
    let timeout = positive(query, "timeout")?;
    let max_bytes = positive(query, "max_bytes")?;
    Ok(Fetch {
        format,
        timeout: timeout.map(|ms| Duration::from_millis(ms.get()).min(MAX_WAIT)),
        max_bytes,
    })
}

fn positive(query: &str, name: &'static str) -> Result<Option<NonZeroU64>, Error> {
    let given = form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == name);
    let Some((_, value)) = given.filter(|(_, value)| !value.is_empty()) else {
        return Ok(None);
    };
    let value = decimal(&value).ok_or(Error::FieldInvalid(name))?.max(0);
    Ok(NonZeroU64::new(u64::try_from(value).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [D-11] [FE-08]
    #[test]
    fn a_timeout_is_capped_and_zero_or_less_is_none() {
        for (query, timeout) in [
            ("", None),
            ("timeout=", None),
            ("timeout", None),
            ("timeout=0", None),
            ("timeout=-0", None),
            ("timeout=-1", None),
            ("timeout=-99999999999999999999999999999999999999999", None),
            ("timeout=1", Some(1)),
            ("timeout=0005", Some(5)),
            ("timeout=%35", Some(5)),
            ("timeout=30000", Some(30_000)),
            ("timeout=30001", Some(30_000)),
            ("timeout=99999999999999999999", Some(30_000)),
            (
                "timeout=999999999999999999999999999999999999999999999",
                Some(30_000),
            ),
            ("timeout=5&timeout=x", Some(5)),
            ("timeout=&timeout=5", None),
            ("a=b&timeout=5&Timeout=x&&=", Some(5)),
        ] {
            let fetch = fetch(query, None).unwrap();
            assert_eq!(fetch.timeout, timeout.map(Duration::from_millis), "{query}");
            assert_eq!(fetch.max_bytes, None, "{query}");
        }
    }

    /// [D-11] [FE-10]
    #[test]
    fn max_bytes_of_zero_or_less_is_no_limit() {
        for (query, max_bytes) in [
            ("max_bytes=", None),
            ("max_bytes=0", None),
            ("max_bytes=-5", None),
            ("max_bytes=1", Some(1)),
            ("timeout=7&max_bytes=300", Some(300)),
            ("max_bytes=18446744073709551616", Some(u64::MAX)),
        ] {
            assert_eq!(
                fetch(query, None).unwrap().max_bytes.map(NonZeroU64::get),
                max_bytes,
                "{query}"
            );
        }
    }

    /// [D-11] [CT-04]
    #[test]
    fn any_other_value_is_422_and_named() {
        for name in ["timeout", "max_bytes"] {
            for value in [
                "x", "1.5", "5.0", "+5", "%2B5", "5%20", "1e3", "0x5", "true", "--1", "-", "%ff",
            ] {
                let error = fetch(&format!("a=1&{name}={value}"), None).unwrap_err();
                assert_eq!(error, Error::FieldInvalid(name), "{name}={value}");
                assert_eq!((error.code().status(), error.code().error_code()), (422, 422));
            }
        }
    }
}
