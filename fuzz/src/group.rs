//! A member of a consumer group, of either protocol, whose owner, coordinator and clock say and do anything.

use octopus_kafka::testing::play_member;

/// The input is a protocol, and what happens, step by step. What the member was not given, or may be another member's by
/// now, it neither reads on from where it was nor commits for; it neither stands still nor asks without end; and with a
/// coordinator that works it gets what it wants, and leaves.
pub fn check(data: &[u8]) {
    play_member(data);
}
