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
        let named = || {
            let ranges = ranges.iter().enumerate();
            ranges.filter(|(_, range)| range.names(media_type))
        };
        // Looked up once: a header may hold thousands of ranges.
        let excluding = named().filter(|(_, range)| range.q == 0);
        let strictest = excluding.map(|(_, range)| range.wildcards).min();
        for (place, range) in named() {
            let excluded = range.q == 0 || strictest.is_some_and(|wildcards| wildcards < range.wildcards);
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
pub(super) fn thousandths(text: &str) -> Option<u16> {
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
pub(super) fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
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
mod tests;
