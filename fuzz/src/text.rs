//! A value that is text, as a string of a json reply; and a header's name, which may be anything.

use octopus_codec::{Body, is_json, pack};
use octopus_core::{Format, TopicPartition};
use serde::Deserialize;

use crate::log::{Log, Sent};

#[derive(Deserialize)]
struct Object {
    value: String,
    headers: Vec<Header>,
}

#[derive(Deserialize)]
struct Header {
    name: String,
}

/// The input is the value and the name; both must be read back from the reply.
pub fn check(data: &[u8]) {
    let lossy = String::from_utf8_lossy(data);
    if is_json(lossy.as_bytes()) {
        return;
    }
    let sent = Sent {
        key: None,
        value: Some(lossy.as_bytes().to_vec()),
        headers: vec![(data.to_vec(), None)],
    };
    let parts = vec![(TopicPartition::only("t".into()), Log::new(vec![sent]))];
    let Some(Body::Whole(slices)) = pack(parts, Format::Json, None).body else {
        panic!("a text of less than 300 KiB fits a reply")
    };
    let [object] = &serde_json::from_slice::<Vec<Object>>(&slices.concat()).expect("JSON")[..] else {
        panic!("one record")
    };
    assert_eq!(object.value, lossy);
    assert_eq!(object.headers[0].name, lossy);
}
