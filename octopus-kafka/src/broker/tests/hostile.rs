//! Frames that no client would send.

use proptest::prelude::*;

use super::{versions::requests, *};

/// Every request of every version, whole.
fn frames() -> Vec<Bytes> {
    let mut frames = Vec::new();
    for (api, versions) in VERSIONS {
        for version in versions
            .clone()
            .filter(|version| *api != ApiKey::Produce || *version >= 3)
        {
            for request in requests(*api, version, Uuid::from_u128(9)) {
                frames.push(frame(*api, version, 1, &request.encode(version).unwrap()));
            }
        }
    }
    frames
}

#[test]
fn a_frame_cut_short_anywhere_is_answered_or_closes_its_connection() {
    for frame in frames() {
        for end in 0..frame.len() {
            let mut world = World::new();
            let id = world.connect();
            world.machine.handle_frame(id, frame.slice(..end), world.now);
            let outputs = world.outputs();
            assert_eq!(outputs, [Output::Close(id)], "{end} of {frame:?}");
        }
    }
}

proptest! {
    /// Lengths and counts are hit often: they are where the large numbers do harm.
    #[test]
    fn a_damaged_frame_harms_nobody(
        which in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let frames = frames();
        let mut frame = which.get(&frames).to_vec();
        for (at, byte) in damage {
            let at = at.index(frame.len() - 2) + 2;
            frame[at] = byte;
        }
        let mut world = World::new();
        world.topic("t");
        let id = world.connect();
        world.machine.handle_frame(id, frame.into(), world.now);
        world.outputs();
        world.wait(Duration::from_secs(60));
        let other = world.connect();
        let (code, _) = produced(&world.ask(other, 9, &produce("t", &batch(&[b"x"], 5))));
        prop_assert!(code == code::NONE || code == code::UNKNOWN_TOPIC_OR_PARTITION);
    }
}
