//! What a reply over 2 MiB takes of memory while it is sent, counted at the allocator. One test, so that no other one
//! allocates.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    alloc::System,
    pin::Pin,
    task::{Context, Waker},
};

use bytes::Buf as _;
use http_body::Body as _;
use octopus_codec::{Body, pack};
use octopus_core::{Format, Position, TopicPartition};
use octopus_kafka::records::{BatchWriter, Compression, Reader};
use octopus_server::{ledger::Ledger, listener::Protocol, send::ReplyBody};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const WINDOW: usize = 64 * 1024;

/// [RP-02] between what was fetched and the socket there are three windows at most: the one that is sent, the one that
/// the body is ahead, and the one that is made.
#[test]
fn a_reply_over_2_mib_is_made_in_windows() {
    for (format, byte, least) in [
        (Format::Json, 1, 48 << 20),
        (Format::Json, b'7', 8 << 20),
        (Format::Binary, 1, 10 << 20),
    ] {
        let mut batch = BatchWriter::new(Compression::None);
        batch.push(0, None, Some(&vec![byte; (8 << 20) - 1024]), &[]);
        let records = batch.finish();
        drop(records.clone()); // The first clone makes the count of the clones.

        let region = Region::new(ALLOCATOR);
        let live = || {
            let change = region.change();
            change.bytes_allocated.saturating_sub(change.bytes_deallocated)
        };
        let reader = Reader::new(records.clone(), Position::at(0));
        let packed = pack(vec![(TopicPartition::only("t".into()), reader)], format, None);
        let Some(Body::Streamed(stream)) = packed.body else {
            panic!("a reply over 2 MiB is streamed");
        };
        let mut body = Box::pin(ReplyBody::streamed(stream, None).bind(Ledger::new(Protocol::Http1).begin()));
        let mut cx = Context::from_waker(Waker::noop());
        let mut length = 0;
        while let std::task::Poll::Ready(Some(frame)) = Pin::as_mut(&mut body).poll_frame(&mut cx) {
            let chunk = frame.unwrap().into_data().unwrap();
            assert!((1..=WINDOW).contains(&chunk.remaining()));
            length += chunk.remaining();
            assert!(live() < 3 * WINDOW + 8 * 1024, "{} bytes live", live());
        }
        assert!(body.is_end_stream());
        assert!(length > least - (64 << 10), "{length} of {least}");
        // What waits in hyper's hands holds nothing of the reply but its own window.
        drop(body);
        assert!(live() < 8 * 1024, "{} bytes left", live());
    }
}
