//! Keys and values of a binary instance and the values of headers, as standard base64 with padding
//! [FE-01] [FE-02].

#[cfg(target_arch = "x86_64")]
mod avx2;

use base64::Engine as _;

use crate::reply::Progress;

/// For machines without the vectors of ours.
#[cfg(not(all(target_arch = "aarch64", target_feature = "neon")))]
static ENGINE: base64::engine::GeneralPurpose = base64::engine::general_purpose::STANDARD;

/// For machines without the vectors of ours.
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
static ENGINE: std::sync::LazyLock<base64::engine::Simd> =
    std::sync::LazyLock::new(|| base64::engine::Simd::standard(base64::engine::general_purpose::PAD));

/// How many characters `bytes` bytes take, without quotes.
pub(crate) const fn len(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// Writes all of `bytes` to the start of `out` and says how many characters that is. What is behind them in `out` is
/// not kept.
///
/// # Panics
///
/// If `out` is shorter than [`len`].
#[inline]
pub(crate) fn write(bytes: &[u8], out: &mut [u8]) -> usize {
    if let Some(group) = group(bytes) {
        out[..group.len()].copy_from_slice(&group);
        return group.len();
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(written) = avx2::write(bytes, out) {
        return written;
    }
    ENGINE
        .encode_slice(bytes, out)
        .expect("the slice is as long as the text")
}

/// Writes what fits `out`: all, or a multiple of three bytes, so that what follows goes on in the same text.
pub(crate) fn write_some(bytes: &[u8], out: &mut [u8]) -> Progress {
    let taken = bytes.len().min(out.len() / 4 * 3);
    Progress {
        taken,
        written: write(&bytes[..taken], out),
    }
}

/// The text of one to three bytes.
#[inline]
const fn group(bytes: &[u8]) -> Option<[u8; 4]> {
    const fn letter(bits: u8) -> u8 {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        ALPHABET[(bits & 63) as usize]
    }
    Some(match *bytes {
        [a] => [letter(a >> 2), letter(a << 4), b'=', b'='],
        [a, b] => [letter(a >> 2), letter(a << 4 | b >> 4), letter(b << 2), b'='],
        [a, b, c] => [
            letter(a >> 2),
            letter(a << 4 | b >> 4),
            letter(b << 2 | c >> 6),
            letter(c),
        ],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::reply::in_rooms;

    /// [FE-02]
    #[test]
    fn the_alphabet_is_the_standard_one_with_padding() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"\0", "AA=="),
            (b"\0\x01", "AAE="),
            (b"\xfb\xff\xbf", "+/+/"),
            (b"octopus", "b2N0b3B1cw=="),
        ] {
            let mut out = [0; 12];
            assert_eq!(write(bytes, &mut out), text.len());
            assert_eq!(&out[..text.len()], text.as_bytes());
            assert_eq!(len(bytes.len()), text.len());
        }
    }

    /// [FE-02] each six bits at each place of texts that are made in different ways, and with every end.
    #[test]
    fn every_letter_is_right_at_every_place() {
        for length in 0..200 {
            for bits in 0..64u8 {
                let bytes: Vec<u8> =
                    std::iter::repeat([bits << 2 | bits >> 4, bits << 4 | bits >> 2, bits << 6 | bits])
                        .flatten()
                        .take(length)
                        .collect();
                let mut out = vec![0; len(length)];
                assert_eq!(write(&bytes, &mut out), out.len());
                assert_eq!(out, STANDARD.encode(&bytes).as_bytes());
            }
        }
    }

    proptest! {
        /// [FE-02]
        #[test]
        fn the_text_decodes_to_the_bytes(bytes in vec(any::<u8>(), 0..600), more in 0..70usize) {
            let mut out = vec![b'-'; len(bytes.len()) + more];
            prop_assert_eq!(write(&bytes, &mut out), len(bytes.len()));
            out.truncate(len(bytes.len()));
            prop_assert_eq!(STANDARD.decode(&out).unwrap(), bytes);
        }

        #[test]
        fn pieces_make_the_text_of_the_whole(bytes in vec(any::<u8>(), 0..600), room in 4usize..90) {
            let pieces = in_rooms(&bytes, room, write_some);
            prop_assert_eq!(pieces, STANDARD.encode(&bytes).into_bytes());
        }
    }
}
