//! Is it UTF-8?

/// Whether these bytes are UTF-8, which keys and values of a json instance must be [FE-05].
#[must_use]
pub fn is_utf8(bytes: &[u8]) -> bool {
    bytes.len() < SHORT && is_ascii(bytes) || simdutf8::basic::from_utf8(bytes).is_ok()
}

/// The bytes up to which a look for anything but ASCII costs less than what it saves.
const SHORT: usize = 256;

/// Whether these bytes are ASCII, in few steps where they are few.
fn is_ascii(bytes: &[u8]) -> bool {
    const HIGH: u64 = u64::MAX / 255 * 0x80;
    let Some(last) = bytes.last_chunk() else {
        return bytes.is_ascii();
    };
    // The last word overlaps the one before it.
    let (words, _) = bytes.as_chunks();
    let all = words.iter().fold(*last, |all, word| {
        (u64::from_ne_bytes(all) | u64::from_ne_bytes(*word)).to_ne_bytes()
    });
    u64::from_ne_bytes(all) & HIGH == 0
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
        for length in 0..300 {
            let mut bytes = vec![b'a'; length];
            assert!(is_utf8(&bytes), "{length}");
            for at in 0..length {
                bytes[at] = 0x80;
                assert!(!is_utf8(&bytes), "{at} of {length}");
                bytes[at] = 0x7f;
            }
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
