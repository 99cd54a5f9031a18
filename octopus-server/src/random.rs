//! Names and tokens that no one can guess.

use std::fmt::Write as _;

/// `BYTES` random bytes as lower-case hex digits.
///
/// # Errors
///
/// Where the machine has no randomness to give.
pub(crate) fn hex<const BYTES: usize>() -> Result<String, getrandom::Error> {
    Ok(bytes::<BYTES>()?
        .iter()
        .fold(String::with_capacity(2 * BYTES), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        }))
}

/// `BYTES` random bytes.
///
/// # Errors
///
/// Where the machine has no randomness to give.
pub(crate) fn bytes<const BYTES: usize>() -> Result<[u8; BYTES], getrandom::Error> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [CR-03]
    #[test]
    fn six_bytes_are_twelve_hex_digits() {
        let name = hex::<6>().unwrap();
        assert_eq!(name.len(), 12);
        assert!(
            name.bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        );
        assert_ne!(name, hex::<6>().unwrap());
    }
}
