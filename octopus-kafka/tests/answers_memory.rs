//! What reading answers allocates, whatever their bytes say. One test, since the allocator counts for all.

use std::alloc::System;

use bytes::Bytes;
use octopus_kafka::testing::reads;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// [KF-11] [ER-05] no answer of a few bytes takes the process's memory: each is tried as the answer to each request in
/// each version, with counts of 2^31 - 1 and 2^32 - 2 at each of its bytes.
#[test]
fn an_answer_takes_no_more_memory_than_its_bytes_can_tell() {
    const FRAME: usize = 48;
    // What one byte of an answer can stand for at the most: a list's element of a few bytes, as a struct.
    const MOST: usize = 64 * 1024;
    for filler in [0, 1, 2, 0x7f] {
        for at in 0..FRAME {
            for hostile in [&[0x7f, 0xff, 0xff, 0xff][..], &[0xff, 0xff, 0xff, 0xff, 0x0f]] {
                let mut frame = vec![filler; FRAME];
                frame.splice(at..(at + hostile.len()).min(FRAME), hostile.iter().copied());
                let frame = Bytes::from(frame);
                for api_key in 0..=22 {
                    for version in 0..=17 {
                        let region = Region::new(ALLOCATOR);
                        let is_read = reads(api_key, version, frame.clone());
                        let allocated = region.change().bytes_allocated;
                        assert!(
                            allocated <= MOST,
                            "{api_key} {version} ({is_read}): {allocated} bytes for {frame:?}"
                        );
                    }
                }
            }
        }
    }
}
