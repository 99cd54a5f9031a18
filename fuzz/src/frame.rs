//! An answer of Kafka's, as anything that took the connection could give it.

use bytes::Bytes;
use octopus_kafka::testing::reads;

/// The input is an API's key, a version, and what follows the correlation id of an answer. It must be read or refused,
/// alike each time, and whatever is cut off it.
pub fn check(data: &[u8]) {
    let Some(([api_key, version], frame)) = data.split_first_chunk() else {
        return;
    };
    let (api_key, version) = (i16::from(*api_key), i16::from(*version));
    let frame = Bytes::copy_from_slice(frame);
    let is_read = reads(api_key, version, frame.clone());
    assert_eq!(is_read, reads(api_key, version, frame.clone()));
    for length in 0..frame.len().min(64) {
        let _ = reads(api_key, version, frame.slice(..length));
    }
}
