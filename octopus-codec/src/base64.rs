//! Keys and values of a binary instance and the values of headers, as standard base64 with padding
//! [FE-01] [FE-02].

use base64::Engine as _;

#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon")))]
static ENGINE: std::sync::LazyLock<base64::engine::Simd> =
    std::sync::LazyLock::new(|| base64::engine::Simd::standard(base64::engine::general_purpose::PAD));

#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon"))))]
static ENGINE: base64::engine::GeneralPurpose = base64::engine::general_purpose::STANDARD;

/// How many characters `bytes` bytes take, without quotes.
pub(crate) const fn len(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// Appends all of `bytes`.
pub(crate) fn write(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + len(bytes.len()), 0);
    ENGINE
        .encode_slice(bytes, &mut out[start..])
        .expect("the slice is as long as the text");
}

/// Appends what fits `room` characters and says how many bytes that was: all, or a multiple of three, so that
/// what follows goes on in the same text.
pub(crate) fn write_some(bytes: &[u8], room: usize, out: &mut Vec<u8>) -> usize {
    let fit = bytes.len().min(room / 4 * 3);
    write(&bytes[..fit], out);
    fit
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// [FE-02]
    #[test]
    fn the_alphabet_is_the_standard_one_with_padding() {
        let mut out = Vec::new();
        for (bytes, text) in [
            (&b""[..], ""),
            (b"\0", "AA=="),
            (b"\0\x01", "AAE="),
            (b"\xfb\xff\xbf", "+/+/"),
            (b"octopus", "b2N0b3B1cw=="),
        ] {
            out.clear();
            write(bytes, &mut out);
            assert_eq!(out, text.as_bytes());
            assert_eq!(len(bytes.len()), text.len());
        }
    }

    proptest! {
        /// [FE-02]
        #[test]
        fn the_text_decodes_to_the_bytes(bytes in vec(any::<u8>(), 0..600)) {
            let mut out = b"before".to_vec();
            write(&bytes, &mut out);
            prop_assert_eq!(out.len() - 6, len(bytes.len()));
            prop_assert_eq!(STANDARD.decode(&out[6..]).unwrap(), bytes);
        }

        #[test]
        fn pieces_make_the_text_of_the_whole(bytes in vec(any::<u8>(), 0..600), room in 4usize..90) {
            let (mut whole, mut pieces) = (Vec::new(), Vec::new());
            write(&bytes, &mut whole);
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let before = pieces.len();
                let taken = write_some(rest, room, &mut pieces);
                prop_assert!(taken > 0 && pieces.len() - before <= room);
                rest = &rest[taken..];
            }
            prop_assert_eq!(pieces, whole);
        }
    }
}
