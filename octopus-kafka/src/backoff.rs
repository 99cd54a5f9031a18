//! How long to wait before the next try.

use std::time::Duration;

/// The first wait after a failure.
const FIRST: Duration = Duration::from_millis(50);
/// The longest wait where nothing presses.
const LONGEST: Duration = Duration::from_secs(10);
/// The least and the most that a group's member waits.
const MEMBER: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// The wait after so many failures in a row (from 1): doubled each time up to 10 s, and a fifth more or less by
/// `chance`, a number that no two brokers share.
pub(crate) fn wait(failures: u32, chance: u64) -> Duration {
    wait_at_most(failures, chance, LONGEST)
}

/// As [`wait`], doubled up to `longest`.
pub(crate) fn wait_at_most(failures: u32, chance: u64, longest: Duration) -> Duration {
    let doubled = FIRST.saturating_mul(1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX));
    let wait = doubled.min(longest);
    // 80 % to 120 %, in steps of a thousandth.
    let thousandths = 800 + u32::try_from(mix(chance) % 401).unwrap_or(200);
    wait * thousandths / 1000
}

/// The wait of a group's member after so many failures in a row (from 0): 100 ms, doubled each time up to 1 s, for its
/// session goes on meanwhile.
pub(crate) fn of_a_member(failures: u32) -> Duration {
    let doubled = MEMBER.0 * 2u32.saturating_pow(failures.min(10));
    doubled.min(MEMBER.1)
}

/// Spreads numbers that lie close to each other (the finish of splitmix64).
const fn mix(number: u64) -> u64 {
    let a = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let b = (a ^ (a >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let c = (b ^ (b >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    c ^ (c >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_waits_up_to_a_second() {
        let waits: Vec<_> = (0..6).map(|failures| of_a_member(failures).as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(of_a_member(u32::MAX), Duration::from_secs(1));
    }

    #[test]
    fn waits_double_up_to_ten_seconds_give_or_take_a_fifth() {
        for (failures, ms) in [
            (1, 50),
            (2, 100),
            (5, 800),
            (8, 6400),
            (9, 10_000),
            (40, 10_000),
            (u32::MAX, 10_000),
        ] {
            let waits: Vec<_> = (0..200)
                .map(|chance| wait(failures, chance).as_millis())
                .collect();
            assert!(
                waits.iter().all(|w| (ms * 4 / 5..=ms * 6 / 5).contains(w)),
                "{failures}"
            );
            assert!(
                waits.iter().any(|w| *w < ms * 9 / 10) && waits.iter().any(|w| *w > ms * 11 / 10),
                "{failures}"
            );
        }
    }
}
