//! Which type a fetch's reply has [D-03].

use std::cmp::Reverse;

use http::{HeaderMap, header};
use octopus_core::{Error, Format};

use super::{AVRO, BINARY, JSON, JSON_SCHEMA, PROTOBUF, V2};

/// The type that a fetch's `Accept` chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accept {
    /// The type of the reply, also of an error's [D-04].
    pub media_type: &'static str,
    /// The format of the instances that it reads; `None` for a type of none [AC-03].
    pub format: Option<Format>,
}

/// Chooses the type of a fetch's reply: the best by the highest q, then by the weight of the type, then by the
/// fewest wildcards, then by the order given. Parameters and case are ignored, several header lines are one
/// list, and `q=0` excludes what it names, unless a range that is no less specific names it too. The instance
/// plays no part [D-03] [AC-01] [AC-02].
///
/// An element that can't be read is left out.
///
/// # Errors
///
/// [`Error::NotAcceptable`] where no v2 type is named [AC-04].
pub fn accept(headers: &HeaderMap) -> Result<Accept, Error> {
    let lines = headers.get_all(header::ACCEPT).iter();
    let lines = lines
        .map(|line| String::from_utf8_lossy(line.as_bytes()))
        .collect::<Vec<_>>();
    let mut elements = Vec::new();
    for line in &lines {
        elements.extend(
            split(line, ',')
                .map(str::trim)
                .filter(|element| !element.is_empty()),
        );
    }
    if elements.is_empty() {
        elements.push("*/*");
    }
    let ranges = elements.into_iter().filter_map(Range::parse).collect::<Vec<_>>();

    let mut best = None;
    for (offer, (media_type, format, weight)) in OFFERS.into_iter().enumerate() {
        for (place, range) in ranges
            .iter()
            .enumerate()
            .filter(|(_, range)| range.names(media_type))
        {
            let excluded = range.q == 0
                || ranges.iter().any(|other| {
                    other.q == 0 && other.wildcards < range.wildcards && other.names(media_type)
                });
            let rank = (
                range.q,
                weight,
                Reverse(range.wildcards),
                Reverse(place),
                Reverse(offer),
            );
            if !excluded && best.as_ref().is_none_or(|(highest, _)| rank > *highest) {
                best = Some((rank, Accept { media_type, format }));
            }
        }
    }
    best.map(|(_, accept)| accept).ok_or(Error::NotAcceptable)
}

/// The types there are, what they read, and their weights in tenths [D-03].
const OFFERS: [(&str, Option<Format>, u8); 6] = [
    (BINARY, Some(Format::Binary), 10),
    (V2, Some(Format::Binary), 9),
    (JSON, Some(Format::Json), 1),
    (AVRO, None, 1),
    (JSON_SCHEMA, None, 1),
    (PROTOBUF, None, 1),
];

/// A media range.
struct Range<'a> {
    kind: &'a str,
    subtype: &'a str,
    /// How many of the two are wildcards.
    wildcards: u8,
    /// In thousandths.
    q: u16,
}

impl<'a> Range<'a> {
    fn parse(element: &'a str) -> Option<Self> {
        let mut parts = split(element, ';').map(str::trim);
        let range = parts.next()?;
        let (kind, subtype) = range.split_once('/').unwrap_or((range, "*"));
        let wildcards = match (kind, subtype) {
            ("*", "*") => 2,
            ("*", _) => return None,
            (_, "*") => 1,
            _ => 0,
        };
        if !is_word(kind) || !is_word(subtype) {
            return None;
        }
        let mut q = 1000;
        for part in parts {
            if let Some((name, value)) = part.split_once('=')
                && name.trim().eq_ignore_ascii_case("q")
            {
                q = thousandths(value.trim())?;
            }
        }
        Some(Self {
            kind,
            subtype,
            wildcards,
            q,
        })
    }

    fn names(&self, media_type: &str) -> bool {
        let Some((kind, subtype)) = media_type.split_once('/') else {
            return false;
        };
        (self.kind == "*" || self.kind.eq_ignore_ascii_case(kind))
            && (self.subtype == "*" || self.subtype.eq_ignore_ascii_case(subtype))
    }
}

