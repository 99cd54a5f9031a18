//! Is it UTF-8?

/// Whether these bytes are UTF-8, which keys and values of a json instance must be [FE-05].
#[must_use]
pub fn is_utf8(bytes: &[u8]) -> bool {
    simdutf8::basic::from_utf8(bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_not_utf8_is_told_apart() {
        for good in [
            &b""[..],
            b"a",
            "ä€𝄞\u{10ffff}".as_bytes(),
            b"\0\x7f",
            b"\xef\xbb\xbf{}",
        ] {
            assert!(is_utf8(good), "{good:x?}");
        }
        for bad in [
            &b"\xc0\xaf"[..],
            b"\xe0\x80\xaf",
            b"\xed\xa0\x80",
            b"\xf4\x90\x80\x80",
            b"a\xc3",
            b"\x80",
            b"\xff\xfe{\0",
        ] {
            assert!(!is_utf8(bad), "{bad:x?}");
        }
    }

    proptest! {
        #[test]
        fn the_verdict_is_that_of_the_standard_library(
            start in ".{0,80}",
            noise in proptest::collection::vec(any::<u8>(), 0..4),
            end in ".{0,80}",
        ) {
            let bytes = [start.as_bytes(), &noise, end.as_bytes()].concat();
            prop_assert_eq!(is_utf8(&bytes), std::str::from_utf8(&bytes).is_ok());
        }
    }
}
