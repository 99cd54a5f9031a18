//! How a fetch's reply may be compressed [D-36].

use http::{HeaderMap, header};

use super::accept::{split, thousandths};

/// A way to compress a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

impl Encoding {
    /// What `Content-Encoding` calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// Chooses how a reply is compressed: what `Accept-Encoding` names with the highest q, zstd before gzip; `None` where it
/// names neither, or likes a plain reply better. `*` stands for gzip, which whoever writes it can read. Case is ignored,
/// several header lines are one list, and an element that can't be read is left out [D-36].
#[must_use]
pub fn encoding(headers: &HeaderMap) -> Option<Encoding> {
    let [mut gzip, mut zstd, mut plain, mut any] = [None; 4];
    for line in headers.get_all(header::ACCEPT_ENCODING) {
        let line = String::from_utf8_lossy(line.as_bytes());
        for (name, q) in split(&line, ',').filter_map(element) {
            let of = match &*name {
                "gzip" | "x-gzip" => &mut gzip,
                "zstd" => &mut zstd,
                "identity" => &mut plain,
                "*" => &mut any,
                _ => continue,
            };
            *of = Some(of.map_or(q, |other: u16| other.max(q)));
        }
    }
    let (gzip, zstd, plain) = (gzip.or(any).unwrap_or(0), zstd.unwrap_or(0), plain.unwrap_or(0));
    if gzip.max(zstd) == 0 || plain > gzip.max(zstd) {
        None
    } else if zstd >= gzip {
        Some(Encoding::Zstd)
    } else {
        Some(Encoding::Gzip)
    }
}

/// An element's name in small letters, and its weight in thousandths.
fn element(element: &str) -> Option<(String, u16)> {
    let mut parts = split(element, ';').map(str::trim);
    let name = parts.next()?.to_ascii_lowercase();
    let mut q = 1000;
    for part in parts {
        let (field, value) = part.split_once('=')?;
        if field.trim().eq_ignore_ascii_case("q") {
            q = thousandths(value.trim())?;
        }
    }
    Some((name, q))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn chosen(lines: &[&str]) -> Option<&'static str> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::ACCEPT_ENCODING, HeaderValue::from_str(line).unwrap());
        }
        encoding(&headers).map(Encoding::name)
    }

    /// [D-36]
    #[test]
    fn what_is_liked_best_is_chosen() {
        for (lines, expected) in [
            (&[][..], None),
            (&[""], None),
            (&["deflate, br"], None),
            (&["gzip, deflate"], Some("gzip")),
            (&["gzip, deflate, br, zstd"], Some("zstd")),
            (&["zstd;q=0.5, gzip"], Some("gzip")),
            (&["gzip;q=0.5, zstd;q=0.5"], Some("zstd")),
            (&["GZIP ; Q=0.001"], Some("gzip")),
            (&["x-gzip"], Some("gzip")),
            (&["*"], Some("gzip")),
            (&["*;q=0, zstd"], Some("zstd")),
            (&["gzip;q=0, *"], None),
            (&["gzip;q=0"], None),
            (&["identity, gzip;q=0.9"], None),
            (&["identity;q=0.5, gzip;q=0.9"], Some("gzip")),
            (&["identity, gzip"], Some("gzip")),
            (&["identity;q=0"], None),
            (&["gzip;q=2, zstd;q=x"], None),
            (&["gzip;q"], None),
            (&["deflate", "zstd"], Some("zstd")),
        ] {
            assert_eq!(chosen(lines), expected, "{lines:?}");
        }
    }
}
