//! Whether text is made by vectors.

use std::{is_x86_feature_detected, sync::LazyLock};

use crate::json::Tier;

/// Whether base64 and escapes are made by vectors: where the machine has those that JSON is checked by, and the variable
/// `OCTOPUS_SIMD` does not name another [`Tier`]. The machine has AVX2 and POPCNT then.
#[inline]
pub(crate) fn are_taken() -> bool {
    static TAKEN: LazyLock<bool> = LazyLock::new(|| {
        Tier::of(usize::MAX) == Tier::Avx2
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("popcnt")
    });
    *TAKEN
}