/// A weight of at most 1 with at most three decimals; the 0 before its point may be left out.
fn thousandths(text: &str) -> Option<u16> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = decimals.bytes().all(|b| b.is_ascii_digit());
    if !digits
        || decimals.len() > 3
        || !matches!(whole, "" | "0" | "1")
        || (whole.is_empty() && decimals.is_empty())
    {
        return None;
    }
    let whole = u16::from(whole == "1") * 1000;
    let q = whole + format!("{decimals:0<3}").parse::<u16>().ok()?;
    (q <= 1000).then_some(q)
}

fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?={}".contains(&b))
}

/// The parts between separators, of which those in quotes do not count.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |c| {
        if escaped {
            escaped = false;
        } else if quoted && c == '\\' {
            escaped = true;
        } else if c == '"' {
            quoted = !quoted;
        }
        c == separator && !quoted
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    /// [AC-01] [D-03]
    #[test]
    fn binary_is_what_no_preference_reads() {
        assert_eq!(chosen(&[]), Ok(BINARY));
        for value in [
            "",
            " ",
            ",",
            "*/*",
            "*",
            "application/*",
            "Application/*",
            "application",
            "application/vnd.kafka.binary.v2+json",
            "application/json, */*",
            "application/json, */*;q=0.5",
            "text/html, */*;q=0.8",
            "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2",
            "application/vnd.kafka.v2+json, application/vnd.kafka.binary.v2+json",
            "application/vnd.kafka.v2+json, */*",
        ] {
            assert_eq!(chosen(&[value]), Ok(BINARY), "{value}");
        }
        for value in [
            "application/vnd.kafka.v2+json",
            "application/vnd.kafka.v2+json, application/vnd.kafka+json, application/json",
            "application/vnd.kafka.v2+json, */*;q=0.5",
        ] {
            assert_eq!(chosen(&[value]), Ok(V2), "{value}");
        }
        assert_eq!(accept(&HeaderMap::new()).unwrap().format, Some(Format::Binary));
        assert_eq!(of(&[V2]).unwrap().format, Some(Format::Binary));
    }

    /// [AC-02] [D-03]
    #[test]
    fn json_is_read_where_it_is_named_best() {
        for value in [
            "application/vnd.kafka.json.v2+json",
            "application/vnd.kafka.json.v2+json; charset=utf-8",
            "application/vnd.kafka.json.v2+json;charset=\"utf-8\"",
            "application/vnd.kafka.json.v2+json;x=\"a,b;q=0\"",
            "APPLICATION/VND.KAFKA.JSON.V2+JSON",
            "application/vnd.kafka.json.v2+json, application/vnd.kafka.v2+json;q=0.9, application/json;q=0.5",
            "application/vnd.kafka.json.v2+json, */*;q=0.9",
            "application/vnd.kafka.json.v2+json;q=0.9, application/vnd.kafka.binary.v2+json;q=0.8",
            "application/vnd.kafka.binary.v2+json;q=0.5, application/vnd.kafka.json.v2+json;q=0.9",
            "text/html, application/vnd.kafka.json.v2+json;q=0.1",
            "application/vnd.kafka.json.v2+json;Q=0.001",
            "application/vnd.kafka.json.v2+json, application/vnd.kafka.avro.v2+json",
            "*/*;q=0, application/vnd.kafka.json.v2+json",
        ] {
            assert_eq!(chosen(&[value]), Ok(JSON), "{value}");
        }
        assert_eq!(of(&[JSON]).unwrap().format, Some(Format::Json));
    }

    /// [AC-03] [D-03]
    #[test]
    fn a_type_of_another_format_is_still_chosen() {
        for (value, media_type) in [
            (
                "application/vnd.kafka.json.v2+json, application/vnd.kafka.v2+json, application/json",
                V2,
            ),
            (
                "application/vnd.kafka.json.v2+json, application/vnd.kafka.v2+json, application/json, */*",
                BINARY,
            ),
            ("application/vnd.kafka.json.v2+json, */*", BINARY),
            ("application/vnd.kafka.json.v2+json;q=0.5, */*;q=0.5", BINARY),
        ] {
            assert_eq!(chosen(&[value]), Ok(media_type), "{value}");
        }
        for (value, media_type) in [
            ("application/vnd.kafka.avro.v2+json", AVRO),
            ("application/vnd.kafka.jsonschema.v2+json", JSON_SCHEMA),
            ("application/vnd.kafka.protobuf.v2+json", PROTOBUF),
            (
                "application/vnd.kafka.avro.v2+json, application/vnd.kafka.json.v2+json",
                AVRO,
            ),
        ] {
            let accept = of(&[value]).unwrap();
            assert_eq!((accept.media_type, accept.format), (media_type, None), "{value}");
        }
    }

    /// [AC-04]
    #[test]
    fn no_v2_type_is_406() {
        for value in [
            "application/json",
            "text/html",
            "text/*",
            "application/vnd.kafka.json.v1+json",
            "application/vnd.kafka+json",
            "application/*+json",
            "application/vnd.kafka.v2+json;q=0",
            "*/*;q=0",
            "*/*;q=0.0",
            "*/*, */*;q=0, application/*;q=0",
            "application/vnd.kafka.v2+json;q=1.1",
            "application/vnd.kafka.v2+json;q=0.1234",
            "application/vnd.kafka.v2+json;q=",
            "application/vnd.kafka.v2+json;q=-1",
            "application/vnd.kafka.v2+json;q=x",
            "*/json",
            "application/",
            "/",
            "application/vnd.kafka.v2+json application/json",
            "\"application/vnd.kafka.v2+json",
            "applicatiön/vnd.kafka.v2+json",
        ] {
            let error = of(&[value]).unwrap_err();
            assert_eq!(
                (error.code().status(), error.code().error_code()),
                (406, 406),
                "{value}"
            );
        }
    }

    /// [D-03]
    #[test]
    fn q_zero_excludes() {
        for (value, media_type) in [
            (
                "application/vnd.kafka.json.v2+json;q=0, application/vnd.kafka.v2+json",
                V2,
            ),
            ("application/vnd.kafka.binary.v2+json;q=0, */*", V2),
            (
                "*/*, application/vnd.kafka.binary.v2+json;q=0, application/vnd.kafka.v2+json;q=0.000",
                JSON,
            ),
            (
                "application/*;q=0, application/vnd.kafka.json.v2+json;q=0.2, */*",
                JSON,
            ),
        ] {
            assert_eq!(chosen(&[value]), Ok(media_type), "{value}");
        }
    }

    /// [D-03]
    #[test]
    fn several_header_lines_are_one_list() {
        assert_eq!(
            chosen(&["application/json", "application/vnd.kafka.json.v2+json"]),
            Ok(JSON)
        );
        assert_eq!(
            chosen(&["application/vnd.kafka.json.v2+json;q=0.5", "*/*;q=0.4"]),
            Ok(JSON)
        );
        assert_eq!(
            chosen(&["application/vnd.kafka.json.v2+json;q=0.5", "*/*"]),
            Ok(BINARY)
        );
        assert_eq!(
            chosen(&["application/json;x=\"", "application/vnd.kafka.json.v2+json"]),
            Ok(JSON)
        );
    }

    proptest! {
        #[test]
        fn no_header_is_too_strange(value in "[ -~]{0,60}") {
            let _ = of(&[&value]);
        }

        /// [D-03] With no q, the weights decide, whatever the order.
        #[test]
        fn the_order_decides_only_between_equal_weights(order in Just(vec![V2, JSON, BINARY, AVRO]).prop_shuffle()) {
            prop_assert_eq!(chosen(&[&order.join(", ")]), Ok(BINARY));
            let rest = order.iter().copied().filter(|t| *t != BINARY && *t != V2).collect::<Vec<_>>();
            prop_assert_eq!(chosen(&[&rest.join(",")]), Ok(rest[0]));
        }
    }

    fn chosen(lines: &[&str]) -> Result<&'static str, Error> {
        of(lines).map(|accept| accept.media_type)
    }

    fn of(lines: &[&str]) -> Result<Accept, Error> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::ACCEPT, HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        accept(&headers)
    }
}
