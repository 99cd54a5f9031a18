//! Which way of checking a text is taken.

use std::{env, sync::LazyLock};

#[cfg(target_arch = "x86_64")]
use super::avx2;
use super::scalar;

/// A way of checking whether a text is JSON. All give the same verdict on every text; they differ in speed.
///
/// [`is_json`](crate::is_json) takes the fastest one for the text's length, or always the one that the environment
/// variable `OCTOPUS_SIMD` names, `avx2` or `scalar`; with `scalar` base64 and escapes are made without AVX2, too.
/// The variable is read once. A value that is no tier's name, and
/// a tier that the machine lacks, count as none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// 64 bytes at a time, on x86-64 processors with AVX2, BMI1, BMI2 and PCLMULQDQ. (AMD's before Zen 3 have a
    /// slow `pext` and gain less.)
    Avx2,
    /// Byte by byte, on every processor; the fastest for short texts.
    Scalar,
}

impl Tier {
    /// The tiers that this machine has.
    pub fn available() -> impl Iterator<Item = Self> {
        [Self::Avx2, Self::Scalar]
            .into_iter()
            .filter(|tier| tier.is_available())
    }

    /// Whether this UTF-8 text is exactly one JSON value, as [`is_json`](crate::is_json) says, by this tier; by the
    /// scalar one where the machine lacks it.
    #[must_use]
    pub fn is_json(self, text: &[u8]) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => avx2::is_json(text).unwrap_or_else(|| scalar::is_json(text)),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 => scalar::is_json(text),
            Self::Scalar => scalar::is_json(text),
        }
    }

    /// The tier for a text of this many bytes.
    #[inline]
    pub(crate) fn of(length: usize) -> Self {
        static CHOICE: LazyLock<[Tier; 2]> =
            LazyLock::new(|| Tier::choose(env::var("OCTOPUS_SIMD").ok().as_deref()));
        CHOICE[usize::from(length >= LONG)]
    }

    /// The tiers for short and for long texts.
    fn choose(name: Option<&str>) -> [Self; 2] {
        let named = Self::available().find(|tier| Some(tier.name()) == name);
        let fastest = if Self::Avx2.is_available() {
            Self::Avx2
        } else {
            Self::Scalar
        };
        named.map_or([Self::Scalar, fastest], |tier| [tier; 2])
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Avx2 => "avx2",
            Self::Scalar => "scalar",
        }
    }

    #[inline]
    fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => avx2::is_available(),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 => false,
            Self::Scalar => true,
        }
    }
}

/// The bytes from which on blocks pay.
pub(super) const LONG: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_tier_takes_texts_of_every_length() {
        assert_eq!(Tier::choose(Some("scalar")), [Tier::Scalar; 2]);
        if Tier::Avx2.is_available() {
            assert_eq!(Tier::choose(Some("avx2")), [Tier::Avx2; 2]);
        }
    }

    #[test]
    fn a_name_that_is_no_tier_counts_as_unset() {
        for name in ["", "AVX2", "avx512", "scalar "] {
            assert_eq!(Tier::choose(Some(name)), Tier::choose(None), "{name}");
        }
        assert_eq!(Tier::choose(None)[0], Tier::Scalar);
    }

    #[test]
    fn every_machine_has_the_scalar_tier() {
        assert!(Tier::available().any(|tier| tier == Tier::Scalar));
    }
}
