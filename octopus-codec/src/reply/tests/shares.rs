//! What of a reply is a slice of the buffer that it was fetched in, and what is copied.

use bytes::Bytes;
use octopus_core::{Headers, Offset, Record};

use super::*;

/// What is sent of a record with this value, which may lie in this buffer.
fn slices(value: &[u8], buffer: &Bytes) -> Vec<Bytes> {
    let record = Record {
        offset: Offset(0),
        timestamp: 0,
        key: None,
        value: Some(value),
        headers: Headers::NONE,
        buffer: Some(buffer),
    };
    let object = Object::new(&record, Format::Json).unwrap();
    let mut pieces = Pieces::default();
    pieces.write(|out| object.write(&mut Skeleton::new(&partition(0)), out));
    pieces.finish()
}

#[test]
fn a_large_value_written_as_produced_is_not_copied() {
    let value = format!("[{}]", "1,".repeat(10_000) + "1");
    let log = Log::of(vec![Sent::new(Some(b"k"), Some(value.as_bytes()), &[]); 2]);
    let buffers: Vec<Bytes> = log.records.iter().map(|(_, _, bytes)| bytes.clone()).collect();
    let Some(Body::Whole(slices)) = pack(one_log(log), Format::Json, None).body else {
        panic!("less than 2 MiB")
    };
    assert_eq!(slices.len(), 5);
    for (slice, buffer) in [&slices[1], &slices[3]].into_iter().zip(&buffers) {
        assert_eq!(slice, value.as_bytes());
        assert!(buffer.as_ptr_range().contains(&slice.as_ptr()));
    }
}

/// [RP-02] a reply that waits to be sent does not hold much more than itself.
#[test]
fn a_large_value_that_is_a_small_part_of_its_buffer_is_copied() {
    let value = format!("[{}]", "1,".repeat(10_000) + "1");
    for (room, is_copied) in [(0, false), (value.len() - 100, false), (value.len() + 100, true)] {
        let buffer = Bytes::from([vec![b' '; room], value.clone().into_bytes()].concat());
        let slices = slices(&buffer[room..], &buffer);
        assert_eq!((slices.len(), &slices[1][..]), (3, value.as_bytes()));
        assert_eq!(
            !buffer.as_ptr_range().contains(&slices[1].as_ptr()),
            is_copied,
            "{room}"
        );
    }
}

/// [FE-03] a source that uses its memory again gives no buffer.
#[test]
fn a_large_value_of_memory_that_is_used_again_is_copied() {
    let value = format!("[{}]", "1,".repeat(10_000) + "1");
    let records = || vec![Sent::new(None, Some(value.as_bytes()), &[]); 2];
    let mut log = Log::of(records());
    log.shares = false;
    let Some(Body::Whole(slices)) = pack(one_log(log), Format::Json, None).body else {
        panic!("less than 2 MiB")
    };
    assert_eq!(slices.len(), 1);
    let shared = text(pack(one(records()), Format::Json, None));
    assert_eq!(slices[0], shared.as_bytes());
}

/// [FE-03] a slice of another buffer than the one that is given would be of the wrong bytes.
#[test]
fn only_a_value_that_lies_in_the_buffer_is_sent_as_a_slice_of_it() {
    let value = format!("[{}]", "1,".repeat(10_000) + "1").into_bytes();
    let other = Bytes::from(vec![b'x'; value.len()]);
    let slices = slices(&value, &other);
    assert_eq!(slices.len(), 1);
    assert!(slices[0].windows(value.len()).any(|written| written == value));
}

/// [RP-02]
#[test]
fn a_streamed_value_written_as_produced_is_not_copied() {
    let value = format!("[{}1]", "1,".repeat(REPLY_BYTES));
    let log = Log::of(vec![Sent::new(None, Some(value.as_bytes()), &[])]);
    let buffer = log.records[0].2.clone();
    let Some(Body::Streamed(stream)) = pack(one_log(log), Format::Json, None).body else {
        panic!("over 2 MiB")
    };
    let own: usize = stream
        .filter(|window| buffer.as_ptr_range().contains(&window.as_ptr()))
        .map(|window| window.len())
        .sum();
    assert!(own > value.len() - 2 * WINDOW_BYTES);
}
