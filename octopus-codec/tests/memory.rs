//! What the codec takes of memory, counted at the allocator. One test, so that no other one allocates.

use std::alloc::System;

use bytes::Bytes;
use octopus_codec::{Body, json::Tier, pack};
use octopus_core::{Fault, Format, Headers, Offset, Position, Record, Records, TopicPartition};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const MIB: usize = 1024 * 1024;

/// [FE-07] [D-40] a bit a nesting level, and nothing at all to a depth of 512; [RP-02] a reply over 2 MiB is
/// never in memory whole.
#[test]
fn memory_is_bounded() {
    for tier in Tier::available() {
        let allocated =
            |text: &[u8], verdict| allocated(|| assert_eq!(tier.is_json(text), verdict, "{tier:?}"));
        assert_eq!(allocated(&nested(512), true), 0);
        let long = format!(
            "[{}\"{}\\n\"]",
            "{\"a\":-1.5e3},".repeat(MIB / 2),
            "x".repeat(MIB)
        );
        assert_eq!(allocated(long.as_bytes(), true), 0);
        // A bit a level, and what tells where the steps are.
        for (levels, most) in [(MIB, 129 * 1024), (4 * MIB, 513 * 1024)] {
            let taken = allocated(&nested(levels), true);
            assert!(taken <= most, "{tier:?}: {taken} bytes for {levels} levels");
        }
        let taken = allocated(&vec![b'['; 8 * MIB], false);
        assert!(
            taken <= 513 * 1024,
            "{tier:?}: {taken} bytes for 8 MiB of brackets"
        );
    }

    let control_characters = One {
        bytes: vec![1; 8 * MIB].into(),
        headers: 0,
        is_taken: false,
    };
    assert!(streamed(control_characters) > 48 * MIB);
    // Two million headers, each an empty name and null.
    let headers = One {
        bytes: [0, 1].repeat(2 * MIB).into(),
        headers: 2 * 1024 * 1024,
        is_taken: false,
    };
    assert!(streamed(headers) > 2 * MIB * r#"{"name":"","value":null},"#.len());
}

/// The bytes of a reply that is streamed, of which few are in memory at any time.
fn streamed(records: One) -> usize {
    let parts = vec![(TopicPartition::only("t".into()), records)];
    let region = Region::new(ALLOCATOR);
    let Some(Body::Streamed(stream)) = pack(parts, Format::Json, None).body else {
        panic!("a reply over 2 MiB is streamed")
    };
    let mut made = 0;
    for window in stream {
        made += window.len();
        let now = region.change();
        let live = now.bytes_allocated.saturating_sub(now.bytes_deallocated);
        assert!(live < 256 * 1024, "{live} bytes live");
    }
    made
}

/// So many arrays in each other.
fn nested(levels: usize) -> Vec<u8> {
    let mut text = vec![b'['; levels];
    text.resize(2 * levels, b']');
    text
}

/// The bytes that this work allocates, given back or not: the least of a few times, since the test's runner
/// has a thread of its own.
fn allocated(work: impl Fn()) -> usize {
    let once = |_| {
        let region = Region::new(ALLOCATOR);
        work();
        region.change().bytes_allocated
    };
    (0..5).map(once).min().unwrap_or_default()
}

/// A partition of one record, whose bytes are its headers if it has some, and its value elsewhere.
struct One {
    bytes: Bytes,
    headers: u32,
    is_taken: bool,
}

impl Records for One {
    fn next(&mut self) -> Option<Result<Record<'_>, Fault>> {
        if self.is_taken {
            return None;
        }
        self.is_taken = true;
        let value = if self.headers == 0 { self.bytes.len() } else { 0 };
        let (value, headers) = self.bytes.split_at(value);
        Some(Ok(Record {
            offset: Offset(0),
            timestamp: 0,
            key: None,
            value: Some(value),
            headers: Headers::parse(self.headers, headers)?.0,
            buffer: Some(&self.bytes),
        }))
    }

    fn position(&self) -> Position {
        Position::at(i64::from(self.is_taken))
    }
}
